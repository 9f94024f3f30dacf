"""Slots: the batches of a micro-batch, with the plans under which their files are written.

    manifest before, table ─▶ line ─▶ slots for the tasks ─▶ files ─▶ closed batches · files that wait

Files of open batches are written ahead where rows have no key. They keep what they were written under: a
column that they got an id for, which the table does not have yet, must still get that very id when they are
committed. Otherwise readers would find them under another name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from calve.config.stream import FrontierKind, StreamConfig
from calve.model.batch import Batch
from calve.model.errors import ConfigError, Diverged
from calve.model.file import FileClosed
from calve.protocol.line import Known, Line, draw
from calve.protocol.mint import MintPolicy
from calve.runtime.plan import EpochPlan
from calve.runtime.spark.stash import Manifest
from calve.runtime.spark.target import Holding
from calve.table.build import Ready
from calve.table.premises import Premises, unreadable
from calve.writer.task import Slot, TimeLine

_AHEAD = 16
"""Open batches that files are written for ahead of their end."""

Closed = tuple[Batch, tuple[FileClosed, ...], EpochPlan]


@dataclass(frozen=True, slots=True)
class Slots:
    """The batches of one micro-batch, closed and open."""

    line: Line
    times: TimeLine
    plans: tuple[EpochPlan, ...]
    """One for each batch of the line."""
    until: int | None = None
    """Where the run is to end."""

    @classmethod
    def of(
        cls,
        config: StreamConfig,
        target: Holding,
        before: Manifest | None,
        waiting: Sequence[Ready],
        frontier: int,
        *,
        resumed: bool,
        resolved: Collection[int] = (),
        until: int | None = None,
    ) -> Slots:
        """On what was known before a micro-batch that takes the stream's frontier to `frontier`, past these
        `resolved` times; but nothing is closed beyond `until`."""
        base = target.coordinator.base
        first, later = target.plan(base), target.plan(base, older_rows=True)
        _check_interval(config, before)
        for ready in waiting:
            _check_waiting(ready, first)
        # Nothing is written ahead under a schema that the table does not have yet, unless it must: rows of
        # batches that have files already cannot wait.
        ahead = not config.sink.key and (bool(waiting) or not first.brings_schema)
        # A batch that has files already is not cut.
        cut = (one.batch.upper for one in waiting if until is not None and one.batch.lower < until)
        until = None if until is None else max([until, *cut])
        policy = MintPolicy(config.commit_interval, ahead=_AHEAD if ahead else 0, until=until)
        known = None
        if before is not None:
            # Where no file waits, nothing beyond what was closed is in files, however far was minted.
            known = Known(before.closed, before.placed if waiting else before.closed)
        committed = target.progress.frontier
        # Before the first start there was no stop.
        resumed = resumed and (before is not None or committed > 0)
        line = draw(policy, committed, known, frontier, resumed=resumed, resolved=resolved)
        estimated = config.frontier is not FrontierKind.MARK
        times = TimeLine(line.committed, line.late, estimated=estimated)
        plans = tuple(later if number else first for number in range(len(line.batches)))
        return cls(line, times, plans, until)

    @property
    def is_end(self) -> bool:
        """Whether everything is closed up to where the run is to end."""
        return self.until is not None and self.line.closed_to >= self.until

    @property
    def slots(self) -> tuple[Slot, ...]:
        """What tasks are told."""
        return tuple(
            Slot(batch, plan.write) for batch, plan in zip(self.line.batches, self.plans, strict=True)
        )

    def closed_with(self, files: Sequence[FileClosed], waiting: Sequence[Ready]) -> list[Closed]:
        """The closed batches with all their files: those written now, and those that waited for the end."""
        every = (*files, *(file for ready in waiting for file in ready.files))
        lower, upper = self.line.committed, self.line.lower
        # Time that was closed before without a change belongs to the next batch that has some.
        quiet: list[Closed] = (
            [(Batch(lower, upper), (), self.plans[0])] if lower < upper and self.plans else []
        )
        return [
            *quiet,
            *(
                (batch, tuple(file for file in every if file.batch.upper in _uppers(batch)), plan)
                for batch, plan in zip(self.line.closed, self.plans, strict=False)
            ),
        ]

    def open_with(self, files: Sequence[FileClosed]) -> tuple[Ready, ...]:
        """The open batches with the files that were written for them now."""
        found = []
        for batch, plan in zip(self.line.batches, self.plans, strict=True):
            mine = tuple(file for file in files if file.batch == batch)
            if mine and batch not in self.line.closed:
                found.append(Ready(batch, mine, plan.schema, plan.premises))
        return tuple(found)


def _check_interval(config: StreamConfig, before: Manifest | None) -> None:
    if before is not None and before.waiting and before.interval != config.commit_interval:
        raise ConfigError(
            f"files wait for the end of batches of {before.interval} in source time, and commit_interval "
            f"is {config.commit_interval} now",
            hint="Start with the interval that the query had, or with a new checkpoint.",
        )


def _check_waiting(ready: Ready, plan: EpochPlan) -> None:
    """Refuse files that can no longer be read as what was written: rows of theirs cannot be written again."""
    premises = ready.premises
    reasons = () if premises is None else _changes(premises, plan)
    if reasons:
        raise Diverged(
            f"files of {ready.batch} wait for the end of their batch, and the table's schema has changed "
            "under them: " + "; ".join(reasons),
            hint="Undo the change of the schema and start the query again. Or begin with a new checkpoint at "
            "or before the table's frontier, which reads those rows again (.replaces_checkpoint).",
        )


def _changes(premises: Premises, plan: EpochPlan) -> tuple[str, ...]:
    state = premises.evolved_from
    return unreadable(premises.schema, plan.schema, new_from=None if state is None else state.last_column_id)


def _uppers(batch: Batch) -> range:
    """The uppers of all batches that a batch covers: one that catches up covers several."""
    return range(batch.lower + 1, batch.upper + 1)
