"""An epoch: the rows of one batch on their way from the caller into files.

    add ─▶ buffer ──flush──▶ spool, or straight into a rolling file ──close_files──▶ FileClosed

Rows go straight into a file where the order in which they come is the order in which they may stand:
append without partitions and sort order. Everything else waits in a spool, on disk when memory is short,
because a later row of the epoch may still replace an earlier one or belong before it. Which of the two it
is, is settled with the first row.

A spool keeps rows by the names of their columns and is written on the table as it is at the commit, again
if a premise broke. A file that was streamed cannot be written again: such an epoch holds on to the table
that it began with, and the caller sends it again if that changed.

Deletes that come before there is a table wait for the first rows: alone they have nothing to delete.

Guarantee: a call whose rows are refused leaves nothing behind, no row and no change of the schema. An
epoch that lost rows on their way, by whatever was raised there, cannot be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from calve.config.sink import Mode, SinkConfig
from calve.model.batch import Batch
from calve.model.errors import BadBatch, PremiseBroken, SchemaMismatch, SinkState
from calve.model.file import FileClosed
from calve.runtime.buffer import Buffer
from calve.runtime.clock import Clock
from calve.runtime.fit import Fitted, Fitting
from calve.runtime.plan import EpochPlan
from calve.runtime.rows import reading_of
from calve.store import store_for
from calve.table.base import Base
from calve.table.build import Ready
from calve.table.premises import SchemaState
from calve.writer.changes import Arrival, arrive, check_deletes, relaxed
from calve.writer.conform import conform
from calve.writer.ops import OP_COLUMN
from calve.writer.spool import Spool, owned
from calve.writer.worker import StreamingAppend, can_stream, write_batch_files


class Epoch:
    """The open epoch of a sink."""

    def __init__(
        self,
        config: SinkConfig,
        number: int,
        batch: Batch,
        folder: Path,
        worker: str,
        clock: Clock,
        positions: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.number = number
        self.batch = batch
        self.rows = 0
        self.flushes = 0
        self.ready: Ready | None = None
        """Set once its files are closed: what is committed, also again after an answer was lost."""
        self.waiting: list[Arrival] = []
        """Deletes that came before there was a table."""
        self._config = config
        self._reading = reading_of(config)
        self._folder = folder
        self._worker = worker
        self._positions = positions
        self._fitting = Fitting(config)
        self._streams = False
        self._buffer = Buffer(config, clock)
        self._spool: Spool | None = None
        self._stream: StreamingAppend | None = None
        self._streamed: list[FileClosed] = []
        self._broken = False

    def arrive(self, rows: pa.RecordBatch | pa.Table) -> Arrival:
        """Rows as they come, numbered after all that this epoch has."""
        first_row = self.rows + sum(early.rows.num_rows for early in self.waiting)
        return arrive(self._reading, rows, self.number, first_row)

    def wait(self, deletes: Arrival) -> None:
        """Keep deletes that came before there is a table: they matter only if rows follow."""
        check_deletes(self._reading, deletes)
        held = sum(early.rows.nbytes for early in (*self.waiting, deletes))
        if held > self._config.memory_bytes_max:
            raise BadBatch(
                f"epoch {self.number}: {held} bytes of deletes came before there is a table "
                f"{self._config.table_name}, more than 'memory.limit' ({self._config.memory_bytes_max})",
                hint="They cannot be put aside without the table's types. Roll the epoch back, and send its "
                "rows first, or leave the deletes out: there is nothing that they could delete.",
            )
        self.waiting.append(deletes)

    def add(self, rows: pa.RecordBatch | pa.Table, base: Base, refresh: Callable[[], Base]) -> int:
        """Take rows in; their Arrow bytes. Nothing is kept of rows that do not fit."""
        self.add_waiting(base, refresh)
        return self._add(self.arrive(rows), base, refresh)

    def add_waiting(self, base: Base, refresh: Callable[[], Base]) -> None:
        """Take in what waited for a table. What does not fit waits on: no delete is lost in silence (P8)."""
        while self.waiting:
            self._add(self.waiting[0], base, refresh)
            del self.waiting[0]

    def _add(self, arrival: Arrival, base: Base, refresh: Callable[[], Base]) -> int:
        self._check_whole()
        before = self._fitting.current
        began_with = before.base if before is not None and self._streams else None
        try:
            fitted = self._fitting.try_on(arrival, began_with or base)
        except SchemaMismatch:
            # Somebody may have changed the table since it was last read.
            fresh = refresh()
            if began_with is not None:
                self._check_unchanged(began_with, fresh)
                raise
            fitted = self._fitting.try_on(arrival, fresh)
        self._take(fitted)
        table = owned(fitted.rows)
        self._buffer.add(table)
        self.rows += table.num_rows
        if self._buffer.is_full:
            self.flush()
        return int(table.nbytes)

    @property
    def buffered_rows(self) -> int:
        """Rows that have not moved on yet."""
        return self._buffer.rows

    def flush(self) -> None:
        """Move buffered rows on: into the spool, or into the open file."""
        self._check_whole()
        if not self._buffer.rows:
            return
        with self._moving_rows():
            self.flushes += 1
            for table in self._buffer.take():
                if self._streams:
                    self._open_stream().write(table)
                else:
                    self._open_spool().add(table)

    def close_files(self, base: Base) -> Ready:
        """Write what is left and close all files: the batch, ready to be committed on this base."""
        self.flush()
        if self._streams:
            self._close_stream()
            files = self._streamed
        else:
            # What the files rely on is the table as it is now, not as it was when the first row came.
            write = self._fitting.renew(base).plan.write
            spool = self._open_spool()
            parts = (self._shaped(part) for part in spool.parts())
            store = store_for(write.data_location, write.access)
            files = write_batch_files(write, store, self.batch, self._worker, parts, spool.scratch)
        plan = self._plan()
        self.ready = Ready(
            batch=self.batch,
            files=tuple(files),
            schema=plan.schema,
            premises=plan.premises,
            brings_schema=plan.brings_schema,
            brings_spec=plan.brings_spec if files else None,
            positions=self._positions,
        )
        return self.ready

    def close_empty(self, base: Base) -> Ready:
        """A batch without files: it only moves the frontier."""
        schema = base.metadata.schema()
        self.ready = Ready(
            batch=self.batch, files=(), schema=schema, premises=None, positions=self._positions
        )
        return self.ready

    @property
    def can_be_written_again(self) -> bool:
        """Whether the rows are still here after their files were written."""
        return self._spool is not None

    def discard(self) -> None:
        """Forget everything. Files that were written are orphans."""
        self._buffer.take()
        self.waiting = []
        if self._stream is not None:
            self._stream.abort()
            self._stream = None
        if self._spool is not None:
            self._spool.clear()
            self._spool = None

    @contextmanager
    def _moving_rows(self) -> Iterator[None]:
        """Rows that are on their way when something fails are lost: then so is the epoch (case 35)."""
        try:
            yield
        except BaseException:
            self._broken = True
            raise

    def _check_whole(self) -> None:
        if self._broken:
            raise SinkState(
                f"epoch {self.number} lost rows when they could not be written, and cannot be committed",
                hint=f"Roll epoch {self.number} back, begin it again and write its rows again.",
            )

    def _check_unchanged(self, began_with: Base, fresh: Base) -> None:
        """Rows that went straight into files cannot be written again, so that later rows of the epoch
        cannot follow a schema that somebody changed meanwhile."""
        if SchemaState.of(fresh.metadata) != SchemaState.of(began_with.metadata):
            raise PremiseBroken(
                f"somebody changed the table's schema under epoch {self.number}",
                hint=f"Roll epoch {self.number} back, begin it again and write its rows again.",
            )

    def _take(self, fitted: Fitted) -> None:
        """Go on under a fit whose rows were accepted."""
        before, fit = self._fitting.current, fitted.fit
        if before is None:
            self._streams = can_stream(fit.plan.write) and not self._config.key
        reshaped = before is not None and before.schema != fit.schema
        if reshaped:
            # Rows that were taken in under the old schema move on under it.
            self.flush()
            self._close_stream()
        self._fitting.take(fitted)
        if reshaped:
            self._reshape_spool()

    # -- where rows go -------------------------------------------------------------------------

    def _plan(self) -> EpochPlan:
        assert self._fitting.current is not None, "no row was taken in"
        return self._fitting.current.plan

    def _open_stream(self) -> StreamingAppend:
        if self._stream is None:
            write = self._plan().write
            self._stream = StreamingAppend(
                write, store_for(write.data_location, write.access), self.batch, self._worker
            )
        return self._stream

    def _close_stream(self) -> None:
        if self._stream is not None:
            with self._moving_rows():
                self._streamed += self._stream.close()
            self._stream = None

    def _open_spool(self) -> Spool:
        if self._spool is None:
            identity: dict[str, Any] = {}
            if self._config.mode is Mode.UPSERT:
                identity = {"key": self._config.key, "sequence": self._config.sequence_by}
            elif self._config.key:
                # A change is one by key, time and op, however often it came. As all of them are part of the
                # identity, two that differ in anything else are a tie, and refused as one.
                op = self._config.changelog_op_column
                identity = {"key": (*self._config.key, op, *self._config.sequence_by), "sequence": (op,)}
            self._spool = Spool(self._folder, self._config.memory_bytes_max, **identity)
        return self._spool

    def _reshape_spool(self) -> None:
        """The spool's rows in the shape of a new schema."""
        old, self._spool = self._spool, None
        if old is None:
            return
        spool = self._open_spool()
        try:
            with self._moving_rows():
                for rows in old.rows():
                    spool.add(self._shaped(rows))
        finally:
            old.clear()

    def _shaped(self, part: pa.Table) -> pa.Table:
        """Rows that were taken in under an earlier schema of this epoch, under the current one."""
        schema = self._plan().write.schema
        if OP_COLUMN not in part.column_names:
            return part if part.schema.equals(schema, check_metadata=True) else conform(part, schema)
        wanted = relaxed(schema, self._config.key) if self._config.mode is Mode.UPSERT else schema
        plain = part.drop_columns([OP_COLUMN])
        if plain.schema.equals(wanted, check_metadata=True):
            return part
        return conform(plain, wanted).append_column(part.schema.field(OP_COLUMN), part[OP_COLUMN])
