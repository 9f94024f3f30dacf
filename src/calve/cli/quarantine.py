"""`calve quarantine`: the rows that do not fit, listed and replayed. One process, no Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from calve.cli.arguments import Kind, Sink, Target, Uri, Warehouse, catalog_said, is_file, looked_at, targets
from calve.cli.console import AsJson, show, show_json, show_table
from calve.cli.pipeline import FILE
from calve.model.columns import RAW, RESERVED

if TYPE_CHECKING:
    from calve.runtime.replay.result import Quarantined, Replayed

quarantine = typer.Typer(
    help="Rows that did not fit: what waits, and putting it where it belongs.", no_args_is_help=True
)

_ROWS_SHOWN = 50


class Absent(StrEnum):
    """What becomes of a row whose key is not in the table."""

    HOLD = "hold"
    INSERT = "insert"


@quarantine.command("list")
def list_(
    table: Target = FILE,
    as_json: AsJson = False,
    sink: Sink = None,
    catalog_uri: Uri = None,
    warehouse: Warehouse = None,
    catalog_type: Kind = None,
) -> None:
    """Show the rows that wait in the quarantine of a table, and why. Changes nothing."""
    from calve.runtime.replay.door import list_at

    found = {
        one.name if is_file(table) else table: looked_at(table, one, list_at) or ()
        for one in targets(table, sink, catalog_said(catalog_uri, warehouse, catalog_type))
    }
    if as_json:
        bodies = [{"table": name, "rows": [row.to_json() for row in rows]} for name, rows in found.items()]
        show_json({"tables": bodies} if is_file(table) else bodies[0])
    else:
        for name, rows in found.items():
            _show_rows(name, rows, named=is_file(table))


@quarantine.command()
def replay(
    table: Target,
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
    from calve.runtime.replay.door import replay_at

    said = catalog_said(catalog_uri, warehouse, catalog_type)
    done = [replay_at(one, absent=absent, newest=newest) for one in targets(table, sink, said)]
    if as_json:
        bodies = [one.to_json() for one in done]
        show_json({"tables": bodies} if is_file(table) else bodies[0])
    else:
        for one in done:
            _show_replay(one)


def _show_rows(table: str, rows: tuple[Quarantined, ...], *, named: bool) -> None:
    if not rows:
        from calve.config.url import show_name

        show(f"Nothing waits in the quarantine of {show_name(table)}.")
        return
    if named:
        show(table, style="bold")
    shown = [(str(one.micro_batch), one.reason, _row(one.row)) for one in rows[:_ROWS_SHOWN]]
    show_table(("micro-batch", "reason", "row"), shown, right=("micro-batch",))
    if len(rows) > _ROWS_SHOWN:
        show(f"… and {len(rows) - _ROWS_SHOWN:,} more; --json shows all.")


def _row(row: Mapping[str, object]) -> str:
    """A row as its source has it, or the message that is none. What calve notes beside it is in --json."""
    own = {name: value for name, value in row.items() if not name.startswith(RESERVED)}
    if RAW in row and not any(value is not None for value in own.values()):
        return str(row[RAW])
    return json.dumps(own, ensure_ascii=False)


def _show_replay(done: Replayed) -> None:
    if done.replay is None:
        show(f"Nothing to do in {done.table}: no row that waits fits by now. Nothing was changed.")
    else:
        show(
            f"Replay {done.replay} of {done.table}: {done.applied:,} changes went in, "
            f"{done.superseded:,} were superseded by newer ones, {len(done.left):,} rows wait."
        )
    for reason, count in done.reasons.most_common(10):
        show(f"  {count:,} × {reason}")
    for hint in dict.fromkeys(one.hint for one in done.left[:10]):
        show(f"  hint: {hint}")
