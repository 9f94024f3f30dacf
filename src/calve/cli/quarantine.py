"""`calve quarantine`: the rows that do not fit, listed and replayed. One process, no Spark."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from calve.cli.words import errors_in_words
from calve.config.url import show_name
from calve.runtime.replay.door import list_quarantine, replay_quarantine
from calve.runtime.replay.result import Quarantined, Replayed

quarantine = typer.Typer(
    help="Rows that did not fit: what waits, and putting it where it belongs.", no_args_is_help=True
)

_ROWS_SHOWN = 50


class Absent(StrEnum):
    """What becomes of a row whose key is not in the table."""

    HOLD = "hold"
    INSERT = "insert"


Name = Annotated[
    str,
    typer.Argument(
        metavar="CATALOG.NAMESPACE.TABLE", help="The table that rows go to, or its iceberg:// URL."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Sink = Annotated[str | None, typer.Option(help="The stream's writer.id, where several write to the table.")]
Uri = Annotated[str | None, typer.Option(help="Where the catalog is, if it is not configured.")]
Warehouse = Annotated[str | None, typer.Option(help="Where its tables are; alone: SQLite in that folder.")]
Kind = Annotated[str | None, typer.Option(help="What it speaks; follows from its uri.")]


@quarantine.command("list")
def list_(
    table: Name,
    as_json: AsJson = False,
    sink: Sink = None,
    catalog_uri: Uri = None,
    warehouse: Warehouse = None,
    catalog_type: Kind = None,
) -> None:
    """Show the rows that wait in the quarantine of a table, and why. Changes nothing."""
    with errors_in_words():
        rows = list_quarantine(table, sink=sink, catalog=_said(catalog_uri, warehouse, catalog_type))
    if as_json:
        typer.echo(json.dumps({"table": table, "rows": [row.to_json() for row in rows]}, indent=2))
    else:
        _show_rows(table, rows, Console())


@quarantine.command()
def replay(
    table: Name,
    as_json: AsJson = False,
    absent: Annotated[
        Absent,
        typer.Option(help="Upsert: rows whose key is not in the table wait, or go in. It may be gone since."),
    ] = Absent.HOLD,
    newest: Annotated[
        bool, typer.Option("--newest", help="Upsert: rows go in as new changes, whatever the table has.")
    ] = False,
    sink: Sink = None,
    catalog_uri: Uri = None,
    warehouse: Warehouse = None,
    catalog_type: Kind = None,
) -> None:
    """Put the rows that fit by now into the table, exactly once; the others go on waiting."""
    said = _said(catalog_uri, warehouse, catalog_type)
    with errors_in_words():
        done = replay_quarantine(table, absent=absent, newest=newest, sink=sink, catalog=said)
    if as_json:
        typer.echo(json.dumps(done.to_json(), indent=2))
    else:
        _show_replay(done, Console())


def _said(uri: str | None, warehouse: str | None, kind: str | None) -> dict[str, str]:
    """What was said of the catalog."""
    said = {"uri": uri, "warehouse": warehouse, "type": kind}
    return {name: value for name, value in said.items() if value is not None}


def _show_rows(table: str, rows: tuple[Quarantined, ...], console: Console) -> None:
    if not rows:
        console.print(f"Nothing waits in the quarantine of {escape(show_name(table))}.", highlight=False)
        return
    shown = Table()
    for heading in ("micro-batch", "reason", "row"):
        shown.add_column(heading, justify="right" if heading == "micro-batch" else "left", overflow="fold")
    for one in rows[:_ROWS_SHOWN]:
        text = json.dumps(one.row, ensure_ascii=False)
        shown.add_row(str(one.micro_batch), escape(one.reason), escape(text))
    console.print(shown)
    if len(rows) > _ROWS_SHOWN:
        console.print(f"… and {len(rows) - _ROWS_SHOWN:,} more; --json shows all.", highlight=False)


def _show_replay(done: Replayed, console: Console) -> None:
    if done.replay is None:
        console.print("Nothing to do: no row that waits fits by now. Nothing was changed.", highlight=False)
    else:
        console.print(
            f"Replay {done.replay} of {escape(done.table)}: {done.applied:,} changes went in, "
            f"{done.superseded:,} were superseded by newer ones, {len(done.left):,} rows wait.",
            highlight=False,
            soft_wrap=True,
        )
    for reason, count in done.reasons.most_common(10):
        console.print(f"  {count:,} × {escape(reason)}", highlight=False, soft_wrap=True)
    for hint in dict.fromkeys(one.hint for one in done.left[:10]):
        console.print(f"  hint: {escape(hint)}", highlight=False, soft_wrap=True)
