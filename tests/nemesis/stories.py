"""Stories: small histories of crashes, replays and second runs, each with what must be true in the end.

A story passes on code that keeps its promises. Each is such that a certain promise, broken, changes its end:
`mutations.py` breaks them one by one. Times are the stream's own; `DELAY` is how late a change may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from calve.model.errors import BadRow, Diverged, Fenced
from calve.runtime.coordinator import Coordinator
from calve.runtime.spark import target
from tests.nemesis.source import BAD_OP, DELAY
from tests.nemesis.stage import Stage, change, crash, file


@dataclass(frozen=True, slots=True)
class Story:
    """What happens, on which kind of table."""

    kind: str
    tell: Callable[[Stage], None]

    @property
    def name(self) -> str:
        return self.tell.__name__


def crashes_around_a_commit(stage: Stage) -> None:
    """Cases 3 and 5: lost before the commit, what is ready is committed; lost after it, it is a no-op."""
    run = stage.run()
    run.send(0, file(change(1, 100), change(2, 200), change(1, 900)))
    stage.check(300)
    with crash(Coordinator, "commit"):
        run.crashes(1, file(change(2, 400, "D"), change(3, 1500), change(1, 950)))
    run = stage.run()
    run.send(1)
    stage.check(900)
    with crash(Coordinator, "commit", after=True):
        run.crashes(2, file(change(3, 1300), change(4, 2600)))
    run = stage.run()
    run.send(2)
    stage.check(2000)
    run.send(3, file(change(5, 9000)))
    stage.check(9000 - DELAY)


def changes_of_one_key_out_of_order(stage: Stage) -> None:
    """Cases 44, 45 and 46: the last by time stays, whenever it came; what came twice counts once."""
    run = stage.run()
    run.send(0, file(change(1, 50), change(1, 20), change(2, 30), change(1, 20), change(2, 40, "D")))
    run.send(1, file(change(3, 300), change(1, 60), change(3, 200), change(4, 1000), change(1, 55)))
    stage.check(400)
    run.send(2, file(change(1, 950, "D"), change(1, 940), change(4, 5000), change(4, 990)))
    stage.check(5000 - DELAY)


def replays_below_a_mark(stage: Stage) -> None:
    """Case 44 under a promise: what comes again below the frontier is dropped, however old."""
    run = stage.run()
    run.send(0, file(change(2, 10), change(1, 20), marks=[("a", 30), ("b", 25)]))
    stage.check(25)
    run.send(1, file(change(2, 10), change(2, 30), change(1, 40), marks=[("a", 50), ("b", 35)]))
    stage.check(35)
    run.send(2, file(change(1, 20), change(2, 10), marks=[("b", 100), ("a", 100)]))
    stage.check(100)


def a_partition_that_is_behind(stage: Stage) -> None:
    """Case 55: the frontier is the least over all partitions, and there is none until all have spoken."""
    run = stage.run()
    run.send(0, file(change(2, 10), marks=[("a", 1000)]))
    run.send(1, file(change(1, 5), change(2, 1001), marks=[("b", 50)]))
    stage.check(50)
    run.send(2, file(change(1, 60), change(2, 1002), marks=[("b", 500)]))
    run.send(3, file(change(1, 1003), marks=[("b", 2000), ("a", 2000)]))
    stage.check(2000)


def replays_where_nothing_was_written(stage: Stage) -> None:
    """A batch may close without a file, and below a promise nothing is late: its changes come again."""
    run = stage.run()
    run.send(0, file(change(1, 5, "D"), marks=[("a", 10), ("b", 10)]))
    run.send(1, file(change(1, 5, "D"), change(1, 12), marks=[("a", 20), ("b", 20)]))
    stage.check(20)


def a_change_that_is_too_late(stage: Stage) -> None:
    """P8: below an estimate a change is late and stops the query; it is not taken for a replay."""
    run = stage.run()
    run.send(0, file(change(1, 2000)))
    run.send(1, file(change(2, 3000)))
    stage.check(2400)
    run.refused(BadRow, 2, file(change(3, 100, "D")))
    stage.check(2400)


def a_second_run_has_claimed(stage: Stage) -> None:
    """Case 9: from the claim on, the older run can change nothing, though main has not moved (P4)."""
    older = stage.run()
    older.send(0, file(change(1, 100), change(1, 1000)))
    newer = stage.run()
    newer.send(1, file(change(2, 950)))
    older.send(1)
    older.refused(Fenced, 2, file(change(3, 3000)))
    stage.check(400)
    newer.send(2)
    stage.check(3000 - DELAY)


def a_micro_batch_comes_again(stage: Stage) -> None:
    """Case 5 without a time: the number and its digest tell a replay (P3)."""
    run = stage.run()
    run.send(0, file(change(1, 1), change(2, 2)))
    with crash(Coordinator, "commit", after=True):
        run.crashes(1, file(change(3, 3)))
    run = stage.run()
    run.send(1)
    stage.check(2)
    with crash(Coordinator, "commit"):
        run.crashes(2, file(change(4, 4)))
    run = stage.run()
    run.send(2)
    run.send(3, file(change(5, 5)))
    stage.check(4)


def an_old_checkpoint_is_restored(stage: Stage) -> None:
    """Case 69: the same number with other rows is no replay: nothing is skipped, nothing is written."""
    run = stage.run()
    run.send(0, file(change(1, 1)))
    run.send(1, file(change(2, 2)))
    known = stage.checkpoint("first").micro_batches[1]
    stage.run().refused(Diverged, 1, file(change(3, 3)))
    stage.checkpoint("first").plan(1, known)
    stage.check(2)


def planned_again_with_more_rows(stage: Stage) -> None:
    """What an attempt left counts only for the same rows: Spark may plan a micro-batch anew."""
    run = stage.run()
    run.send(0, file(change(1, 1000)))
    with crash(Coordinator, "commit"):
        run.crashes(1, file(change(2, 2000)))
    (name,) = stage.checkpoint("first").micro_batches[1]
    run = stage.run()
    run.send(1, name, file(change(3, 1900), change(4, 1950)))
    run.send(2, file(change(5, 9000)))
    stage.check(9000 - DELAY)


def another_checkpoint(stage: Stage) -> None:
    """A query with a checkpoint of its own on the same sink is refused, and fences nobody."""
    run = stage.run()
    run.send(0, file(change(1, 1)))
    stage.run("second").refused(Diverged, 0, "000000.parquet")
    run.send(1, file(change(2, 2)))
    stage.check(2)


def another_checkpoint_at_the_same_time(stage: Stage) -> None:
    """The same, where the first commit comes between the other's look at the table and its claim."""
    run, other = stage.run(), stage.run("second")
    name = stage.add(file(change(1, 1)))
    with _before_the_claim(lambda: run.send(0, name)):
        other.refused(Diverged, 0, name)
    stage.check(1)


def a_lost_checkpoint(stage: Stage) -> None:
    """Case 12: a new checkpoint goes on from the table's frontier, though its stream begins anew."""
    run = stage.run()
    run.send(0, file(change(1, 100), change(1, 1000)))
    run.send(1, file(change(2, 900), change(3, 2000)))
    run.send(2, file(change(3, 1800), change(2, 3000)))
    stage.check(2400)
    run = stage.run("second", replaces="first")
    for number, name in enumerate(list(stage.delivered.files)):
        run.send(number, name)
    stage.check(2400)
    run.send(3, file(change(4, 9000)))
    stage.check(9000 - DELAY)


def several_batches_of_an_empty_table(stage: Stage) -> None:
    """A group commit: batches after the first must delete what the first ones of the group wrote."""
    run = stage.run()
    run.send(0, file(change(9, 10)))
    run.send(1, file(change(1, 100), change(1, 300), change(1, 800), change(9, 900, "D"), change(2, 3000)))
    stage.check(1000)


def files_of_open_batches(stage: Stage) -> None:
    """Rows without a key are in files at once, and their messages wait for the end of their batch."""
    run = stage.run()
    run.send(0, file(change(1, 10), change(2, 100), change(3, 400)))
    run.send(1, file(change(4, 110), change(5, 700)))
    with crash(Coordinator, "commit"):
        run.crashes(2, file(change(6, 500), change(7, 1000)))
    run = stage.run()
    run.send(2)
    run.send(3, file(change(8, 990), change(9, 5000)))
    stage.check()
    run.send(4, file(change(10, 9000)))
    stage.check()


def rows_that_do_not_fit(stage: Stage) -> None:
    """P8: a crash between the quarantine's commit and the table's doubles nothing and loses nothing."""
    run = stage.run()
    run.send(0, file(change(1, 100), change(2, 200, BAD_OP), change(1, 1000)))
    with crash(Coordinator, "commit", after=True):  # the first commit is the quarantine's
        run.crashes(1, file(change(3, 900, BAD_OP), change(4, 3000)))
    run = stage.run()
    run.send(1)
    with crash(Coordinator, "commit"):
        run.crashes(2, file(change(5, 2500, BAD_OP), change(6, 5000, BAD_OP), change(4, 9000)))
    run = stage.run()
    run.send(2)
    stage.check(9000 - DELAY)
    stage.checker.check_quarantine(complete=True)


def rows_that_do_not_fit_under_an_old_checkpoint(stage: Stage) -> None:
    """Case 13 and P8: a micro-batch that is planned anew has a known number, and rows that are not known."""
    run = stage.run()
    run.send(0, file(change(1, 100), change(1, 1000)))
    backup = stage.back_up("first")
    run.send(1, file(change(2, 1100), change(3, 1200, BAD_OP), change(2, 3000)))
    (name,) = stage.checkpoint("first").micro_batches[1]
    stage.restore("first", backup)
    run = stage.run()
    run.send(1, name, file(change(3, 2600, BAD_OP), change(4, 9000)))
    stage.check(9000 - DELAY)
    stage.checker.check_quarantine(complete=True)


def rows_that_do_not_fit_and_lie_ahead_under_an_old_checkpoint(stage: Stage) -> None:
    """The same, where a row that does not fit lies at or above the table's frontier: its time does not tell
    that the quarantine has it."""
    run = stage.run()
    run.send(0, file(change(1, 100), change(1, 1000)))
    backup = stage.back_up("first")
    run.send(1, file(change(2, 1100), change(3, 1200, BAD_OP), change(2, 1300)))
    stage.check(700)
    (name,) = stage.checkpoint("first").micro_batches[1]
    stage.restore("first", backup)
    run = stage.run()
    run.send(1, name, file(change(4, 9000)))
    stage.check(9000 - DELAY)
    stage.checker.check_quarantine(complete=True)


@contextmanager
def _before_the_claim(act: Callable[[], None]) -> Iterator[None]:
    """Let something happen after a run has looked at the table, and before it claims it."""
    claim: Any = getattr(target, "claim_table")  # noqa: B009 - the module's own name for it, not an export
    waiting = [act]

    def later(*arguments: Any, **named: Any) -> Any:
        if waiting:
            waiting.pop()()
        return claim(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "claim_table", later)
        yield


STORIES = (
    Story("upsert-maximum", crashes_around_a_commit),
    Story("upsert-maximum", changes_of_one_key_out_of_order),
    Story("upsert-mark", replays_below_a_mark),
    Story("upsert-mark", a_partition_that_is_behind),
    Story("upsert-mark", replays_where_nothing_was_written),
    Story("upsert-maximum", a_change_that_is_too_late),
    Story("upsert-maximum", a_second_run_has_claimed),
    Story("append-numbered", a_micro_batch_comes_again),
    Story("append-numbered", an_old_checkpoint_is_restored),
    Story("upsert-maximum", planned_again_with_more_rows),
    Story("append-numbered", another_checkpoint),
    Story("append-numbered", another_checkpoint_at_the_same_time),
    Story("upsert-maximum", a_lost_checkpoint),
    Story("upsert-interval", several_batches_of_an_empty_table),
    Story("append-interval", files_of_open_batches),
    Story("upsert-quarantine", rows_that_do_not_fit),
    Story("upsert-quarantine", rows_that_do_not_fit_under_an_old_checkpoint),
    Story("upsert-quarantine", rows_that_do_not_fit_and_lie_ahead_under_an_old_checkpoint),
)
