"""The commands: each is one call, and prints what comes back. An error is the ground's to tell.

What takes long to import (PyIceberg, Arrow, Spark) is imported by the command that needs it, when it runs:
the help comes at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

import calve
from calve.cli.console import AsJson, console, show_json, working
from calve.cli.doctor import doctor
from calve.cli.drop import drop
from calve.cli.ground import FAILED, Ground
from calve.cli.history import history
from calve.cli.init import init
from calve.cli.plan import plan
from calve.cli.quarantine import quarantine
from calve.cli.run import run
from calve.cli.sql import sql
from calve.cli.status import status
from calve.cli.verify import verify

app = typer.Typer(
    cls=Ground,
    help="Streams of changes into Apache Iceberg tables, exactly once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(quarantine, name="quarantine")
app.command()(init)
app.command()(plan)
app.command()(run)
app.command()(sql)
app.command()(status)
app.command()(history)
app.command()(verify)
app.command()(drop)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"calve {calve.__version__}")
        raise typer.Exit


@app.callback()
def _calve(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which release this is.")
    ] = False,
    # Read by the ground before anything else, wherever they stand; named here for the help.
    _debug: Annotated[bool, typer.Option("--debug", help="Show where an error happened.")] = False,
    _quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but results and errors.")] = False,
    _no_color: Annotated[bool, typer.Option("--no-color", help="No colour; so does NO_COLOR.")] = False,
) -> None:
    """Streams of changes into Apache Iceberg tables, exactly once."""


@app.command()
def demo(
    keep: Annotated[bool, typer.Option(help="Leave the table there, and say how to read it.")] = False,
    as_json: AsJson = False,
    rows: Annotated[int, typer.Option(min=10, max=1_000_000, help="Accounts in the ledger.")] = 2_000,
    kills: Annotated[int, typer.Option(min=0, max=50, help="How often the driver is killed.")] = 1,
) -> None:
    """Stream a ledger through Spark, kill the driver, and compare every snapshot with the truth."""
    from calve.cli.demo import Demo, run_demo
    from calve.cli.show import show_demo
    from calve.runtime.machine import check_spark

    check_spark()
    with working() as say:
        outcome = run_demo(Demo(accounts=rows, kills=kills, keep=keep), say)
    if as_json:
        show_json(outcome.to_json())
    else:
        show_demo(outcome, console())
    if not outcome.matches:
        raise typer.Exit(FAILED)


app.command()(doctor)
