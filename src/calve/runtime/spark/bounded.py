"""A bounded frame as one batch: written once under its version, however often it is written again.

    version ─▶ at or below the last one ─▶ skipped
          └──▶ above it ─▶ tasks ─▶ files ─▶ one commit, which moves the frontier to version + 1

There is no checkpoint: what a run that died wrote is orphaned, and the next run writes it again.
"""

from __future__ import annotations

import logging

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyspark.sql import DataFrame

from calve.config.stream import StreamConfig
from calve.model.errors import BadRow, CommitConflict, PremiseBroken
from calve.model.time import check_time
from calve.runtime.clock import Clock, SystemClock
from calve.runtime.result import EpochResult
from calve.runtime.spark.batches import Desk, numbered
from calve.runtime.spark.run import arrival_of
from calve.runtime.spark.session import tuned
from calve.runtime.spark.target import hold
from calve.runtime.spark.work import MicroBatch

_log = logging.getLogger("calve.pipeline")

_REWRITES_MAX = 5


def write_bounded(
    config: StreamConfig,
    incoming: pa.Schema,
    catalog: Catalog,
    frame: DataFrame,
    version: int | None,
    *,
    clock: Clock | None = None,
) -> EpochResult:
    """Write a frame as one batch. Without a version it is the next one: a second call writes it again."""
    clock = clock or SystemClock()
    began = clock.ticks_ms()
    target = hold(config.sink, arrival_of(config, incoming, None), catalog, clock, "version", None)
    frontier = target.progress.frontier
    version = frontier if version is None else check_time(version, "version")
    if version < frontier:
        _log.info("version %s is in %s already: skipped", version, config.sink.table_name)
        return EpochResult(version, None, skipped=True)
    for _ in range(_REWRITES_MAX):
        try:
            with tuned(frame.sparkSession, frame.schema):
                written = numbered(Desk(config, target), MicroBatch(frame, version, {}), version + 1)
        except BadRow as refused:
            message = refused.message.removeprefix(f"micro-batch {version}: ")
            raise BadRow(f"version {version}: {message}", hint=refused.hint) from None
        try:
            snapshot = target.coordinator.commit(written.ready).committed if written.ready else None
        except PremiseBroken as broken:
            _log.warning("%s; version %s is written again", broken.message, version)
            target.coordinator.refresh()
            continue
        files = sum(len(ready.files) for ready in written.ready)
        took = clock.ticks_ms() - began
        return EpochResult(version, snapshot, rows=written.counts.rows, files=files, milliseconds=took)
    raise CommitConflict(
        f"version {version} of {config.sink.table_name} was written {_REWRITES_MAX} times, and each time the "
        "table changed before it was committed",
        hint="Somebody keeps changing the table's schema or partitions. Write it again when they are done.",
    )
