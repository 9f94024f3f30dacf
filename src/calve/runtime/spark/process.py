"""Process: one micro-batch of one or several tables, in step.

    take ─▶ look ─▶ what the source says of its frontier, over all tables ─▶ write all ─▶ commit all
                                                                               ▲             │ premises broke
                                                                               └─────────────┘

Guarantee: nothing of a micro-batch is committed before all tables have it in files, so that a table that
cannot take its rows stops the query while every table still stands at the same frontier: none is skipped, and
none runs ahead. Then all are committed together, as far as the catalog can (together.py). Where a run ends in
between, Spark sends the micro-batch again: tables that have it skip it, the others are committed from their
manifests.

A run that is to end at a time ends in the micro-batch that reaches it, and does not let Spark know: the next
one gets that micro-batch again, and writes what is later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from calve.model.errors import CalveError, CommitConflict, PremiseBroken
from calve.runtime.spark.stops import stand_still
from calve.runtime.spark.work import Heard
from calve.runtime.together import commit_together

if TYPE_CHECKING:
    from calve.runtime.spark.frame import Survey
    from calve.runtime.spark.pipeline import Part, Pipeline

_REWRITES_MAX = 5
"""How often batches are written again because the table changed under them, before the query fails."""

Taken = list[tuple["Pipeline", "Part"]]


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a micro-batch has for one table."""

    pipeline: Pipeline
    frame: DataFrame
    for_all: Callable[[], DataFrame] | None = None
    """Given where no message is this table's own, and `frame` is empty: those that are for all tables."""


def own_marks(parts: Sequence[Part]) -> Heard:
    """What was said in the rows of these tables."""
    surveys = [part.survey for part in parts if part.survey is not None]
    resolved: dict[str, frozenset[int]] = {}
    for survey in surveys:
        for name, times in survey.resolved.items():
            resolved[name] = resolved.get(name, frozenset()) | times
    return Heard({name: max(times) for name, times in resolved.items()}, resolved)


def process(
    tables: Sequence[Arrived],
    micro_batch: int,
    hear: Callable[[Sequence[Part]], Heard] = own_marks,
) -> None:
    """One micro-batch, all of it or nothing, into every table of a stream."""
    with ExitStack() as stack:
        for one in tables:
            stack.enter_context(one.pipeline.reporter.micro_batch(micro_batch))
        taken: Taken = []
        for one in tables:
            with _naming(one.pipeline, tables):
                part = one.pipeline.take(one.frame, micro_batch)
            if part is not None:
                part.for_all = one.for_all
                taken.append((one.pipeline, part))
        _agree(taken)
        try:
            _write_until_committed(taken, hear, tables)
        except BaseException:
            for pipeline, part in taken:
                pipeline.let_go(part, through=False)
            raise
        for pipeline, part in taken:
            pipeline.let_go(part, through=True)
    ended = next((part for _, part in taken if part.is_end), None)
    if ended is not None:
        stand_still(ended.frame.sparkSession, ended.run.checkpoint)


def _agree(taken: Taken) -> None:
    """Where a run ended when some of the tables were written, the others get the batches that those have.
    This run would make one of them, to catch up: then one table shows a time that another does not."""
    written = [part.resumed for _, part in taken if part.manifest is not None]
    for _, part in taken:
        if written and part.manifest is None:
            part.resumed = written[0]


@contextmanager
def _naming(pipeline: Pipeline, tables: Sequence[object]) -> Iterator[None]:
    """Say of which table an error is, where there are several."""
    try:
        yield
    except CalveError as error:
        if len(tables) == 1 or pipeline.table in error.message:
            raise
        raise type(error)(f"{pipeline.table}: {error.message}", hint=error.hint) from error


def _gave_up(taken: Taken) -> CommitConflict:
    tables = ", ".join(pipeline.table for pipeline, _ in taken)
    return CommitConflict(
        f"micro-batch {taken[0][1].number} of {tables} was written {_REWRITES_MAX} times, and each time "
        "the table changed before it was committed",
        hint="Somebody keeps changing the table's schema or partitions. Start the query again when they "
        "are done.",
    )


def _write_until_committed(
    taken: Taken, hear: Callable[[Sequence[Part]], Heard], tables: Sequence[object]
) -> None:
    waiting, written = list(taken), 0
    while waiting:
        new = [(pipeline, part) for pipeline, part in waiting if part.manifest is None]
        if new:
            if written == _REWRITES_MAX:
                raise _gave_up(new)
            written += 1
            _look(taken, tables)
            heard = hear([part for _, part in taken])
            for pipeline, part in new:
                with _naming(pipeline, tables):
                    pipeline.write(part, heard)
        waiting = _published(waiting)


def _look(taken: Taken, tables: Sequence[object]) -> None:
    """Look at what came. Tables that got nothing of their own have the same to see, which is mostly nothing
    but marks: it is looked at once. A feed may have many tables, of which few change."""
    seen: Survey | None = None
    for pipeline, part in taken:
        with _naming(pipeline, tables):
            if part.for_all is None or part.survey is not None:
                pipeline.look(part)
            elif seen is not None and not seen.rows:
                pipeline.look_past(part, seen)
            else:
                part.frame, part.for_all = part.for_all(), None
                pipeline.look(part)
                seen = seen or part.survey


def _published(waiting: Taken) -> Taken:
    """Commit what is written; what is left, because it must be written again or waits for what must."""
    to_commit = []
    for pipeline, part in waiting:
        with pipeline.reporter.timed("commit"):
            try:
                pipeline.commit_quarantine(part)
            except PremiseBroken as broken:
                pipeline.broke(part, broken)
                continue
        to_commit.append((pipeline, part, pipeline.to_commit(part)))
    if len(to_commit) < len(waiting):
        return waiting
    sent = [(part.run.target.coordinator, ready) for _, part, ready in to_commit if ready]
    with ExitStack() as stack:
        for pipeline, _, _ in to_commit:
            stack.enter_context(pipeline.reporter.timed("commit"))
        joint = commit_together(waiting[0][0].catalog, sent)
    left: Taken = []
    for pipeline, part, ready in to_commit:
        run = part.run.target.coordinator
        if run in joint.broken:
            pipeline.broke(part, joint.broken[run])
        if ready and run not in joint.landed:
            left.append((pipeline, part))
        else:
            pipeline.committed(part, ready)
    return left
