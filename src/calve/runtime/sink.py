"""IcebergSink: exactly-once epochs into an Iceberg table, in one process, without Spark.

    open ─▶ begin_epoch ─▶ write_batch … ─▶ commit_epoch ─▶ begin_epoch …          ─▶ close
                 │                               │
                 └────────── rollback_epoch ◀────┘

    with IcebergSink.from_options({"namespace": "shop", "table.name": "orders"}) as sink:
        if sink.begin_epoch(1):
            sink.write_batch(rows)
            sink.commit_epoch(1)

Each epoch that has changes becomes one snapshot, all of it or nothing. An epoch that is in the table is
skipped however often it is sent again, because the table itself remembers the last one: kill the process
anywhere, start it again, and send again what you are not sure of. Of two processes on one sink, the older
stops with `Fenced`.

The times of this sink are epoch numbers: committing epoch n moves the frontier to n + 1.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyiceberg.catalog import Catalog

from calve.config.sink import Delivery, Mode, SinkConfig
from calve.model.batch import Batch
from calve.model.errors import (
    BadTime,
    CalveError,
    CommitConflict,
    CommitUnknown,
    ConfigError,
    Diverged,
    Fenced,
    Gap,
    SchemaMismatch,
    SinkState,
    StoreError,
    TableError,
    TableMissing,
)
from calve.model.time import TIME_MAX, check_time
from calve.runtime.clock import Clock, SystemClock
from calve.runtime.coordinator import Coordinator
from calve.runtime.epoch import Epoch
from calve.runtime.first import check_first, wanted_table
from calve.runtime.health import Capabilities, Health, HealthStatus, SinkMetrics
from calve.runtime.publish import Publisher
from calve.runtime.result import EpochResult, WriteResult
from calve.runtime.rows import arrive, check_deletes
from calve.runtime.start import claim_table
from calve.table.build import Ready
from calve.table.catalogs import open_catalog
from calve.table.commit import load, reaching
from calve.table.create import check_table, create_table
from calve.table.schema import to_arrow
from calve.writer.spill import sweep

_log = logging.getLogger("calve.sink")

_LONG_MAX = 2**63 - 1


class State(Enum):
    """Where a sink is in its life."""

    CREATED = "created"
    OPEN = "open"
    FAILED = "failed"
    CLOSED = "closed"


class IcebergSink:
    """A sink for one table. Not for several threads at once."""

    def __init__(
        self, config: SinkConfig, *, clock: Clock | None = None, catalog: Catalog | None = None
    ) -> None:
        if not isinstance(config, SinkConfig):
            raise ConfigError(
                f"a sink is made of a SinkConfig, not of a {type(config).__name__}",
                hint="Use IcebergSink.from_options({...}) for a mapping of options.",
            )
        self.config = config
        self._clock = clock or SystemClock()
        self._catalog = catalog
        self._owns_catalog = catalog is None
        self._state = State.CREATED
        self._failure: CalveError | None = None
        self._coordinator: Coordinator | None = None
        self._epoch: Epoch | None = None
        self._skipping: int | None = None
        self._early_deletes: list[pa.RecordBatch | pa.Table] = []
        """Deletes of the open epoch before there is a table: they matter only if rows follow."""
        self._last_seen = -1
        self._opened_at = 0.0
        self._metrics = SinkMetrics()

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """A sink from option names such as `'table.name'`; the list stands in docs/options.md."""
        if not isinstance(options, Mapping):
            raise ConfigError(
                f"options are a mapping of names to values, not a {type(options).__name__}",
                hint="For example {'namespace': 'shop', 'table.name': 'orders'}.",
            )
        return cls(SinkConfig.from_options(options))

    def __enter__(self) -> Self:
        return self if self._state is State.OPEN else self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<IcebergSink {self.config.table_name} {self._state.value}>"

    # -- life ----------------------------------------------------------------------------------

    def open(self) -> Self:
        """Connect, check the table against the configuration, and claim the sink.

        A table that is not there yet is created with the first rows. From the claim on, an older run of the
        same sink can commit nothing more.
        """
        if self._state is not State.CREATED:
            raise SinkState(f"{self!r} cannot be opened", hint="Make a new sink for another run.")
        if self._catalog is None:
            self._catalog = open_catalog(self.config.catalog)
        sweep(self._spill_folder())
        self._opened_at = self._clock.ticks_ms()
        try:
            table = load(self._catalog, self.config.identifier)
        except TableMissing:
            _log.info("%s is not there yet; it is created with the first rows", self.config.table_name)
        else:
            check_table(table, wanted_table(self.config, pa.schema([])))
            self._coordinator = claim_table(self.config, self._catalog, self._clock)
        self._state = State.OPEN
        return self

    def close(self) -> None:
        """Let go. An open epoch is rolled back: half an epoch is nothing."""
        if self._state is State.CLOSED:
            return
        if self._epoch is not None:
            _log.warning("closing: epoch %s is open and is rolled back", self._epoch.number)
            self._metrics.epochs_rolled_back += 1
            self._discard_epoch()
        if self._owns_catalog and self._catalog is not None:
            self._catalog.close()
        self._state = State.CLOSED

    # -- epochs --------------------------------------------------------------------------------

    def begin_epoch(self, epoch: int, *, after: int | None = None) -> bool:
        """Begin an epoch. True: write it. False: it is in the table already and is skipped; whatever is
        written to it is dropped and counted, and committing it does nothing.

        Epochs grow and may leave numbers out. `after` is the epoch before, if the caller knows it: a table
        that ends earlier than that has lost something, and the epoch is refused with `Gap`.
        """
        self._check_open()
        check_time(epoch, "epoch")
        if after is not None:
            check_time(after, "after")
        if epoch >= TIME_MAX:
            raise SinkState(f"epoch {epoch} is the last number there is", hint="Begin with small numbers.")
        if self.config.mode is Mode.CHANGELOG and epoch > _LONG_MAX:
            raise BadTime(
                f"epoch {epoch} does not fit the long column {self.config.changelog_time_column!r}",
                hint=f"A changelog's epochs go up to {_LONG_MAX}.",
            )
        if self._epoch is not None or self._skipping is not None:
            raise SinkState(
                f"epoch {self._current()} is still open, so {epoch} cannot begin",
                hint="Commit it or roll it back first.",
            )
        if self._coordinator is not None:
            self._coordinator.resolve()
        frontier = self._frontier()
        if after is not None and after >= max(frontier, self._last_seen + 1):
            raise Gap(
                f"{self.config.table_name} ends before epoch {frontier}, but epoch {epoch} follows {after}",
                hint=f"Send the epochs from {frontier} on again.",
            )
        if epoch < frontier and self.config.delivery is Delivery.EXACTLY_ONCE:
            self._skipping = epoch
            self._metrics.epochs_skipped += 1
            _log.info("epoch %s is in %s already: skipped", epoch, self.config.table_name)
            return False
        if epoch <= self._last_seen and self.config.delivery is Delivery.EXACTLY_ONCE:
            raise SinkState(
                f"epoch {epoch} comes after epoch {self._last_seen}",
                hint="Epochs grow: send them in their order.",
            )
        upper = max(epoch, frontier) + 1
        self._epoch = Epoch(
            self.config, epoch, Batch(frontier, upper), self._spill_folder(), self._worker(), self._clock
        )
        return True

    def write_batch(self, rows: pa.RecordBatch | pa.Table) -> WriteResult:
        """Take rows of the open epoch in. In upsert and changelog mode a column of ops (`_op`) may say what
        happened to each; without it every row is an upsert. Rows that do not fit are refused before any
        of this call is kept."""
        self._check_open()
        if not isinstance(rows, pa.RecordBatch | pa.Table):
            raise SchemaMismatch(
                f"rows come as a pyarrow Table or RecordBatch, not as a {type(rows).__name__}",
                hint="For a pandas frame use pa.Table.from_pandas(frame), for a list of dicts "
                "pa.Table.from_pylist(rows).",
            )
        if self._skipping is not None:
            self._metrics.rows_skipped += rows.num_rows
            return WriteResult(0, 0)
        epoch = self._open_epoch()
        if epoch.ready is not None:
            raise SinkState(
                f"epoch {epoch.number} is being committed and takes no more rows",
                hint="Commit it again until it is in the table, then begin the next.",
            )
        if rows.num_rows == 0:
            return WriteResult(0, 0)
        with self._counting_errors():
            coordinator = self._coordinator or self._create_table(epoch, rows)
            size = 0
            if coordinator is None:
                self._early_deletes.append(rows)
            else:
                early, self._early_deletes = self._early_deletes, []
                with self._timing_flush(epoch):
                    for part in (*early, rows):
                        size = epoch.add(part, coordinator.base, coordinator.refresh)
        self._metrics.rows_written += rows.num_rows
        return WriteResult(rows.num_rows, size)

    def flush(self) -> None:
        """Move buffered rows of the open epoch out of memory. Nothing becomes visible."""
        self._check_open()
        if self._epoch is not None and self._epoch.ready is None:
            with self._counting_errors(), self._timing_flush(self._epoch):
                self._epoch.flush()

    def commit_epoch(self, epoch: int) -> EpochResult:
        """Publish the epoch as one snapshot. An epoch without changes is none.

        After `CommitUnknown` or `CommitConflict` the epoch stays open: call again, or roll it back.
        """
        self._check_open()
        self._check_current(epoch)
        if self._skipping is not None:
            self._skipping = None
            return EpochResult(epoch, None, skipped=True)
        current = self._open_epoch()
        before = self._clock.ticks_ms()
        if self._coordinator is None:
            return self._finish(current, None, before)  # no row has ever come, and no table is made for none
        publisher = Publisher(self.config, self._coordinator, self._metrics, self._clock)
        with self._counting_errors():
            ready = publisher.close_files(current)
            if ready is None:
                return self._finish(current, None, before)
            publisher.commit(current, ready)
        return self._finish(current, current.ready, before)

    def rollback_epoch(self, epoch: int) -> None:
        """Give the epoch up: it may be begun again. Nothing of it becomes visible, unless its commit was sent
        and its answer lost: then it may be in the table all the same, and `begin_epoch` finds that out."""
        self._check_open()
        self._check_current(epoch)
        self._skipping = None
        if self._epoch is not None:
            self._metrics.epochs_rolled_back += 1
            _log.warning("epoch %s of %s is rolled back", epoch, self.config.table_name)
            if self._coordinator is not None:
                self._coordinator.abandon()
            self._discard_epoch()

    # -- what a person asks --------------------------------------------------------------------

    def schema(self) -> pa.Schema | None:
        """The table's columns; `None` before there is a table."""
        return None if self._coordinator is None else to_arrow(self._coordinator.base.metadata.schema())

    def frontier(self) -> int:
        """The first epoch that is not in the table yet."""
        return self._frontier()

    def health_check(self) -> HealthStatus:
        """How the sink is."""
        if self._failure is not None:
            return HealthStatus(Health.UNHEALTHY, self._failure.message, self._failure.hint)
        if self._state is not State.OPEN:
            return HealthStatus(Health.UNHEALTHY, f"the sink is {self._state.value}", "Open it first.")
        coordinator = self._coordinator
        if coordinator is not None and coordinator.foreign.rewrites_that_dropped_deletes:
            return HealthStatus(
                Health.DEGRADED,
                "another engine rewrote files and removed equality deletes",
                "A partial rewrite can bring deleted rows back: compare the table with its source.",
            )
        return HealthStatus(Health.HEALTHY)

    def metrics(self) -> SinkMetrics:
        """What the sink has done since it was opened, as of now."""
        metrics = replace(self._metrics)
        metrics.open_ms = self._clock.ticks_ms() - self._opened_at if self._opened_at else 0.0
        metrics.frontier = self._frontier()
        if self._coordinator is not None:
            stats, foreign = self._coordinator.stats, self._coordinator.foreign
            metrics.conflicts, metrics.unknown_answers = stats.conflicts, stats.unknowns
            metrics.last_catalog_ms = stats.last_catalog_ms
            metrics.foreign_rows, metrics.foreign_snapshots = foreign.rows, foreign.snapshots
        return metrics

    def capabilities(self) -> Capabilities:
        """What this sink can do, as it is configured."""
        return Capabilities(
            exactly_once=self.config.delivery is Delivery.EXACTLY_ONCE,
            upsert=self.config.mode is Mode.UPSERT,
            changelog=self.config.mode is Mode.CHANGELOG,
            schema_evolution=self.config.schema_evolution,
        )

    # -- inside --------------------------------------------------------------------------------

    def _create_table(self, epoch: Epoch, rows: pa.RecordBatch | pa.Table) -> Coordinator | None:
        """Make the table that the first rows ask for, and claim it. Deletes alone ask for none: there is
        nothing that they could delete, and they need not show all columns."""
        assert self._catalog is not None
        arrival = arrive(self.config, rows, epoch.number, 0)
        if arrival.deletes_only:
            check_deletes(self.config, arrival)
            return None
        wanted = check_first(self.config, arrival)
        with reaching(self.config.identifier):
            create_table(self._catalog, self.config.identifier, wanted)
        self._coordinator = coordinator = claim_table(self.config, self._catalog, self._clock)
        if coordinator.progress.frontier > epoch.batch.lower:
            raise Diverged(
                f"{self.config.table_name} was created by another run, which has committed up to "
                f"{coordinator.progress.frontier}",
                hint="Start this sink again: it goes on from what the table says.",
            )
        return coordinator

    def _finish(self, epoch: Epoch, ready: Ready | None, before: float) -> EpochResult:
        elapsed = self._clock.ticks_ms() - before
        self._last_seen = max(self._last_seen, epoch.number)
        self._discard_epoch()
        if ready is None:
            self._metrics.epochs_empty += 1
            return EpochResult(epoch.number, None, milliseconds=elapsed)
        assert self._coordinator is not None
        snapshot_id = self._coordinator.progress.committed
        self._metrics.commits += 1
        self._metrics.last_commit_ms = self._coordinator.stats.last_ms
        self._metrics.last_snapshot_id = snapshot_id
        _log.info("epoch %s of %s is snapshot %s", epoch.number, self.config.table_name, snapshot_id)
        return EpochResult(
            epoch.number, snapshot_id, rows=epoch.rows, files=len(ready.files), milliseconds=elapsed
        )

    @contextmanager
    def _counting_errors(self) -> Iterator[None]:
        try:
            yield
        except CalveError as error:
            self._metrics.errors += 1
            if isinstance(error, Fenced | TableError):
                # What the table shows will not change by trying: this run is over.
                self._state, self._failure = State.FAILED, error
                self._discard_epoch()
            elif isinstance(error, CommitUnknown | CommitConflict):
                _log.warning("%s", error.message)
            raise

    @contextmanager
    def _timing_flush(self, epoch: Epoch) -> Iterator[None]:
        before, flushes, flushed = self._clock.ticks_ms(), epoch.flushes, epoch.rows - epoch.buffered_rows
        yield
        if epoch.flushes > flushes:
            self._metrics.flushes += epoch.flushes - flushes
            self._metrics.rows_flushed += epoch.rows - epoch.buffered_rows - flushed
            self._metrics.last_flush_ms = self._clock.ticks_ms() - before

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._state is not State.OPEN:
            hint = "Open it first." if self._state is State.CREATED else "Make a new sink for another run."
            raise SinkState(f"{self!r} is not open", hint=hint)

    def _current(self) -> int | None:
        return self._epoch.number if self._epoch is not None else self._skipping

    def _check_current(self, epoch: int) -> None:
        check_time(epoch, "epoch")
        current = self._current()
        if current is None:
            raise SinkState(f"epoch {epoch} was not begun", hint=f"Call begin_epoch({epoch}) first.")
        if current != epoch:
            raise SinkState(f"epoch {current} is open, not {epoch}", hint=f"Finish epoch {current} first.")

    def _open_epoch(self) -> Epoch:
        if self._epoch is None:
            raise SinkState("no epoch is open", hint="Call begin_epoch first.")
        return self._epoch

    def _discard_epoch(self) -> None:
        # Let go first: whatever happens while it is cleaned up, a landed epoch is not committed again.
        epoch, self._epoch, self._early_deletes = self._epoch, None, []
        if epoch is not None:
            try:
                epoch.discard()
            except StoreError as error:
                _log.warning("spilled rows of epoch %s stay behind: %s", epoch.number, error.message)

    def _frontier(self) -> int:
        return 0 if self._coordinator is None else self._coordinator.progress.frontier

    def _worker(self) -> str:
        return "w0"

    def _spill_folder(self) -> Path:
        if self.config.spill_folder is not None:
            return Path(self.config.spill_folder)
        return Path(tempfile.gettempdir()) / f"calve-spill-{os.getuid()}"
