"""Quarantine: rows that do not fit, kept as they came, with the reason, in a table beside the target (P8).

    row (text)   for people
    arrow        the row itself, as an Arrow stream: what a replay reads, exact in every type
    reason       what does not fit, and where
    micro_batch  which one brought it

The number of rows is limited: they wait in memory until the task ends, and a stream of which most rows do not
fit has another trouble than a few bad rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from calve.model.batch import Batch
from calve.model.errors import BadRow
from calve.model.file import FileClosed
from calve.store import store_for
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
    ]
)


@dataclass(frozen=True, slots=True)
class QuarantinePlan:
    """How quarantined rows are written."""

    plan: WritePlan
    batch: Batch
    micro_batch: int
    rows_max: int
    """A task."""


class Quarantine:
    """The rows of one task that do not fit."""

    def __init__(self, plan: QuarantinePlan, worker: str) -> None:
        self._plan = plan
        self._worker = worker
        self._kept: list[dict[str, object]] = []

    @property
    def rows(self) -> int:
        return len(self._kept)

    def take(self, rows: pa.Table, why: BadRow) -> None:
        """Keep the rows; past the limit, refuse them."""
        if len(self._kept) + rows.num_rows > self._plan.rows_max:
            raise BadRow(
                f"more than {self._plan.rows_max} rows of a task do not fit; the last: {why.message}",
                hint=f"{why.hint} The quarantine is for a few rows; its limit is rows_max of on_bad_row.",
            )
        for place in range(rows.num_rows):
            self._kept.append(self._entry(rows.slice(place, 1), why))

    def close(self) -> list[FileClosed]:
        """Write what was kept."""
        if not self._kept:
            return []
        write = self._plan.plan
        rows = conform(pa.Table.from_pylist(self._kept, schema=SCHEMA), write.schema)
        stream = StreamingAppend(write, store_for(write.data_location), self._plan.batch, self._worker)
        try:
            stream.write(rows)
            return stream.close()
        finally:
            stream.abort()

    def _entry(self, row: pa.Table, why: BadRow) -> dict[str, object]:
        return {
            "micro_batch": self._plan.micro_batch,
            "reason": why.message,
            "hint": why.hint,
            "row": json.dumps(row.to_pylist()[0], default=str, ensure_ascii=False),
            "arrow": to_stream(row),
        }


def to_stream(rows: pa.Table) -> bytes:
    """Rows as an Arrow stream."""
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return buffer.getvalue().to_pybytes()


def from_stream(data: bytes) -> pa.Table:
    """The rows of an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()
