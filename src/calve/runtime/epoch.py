"""An epoch: the rows of one batch on their way from the caller into files.

    add ─▶ buffer ──flush──▶ spool, or straight into a rolling file ──close_files──▶ FileClosed

Rows go straight into a file where the order in which they come is the order in which they may stand:
append without partitions and sort order. Everything else waits in a spool, on disk when memory is short,
because a later row of the epoch may still replace an earlier one or belong before it. Which of the two it
is, is settled with the first row.

A spool keeps rows by the names of their columns and is written on the table as it is at the commit, again
if a premise broke. A file that was streamed cannot be written again: such an epoch holds on to the table
that it began with, and the caller sends it again if that changed.

Guarantee: a call whose rows are refused leaves nothing behind, no row and no change of the schema. An
epoch that lost rows on their way, by whatever was raised there, cannot be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from calve.table.premises import SchemaState
from calve.table.schema import to_arrow
from calve.writer.conform import conform
from calve.writer.spool import Spool, owned
from calve.writer.worker import StreamingAppend, can_stream, write_batch_files

_TABLES_MAX = 256
"""So many buffered tables are joined to one: each costs memory of its own beside its bytes (P9)."""
_KNOWN_MAX = 64


@dataclass(frozen=True, slots=True)
class _Incoming:
    """What rows ask of the schema: their own, and the columns that are required and have nulls in them."""

    schema: pa.Schema
    nulls_in: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Fit:
    """How rows can be written: found out without changing anything, taken once the rows are accepted."""

    base: Base
    plan: EpochPlan
    arrivals: tuple[_Incoming, ...]


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
        self._fit: _Fit | None = None
        self._known: dict[_Incoming, None] = {}
        self._streams = False
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
        began_with = self._fit.base if self._fit is not None and self._streams else None
        try:
            fit, incoming, table = self._fitted(arrival, began_with or base)
        except SchemaMismatch:
            # Somebody may have changed the table since it was last read.
            fresh = refresh()
            if began_with is not None:
                self._check_unchanged(began_with, fresh)
                raise
            fit, incoming, table = self._fitted(arrival, fresh)
        self._take(fit, incoming)
        table = owned(table)
        self._buffer.append(table)
        self.rows += table.num_rows
        self.buffered_rows += table.num_rows
        self._buffered_bytes += table.nbytes
        if self._buffering_since is None:
            self._buffering_since = self._clock.ticks_ms()
        if len(self._buffer) >= _TABLES_MAX:
            self._buffer = [pa.concat_tables(self._buffer).combine_chunks()]
        if self._is_full():
            self.flush()
        return int(table.nbytes)

    def flush(self) -> None:
        """Move buffered rows on: into the spool, or into the open file."""
        self._check_whole()
        if not self._buffer:
            return
        with self._moving_rows():
            tables, self._buffer = self._buffer, []
            self.buffered_rows, self._buffered_bytes, self._buffering_since = 0, 0, None
            self.flushes += 1
            for table in tables:
                if self._streams:
                    self._open_stream().write(table)
                else:
                    self._open_spool().add(table)

    def close_files(self, base: Base) -> Ready:
        """Write what is left and close all files: the batch, ready to be committed on this base."""
        self.flush()
        assert self._fit is not None
        if self._streams:
            self._close_stream()
            files = self._streamed
        else:
            # What the files rely on is the table as it is now, not as it was when the first row came.
            evolution = self._evolved(base, self._fit.arrivals)
            self._fit = _Fit(base, epoch_plan(self._config, base, evolution), self._fit.arrivals)
            write = self._fit.plan.write
            parts = (self._shaped(part) for part in self._open_spool().parts())
            store = store_for(write.data_location)
            files = write_batch_files(write, store, self.batch, self._worker, parts)
        plan = self._fit.plan
        self.ready = Ready(
            batch=self.batch,
            files=tuple(files),
            schema=plan.schema,
            premises=plan.premises,
            brings_schema=plan.brings_schema,
            brings_spec=plan.brings_spec if files else None,
        )
        return self.ready

    def close_empty(self, base: Base) -> Ready:
        """A batch without files: it only moves the frontier."""
        schema = base.metadata.schema()
        self.ready = Ready(batch=self.batch, files=(), schema=schema, premises=None)
        return self.ready

    @property
    def can_be_written_again(self) -> bool:
        """Whether the rows are still here after their files were written."""
        return self._spool is not None

    def discard(self) -> None:
        """Forget everything. Files that were written are orphans."""
        self._buffer = []
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

    # -- schema --------------------------------------------------------------------------------

    def _fitted(self, arrival: Arrival, base: Base) -> tuple[_Fit, _Incoming, pa.Table]:
        """How rows can be written on a base, and the rows in that shape. Changes nothing."""
        fit = self._fit if self._fit is not None and self._fit.base is base else None
        arrivals = () if self._fit is None else self._fit.arrivals
        incoming = self._incoming(arrival, base, fit)
        if fit is None or incoming not in self._known:
            before = self._evolved(base, arrivals)
            evolution = self._evolved(base, (incoming,), before)
            if evolution is not before:
                arrivals = (*arrivals, incoming)  # only these need be thought of again
            fit = _Fit(base, epoch_plan(self._config, base, evolution), arrivals)
        return fit, incoming, changes(self._config, arrival, fit.plan.write.schema)

    def _incoming(self, arrival: Arrival, base: Base, fit: _Fit | None) -> _Incoming:
        table = to_arrow(base.metadata.schema()) if fit is None else fit.plan.write.schema
        if arrival.deletes_only:
            # A delete shows its key and its place in the sequence; what else it shows is not looked at.
            shown = {*self._config.key, *self._config.sequence_by}
            names = arrival.rows.schema.names
            fields = [
                arrival.rows.schema.field(field.name)
                if field.name in shown and field.name in names
                else field
                for field in table
            ]
            return _Incoming(pa.schema(fields), frozenset())
        required = {field.name for field in table if not field.nullable}
        # Without evolution a null where none may be is a row that does not fit, and is shown as one.
        nulls_in = arrival.nulls_in() & required if self._config.schema_evolution else frozenset()
        return _Incoming(arrival.rows.schema, frozenset(nulls_in))

    def _evolved(
        self, base: Base, arrivals: Iterable[_Incoming], known: Evolution | None = None
    ) -> Evolution | None:
        """What the table's schema must become for these arrivals, after what is known already."""
        allowed = self._config.schema_evolution
        next_id = max(schema.schema_id for schema in base.metadata.schemas) + 1
        for incoming in arrivals:
            if known is None:
                known = evolve(base.metadata, incoming.schema, allowed=allowed, nulls_in=incoming.nulls_in)
                continue
            further = plan_evolution(
                known.schema,
                incoming.schema,
                known.last_column_id,
                allowed,
                nulls_in=incoming.nulls_in,
                next_schema_id=next_id,
            )
            if further is not None:
                check_partition_names(base.metadata, further)
                known = further
        return known

    def _check_unchanged(self, began_with: Base, fresh: Base) -> None:
        """Rows that went straight into files cannot be written again, so that later rows of the epoch
        cannot follow a schema that somebody changed meanwhile."""
        if SchemaState.of(fresh.metadata) != SchemaState.of(began_with.metadata):
            raise PremiseBroken(
                f"somebody changed the table's schema under epoch {self.number}",
                hint=f"Roll epoch {self.number} back, begin it again and write its rows again.",
            )

    def _take(self, fit: _Fit, incoming: _Incoming) -> None:
        """Go on under a fit whose rows were accepted."""
        before, self._known = self._fit, self._known if self._fit is fit else {}
        if before is None:
            self._streams = can_stream(fit.plan.write) and not self._config.key
        elif before.plan.write.schema != fit.plan.write.schema:
            # Rows that were taken in under the old schema move on under it.
            self.flush()
            self._close_stream()
            self._fit = fit
            self._reshape_spool()
        self._fit = fit
        if len(self._known) < _KNOWN_MAX:
            self._known[incoming] = None

    # -- where rows go -------------------------------------------------------------------------

    def _is_full(self) -> bool:
        config = self._config
        if self.buffered_rows >= config.buffer_rows_max or self._buffered_bytes >= config.buffer_bytes_max:
            return True
        since = self._buffering_since
        return since is not None and self._clock.ticks_ms() - since >= config.buffer_ms_max

    def _plan(self) -> EpochPlan:
        assert self._fit is not None, "no row was taken in"
        return self._fit.plan

    def _open_stream(self) -> StreamingAppend:
        if self._stream is None:
            write = self._plan().write
            self._stream = StreamingAppend(write, store_for(write.data_location), self.batch, self._worker)
        return self._stream

    def _close_stream(self) -> None:
        if self._stream is not None:
            with self._moving_rows():
                self._streamed += self._stream.close()
            self._stream = None

    def _open_spool(self) -> Spool:
        if self._spool is None:
            identity: dict[str, Any] = {"partition": self._plan().write.partition}
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
