"""Pipeline: what happens to a micro-batch. Spark calls it from `foreachBatch`.

    micro-batch ─▶ batches ─▶ files ─▶ outbox ─┐
                      └─▶ rows that wait ──────┴─▶ manifest ─▶ quarantine ─▶ table, one commit ─▶ prune

Guarantee: a micro-batch that Spark sends again changes nothing that the first one did. What it closed stands
in a manifest before it is committed (stash.py), and the table says what of it was committed (P3). All batches
that are ready are one commit, each its own snapshot. A batch whose premises broke is written again from the
same rows and the same stash, never committed as it was. Rows that do not fit are committed first, to their
own table: a crash between the two doubles nothing, and where the rest must be written again after that, they
stay where they are, whether they fit by then or not (P8).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyspark.sql import DataFrame

from calve.config.stream import FrontierKind, StreamConfig
from calve.model.errors import CommitConflict, PremiseBroken
from calve.protocol.replay import OFFSETS, is_replay, positions
from calve.runtime.clock import Clock, SystemClock
from calve.runtime.spark.batches import Desk, MicroBatch, Timed, Written, numbered
from calve.runtime.spark.frame import Clockwork
from calve.runtime.spark.progress import Reporter, SinkListener
from calve.runtime.spark.quarantine import check_not_there, quarantine_plan, quarantined
from calve.runtime.spark.run import OffsetLog, Run, arrival_of, begin
from calve.runtime.spark.session import tune
from calve.runtime.spark.stash import Manifest
from calve.runtime.spark.target import Holding
from calve.table.build import Ready

_log = logging.getLogger("calve.pipeline")

_REWRITES_MAX = 5
"""How often batches are written again because the table changed under them, before the query fails."""

_NUMBERED = "micro-batch"


class Pipeline:
    """The micro-batches of one query. Spark calls it, one micro-batch after the other."""

    def __init__(
        self,
        config: StreamConfig,
        incoming: pa.Schema,
        catalog: Catalog,
        *,
        watchers: Sequence[SinkListener] = (),
        clock: Clock | None = None,
    ) -> None:
        self._config = config
        self._incoming = incoming
        self._catalog = catalog
        self._clock = clock or SystemClock()
        self._reporter = Reporter(config, watchers, self._clock)
        self._clockwork: Clockwork | None = None
        self._run: Run | None = None

    @property
    def reporter(self) -> Reporter:
        return self._reporter

    def __call__(self, frame: DataFrame, micro_batch: int) -> None:
        """One micro-batch, all of it or nothing."""
        with self._reporter.micro_batch(micro_batch):
            first = self._run is None
            run = self._run = self._run or self._begin(frame, micro_batch)
            log = run.log(micro_batch)
            if self._is_replay(run, micro_batch, log):
                _log.info("micro-batch %s is in %s already: skipped", micro_batch, self._table)
                self._let_spark_know(run, frame)
                return
            before = run.stash.before(micro_batch)
            known = run.stash.of(micro_batch, before, log.digest)
            if known is not None and known.quarantine is not None and run.quarantine is None:
                where = positions(run.checkpoint, micro_batch, log.digest, run.base)
                check_not_there(self._config.sink, self._catalog, where)
            if known is not None and _can_publish(run, known) and self._published(run, known):
                self._let_spark_know(run, frame)
                return
            self._write_until_committed(run, frame, micro_batch, log, before, resumed=first)

    def _let_spark_know(self, run: Run, frame: DataFrame) -> None:
        """Evaluate a micro-batch whose rows are not needed any more, where Spark needs that: it refuses to go
        on where its state was not brought forward, and it learns its watermark from the rows."""
        if self._config.frontier is FrontierKind.WATERMARK or run.keeps_state:
            frame.write.format("noop").mode("overwrite").save()

    @property
    def _table(self) -> str:
        return self._config.sink.table_name

    def _begin(self, frame: DataFrame, micro_batch: int) -> Run:
        config = self._config
        tune(frame.sparkSession, frame.schema)
        if config.time_column is not None:
            self._clockwork = Clockwork(config, frame.schema)
        source = _NUMBERED if self._clockwork is None else self._clockwork.meaning
        arrival = arrival_of(config, self._incoming, self._clockwork)
        run = begin(config, arrival, self._catalog, frame.sparkSession, micro_batch, source, self._clock)
        self._reporter.begun(run, source, self._clockwork)
        return run

    def _is_replay(self, run: Run, micro_batch: int, log: OffsetLog) -> bool:
        if self._clockwork is not None:
            return False  # its times say what is in the table
        return is_replay(run.target.progress, run.checkpoint, micro_batch, log.digest)

    def _work(self, run: Run, frame: DataFrame, micro_batch: int, log: OffsetLog) -> MicroBatch:
        where = positions(run.checkpoint, micro_batch, log.digest, run.base)
        kept = None
        if run.quarantine is not None:
            kept = quarantine_plan(run.quarantine, run.target, self._config, where)
        return MicroBatch(frame, micro_batch, where, kept, log.watermark_ms * 1000)

    def _write_until_committed(
        self,
        run: Run,
        frame: DataFrame,
        micro_batch: int,
        log: OffsetLog,
        before: Manifest | None,
        *,
        resumed: bool,
    ) -> None:
        for _ in range(_REWRITES_MAX):
            work = self._work(run, frame, micro_batch, log)
            with self._reporter.timed("write"):
                written = self._write(run, work, before, resumed=resumed)
            self._reporter.wrote(written)
            with self._reporter.timed("keep"):
                manifest = self._keep(run, work, written, before)
            if self._published(run, manifest):
                return
        raise CommitConflict(
            f"micro-batch {micro_batch} of {self._table} was written {_REWRITES_MAX} times, and each time "
            "the table changed before it was committed",
            hint="Somebody keeps changing the table's schema or partitions. Start the query again when they "
            "are done.",
        )

    def _write(self, run: Run, work: MicroBatch, before: Manifest | None, *, resumed: bool) -> Written:
        desk = Desk(self._config, run.target)
        if self._clockwork is None:
            return numbered(desk, work, run.base + work.number + 1)
        names = () if before is None else before.waiting
        waiting = [ready for name in names for ready in run.outboxes.read(name)]
        timed = Timed(desk, self._clockwork)
        return timed.write(work, before, waiting, run.files, resumed=resumed)

    def _keep(self, run: Run, work: MicroBatch, written: Written, before: Manifest | None) -> Manifest:
        """What the micro-batch became, beside the checkpoint: from here on it is not written again."""
        put = run.outboxes.put
        waiting = [
            name
            for name in (() if before is None else before.waiting)
            if any(ready.batch.upper > written.closed for ready in run.outboxes.read(name))
        ]
        if written.waiting:
            waiting.append(put(work.number, written.waiting))
        manifest = Manifest(
            micro_batch=work.number,
            generation=run.generation,
            attempt=run.stash.attempts(work.number, run.generation),
            offsets=work.positions[OFFSETS],
            follows=None if before is None else before.name,
            table=str(run.target.coordinator.base.metadata.table_uuid),
            frontier=written.frontier.time,
            marks=written.frontier.marks,
            closed=written.closed,
            placed=written.placed,
            interval=self._config.commit_interval,
            published=written.published,
            segments=written.segments,
            waiting=tuple(waiting),
            ready=put(work.number, written.ready) if written.ready else None,
            quarantine=put(work.number, [quarantined(run.quarantine, work, written)])
            if run.quarantine is not None and written.quarantined
            else None,
        )
        run.stash.save(manifest)
        return manifest

    def _published(self, run: Run, manifest: Manifest) -> bool:
        """Commit what a manifest has ready, as far as the table does not have it. False: it must be written
        again, because the table has changed under it."""
        with self._reporter.timed("commit"):
            ready = () if manifest.ready is None else run.outboxes.read(manifest.ready)
            try:
                if manifest.quarantine is not None:
                    assert run.quarantine is not None
                    _commit(run.quarantine, run.outboxes.read(manifest.quarantine))
                committed = _commit(run.target, ready)
            except PremiseBroken as broken:
                _log.warning("%s; micro-batch %s is written again", broken.message, manifest.micro_batch)
                run.refresh()
                return False
        waiting = [ready.batch for name in manifest.waiting for ready in run.outboxes.read(name)]
        self._reporter.committed(committed, manifest, waiting)
        if committed:
            run.stash.prune(manifest, run.generation)
        run.outboxes.forget(manifest.uses)
        return True


def _can_publish(run: Run, manifest: Manifest) -> bool:
    """Rows that an earlier run sent to quarantine are refused by one that has none: it must see them (P8)."""
    return manifest.quarantine is None or run.quarantine is not None


def _commit(target: Holding, batches: Sequence[Ready]) -> Sequence[Ready]:
    """Publish the batches that the table does not have; these."""
    new = [ready for ready in batches if ready.batch.upper > target.progress.frontier]
    if new:
        target.coordinator.commit(new)
    return new
