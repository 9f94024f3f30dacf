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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyiceberg.catalog import Catalog

from calve.config.sink import SinkConfig
from calve.model.batch import Batch
from calve.model.errors import (
    CalveError,
    CommitConflict,
    CommitUnknown,
    ConfigError,
    SchemaMismatch,
    SinkState,
)
from calve.runtime.clock import Clock, SystemClock
from calve.runtime.coordinator import Coordinator
from calve.runtime.current import Current
from calve.runtime.epoch import Epoch
from calve.runtime.health import Capabilities, HealthStatus, SinkMetrics
from calve.runtime.life import Life, State, alone
from calve.runtime.meter import Meter
from calve.runtime.order import admit, check_epoch, positions_after
from calve.runtime.publish import Publisher
from calve.runtime.result import EpochResult, WriteResult
from calve.runtime.spill import check_spill_folder, spill_folder
from calve.runtime.target import Target
from calve.table.build import Ready
from calve.table.schema import to_arrow
from calve.writer.spill import sweep

_log = logging.getLogger("calve.sink")

_WORKER = "w0"


class IcebergSink:
    """A sink for one table, and for one thread at a time."""

    def __init__(
        self, config: SinkConfig, *, clock: Clock | None = None, catalog: Catalog | None = None
    ) -> None:
        if not isinstance(config, SinkConfig):
            raise ConfigError(
                f"a sink is made of a SinkConfig, not of a {type(config).__name__}",
                hint="Use IcebergSink.from_options({...}) for a mapping of options, from_url for a URL.",
            )
        self.config = config
        self._clock = clock or SystemClock()
        self._target = Target(config, self._clock, catalog)
        self._life = Life(config.table_name)
        self._meter = Meter(self._clock)
        self._metrics = self._meter.metrics
        self._current = Current()

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """A sink from option names such as `'table.name'`; the list stands in docs/options.md."""
        if not isinstance(options, Mapping):
            raise ConfigError(
                f"options are a mapping of names to values, not a {type(options).__name__}",
                hint="For example {'namespace': 'shop', 'table.name': 'orders'}.",
            )
        return cls(SinkConfig.from_options(options))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """A sink by its URL: `iceberg://host:8181/sales/orders?warehouse=…&equality_delete_by=id`."""
        return cls(SinkConfig.from_url(url))

    def __enter__(self) -> Self:
        return self if self._life.state is State.OPEN else self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return str(self._life)

    # -- life ----------------------------------------------------------------------------------

    @alone
    def open(self) -> Self:
        """Connect, check the table against the configuration, and claim the sink.

        A table that is not there yet is created with the first rows. From the claim on, an older run of the
        same sink can commit nothing more.
        """
        self._life.check_created()
        check_spill_folder(self.config)
        sweep(spill_folder(self.config))
        self._meter.start()
        self._target.open()
        self._life.state = State.OPEN
        return self

    @alone
    def close(self) -> None:
        """Let go. An open epoch is rolled back: half an epoch is nothing."""
        if self._life.state is State.CLOSED:
            return
        if self._current.epoch is not None:
            _log.warning("closing: epoch %s is open and is rolled back", self._current.number)
            self._metrics.epochs_rolled_back += 1
        self._current.discard()
        self._target.close()
        self._life.state = State.CLOSED

    # -- epochs --------------------------------------------------------------------------------

    @alone
    def begin_epoch(self, epoch: int, *, after: int | None = None) -> bool:
        """Begin an epoch. True: write it. False: it is in the table already and is skipped; whatever is
        written to it is dropped and counted, and committing it does nothing.

        Epochs grow and may leave numbers out. `after` is the epoch before, if the caller knows it: a table
        that ends earlier than that has lost something, and the epoch is refused with `Gap`.
        """
        self._life.check_open()
        check_epoch(self.config, epoch, after)
        self._current.check_none(epoch)
        with self._noting_errors():
            if self._coordinator is not None:
                self._coordinator.resolve()
        frontier = self._target.frontier
        if not admit(self.config, epoch, after, frontier=frontier, last_seen=self._current.last_seen):
            self._current.skipping = epoch
            self._metrics.epochs_skipped += 1
            _log.info("epoch %s is in %s already: skipped", epoch, self.config.table_name)
            return False
        lower = self._target.lower
        self._current.epoch = Epoch(
            self.config,
            epoch,
            Batch(lower, max(epoch, lower) + 1),
            spill_folder(self.config),
            _WORKER,
            self._clock,
            positions_after(self.config, epoch, frontier),
        )
        return True

    @alone
    def write_batch(self, rows: pa.RecordBatch | pa.Table) -> WriteResult:
        """Take rows of the open epoch in. In upsert and changelog mode a column of ops (`_op`) may say what
        happened to each; without it every row is an upsert. Rows that do not fit are refused before any
        of this call is kept."""
        self._life.check_open()
        if not isinstance(rows, pa.RecordBatch | pa.Table):
            raise SchemaMismatch(
                f"rows come as a pyarrow Table or RecordBatch, not as a {type(rows).__name__}",
                hint="For a pandas frame use pa.Table.from_pandas(frame), for a list of dicts "
                "pa.Table.from_pylist(rows).",
            )
        if self._current.skipping is not None:
            self._metrics.rows_skipped += rows.num_rows
            return WriteResult(0, 0)
        epoch = self._current.opened()
        if epoch.ready is not None:
            raise SinkState(
                f"epoch {epoch.number} is being committed and takes no more rows",
                hint="Commit it again until it is in the table, then begin the next.",
            )
        if rows.num_rows == 0:
            return WriteResult(0, 0)
        size = 0
        with self._noting_errors():
            coordinator = self._coordinator or self._target.make(epoch, rows)
            if coordinator is not None:
                with self._meter.flushing(epoch):
                    size = epoch.add(rows, coordinator.base, coordinator.refresh)
        self._metrics.rows_written += rows.num_rows
        return WriteResult(rows.num_rows, size)

    @alone
    def flush(self) -> None:
        """Move buffered rows of the open epoch out of memory. Nothing becomes visible."""
        self._life.check_open()
        epoch = self._current.epoch
        if epoch is not None and epoch.ready is None:
            with self._noting_errors(), self._meter.flushing(epoch):
                epoch.flush()

    @alone
    def commit_epoch(self, epoch: int) -> EpochResult:
        """Publish the epoch as one snapshot. An epoch without changes is none.

        After `CommitUnknown` or `CommitConflict` the epoch stays open: call again, or roll it back.
        """
        self._life.check_open()
        self._current.check(epoch)
        if self._current.skipping is not None:
            self._current.discard()
            return EpochResult(epoch, None, skipped=True)
        current = self._current.opened()
        before = self._clock.ticks_ms()
        if self._coordinator is None:
            return self._finish(current, None, before)  # no row has ever come, and no table is made for none
        publisher = Publisher(self.config, self._coordinator, self._meter)
        with self._noting_errors():
            ready = publisher.close_files(current)
            if ready is None:
                return self._finish(current, None, before)
            publisher.commit(current, ready)
        return self._finish(current, current.ready, before)

    @alone
    def rollback_epoch(self, epoch: int) -> None:
        """Give the epoch up: it may be begun again. Nothing of it becomes visible, unless its commit was sent
        and its answer lost: then it may be in the table all the same, and `begin_epoch` finds that out."""
        self._life.check_open()
        self._current.check(epoch)
        if self._current.epoch is not None:
            self._metrics.epochs_rolled_back += 1
            _log.warning("epoch %s of %s is rolled back", epoch, self.config.table_name)
            if self._coordinator is not None:
                self._coordinator.abandon()
        self._current.discard()

    # -- what a person asks --------------------------------------------------------------------

    def schema(self) -> pa.Schema | None:
        """The table's columns; `None` before there is a table."""
        return None if self._coordinator is None else to_arrow(self._coordinator.base.metadata.schema())

    def frontier(self) -> int:
        """The first epoch that is not in the table yet: after a start, send from here on."""
        return self._target.frontier

    def health_check(self) -> HealthStatus:
        """How the sink is."""
        return HealthStatus.of(self._life, None if self._coordinator is None else self._coordinator.foreign)

    def metrics(self) -> SinkMetrics:
        """What the sink has done since it was opened, as of now."""
        return self._meter.read(self.frontier(), self._coordinator)

    def capabilities(self) -> Capabilities:
        """What this sink can do, as it is configured."""
        return Capabilities.of(self.config)

    # -- inside --------------------------------------------------------------------------------

    @property
    def _coordinator(self) -> Coordinator | None:
        return self._target.coordinator

    def _finish(self, epoch: Epoch, ready: Ready | None, before: float) -> EpochResult:
        elapsed = self._clock.ticks_ms() - before
        self._current.finish(epoch)
        if ready is None:
            self._metrics.epochs_empty += 1
            return EpochResult(epoch.number, None, milliseconds=elapsed)
        assert self._coordinator is not None
        snapshot_id = self._coordinator.progress.committed
        self._meter.committed(self._coordinator)
        _log.info("epoch %s of %s is snapshot %s", epoch.number, self.config.table_name, snapshot_id)
        return EpochResult(
            epoch.number, snapshot_id, rows=epoch.rows, files=len(ready.files), milliseconds=elapsed
        )

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except CalveError as error:
            self._metrics.errors += 1
            if self._life.ends_with(error):
                self._current.discard()
            elif isinstance(error, CommitUnknown | CommitConflict):
                _log.warning("%s", error.message)
            raise
