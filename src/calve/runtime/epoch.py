"""An epoch: the rows of one batch on their way from the caller into files.

    add ─▶ buffer ──flush──▶ spool, or straight into a rolling file ──files──▶ FileClosed

Rows go straight into a file where the order in which they come is the order in which they may stand:
append without partitions and sort order. Everything else waits in a spool, on disk when memory is short,
because a later row of the epoch may still replace an earlier one or belong before it. A spool can be
written again when a premise broke; a file that was streamed cannot, and the caller sends the epoch again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from calve.config.sink import Mode, SinkConfig
from calve.model.batch import Batch
from calve.model.errors import PremiseBroken, SchemaMismatch, SinkState
from calve.model.file import FileClosed
from calve.runtime.clock import Clock
from calve.runtime.plan import EpochPlan, epoch_plan
from calve.runtime.rows import OP_COLUMN, Arrival, arrive, changes, relaxed
from calve.store import store_for
from calve.table.base import Base
from calve.table.build import Ready
from calve.table.evolve import Evolution, check_partition_names, evolve, plan_evolution
from calve.table.premises import Premises, broken
from calve.writer.conform import conform
from calve.writer.spool import Spool
from calve.writer.worker import StreamingAppend, can_stream, write_batch_files


class Epoch:
    """The open epoch of a sink."""

    def __init__(
        self, config: SinkConfig, number: int, batch: Batch, folder: Path, worker: str, clock: Clock
    ) -> None:
        self.number = number
        self.batch = batch
        self.rows = 0
        self.buffered_rows = 0
        self.flushes = 0
        self.ready: Ready | None = None
        """Set once its files are closed: what is committed, also again after an answer was lost."""
        self._config = config
        self._folder = folder
        self._worker = worker
        self._clock = clock
        self._arrivals: dict[tuple[pa.Schema, frozenset[str]], None] = {}
        self._plan: EpochPlan | None = None
        self._evolution: Evolution | None = None
        self._buffer: list[pa.Table] = []
        self._buffered_bytes = 0
        self._buffering_since: float | None = None
        self._spool: Spool | None = None
        self._stream: StreamingAppend | None = None
        self._streamed: list[FileClosed] = []
        self._broken = False

    def add(self, rows: pa.RecordBatch | pa.Table, base: Base, refresh: Callable[[], Base]) -> int:
        """Take rows in; their Arrow bytes. Nothing is kept of rows that do not fit."""
        self._check_whole()
        arrival = arrive(self._config, rows, self.number, self.rows)
        try:
            plan = self._fit(arrival, base)
        except SchemaMismatch:
            # Somebody may have changed the table since it was last read.
            plan = self._fit(arrival, refresh())
        table = changes(self._config, arrival, plan.write.schema)
        self._buffer.append(table)
        self.rows += table.num_rows
        self.buffered_rows += table.num_rows
        self._buffered_bytes += table.nbytes
        if self._buffering_since is None:
            self._buffering_since = self._clock.ticks_ms()
        if self._is_full():
            self.flush()
        return int(table.nbytes)

    def flush(self) -> None:
        """Move buffered rows on: into the spool, or into the open file."""
        self._check_whole()
        if not self._buffer:
            return
        assert self._plan is not None
        tables, self._buffer = self._buffer, []
        self.buffered_rows, self._buffered_bytes, self._buffering_since = 0, 0, None
        self.flushes += 1
        with self._moving_rows():
            for table in tables:
                if self._streams(self._plan):
                    self._open_stream(self._plan).write(table)
                else:
                    self._open_spool(self._plan).add(table)

    def close_files(self, base: Base) -> Ready:
        """Write what is left and close all files: the batch, ready to be committed on this base."""
        self.flush()
        assert self._plan is not None
        if self._streams(self._plan):
            self._close_stream()
            files = self._streamed
        else:
            # What the files rely on is the table as it is now, not as it was when the first row came.
            self._plan = self._replan(base)
            spool = self._open_spool(self._plan)
            parts = (self._shaped(part) for part in spool.parts())
            store = store_for(self._plan.write.data_location)
            files = write_batch_files(self._plan.write, store, self.batch, self._worker, parts)
        self.ready = Ready(
            batch=self.batch,
            files=tuple(files),
            schema=self._plan.schema,
            premises=self._plan.premises,
            brings_schema=self._plan.brings_schema,
            brings_spec=self._plan.brings_spec if files else None,
        )
        return self.ready

    def close_empty(self, base: Base) -> Ready:
        """A batch without files: it only moves the frontier."""
        schema = base.metadata.schema()
        self.ready = Ready(batch=self.batch, files=(), schema=schema, premises=Premises(schema))
        return self.ready

    @property
    def can_be_written_again(self) -> bool:
        """Whether the rows are still here after their files were written."""
        return self._spool is not None

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

    def discard(self) -> None:
        """Forget everything. Files that were written are orphans."""
        self._buffer = []
        if self._stream is not None:
            self._stream.abort()
            self._stream = None
        if self._spool is not None:
            self._spool.clear()
            self._spool = None

    # -- schema --------------------------------------------------------------------------------

    def _fit(self, arrival: Arrival, base: Base) -> EpochPlan:
        """The plan under which the rows can be written; the table's schema grows with them if it may."""
        if arrival.deletes_only:
            return self._plan or self._settled(base, self._evolution)
        # Without evolution a null where none may be is a row that does not fit, and is shown as one.
        nulls_in = arrival.nulls_in() if self._config.schema_evolution else frozenset()
        seen = (arrival.rows.schema, nulls_in)
        if self._plan is not None and seen in self._arrivals:
            return self._plan
        self._check_streamed(base)
        evolution = self._evolved(base, self._evolution, *seen)
        plan = self._settled(base, evolution)
        self._arrivals[seen] = None
        return plan

    def _check_streamed(self, base: Base) -> None:
        """Rows that went straight into files cannot be written again: the table must still be what those
        files took for granted, also for rows that come later."""
        if self._plan is None or not (self._streamed or self._stream):
            return
        reasons = broken(self._plan.premises, base.metadata, base.manifests)
        if reasons:
            raise PremiseBroken(
                f"the table changed under epoch {self.number}: {'; '.join(reasons)}",
                hint=f"Roll epoch {self.number} back, begin it again and write its rows again.",
            )

    def _settled(self, base: Base, evolution: Evolution | None) -> EpochPlan:
        plan = epoch_plan(self._config, base, evolution)
        if self._plan is not None and plan.write.schema != self._plan.write.schema:
            # Rows that were buffered under the old schema move on under it.
            self.flush()
            self._close_stream()
            self._restart_spool(plan)
        self._plan, self._evolution = plan, evolution
        return plan

    def _evolved(
        self, base: Base, known: Evolution | None, incoming: pa.Schema, nulls_in: frozenset[str]
    ) -> Evolution | None:
        allowed = self._config.schema_evolution
        if known is None:
            return evolve(base.metadata, incoming, allowed=allowed, nulls_in=nulls_in)
        next_id = max(schema.schema_id for schema in base.metadata.schemas) + 1
        further = plan_evolution(
            known.schema, incoming, known.last_column_id, allowed, nulls_in=nulls_in, next_schema_id=next_id
        )
        if further is None:
            return known
        check_partition_names(base.metadata, further)
        return further

    def _replan(self, base: Base) -> EpochPlan:
        evolution: Evolution | None = None
        for incoming, nulls_in in self._arrivals:
            evolution = self._evolved(base, evolution, incoming, nulls_in)
        self._evolution = evolution
        return epoch_plan(self._config, base, evolution)

    # -- where rows go -------------------------------------------------------------------------

    def _is_full(self) -> bool:
        config = self._config
        if self.buffered_rows >= config.buffer_rows_max or self._buffered_bytes >= config.buffer_bytes_max:
            return True
        since = self._buffering_since
        return since is not None and self._clock.ticks_ms() - since >= config.buffer_ms_max

    def _streams(self, plan: EpochPlan) -> bool:
        return can_stream(plan.write) and not self._config.key

    def _open_stream(self, plan: EpochPlan) -> StreamingAppend:
        if self._stream is None:
            store = store_for(plan.write.data_location)
            self._stream = StreamingAppend(plan.write, store, self.batch, self._worker)
        return self._stream

    def _close_stream(self) -> None:
        if self._stream is not None:
            with self._moving_rows():
                self._streamed += self._stream.close()
            self._stream = None

    def _open_spool(self, plan: EpochPlan) -> Spool:
        if self._spool is None:
            identity: dict[str, Any] = {"partition": plan.write.partition}
            if self._config.mode is Mode.UPSERT:
                identity = {"key": self._config.key, "sequence": self._config.sequence_by}
            elif self._config.key:
                # A change is one by key, time and op, however often it came. As all of them are part of the
                # identity, two that differ in anything else are a tie, and refused as one.
                op = self._config.changelog_op_column
                identity = {"key": (*self._config.key, op, *self._config.sequence_by), "sequence": (op,)}
            self._spool = Spool(self._folder, self._config.memory_bytes_max, **identity)
        return self._spool

    def _restart_spool(self, plan: EpochPlan) -> None:
        """The spool's rows in the shape of a new schema."""
        old, self._spool = self._spool, None
        if old is None:
            return
        self._plan = plan
        spool = self._open_spool(plan)
        with self._moving_rows():
            for part in old.parts():
                spool.add(self._shaped(part))
            old.clear()

    def _shaped(self, part: pa.Table) -> pa.Table:
        """Rows that were taken in under an earlier schema of this epoch, under the current one."""
        assert self._plan is not None
        schema = self._plan.write.schema
        if OP_COLUMN not in part.column_names:
            return part if part.schema.equals(schema, check_metadata=True) else conform(part, schema)
        wanted = relaxed(schema, self._config.key) if self._config.mode is Mode.UPSERT else schema
        plain = part.drop_columns([OP_COLUMN])
        if plain.schema.equals(wanted, check_metadata=True):
            return part
        return conform(plain, wanted).append_column(part.schema.field(OP_COLUMN), part[OP_COLUMN])
