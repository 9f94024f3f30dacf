"""Pipeline: what happens to a micro-batch. Spark calls it from `foreachBatch`.

    micro-batch ─▶ batches ─▶ files ─▶ outbox ─┐
                      └─▶ rows that wait ──────┴─▶ manifest ─▶ quarantine ─▶ table, one commit ─▶ prune

Guarantee: a micro-batch that Spark sends again changes nothing that the first one did. What it closed stands
in a manifest before it is committed (stash.py), and the table says what of it was committed (P3). All batches
that are ready are one commit, each its own snapshot. A batch whose premises broke is written again from the
same rows and the same stash, never committed as it was. Rows that do not fit are committed first, to their
own table: a crash between the two doubles nothing, and where the rest must be written again after that, they
stay where they are, whether they fit by then or not (P8).

A feed has a pipeline for each of its tables. Their micro-batch is processed in step (process.py): all are
written before any is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from calve.config.stream import FrontierKind, StreamConfig
from calve.model.columns import POSITION
from calve.model.errors import PremiseBroken
from calve.model.meaning import Meaning
from calve.protocol.replay import DELIVERED, OFFSETS, is_replay, positions
from calve.runtime.clock import Clock, SystemClock
from calve.runtime.spark.ahead import Ahead
from calve.runtime.spark.batches import Desk, Timed, numbered
from calve.runtime.spark.columns import arrow_schema
from calve.runtime.spark.delivery import Delivery, delivery
from calve.runtime.spark.frame import Clockwork, Survey, without_marks
from calve.runtime.spark.process import Arrived, process
from calve.runtime.spark.progress import Reporter, SinkListener
from calve.runtime.spark.quarantine import (
    check_not_there,
    known_then,
    look_ahead,
    quarantine_plan,
    quarantined,
)
from calve.runtime.spark.run import OffsetLog, Run, arrival_of, begin
from calve.runtime.spark.session import tune
from calve.runtime.spark.stash import Manifest
from calve.runtime.spark.target import Holding
from calve.runtime.spark.work import Heard, Labels, MicroBatch, Written, no_labels
from calve.table.build import Ready
from calve.writer.carry import Carried

_log = logging.getLogger("calve.pipeline")

_NUMBERED = "micro-batch"


@dataclass(slots=True)
class Part:
    """A micro-batch on its way into one table."""

    run: Run
    frame: DataFrame
    number: int
    log: OffsetLog
    before: Manifest | None
    resumed: bool
    manifest: Manifest | None = None
    """What it became, once it is written: by this run, or by one before."""
    survey: Survey | None = None
    delivery: Delivery | None = None
    evaluated: bool = False
    """Its rows were written by this run, so that Spark has evaluated them."""
    for_all: Callable[[], DataFrame] | None = None
    """The frame of what is for all tables, where nothing is this one's own and nobody looked at it."""

    @property
    def is_end(self) -> bool:
        """Whether the run is where it was to end."""
        return self.manifest is not None and self.manifest.until is not None


class Pipeline:
    """The micro-batches of one query into one table."""

    def __init__(
        self,
        config: StreamConfig,
        incoming: pa.Schema,
        catalog: Catalog,
        *,
        watchers: Sequence[SinkListener] = (),
        clock: Clock | None = None,
        source: str | None = None,
        labels: Labels = no_labels,
        folder: str | None = None,
    ) -> None:
        """`source`: what times mean, where an envelope says it. `folder`: where the stash is beside those of
        other tables; such a table may join a stream that has begun."""
        self._config = config
        self._incoming = incoming
        self._catalog = catalog
        self._clock = clock or SystemClock()
        self._source = source
        self._labels = labels
        self._folder = folder
        self._reporter = Reporter(config, watchers, self._clock)
        self._clockwork: Clockwork | None = None
        self._until: int | None = None
        self._run: Run | None = None

    @property
    def sink_id(self) -> str:
        return self._config.sink.sink_id

    @property
    def reporter(self) -> Reporter:
        return self._reporter

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    @property
    def table(self) -> str:
        return self._config.sink.table_name

    def __call__(self, frame: DataFrame, micro_batch: int) -> None:
        """One micro-batch, all of it or nothing."""
        process([Arrived(self, frame)], micro_batch)

    def take(self, frame: DataFrame, micro_batch: int) -> Part | None:
        """Begin a micro-batch; `None` if it is in the table already."""
        first = self._run is None
        run = self._run = self._run or self._begin(frame, micro_batch)
        log = run.log(micro_batch)
        if self._is_replay(run, micro_batch, log):
            _log.info("micro-batch %s is in %s already: skipped", micro_batch, self.table)
            self._let_spark_know(run, frame)
            return None
        before = run.stash.before(micro_batch)
        known = run.stash.of(micro_batch, before, log.digest)
        if known is not None and known.quarantine is not None and run.quarantine is None:
            where = positions(run.checkpoint, micro_batch, log.digest, run.base)
            check_not_there(self._config.sink, self._catalog, where)
        part = Part(run, frame, micro_batch, log, before, resumed=first)
        # One that a run ended in, at a time that was not the end of its rows, is written again: its batches
        # are in the table, and what is later has not been looked at since.
        ended_in = known is not None and known.until not in (None, self._until)
        if known is not None and not ended_in and _can_publish(run, known):
            part.manifest, part.resumed = known, known.resumed
        return part

    def let_go(self, part: Part, *, through: bool) -> None:
        """After a micro-batch, or after it failed."""
        if part.survey is not None or part.delivery is not None:
            part.frame.unpersist()
        elif through and not part.evaluated:
            self._let_spark_know(part.run, part.frame)

    def _let_spark_know(self, run: Run, frame: DataFrame) -> None:
        """Evaluate a micro-batch whose rows are not needed any more, where Spark needs that: it refuses to go
        on where its state was not brought forward, and it learns its watermark from the rows."""
        if self._config.frontier is FrontierKind.WATERMARK or run.keeps_state:
            frame.write.format("noop").mode("overwrite").save()

    def _begin(self, frame: DataFrame, micro_batch: int) -> Run:
        config = self._config
        tune(frame.sparkSession, frame.schema)
        if config.time_column is not None:
            self._clockwork = Clockwork(config, frame.schema)
        meant = _NUMBERED if self._clockwork is None else self._clockwork.meaning
        source = self._source or meant
        if config.until is not None:
            self._until = Meaning(source).parse(config.until) + 1
        arrival = arrival_of(config, self._incoming, self._clockwork)
        run = begin(
            config,
            arrival,
            self._catalog,
            frame.sparkSession,
            micro_batch,
            source,
            self._clock,
            folder=self._folder,
        )
        self._reporter.begun(run, source)
        return run

    def change_columns(self, schema: T.StructType, carried: Carried) -> None:
        """The source has other columns from the next micro-batch on."""
        self._config = self._config.model_copy(update={"carried": tuple(carried)})
        self._incoming = incoming = arrow_schema(schema)
        if self._clockwork is not None:
            self._clockwork = Clockwork(self._config, schema)
        if self._run is not None:
            arrival = arrival_of(self._config, incoming, self._clockwork)
            self._run = self._run.with_columns(arrival.rows.schema)

    def _is_replay(self, run: Run, micro_batch: int, log: OffsetLog) -> bool:
        if self._clockwork is not None:
            return False  # its times say what is in the table
        return is_replay(run.target.progress, run.checkpoint, micro_batch, log.digest)

    def look(self, part: Part) -> None:
        """Evaluate the rows of a micro-batch, once for all that is asked of them."""
        if part.survey is not None or part.delivery is not None:
            return
        clockwork = self._clockwork
        has_positions = POSITION in part.frame.columns
        if clockwork is None and not has_positions:
            return
        frame = part.frame if clockwork is None else clockwork.with_time(part.frame)
        with self._reporter.timed("write"):
            part.frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
            if has_positions:
                part.delivery = delivery(part.frame, self._delivered_before(part))
            if clockwork is not None:
                part.survey = clockwork.survey(self._fresh(part))

    def look_past(self, part: Part, seen: Survey) -> None:
        """The same, of a micro-batch that has no row, and marks that were seen already."""
        if part.survey is None and self._clockwork is not None:
            part.frame = self._clockwork.with_time(part.frame)
            part.survey = seen

    def _fresh(self, part: Part) -> DataFrame:
        """Without what the source has delivered before."""
        return part.frame if part.delivery is None else part.delivery.fresh(part.frame)

    def _delivered_before(self, part: Part) -> Mapping[str, str]:
        if part.before is not None:
            return part.before.delivered
        known: Mapping[str, str] = part.run.target.progress.positions.get(DELIVERED, {})
        return known

    def write(self, part: Part, heard: Heard | None) -> None:
        """Write the files of a micro-batch and keep what it became beside the checkpoint: from here on it is
        not written again, unless the table changes under it."""
        work = self._work(part, heard)
        with self._reporter.timed("write"):
            written = self._written(part, work)
        part.evaluated = True
        if heard is None:
            self._reporter.wrote(written)
        else:
            self._reporter.wrote(written, heard.files_late, heard.held_by)
        with self._reporter.timed("keep"):
            part.manifest = self._keep(part, work, written)

    def _work(self, part: Part, heard: Heard | None) -> MicroBatch:
        run, log = part.run, part.log
        where = positions(run.checkpoint, part.number, log.digest, run.base)
        kept, ahead = None, Ahead()
        if run.quarantine is not None:
            ahead = look_ahead(run.lookout, run.quarantine, run.target, self._config, where, part.before)
            kept = quarantine_plan(run.quarantine, run.target, self._config, where, ahead.stream)
        delivered = {} if part.delivery is None else part.delivery.last
        if delivered:
            where |= {DELIVERED: delivered}
        return MicroBatch(
            self._fresh(part), part.number, where, kept, log.watermark_ms * 1000, heard, delivered, ahead
        )

    def _written(self, part: Part, work: MicroBatch) -> Written:
        run, before = part.run, part.before
        desk = Desk(self._config, run.target, self._labels)
        replayed = 0 if part.delivery is None else part.delivery.replayed
        if self._clockwork is None:
            frame = without_marks(work.frame, self._config)
            written = numbered(desk, replace(work, frame=frame), run.base + work.number + 1)
        else:
            assert part.survey is not None
            names = () if before is None else before.waiting
            waiting = [ready for name in names for ready in run.outboxes.read(name)]
            timed = Timed(desk, self._clockwork, self._until)
            written = timed.write(work, part.survey, before, waiting, run.files, resumed=part.resumed)
        counts = replace(written.counts, replayed=written.counts.replayed + replayed)
        return replace(written, counts=counts)

    def _keep(self, part: Part, work: MicroBatch, written: Written) -> Manifest:
        run, before = part.run, part.before
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
            delivered=work.delivered or ({} if before is None else before.delivered),
            resumed=part.resumed,
            until=written.until,
            **known_then(run.quarantine, work, written, before),
        )
        run.stash.save(manifest)
        return manifest

    def commit_quarantine(self, part: Part) -> None:
        """Commit the rows that do not fit, as far as their table does not have them."""
        run, manifest = part.run, part.manifest
        assert manifest is not None
        if manifest.quarantine is not None:
            assert run.quarantine is not None
            new = _new(run.quarantine, run.outboxes.read(manifest.quarantine))
            if new:
                run.quarantine.coordinator.commit(new)

    def to_commit(self, part: Part) -> Sequence[Ready]:
        """The batches of a written micro-batch that the table does not have."""
        assert part.manifest is not None
        ready = () if part.manifest.ready is None else part.run.outboxes.read(part.manifest.ready)
        return _new(part.run.target, ready)

    def committed(self, part: Part, batches: Sequence[Ready]) -> None:
        """A micro-batch is in the table, these batches of it since now."""
        run, manifest = part.run, part.manifest
        assert manifest is not None
        waiting = [ready.batch for name in manifest.waiting for ready in run.outboxes.read(name)]
        self._reporter.committed(batches, manifest, waiting)
        if batches:
            run.stash.prune(manifest, run.generation)
        elif self._folder is not None:
            run.stash.thin(manifest, run.generation)
        run.outboxes.forget(manifest.uses)

    def broke(self, part: Part, broken: PremiseBroken) -> None:
        """The table has changed under the files of a micro-batch: it is to be written again."""
        _log.warning("%s; micro-batch %s is written again", broken.message, part.number)
        part.run.refresh()
        part.manifest = None


def _can_publish(run: Run, manifest: Manifest) -> bool:
    """Rows that an earlier run sent to quarantine are refused by one that has none: it must see them (P8)."""
    return manifest.quarantine is None or run.quarantine is not None


def _new(target: Holding, batches: Sequence[Ready]) -> Sequence[Ready]:
    return [ready for ready in batches if ready.batch.upper > target.progress.frontier]
