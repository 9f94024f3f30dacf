"""`calve history`: the snapshots of a table, and which of them shows the source at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from calve.cli.arguments import (
    NOT_THERE,
    AsJson,
    Kind,
    Sink,
    Target,
    Uri,
    Warehouse,
    catalog_said,
    looked_at,
    not_there,
    targets,
)
from calve.cli.console import console, show_json
from calve.cli.console import show as show_line
from calve.cli.ground import FAILED
from calve.cli.pipeline import FILE
from calve.cli.terms import moment, short_time, show_lines, whole_time
from calve.model.meaning import Meaning

if TYPE_CHECKING:
    from calve.runtime.addresses import Address
    from calve.runtime.inspect.result import TableAsOf, TableHistory
    from calve.table.history import Counts, SnapshotEntry

T = TypeVar("T", "TableHistory", "TableAsOf")
_ENGINES = {"duckdb": "DuckDB", "spark": "Spark SQL", "trino": "Trino", "calve": "Python, on Spark"}


def history(
    table: Target = FILE,
    as_json: AsJson = False,
    at: Annotated[
        str | None,
        typer.Option(help="A time of the source: print the snapshot that shows it, and how to read it."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
    sink: Sink = None,
    catalog_uri: Uri = None,
    warehouse: Warehouse = None,
    catalog_type: Kind = None,
) -> None:
    """Show the snapshots of a table: whose each is, which batch, what changed. Changes nothing."""
    from calve.runtime.inspect.door import as_of_address, history_of

    tables = targets(table, sink, catalog_said(catalog_uri, warehouse, catalog_type))
    if at is None:
        every = [(one, looked_at(table, one, partial(history_of, limit=limit))) for one in tables]
        _say(as_json, every, show_history)
    else:
        found = [(one, looked_at(table, one, partial(as_of_address, at=at))) for one in tables]
        _say(as_json, found, show_as_of)
        if any(one is None for _, one in found):
            raise typer.Exit(FAILED)  # a snapshot was asked for, and there is none


def _say(
    as_json: bool, found: Sequence[tuple[Address, T | None]], show: Callable[[T, Console], None]
) -> None:
    if as_json:
        show_json({"tables": [not_there(at) if one is None else one.to_json() for at, one in found]})
        return
    for number, (at, one) in enumerate(found):
        if number:
            show_line("")
        if one is None:
            show_line(at.name, style="bold")
            show_line(NOT_THERE)
        else:
            show(one, console())


def show_history(found: TableHistory, to: Console) -> None:
    """Print a table of snapshots that fits a narrow terminal."""
    to.print(escape(found.table), style="bold", highlight=False, soft_wrap=True)
    if not found.entries:
        to.print("It has no snapshot yet.", highlight=False)
        return
    sinks = {one.sink_id for one in found.entries if one.sink_id is not None}
    shown = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    shown.add_column("snapshot", no_wrap=True)
    shown.add_column("committed (UTC)", no_wrap=True)
    for heading in ("what", "frontier", "rows"):
        shown.add_column(heading, overflow="fold")
    for one in found.entries:
        shown.add_row(
            str(one.snapshot_id),
            f"{one.committed_at:%Y-%m-%d %H:%M:%S}",
            escape(_what(one, several=len(sinks) > 1)),
            _frontier(one),
            _changed(one.counts),
        )
    to.print(shown, highlight=False)
    if found.more:
        to.print(f"… and {found.more:,} older ones; --limit shows more.", highlight=False)


def _what(entry: SnapshotEntry, *, several: bool) -> str:
    words = str(entry.kind)
    if several and entry.sink_id is not None:
        words += f" {entry.sink_id}"
    # A claim is beside main by its nature; what else is not on main was rolled back, or is on a branch.
    aside = not entry.on_main and entry.kind != "claim"
    return f"{words}, not on main" if aside else words


def _frontier(entry: SnapshotEntry) -> str:
    progress = entry.progress
    if progress is None or not progress.frontier:
        return ""
    return short_time(Meaning(progress.source), progress.frontier)


def _changed(counts: Counts) -> str:
    """What came and what went: rows, and keys whose rows go if there are any."""
    parts = [f"+{counts.rows_added:,}"] if counts.rows_added else []
    gone = counts.rows_removed + counts.places_deleted
    parts += [f"-{gone:,}"] if gone else []
    parts += [f"-{counts.keys_deleted:,} keys"] if counts.keys_deleted else []
    return " ".join(parts)


def show_as_of(found: TableAsOf, to: Console) -> None:
    """Print which snapshot shows a time, and queries to paste. They are not wrapped."""
    one, meaning = found.found, found.found.meaning
    lines = [
        ("as of", whole_time(meaning, one.time)),
        ("snapshot", f"{one.snapshot_id}, committed {moment(found.committed_at)}"),
        ("shows", f"all before {whole_time(meaning, one.frontier)}"),
    ]
    if not one.reached:
        lines.append(("look at", "the table has not come to this time yet: this is all that it has"))
    show_lines(found.table, lines, to)
    for engine, query in found.queries.items():
        to.print(f"\n{_ENGINES[engine]}:\n  {escape(query)}", highlight=False, soft_wrap=True)
