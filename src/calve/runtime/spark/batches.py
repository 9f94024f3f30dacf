"""Batches: a micro-batch as closed batches with their files, and what of it must wait.

    numbered    the micro-batch is the batch: one pass over its rows
    timed       rows go to batches by their times; those of open batches wait

                lower            closed          placed
    ──────────────┼───────┬────────┼───────┬────────┼──────────────▶ time
     late, replay │ closed batches │ open, in files │ stash

Where rows have no key, files of open batches are written at once, as far as bounds are minted, and only their
messages wait. Rows with a key wait themselves: a later change may still overtake them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from calve.config.stream import FrontierKind, StreamConfig
from calve.model.batch import Batch
from calve.model.columns import ERROR, PLACE, RAW
from calve.model.errors import BadRow
from calve.model.file import FileClosed
from calve.protocol.frontier import Frontier
from calve.protocol.line import Line
from calve.protocol.mint import settle
from calve.runtime.plan import EpochPlan
from calve.runtime.rows import reading_of
from calve.runtime.spark.files import CheckpointFiles
from calve.runtime.spark.frame import (
    Clockwork,
    Survey,
    read_segments,
    run_tasks,
    without_marks,
    write_segment,
)
from calve.runtime.spark.slots import Slots
from calve.runtime.spark.stash import SEGMENTS, Manifest, Segment
from calve.runtime.spark.target import Holding
from calve.runtime.spark.work import Labels, MicroBatch, Written, no_labels
from calve.table.build import Ready
from calve.writer.collapse import hint_of_ties
from calve.writer.messages import Counts, Report
from calve.writer.quarantine import to_stream
from calve.writer.settled import too_many
from calve.writer.task import Slot, TaskPlan

_TASK_MEMORY_BYTES = 256 * 1024 * 1024
_TIES_MAX = 10
"""How often rows are written again because what was left of a key was a tie once more."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Where micro-batches of one query are worked on."""

    config: StreamConfig
    target: Holding
    labels: Labels = no_labels

    def tasks(self, frame: DataFrame) -> int:
        """How many tasks share the keys: no more than can run at once, whatever the session's default is."""
        if self.config.tasks is not None:
            return self.config.tasks
        spark = frame.sparkSession
        partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
        return max(1, min(spark.sparkContext.defaultParallelism, partitions))

    def write(self, frame: DataFrame, number: int, slots: Sequence[Slot], **settings: Any) -> Report:
        """Let tasks write the rows of a frame."""
        sink = self.config.sink
        explicit = "memory_bytes_max" in sink.model_fields_set
        plan = TaskPlan(
            reading=reading_of(sink),
            slots=tuple(slots),
            micro_batch=number,
            memory_bytes_max=sink.memory_bytes_max if explicit else _TASK_MEMORY_BYTES,
            spill_folder=sink.spill_folder,
            carried=self.config.carried,
            **settings,
        )
        report = self._run(frame, plan)
        if report.counts.quarantined > self.config.bad_rows_max:
            raise BadRow(
                f"micro-batch {number}: {report.counts.quarantined} rows do not fit, and at most "
                f"{self.config.bad_rows_max} go to quarantine",
                hint="The quarantine is for a few rows: look at the source. Its limit is 'bad.rows.max'.",
            )
        return report

    def _run(self, frame: DataFrame, plan: TaskPlan) -> Report:
        """Run the tasks; again without the changes that nothing decides between, where they found some."""
        tied: pa.Table | None = None
        for _ in range(_TIES_MAX):
            report = run_tasks(frame, plan, self.config.sink.key, self.tasks(frame))
            settled = None if plan.quarantine is None else plan.quarantine.settled
            if settled is not None and too_many(settled, report.settled):
                frame = frame.coalesce(1)  # rows with a key are in one task anyway, those that are equal
                continue
            if report.tied is None:
                return report
            tied = report.tied if tied is None else pa.concat_tables([tied, report.tied])
            plan = replace(plan, tied=to_stream(tied))
        raise BadRow(
            f"micro-batch {plan.micro_batch}: changes of a key differ at {_TIES_MAX} places of its order, "
            "and nothing says at any of them which is the last",
            hint=f"Their order does not order them. {hint_of_ties(self.config.sink.sequence_by)}",
        )

    def ready(
        self,
        closed: Sequence[tuple[Batch, tuple[FileClosed, ...], EpochPlan]],
        positions: Mapping[str, Any],
        *,
        in_any_case: bool = False,
    ) -> tuple[Ready, ...]:
        """The batches that are published, of closed ones with their files. Time without changes goes to the
        next batch that has some. `in_any_case`: the last one is published without changes, too."""
        committed = self.target.progress.frontier
        heartbeat = self.config.sink.heartbeat or None
        changed = [(batch, bool(files)) for batch, files, _ in closed]
        if in_any_case and changed:
            changed[-1] = (changed[-1][0], True)
        published = settle(committed, changed, heartbeat)
        by_upper = {batch.upper: (files, plan) for batch, files, plan in closed}
        ready: list[Ready] = []
        for batch in published:
            files, plan = by_upper[batch.upper]
            relies = replace(plan.premises, evolved_from=None) if ready else plan.premises
            ready.append(
                Ready(
                    batch=batch,
                    files=files,
                    schema=plan.schema,
                    premises=relies if files else None,
                    brings_schema=plan.brings_schema and bool(files) and not ready,
                    brings_spec=plan.brings_spec if files else None,
                    positions=positions,
                    summary=self.labels(batch, files),
                )
            )
        return tuple(ready)


def numbered(desk: Desk, work: MicroBatch, upper: int) -> Written:
    """A micro-batch as the batch up to `upper`."""
    target = desk.target
    batch = Batch(target.progress.frontier, upper)
    plan = target.plan(target.coordinator.base)
    report = desk.write(work.frame, work.number, [Slot(batch, plan.write)], quarantine=work.quarantine)
    ready = desk.ready([(batch, report.files, plan)], work.positions, in_any_case=report.has_quarantined)
    return Written(
        closed=upper,
        placed=upper,
        published=ready[-1].batch.upper if ready else batch.lower,
        ready=ready,
        quarantined=report.quarantined,
        ahead=work.ahead.left(report.settled),
        counts=report.counts,
        batches_closed=1,
    )


@dataclass(frozen=True, slots=True)
class Timed:
    """Micro-batches of a stream that tells time."""

    desk: Desk
    clockwork: Clockwork
    until: int | None = None
    """Nothing is published beyond it."""

    def write(
        self,
        work: MicroBatch,
        survey: Survey,
        before: Manifest | None,
        waiting: Sequence[Ready],
        files: CheckpointFiles,
        *,
        resumed: bool,
    ) -> Written:
        """A micro-batch on what was known before it; its frame has times and was surveyed. `resumed`: a stop
        lies before it, and one batch catches up with all that the source has closed since."""
        frontier = self._frontier(work, survey, before)
        slots = Slots.of(
            self.desk.config,
            self.desk.target,
            before,
            waiting,
            frontier.time,
            resumed=resumed,
            resolved=() if work.heard is None else work.heard.new({} if before is None else before.marks),
            until=self.until,
        )
        line = slots.line
        report = self._placed(work, survey, slots, before, files)
        kept = [] if before is None else [one for one in before.segments if one.upper > line.placed]
        segment = self._stashed(work, survey, line, files)
        closed = slots.closed_with(report.files, waiting)
        # Of changes that went to quarantine, the frontier tells a replay that nothing older than these is
        # still to come. And the end of a run is where the table shows it.
        in_any_case = report.has_quarantined or slots.is_end
        ready = self.desk.ready(closed, work.positions, in_any_case=in_any_case)
        return Written(
            closed=line.stream_closed,
            placed=line.placed,
            published=ready[-1].batch.upper if ready else line.committed,
            ready=ready,
            waiting=slots.open_with(report.files),
            segments=(*kept, *([segment] if segment is not None else ())),
            frontier=frontier,
            quarantined=report.quarantined,
            ahead=work.ahead.left(report.settled),
            counts=replace(report.counts, rows=survey.rows),
            batches_closed=len(line.closed),
            rows_stashed=0 if segment is None else segment.rows,
            until=self.until if slots.is_end else None,
        )

    def _frontier(self, work: MicroBatch, survey: Survey, before: Manifest | None) -> Frontier:
        config = self.desk.config
        known = Frontier() if before is None else Frontier(before.frontier, before.marks)
        match config.frontier:
            case FrontierKind.MAXIMUM:
                return known.seen(survey.greatest, config.frontier_delay)
            case FrontierKind.MARK:
                assert work.heard is not None
                if work.heard.partitions is not None:
                    return known.heard(work.heard.marks, work.heard.partitions)
                return known.told(work.heard.marks, config.partitions or 1)
            case _:
                return known.reached(work.watermark)

    def _placed(
        self, work: MicroBatch, survey: Survey, slots: Slots, before: Manifest | None, files: CheckpointFiles
    ) -> Report:
        """Files for all rows before `placed`: of this micro-batch, and of those that waited."""
        line = slots.line
        waited = [] if before is None else [one for one in before.segments if _is_needed(one, line)]
        arrived = survey.misplaced or (survey.least is not None and survey.least < line.placed)
        if not arrived and not waited:
            return Report((), (), Counts())
        clockwork = self.clockwork
        frame = work.frame.where(clockwork.is_change()).where(clockwork.before(line.placed))
        frame = without_marks(frame, self.desk.config)
        if waited:
            stash = read_segments(work.frame.sparkSession, waited, files.uri)
            again = Batch(line.placed_before, line.placed)
            frame = frame.unionByName(stash.where(clockwork.within(again)), allowMissingColumns=True)
        return self.desk.write(frame, work.number, slots.slots, times=slots.times, quarantine=work.quarantine)

    def _stashed(
        self, work: MicroBatch, survey: Survey, line: Line, files: CheckpointFiles
    ) -> Segment | None:
        """The segment of what waits from now on."""
        if survey.greatest is None or survey.greatest < line.placed:
            return None
        clockwork = self.clockwork
        frame = work.frame.where(clockwork.is_change()).where(clockwork.from_on(line.placed))
        # What could not be decoded does not wait: none of these columns has anything to say here.
        frame = without_marks(frame, self.desk.config).drop(ERROR, PLACE, RAW)
        path = f"{SEGMENTS}/{work.number}-{uuid.uuid4().hex}"
        return write_segment(frame, path, files.uri(path))


def _is_needed(segment: Segment, line: Line) -> bool:
    """Whether a segment has rows that were not placed before, and are now."""
    return max(segment.lower, line.placed_before) < min(segment.upper, line.placed)
