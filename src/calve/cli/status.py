"""`calve status`: how the sinks of a table are. It reads the table alone, and changes nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

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
from calve.cli.console import console, show, show_json
from calve.cli.pipeline import FILE
from calve.cli.terms import Line, duration, moment, show_lines, size, whole_time

if TYPE_CHECKING:
    from rich.console import Console

    from calve.runtime.inspect.result import Remark, SinkStatus, Stashed, TableFiles, TableStatus

_POSITIONS_SHOWN = 400


def status(
    table: Target = FILE,
    as_json: AsJson = False,
    checkpoint: Annotated[
        str | None, typer.Option(help="The folder of the query's checkpoint, to see what waits there.")
    ] = None,
    sink: Sink = None,
    catalog_uri: Uri = None,
    warehouse: Warehouse = None,
    catalog_type: Kind = None,
) -> None:
    """Show how far each sink of a table is, and what it needs. Nothing need run; nothing is changed."""
    from calve.runtime.inspect.door import status_of

    said = catalog_said(catalog_uri, warehouse, catalog_type)
    words = _words(
        table, sink, {"catalog-uri": catalog_uri, "warehouse": warehouse, "catalog-type": catalog_type}
    )
    look = partial(status_of, checkpoint=checkpoint)
    found = [(one, looked_at(table, one, look)) for one in targets(table, sink, said)]
    if as_json:
        show_json({"tables": [not_there(at) if one is None else one.to_json() for at, one in found]})
        return
    for number, (at, one) in enumerate(found):
        if number:
            show("")
        if one is None:
            show_lines(at.name, [("main", NOT_THERE)], console())
        else:
            show_status(one, console(), words)


def _words(table: str, sink: str | None, said: Mapping[str, str | None]) -> list[str]:
    """What was said, for another command."""
    options = {**said, "sink": sink}
    return [table, *(word for name, value in options.items() if value for word in (f"--{name}", value))]


def show_status(found: TableStatus, to: Console, words: Sequence[str] = ()) -> None:
    """Print a table and its sinks. `words`: what a person said of the table, to be said again."""
    show_lines(found.table, (*_table_lines(found), *_remark_lines(found.remarks)), to)
    for sink in found.sinks:
        to.print()
        lines = (*_sink_lines(sink, words or (found.table,)), *_remark_lines(sink.remarks))
        show_lines(f"sink {sink.sink_id}: {sink.condition}", lines, to)
    for sink_id, noted in found.dropped.items():
        to.print()
        to.print(f"sink {escape(sink_id)}: dropped ({escape(noted)})", highlight=False, soft_wrap=True)
    if not found.sinks and not found.dropped:
        to.print("\nNo sink of calve has written to this table.", highlight=False)


def _table_lines(found: TableStatus) -> Iterator[Line]:
    if found.snapshot_id is None or found.snapshot_at is None:
        yield "main", "no snapshot yet"
        return
    yield "main", f"snapshot {found.snapshot_id}, {moment(found.snapshot_at)}"
    if found.files.rows is not None:
        yield "rows", f"{found.files.rows:,} in data files; what deletes take is not subtracted"
    yield "files", _files(found.files)


def _files(files: TableFiles) -> str:
    data = "? data" if files.data is None else f"{files.data:,} data"
    if not files.equality_deletes and not files.position_deletes:
        return f"{data}, no deletes"
    return (
        f"{data}; deletes: {files.equality_deletes:,} by key, which wait for conversion, "
        f"{files.position_deletes:,} by place"
    )


def _sink_lines(sink: SinkStatus, words: Sequence[str]) -> Iterator[Line]:
    if sink.kind:
        yield "makes", f"{sink.kind}, fence: {sink.fence}"
    if sink.progress is not None:
        yield from _progress_lines(sink)
    if sink.foreign_snapshots:
        yield "others", f"{sink.foreign_snapshots:,} snapshots since, with {sink.foreign_rows:,} rows"
    if sink.quarantined is not None:
        more = f"; see: calve quarantine list {shlex.join(words)}" if sink.quarantined else ""
        rows = "1 row waits" if sink.quarantined == 1 else f"{sink.quarantined:,} rows wait"
        yield "quarantine", f"{rows}{more}"
    if sink.stashed is not None:
        yield "stash", _stash(sink.stashed, sink)


def _progress_lines(sink: SinkStatus) -> Iterator[Line]:
    progress, meaning = sink.progress, sink.meaning
    assert progress is not None
    if sink.frontier is None:
        yield "frontier", "nothing is committed yet"
    else:
        yield "frontier", whole_time(meaning, sink.frontier)
        if sink.lag_ms is not None:
            yield "lag", duration(sink.lag_ms)
        yield "last batch", f"from {meaning.text(progress.lower)} to {meaning.text(progress.frontier)}"
        when = "" if sink.committed_at is None else f", {moment(sink.committed_at)}"
        yield "last commit", f"snapshot {progress.committed}{when}"
    since = "" if sink.held_since is None else f", last seen {moment(sink.held_since)}"
    yield "run", f"generation {progress.generation}, writer {progress.writer}{since}"
    yield "times", progress.source
    if progress.positions:
        text = ", ".join(f"{name} {_plain(value)}" for name, value in progress.positions.items())
        cut = text[:_POSITIONS_SHOWN]
        yield "positions", cut if cut == text else f"{cut} …; --json shows all"


def _stash(stashed: Stashed, sink: SinkStatus) -> str:
    if stashed.micro_batch is None:
        return "nothing is kept beside the checkpoint"
    waits = "no row waits"
    if stashed.rows:
        since = "" if stashed.least is None else f", from {whole_time(sink.meaning, stashed.least)} on"
        rows = "1 row waits" if stashed.rows == 1 else f"{stashed.rows:,} rows wait"
        segments = "1 segment" if stashed.segments == 1 else f"{stashed.segments:,} segments"
        waits = f"{rows} in {segments} ({size(stashed.bytes)}){since}"
    if stashed.files_of_open_batches:
        waits += f"; files of {stashed.files_of_open_batches:,} micro-batches wait for their batch to close"
    if stashed.ready:
        waits += f"; micro-batch {stashed.micro_batch} is written and not committed"
    return f"{waits} (after micro-batch {stashed.micro_batch})"


def _remark_lines(remarks: tuple[Remark, ...]) -> Iterator[Line]:
    for remark in remarks:
        yield "look at", remark.words
        yield "", f"hint: {remark.hint}"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
