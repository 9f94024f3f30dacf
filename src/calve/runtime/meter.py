"""The meter: what a sink does, counted and timed as it happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from calve.model.file import FileKind
from calve.runtime.clock import Clock
from calve.runtime.coordinator import Coordinator
from calve.runtime.epoch import Epoch
from calve.runtime.health import SinkMetrics
from calve.table.base import Base
from calve.table.build import Ready


class Meter:
    """The metrics of one run, and the clock that times it."""

    def __init__(self, clock: Clock) -> None:
        self.metrics = SinkMetrics()
        self._clock = clock
        self._opened_at: float | None = None

    def start(self) -> None:
        """The sink is opened."""
        self._opened_at = self.ticks_ms()

    def ticks_ms(self) -> float:
        return self._clock.ticks_ms()

    @contextmanager
    def flushing(self, epoch: Epoch) -> Iterator[None]:
        """Count what moves on while rows are taken in."""
        before, flushes, flushed = self.ticks_ms(), epoch.flushes, epoch.rows - epoch.buffered_rows
        yield
        if epoch.flushes > flushes:
            self.metrics.flushes += epoch.flushes - flushes
            self.metrics.rows_flushed += epoch.rows - epoch.buffered_rows - flushed
            self.metrics.last_flush_ms = self.ticks_ms() - before

    def write_files(self, epoch: Epoch, base: Base) -> Ready:
        """Close the files of an epoch, and count them."""
        metrics, before, waiting = self.metrics, self.ticks_ms(), epoch.buffered_rows
        ready = epoch.close_files(base)
        metrics.rows_flushed += waiting
        metrics.last_flush_ms = self.ticks_ms() - before
        metrics.bytes_written += sum(file.file_bytes for file in ready.files)
        for file in ready.files:
            if file.kind is FileKind.DATA:
                metrics.data_files_written += 1
            else:
                metrics.delete_files_written += 1
        return ready

    def committed(self, coordinator: Coordinator) -> None:
        """An epoch has become the snapshot that the coordinator last committed."""
        self.metrics.commits += 1
        self.metrics.last_commit_ms = coordinator.stats.last_ms
        self.metrics.last_snapshot_id = coordinator.progress.committed

    def read(self, frontier: int, coordinator: Coordinator | None) -> SinkMetrics:
        """What was done, as of now."""
        metrics = replace(self.metrics)
        metrics.open_ms = 0.0 if self._opened_at is None else self.ticks_ms() - self._opened_at
        metrics.frontier = frontier
        if coordinator is not None:
            stats, foreign = coordinator.stats, coordinator.foreign
            metrics.conflicts, metrics.unknown_answers = stats.conflicts, stats.unknowns
            metrics.last_catalog_ms = stats.last_catalog_ms
            metrics.foreign_rows, metrics.foreign_snapshots = foreign.rows, foreign.snapshots
        return metrics
