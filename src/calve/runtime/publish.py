"""Publish: an epoch's files are closed and committed; written again where the table changed under them."""

from __future__ import annotations

import logging

from calve.config.sink import SinkConfig
from calve.model.errors import CommitConflict, PremiseBroken
from calve.model.file import FileKind
from calve.protocol.mint import settle
from calve.runtime.clock import Clock
from calve.runtime.coordinator import Coordinator
from calve.runtime.epoch import Epoch
from calve.runtime.health import SinkMetrics
from calve.table.build import Ready

_log = logging.getLogger("calve.sink")

_REWRITES_MAX = 5
"""How often a batch is written again because the table changed under it, before the epoch fails."""


class Publisher:
    """Makes snapshots of the epochs of one run."""

    def __init__(
        self, config: SinkConfig, coordinator: Coordinator, metrics: SinkMetrics, clock: Clock
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._metrics = metrics
        self._clock = clock

    def close_files(self, epoch: Epoch) -> Ready | None:
        """The batch with its files closed; `None` if there is nothing to publish."""
        if epoch.ready is not None:
            return epoch.ready
        written = self._write_files(epoch) if epoch.rows else None
        has_changes = written is not None and bool(written.files)
        heartbeat = self._config.heartbeat or None
        published = settle(epoch.batch.lower, [(epoch.batch, has_changes)], heartbeat)
        if not published:
            return None
        return written or epoch.close_empty(self._coordinator.base)

    def _write_files(self, epoch: Epoch) -> Ready:
        before, waiting = self._clock.ticks_ms(), epoch.buffered_rows
        ready = epoch.close_files(self._coordinator.base)
        metrics = self._metrics
        metrics.rows_flushed += waiting
        metrics.last_flush_ms = self._clock.ticks_ms() - before
        metrics.bytes_written += sum(file.file_bytes for file in ready.files)
        for file in ready.files:
            if file.kind is FileKind.DATA:
                metrics.data_files_written += 1
            else:
                metrics.delete_files_written += 1
        return ready

    def commit(self, epoch: Epoch, ready: Ready) -> None:
        for _ in range(_REWRITES_MAX):
            try:
                self._coordinator.commit([ready])
            except PremiseBroken as broken:
                if not epoch.can_be_written_again:
                    raise PremiseBroken(
                        broken.message,
                        hint=f"Roll epoch {epoch.number} back, begin it again and write its rows again.",
                    ) from broken
                _log.warning("%s; epoch %s is written again", broken.message, epoch.number)
                self._metrics.batches_rewritten += 1
                ready = self._write_files(epoch)
            else:
                return
        raise CommitConflict(
            f"epoch {epoch.number} of {self._config.table_name} was written {_REWRITES_MAX} times, and each "
            "time the table changed before it was committed",
            hint="Somebody keeps changing the table's schema or partitions. "
            "Commit the epoch again when they are done.",
        )
