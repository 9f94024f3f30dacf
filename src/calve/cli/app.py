"""The commands: each is one call, and prints what comes back. An error is said in two lines."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

import calve
from calve.cli.demo import Demo, run_demo
from calve.cli.needs import check_spark
from calve.cli.quarantine import quarantine
from calve.cli.show import show_demo
from calve.cli.words import errors_in_words
from calve.runtime.spark.progress import TerminalLine

app = typer.Typer(
    help="Streams of changes into Apache Iceberg tables, exactly once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(quarantine, name="quarantine")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"calve {calve.__version__}")
        raise typer.Exit


@app.callback()
def _calve(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which release this is.")
    ] = False,
) -> None:
    """Streams of changes into Apache Iceberg tables, exactly once."""


@app.command()
def demo(
    keep: Annotated[bool, typer.Option(help="Leave the table there, and say how to read it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    rows: Annotated[int, typer.Option(min=10, max=1_000_000, help="Accounts in the ledger.")] = 2_000,
    kills: Annotated[int, typer.Option(min=0, max=50, help="How often the driver is killed.")] = 1,
) -> None:
    """Stream a ledger through Spark, kill the driver, and compare every snapshot with the truth."""
    line = TerminalLine()
    with errors_in_words():
        check_spark()
        try:
            outcome = run_demo(Demo(accounts=rows, kills=kills, keep=keep), line.show)
        finally:
            line.show("")
    if as_json:
        typer.echo(json.dumps(outcome.to_json(), indent=2))
    else:
        show_demo(outcome, Console())
    if not outcome.matches:
        raise typer.Exit(1)
