"""Publish: an epoch's files are closed and committed; written again where the table changed under them."""

from __future__ import annotations

import logging

from calve.config.sink import SinkConfig
from calve.model.errors import CommitConflict, PremiseBroken
from calve.protocol.mint import settle
from calve.runtime.coordinator import Coordinator
from calve.runtime.epoch import Epoch
from calve.runtime.meter import Meter
from calve.table.build import Ready

_log = logging.getLogger("calve.sink")

_REWRITES_MAX = 5
"""How often a batch is written again because the table changed under it, before the epoch fails."""


class Publisher:
    """Makes snapshots of the epochs of one run."""

    def __init__(self, config: SinkConfig, coordinator: Coordinator, meter: Meter) -> None:
        self._config = config
        self._coordinator = coordinator
        self._meter = meter

    def close_files(self, epoch: Epoch) -> Ready | None:
        """The batch with its files closed; `None` if there is nothing to publish."""
        if epoch.ready is not None:
            return epoch.ready
        epoch.add_waiting(self._coordinator.base, self._coordinator.refresh)
        written = self._write_files(epoch) if epoch.rows else None
        has_changes = written is not None and bool(written.files)
        heartbeat = self._config.heartbeat or None
        published = settle(epoch.batch.lower, [(epoch.batch, has_changes)], heartbeat)
        if not published:
            return None
        return written or epoch.close_empty(self._coordinator.base)

    def _write_files(self, epoch: Epoch) -> Ready:
        return self._meter.write_files(epoch, self._coordinator.base)

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
                self._meter.metrics.batches_rewritten += 1
                ready = self._write_files(epoch)
            else:
                return
        raise CommitConflict(
            f"epoch {epoch.number} of {self._config.table_name} was written {_REWRITES_MAX} times, and each "
            "time the table changed before it was committed",
            hint="Somebody keeps changing the table's schema or partitions. "
            "Commit the epoch again when they are done.",
        )
