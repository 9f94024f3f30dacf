"""Mutations: guards taken out of the real pipeline, one each. A story that needs the guard must end wrongly.

Those of the writer are made in the workers themselves: a task is sent as a function that breaks its own
process first, because a patch of this process reaches none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from calve.model.batch import Batch
from calve.protocol import judge as judging
from calve.protocol import line, replay
from calve.protocol.frontier import Frontier
from calve.protocol.replay import CHECKPOINT, NUMBER, base_of
from calve.runtime import claim, coordinator
from calve.runtime.spark import batches, frame, pipeline, slots, target
from calve.runtime.spark.ahead import Ahead
from calve.runtime.spark.batches import Timed
from calve.runtime.spark.pipeline import Pipeline
from calve.runtime.spark.stash import Stash
from calve.runtime.spark.target import Holding
from calve.table.fence import TagFence
from tests.nemesis import stories
from tests.nemesis.stage import Stage

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A guard taken out, and a story that must find out."""

    break_it: Patch
    story: Callable[[Stage], None]
    daily: bool = False
    """Also a part of `make test`, not of the nightly tests alone."""

    @property
    def name(self) -> str:
        return self.break_it.__name__


# -------------------------------------------------------------------- the fence


def no_tag_requirement(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks whether the sink was claimed since: neither the commit, nor the look after a conflict."""
    required, judge = TagFence._required, judging.judge
    patch.setattr(TagFence, "_required", lambda self, metadata, held: required(self, metadata, held)[:1])
    patch.setattr(
        coordinator,
        "judge",
        lambda intent, look: judge(intent, replace(look, held=intent.held)),
    )


def no_claim(patch: pytest.MonkeyPatch) -> None:
    """A run takes the sink as it finds it, once there is one."""
    real = claim.claim

    def adopt(hold: Any, check: Any = None) -> Any:
        hold.see(hold.load())
        held = hold.found()
        if held is None:
            return real(hold, check)
        hold.writer = held.progress.writer
        return claim.Claimed(held.progress, held.snapshot_id)

    patch.setattr(coordinator, "claim", adopt)


def any_checkpoint_may_write(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(target, "check_checkpoint", lambda *_: None)


def the_checkpoint_is_checked_before_the_claim_alone(patch: pytest.MonkeyPatch) -> None:
    real: Any = getattr(target, "claim_table")  # noqa: B009

    def unchecked(*arguments: Any, check: Any, **named: Any) -> Any:
        return real(*arguments, **named)

    patch.setattr(target, "claim_table", unchecked)


# -------------------------------------------------------------------- replays


def offsets_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Any micro-batch below the table's frontier is a replay, whatever its rows are."""

    def below(progress: Any, checkpoint: str, number: int, _: str) -> bool:
        return replay.base_of(progress, checkpoint) + number < progress.frontier

    patch.setattr(pipeline, "is_replay", below)


def no_micro_batch_is_a_replay(patch: pytest.MonkeyPatch) -> None:
    """The number tells nothing: a micro-batch that comes again becomes a batch again."""
    patch.setattr(pipeline, "is_replay", lambda *_: False)
    numbered = batches.numbered

    def onwards(desk: Any, work: Any, upper: int) -> Any:
        return numbered(desk, work, max(upper, desk.target.progress.frontier + 1))

    patch.setattr(pipeline, "numbered", onwards)
    patch.setattr(Stash, "of", lambda *_: None)


def the_committed_frontier_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """Rows before it are not dropped, but go where the next batch is."""

    def unaware(task: Any) -> None:
        task._before = lambda times, _: task.pc.is_null(times)  # nothing is before anything
        task.Task._by_slot = lambda _, rows: [
            (0, rows[task.TIME_COLUMN], rows.drop_columns([task.TIME_COLUMN]))
        ]

    _in_workers(patch, unaware)


def an_attempt_counts_for_any_rows(patch: pytest.MonkeyPatch) -> None:
    """What an earlier attempt left is committed, though the micro-batch has other rows now."""
    real = Stash.of
    patch.setattr(
        Stash,
        "of",
        lambda self, number, follows, _: next(
            (
                found
                for one in self._of(number)
                if (found := real(self, number, follows, one.offsets)) is not None
            ),
            None,
        ),
    )


def a_number_tells_what_is_in_quarantine(patch: pytest.MonkeyPatch) -> None:
    """Rows that do not fit are taken for known, because the number of their micro-batch is."""
    real: Any = getattr(pipeline, "quarantine_plan")  # noqa: B009 - the module's own name for it

    def known(kept: Holding, target: Holding, config: Any, where: Any, settled: Any) -> Any:
        upper = base_of(kept.progress, where[CHECKPOINT]) + where[NUMBER] + 1
        batch = Batch(min(kept.progress.frontier, upper - 1), upper)
        return replace(real(kept, target, config, where, settled), batch=batch)

    patch.setattr(pipeline, "quarantine_plan", known)


def what_the_quarantine_has_is_not_looked_up(patch: pytest.MonkeyPatch) -> None:
    """Rows that come again are taken for new ones, as far as their times do not tell."""
    patch.setattr(pipeline, "look_ahead", lambda *_: Ahead())


# -------------------------------------------------------------------- the stash


def the_stash_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Rows that wait are not written down."""
    patch.setattr(Timed, "_stashed", lambda *_: None)


def segments_are_deleted_too_early(patch: pytest.MonkeyPatch) -> None:
    """As soon as a batch is ready, not when it is committed; and nothing is kept for a replay."""
    save = Stash.save

    def save_and_prune(self: Stash, manifest: Any) -> None:
        save(self, manifest)
        self.prune(replace(manifest, follows=None), manifest.generation)

    patch.setattr(Stash, "save", save_and_prune)


def no_manifest_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stash, "save", lambda self, manifest: self._manifests.append(manifest))


def waiting_files_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Messages of files of open batches are not kept."""
    keep = Pipeline._keep
    patch.setattr(
        Pipeline,
        "_keep",
        lambda self, part, work, written: keep(
            self,
            replace(part, before=part.before and replace(part.before, waiting=())),
            work,
            replace(written, waiting=()),
        ),
    )


def rows_that_waited_are_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batches, "_is_needed", lambda *_: False)


# -------------------------------------------------------------------- files


def commit_before_all_is_gathered(patch: pytest.MonkeyPatch) -> None:
    """The first file is taken for all of them."""
    run_tasks = frame.run_tasks

    def some(*arguments: Any) -> Any:
        report = run_tasks(*arguments)
        return replace(report, files=report.files[:1])

    patch.setattr(batches, "run_tasks", some)


def messages_count_twice(patch: pytest.MonkeyPatch) -> None:
    """Of a task that ran twice, both attempts are taken."""
    run_tasks = frame.run_tasks

    def twice(*arguments: Any) -> Any:
        first, second = run_tasks(*arguments), run_tasks(*arguments)
        return replace(first, files=(*first.files, *second.files))

    patch.setattr(batches, "run_tasks", twice)


def no_collapse(patch: pytest.MonkeyPatch) -> None:
    """All changes of a key are written, not the last one."""

    def uncollapsed(task: Any) -> None:
        spool = task.Spool
        task.Spool = lambda *arguments, **_: spool(*arguments)

    _in_workers(patch, uncollapsed)


def the_order_of_arrival_counts(patch: pytest.MonkeyPatch) -> None:
    """The last change of a key is the one that came last, whatever its time."""

    def unordered(task: Any) -> None:
        spool = task.Spool
        task.Spool = lambda *arguments, key, **_: spool(*arguments, key=key)

    _in_workers(patch, unordered)


def later_batches_of_a_group_delete_nothing(patch: pytest.MonkeyPatch) -> None:
    """Every batch of a group is planned as if the table were still empty."""
    plan = Holding.plan
    patch.setattr(Holding, "plan", lambda self, base, older_rows=False: plan(self, base))


# -------------------------------------------------------------------- time


def an_estimate_is_taken_for_a_promise(patch: pytest.MonkeyPatch) -> None:
    _times(patch, estimated=False)


def a_promise_is_taken_for_an_estimate(patch: pytest.MonkeyPatch) -> None:
    _times(patch, estimated=True)


def the_first_partition_speaks_for_all(patch: pytest.MonkeyPatch) -> None:
    """The frontier follows the partition that is ahead."""

    def told(self: Frontier, said: Any, partitions: int) -> Frontier:
        return self.reached(max(said.values(), default=0))

    patch.setattr(Frontier, "told", told)


def no_delay(patch: pytest.MonkeyPatch) -> None:
    """The greatest time so far is the frontier: stragglers come too late."""
    seen = Frontier.seen
    patch.setattr(Frontier, "seen", lambda self, greatest, _: seen(self, greatest, 0))


def the_table_says_what_is_late(patch: pytest.MonkeyPatch) -> None:
    """What the table has is handed on as closed by the stream."""
    draw = line.draw

    def by_the_table(*arguments: Any, **named: Any) -> Any:
        drawn = draw(*arguments, **named)
        return replace(drawn, stream_closed=max(drawn.stream_closed, drawn.committed))

    patch.setattr(slots, "draw", by_the_table)


# -------------------------------------------------------------------- how


def _times(patch: pytest.MonkeyPatch, *, estimated: bool) -> None:
    times: Any = getattr(slots, "TimeLine")  # noqa: B009
    patch.setattr(
        slots, "TimeLine", lambda committed, closed, **_: times(committed, closed, estimated=estimated)
    )


def _in_workers(patch: pytest.MonkeyPatch, break_it: Callable[[Any], None]) -> None:
    """Let every task break what it uses in its worker, run, and mend it: a worker is used again."""

    def broken(plan: Any, record_batches: Iterable[Any]) -> Iterator[Any]:
        import importlib

        import calve.writer.spool
        import calve.writer.task as task

        try:
            break_it(task)
            yield from task.run_task(plan, record_batches)
        finally:
            importlib.reload(calve.writer.spool)
            importlib.reload(task)

    patch.setattr(frame, "run_task", broken)


MUTATIONS = (
    Mutation(no_tag_requirement, stories.a_second_run_has_claimed, daily=True),
    Mutation(no_claim, stories.a_second_run_has_claimed),
    Mutation(any_checkpoint_may_write, stories.another_checkpoint),
    Mutation(the_checkpoint_is_checked_before_the_claim_alone, stories.another_checkpoint_at_the_same_time),
    Mutation(offsets_are_not_compared, stories.an_old_checkpoint_is_restored),
    Mutation(no_micro_batch_is_a_replay, stories.a_micro_batch_comes_again, daily=True),
    Mutation(the_committed_frontier_is_ignored, stories.replays_below_a_mark),
    Mutation(an_attempt_counts_for_any_rows, stories.planned_again_with_more_rows),
    Mutation(a_number_tells_what_is_in_quarantine, stories.rows_that_do_not_fit_under_an_old_checkpoint),
    Mutation(
        what_the_quarantine_has_is_not_looked_up,
        stories.rows_that_do_not_fit_and_lie_ahead_under_an_old_checkpoint,
    ),
    Mutation(the_stash_is_forgotten, stories.crashes_around_a_commit, daily=True),
    Mutation(segments_are_deleted_too_early, stories.crashes_around_a_commit),
    Mutation(no_manifest_is_kept, stories.crashes_around_a_commit),
    Mutation(rows_that_waited_are_not_read, stories.crashes_around_a_commit),
    Mutation(waiting_files_are_forgotten, stories.files_of_open_batches),
    Mutation(commit_before_all_is_gathered, stories.changes_of_one_key_out_of_order, daily=True),
    Mutation(messages_count_twice, stories.changes_of_one_key_out_of_order),
    Mutation(no_collapse, stories.changes_of_one_key_out_of_order, daily=True),
    Mutation(the_order_of_arrival_counts, stories.changes_of_one_key_out_of_order),
    Mutation(later_batches_of_a_group_delete_nothing, stories.several_batches_of_an_empty_table),
    Mutation(an_estimate_is_taken_for_a_promise, stories.a_change_that_is_too_late),
    Mutation(a_promise_is_taken_for_an_estimate, stories.replays_below_a_mark),
    Mutation(the_first_partition_speaks_for_all, stories.a_partition_that_is_behind),
    Mutation(no_delay, stories.crashes_around_a_commit),
    Mutation(the_table_says_what_is_late, stories.a_lost_checkpoint),
)
