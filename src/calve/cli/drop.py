"""`calve drop`: forget a sink. The table and its rows stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from calve.cli.arguments import AsJson, Kind, Sink, Target, Uri, Warehouse, catalog_said, targets
from calve.cli.console import console, show_json
from calve.cli.ground import FAILED
from calve.model.errors import ConfigError

if TYPE_CHECKING:
    from calve.runtime.addresses import Address
    from calve.runtime.drop import Dropped


def drop(
    table: Target,
    as_json: AsJson = False,
    keep_progress: Annotated[
        bool, typer.Option("--keep-progress", help="Change nothing in the table; say what there is.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="The sink may begin again under its id, from zero.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    sink: Sink = None,
    catalog_uri: Uri = None,
    warehouse: Warehouse = None,
    catalog_type: Kind = None,
) -> None:
    """Forget how far a sink is. Its run stops at its next commit; the table and its rows stay."""
    said = catalog_said(catalog_uri, warehouse, catalog_type)
    if as_json and not yes and not keep_progress:
        raise ConfigError("a program that reads JSON cannot be asked", hint="Say --yes.")
    done = [
        _drop(one, console(), keep_progress=keep_progress, forget=forget, yes=yes)
        for one in targets(table, sink, said)
    ]
    if as_json:
        show_json({"sinks": [one.to_json() for one in done]})
    else:
        for one in done:
            show_dropped(one, console())


def _drop(address: Address, to: Console, *, keep_progress: bool, forget: bool, yes: bool) -> Dropped:
    from calve.runtime.addresses import opened
    from calve.runtime.drop import Drop

    with opened(address) as catalog:
        act = Drop(address, catalog, forget=forget, keep_progress=keep_progress)
        if not keep_progress and not yes:
            _ask(act.look(), to)
        return act.run()


def _ask(there: Dropped, to: Console) -> None:
    _print(to, f"Sink {there.sink_id} of {there.table} will be forgotten. This removes:")
    for name in there.removed:
        _print(to, f"  {name}")
    try:
        agreed = typer.confirm("Go on?")
    except typer.Abort:  # nobody is there to answer
        agreed = False
    if not agreed:
        _print(to, "Nothing was changed.")
        raise typer.Exit(FAILED)


def show_dropped(done: Dropped, to: Console) -> None:
    """Print what is gone and what stays."""
    if not done.removed:
        _print(to, f"Nothing was changed: {done.table} still knows how far sink {done.sink_id} is.")
    else:
        _print(to, f"Sink {done.sink_id} of {done.table} is forgotten. Removed:")
        for name in done.removed:
            _print(to, f"  {name}")
    _print(to, "What stays:")
    for name in done.stays:
        _print(to, f"  {name}")
    if done.removed and done.forgotten:
        _print(to, "A run under this id begins from zero, on top of the rows that are there.")
    elif done.removed:
        _print(to, "A run under this id is refused from now on; --forget lets it begin from zero.")


def _print(to: Console, text: str) -> None:
    to.print(escape(text), highlight=False, soft_wrap=True)
