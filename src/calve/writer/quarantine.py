"""Quarantine: rows that do not fit, kept as they came, with the reason, in a table beside the target (P8).

    micro_batch  which one brought it
    reason       what does not fit, and where; hint: what to do
    row (text)   for people
    arrow        the row itself, as an Arrow stream: what a replay reads, exact in every type
    time         of the row, where it has one
    id           a uuid: a row that a replay put back has the id that it came with
    batch        the upper of the quarantine's batch that brought it
    replay       null for a row of the stream; n for one that replay n put back
    sink, target, read_as    whose row it is, of which table (by uuid), and how it was read

The number of rows is limited: they wait in memory until the task ends, and a stream of which most rows do not
fit has another trouble than a few bad rows.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from calve.model.batch import Batch
from calve.model.errors import BadRow
from calve.model.file import FileClosed
from calve.store import store_for
from calve.writer.changes import TIME_COLUMN
from calve.writer.conform import conform
from calve.writer.plan import WritePlan
from calve.writer.worker import StreamingAppend

SCHEMA = pa.schema(
    [
        pa.field("micro_batch", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("hint", pa.string(), nullable=False),
        pa.field("row", pa.string(), nullable=False),
        pa.field("arrow", pa.binary(), nullable=False),
        pa.field("time", pa.decimal128(38, 0)),
        pa.field("id", pa.string(), nullable=False),
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("replay", pa.int64()),
        pa.field("sink", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("read_as", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where quarantined rows come from: what a replay must know of them beside the rows."""

    sink: str
    target: str
    """The uuid of the table that they were meant for."""
    read_as: str
    """How the stream read them, as JSON."""
    time: int | None = None
    """Of all of them, where the micro-batch is the batch."""


@dataclass(frozen=True, slots=True)
class QuarantinePlan:
    """How quarantined rows are written."""

    plan: WritePlan
    batch: Batch
    micro_batch: int
    rows_max: int
    """A task."""
    origin: Origin
    settled: bytes | None = None
    """Rows that are in the quarantine since they came before, and may come again (settled.py)."""


class Quarantine:
    """The rows of one task that do not fit."""

    def __init__(self, plan: QuarantinePlan, worker: str) -> None:
        self._plan = plan
        self._worker = worker
        self._kept: list[dict[str, Any]] = []

    @property
    def rows(self) -> int:
        return len(self._kept)

    def take(self, rows: pa.Table, why: BadRow) -> None:
        """Keep the rows; past the limit, refuse them."""
        if len(self._kept) + rows.num_rows > self._plan.rows_max:
            raise too_many(self._plan.rows_max, why)
        for place in range(rows.num_rows):
            self._kept.append(self._entry(rows.slice(place, 1), why))

    def close(self) -> list[FileClosed]:
        """Write what was kept."""
        if not self._kept:
            return []
        return write_entries(self._plan.plan, self._plan.batch, self._worker, self._kept)

    def _entry(self, row: pa.Table, why: BadRow) -> dict[str, Any]:
        plan, time = self._plan, self._plan.origin.time
        if TIME_COLUMN in row.column_names:
            said = row[TIME_COLUMN][0].as_py()
            time, row = None if said is None else int(said), row.drop_columns([TIME_COLUMN])
        return {
            "micro_batch": plan.micro_batch,
            "reason": why.message,
            "hint": why.hint,
            "row": json.dumps(row.to_pylist()[0], default=str, ensure_ascii=False),
            "arrow": to_stream(row),
            "time": None if time is None else Decimal(time),
            "id": str(uuid.uuid4()),
            "batch": plan.batch.upper,
            "replay": None,
            "sink": plan.origin.sink,
            "target": plan.origin.target,
            "read_as": plan.origin.read_as,
        }


def write_entries(
    plan: WritePlan, batch: Batch, worker: str, entries: list[dict[str, Any]]
) -> list[FileClosed]:
    """Rows of a quarantine as files."""
    rows = conform(pa.Table.from_pylist(entries, schema=SCHEMA), plan.schema)
    stream = StreamingAppend(plan, store_for(plan.data_location, plan.access), batch, worker)
    try:
        stream.write(rows)
        return stream.close()
    finally:
        stream.abort()


def too_many(rows_max: int, last: BadRow) -> BadRow:
    """What is said when a quarantine is full."""
    return BadRow(
        f"more than {rows_max} rows of a task do not fit; the last: {last.message}",
        hint=f"{last.hint} The quarantine is for a few rows; its limit is rows_max of on_bad_row.",
    )


def to_stream(rows: pa.Table) -> bytes:
    """Rows as an Arrow stream."""
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return buffer.getvalue().to_pybytes()


def from_stream(data: bytes) -> pa.Table:
    """The rows of an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()
