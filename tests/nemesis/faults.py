"""What the nemesis does to a round: kills, stops, rivals, lost and restored checkpoints, and others at work.

Every fault says by itself what must follow; the checker says the rest.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Sequence
from typing import Any

from tests.nemesis.checker import Violation
from tests.nemesis.kinds import Kind
from tests.nemesis.lakes import Lake
from tests.nemesis.others import Others
from tests.nemesis.processes import Driver
from tests.nemesis.rounds import SHARED_LOSERS, Round
from tests.nemesis.steps import (
    COMMIT_SENT,
    KILL,
    KILL_WORKER,
    LOGS,
    LOGS_OF_THE_SOURCE,
    RESOLVED_FILE,
    SOURCE_FILE,
    STOP,
    TASK,
    Trap,
    disarm,
    sprung,
)
from tests.support.cluster import Cluster

_MICRO_BATCHES = 6
"""How many micro-batches may pass without a step before the driver is killed without it."""

_BESIDES = ("claim", "commit", "publishing", "micro-batch", "catalog: load table")
_TABLE = ("catalog: commit table", "SQL: commit")
_WRITTEN = ("stash manifest", "outbox")
_DELETED = ("stash manifest", "outbox", "segment")
_FILES = ("manifest", "manifest list", "metadata.json")
_TASK_FILES = ("data file", "delete file")


def _twice(names: Sequence[str], act: str = "") -> list[str]:
    return [f"{name}{act}: {when}" for name in names for when in ("about to", "done")]


_AT_THE_FIRST_START = _twice(["table: create", "catalog: create table"])
_AT_THE_START = (*_AT_THE_FIRST_START, *_twice(["claim", "stash: read"]))

TASK_STEPS = (
    *_twice([TASK]),
    *(f"{TASK}: {file}: {when}" for file in _TASK_FILES for when in ("half written", "closed")),
)
DRIVER_STEPS: tuple[str, ...] = (
    *_twice(_BESIDES),
    *_twice(_TABLE),
    COMMIT_SENT,
    *_twice(["files", "segment", "stash: read", "table: create", "catalog: create table"]),
    *_twice(_WRITTEN, ": write"),
    *_twice(_WRITTEN, ": name"),
    *_twice(_DELETED, ": delete"),
    *(f"{file}: {when}" for file in _FILES for when in ("half written", "about to be closed", "closed")),
    *LOGS.values(),
    *LOGS_OF_THE_SOURCE.values(),
)
STEPS = (*DRIVER_STEPS, *TASK_STEPS)
"""Every named step. Not every kind of table takes all of them, nor every lake."""
FEED_STEPS = (
    *_twice(["topic: write", "topic: name"]),
    *_twice([f"{TASK}: {SOURCE_FILE}", f"{TASK}: {RESOLVED_FILE}"]),
)
"""Steps that only a feed takes."""


def steps_on(lake: Lake | type[Lake], steps: Sequence[str] = STEPS) -> tuple[str, ...]:
    """Those of these steps that a driver can take on a lake."""
    return tuple(step for step in steps if not step.startswith(lake.absent_steps))


def steps_of(kind: Kind, steps: Sequence[str]) -> tuple[str, ...]:
    """Those of these steps that a kind of table takes, and those that it takes besides."""
    if not kind.is_feed:
        return tuple(steps)
    # A source in Python has no log: its offsets say everything.
    return (*(step for step in steps if step not in LOGS_OF_THE_SOURCE.values()), *FEED_STEPS)


Fault = Callable[[Round], None]


def kill_at_a_step(round: Round) -> None:
    """SIGKILL at a named step, in a driver's first micro-batch or in a later one."""
    random = round.random
    step = _least_killed_at(round)
    if step in _AT_THE_START and round.driver is not None:
        round.kill(round.driver, "at a random moment")
    fresh = round.driver is None
    driver = round.driver or round.pool.take()
    nth = 1 if random.random() < 0.6 else random.randrange(2, 6)
    Trap(step, nth, KILL).set(driver.folder)
    if fresh:
        round.driver = driver
        round.begin(driver)
    enough = driver.micro_batches + nth + _MICRO_BATCHES
    round.feed(driver, lambda: not driver.is_alive or driver.micro_batches >= enough)
    if driver.is_alive and disarm(driver.folder):
        round.tally.missed.add((round.kind.name, step))
        round.kill(driver, "at a random moment")
        return
    driver.wait_until(lambda: not driver.is_alive)
    _was_killed(round, driver, step)


def kill_at_a_random_moment(round: Round) -> None:
    """SIGKILL some time after the start, be it before the first micro-batch."""
    driver = round.running()
    moment = round.random.expovariate(1 / 2.5)
    round.feed(driver, lambda: False, moment)
    _still_runs(driver)
    round.kill(driver, "at a random moment")


def kill_a_worker(round: Round) -> None:
    """SIGKILL of a Python worker in a task: Spark runs the task again, and one copy of each row counts."""
    driver = round.running()
    step = round.random.choice(TASK_STEPS)
    Trap(step, 1, KILL_WORKER).set(driver.folder)
    enough = driver.micro_batches + _MICRO_BATCHES
    round.feed(driver, lambda: sprung(driver.folder) or driver.micro_batches >= enough)
    if sprung(driver.folder):
        round.tally.kills[f"worker at {step}"] += 1
        round.note(f"a worker of {driver.name} killed: {step}")
    disarm(driver.folder)
    round.goes_on(driver)


def kill_an_executor(cluster: Cluster) -> Fault:
    """SIGKILL of an executor, with its tasks and its shuffle files: Spark runs the tasks again (case 8)."""

    def fault(round: Round) -> None:
        driver = round.running()
        round.goes_on(driver)
        round.feed(driver, lambda: False, round.random.uniform(0, 1.5))
        executors = cluster.executors()
        for executor in round.random.sample(executors, min(len(executors), round.random.choice((1, 1, 2)))):
            executor.kill()
            round.tally.kills["an executor"] += 1
            round.note(f"executor {executor.number} on {executor.host} killed")
        round.goes_on(driver)

    return fault


def pause(round: Round) -> None:
    """SIGSTOP and SIGCONT: it goes on as if nothing had been."""
    driver = round.running()
    round.goes_on(driver)
    driver.signal(signal.SIGSTOP)
    driver.wait_until(lambda: False, round.random.uniform(0.2, 2))
    driver.signal(signal.SIGCONT)
    round.note(f"{driver.name} stopped for a moment")
    round.goes_on(driver)


def stop_and_replace(round: Round) -> None:
    """SIGSTOP, another run starts and commits, SIGCONT: the first one is fenced (case 9)."""
    first = round.running()
    round.goes_on(first)
    if round.random.random() < 0.5:
        Trap(round.random.choice(_STOPS), 1, STOP).set(first.folder)
        enough = first.micro_batches + _MICRO_BATCHES
        round.feed(first, lambda: first.trapped is not None or first.micro_batches >= enough)
        if not disarm(first.folder):
            # It says so, and then stops itself. Stopped by us in between, it would do so after SIGCONT.
            first.wait_until(lambda: first.is_stopped)
        _still_runs(first)
    first.signal(signal.SIGSTOP)
    round.note(f"{first.name} stopped: {first.trapped or 'at a random moment'}")
    second = round.start()
    began = round.feed(second, lambda: second.micro_batches > 0)
    if not began:
        # The one that is stopped may hold what the other needs, for example the catalog's lock.
        round.note(f"{second.name} did not begin: {second.ended}")
        _must_be_locked_out(second)
        round.lost(second)
        round.kill(first, "while it was stopped")
        return
    first.signal(signal.SIGCONT)
    round.driver = second
    round.feed(second, lambda: first.ended is not None)
    round.ends_by_itself(first, SHARED_LOSERS, f"{second.name} has claimed the sink")
    _goes_on_or_lost(round, second)


_STOPS = (
    "files: about to",
    "files: done",
    "segment: done",
    "outbox: write: about to",
    "stash manifest: write: about to",
    "stash manifest: write: done",
    "commit: about to",
    "catalog: commit table: about to",
    "commit: done",
    "segment: delete: about to",
    "micro-batch: done",
)


def rival(round: Round) -> None:
    """A second driver on the same sink and checkpoint, while the first one works (case 10)."""
    first = round.running()
    round.goes_on(first)
    second = round.start()
    round.note(f"{second.name} beside {first.name}")
    round.feed(first, lambda: first.ended is not None or second.ended is not None)
    losers = [driver for driver in (first, second) if driver.ended is not None]
    if not losers:
        raise Violation(f"{first.name} and {second.name} both run on one sink")
    round.driver = None
    for driver in losers:
        round.ends_by_itself(driver, SHARED_LOSERS, "another one runs beside it")
    for driver in {first, second} - set(losers):
        round.driver = driver
        _goes_on_or_lost(round, driver)


def _goes_on_or_lost(round: Round, driver: Driver) -> None:
    """Of two that shared a checkpoint one may go on. Both may be lost: one was fenced, and the other found
    what the first had written to Spark's logs meanwhile."""
    wanted = driver.micro_batches + 2
    round.feed(driver, lambda: driver.ended is not None or driver.micro_batches >= wanted)
    if driver.ended is not None:
        round.ends_by_itself(driver, SHARED_LOSERS, "another one ran beside it")
    else:
        _still_runs(driver)


def stranger(round: Round) -> None:
    """A second driver on the same sink with a checkpoint of its own is refused and changes nothing."""
    driver = round.running()
    round.goes_on(driver)
    if not round.check().frontier:
        return  # nothing tells yet whose sink it is
    other = round.start(checkpoint=round.new_checkpoint())
    other.wait_until(lambda: other.ended is not None)
    round.ends_by_itself(other, ("Diverged",), "its checkpoint is another")
    round.goes_on(driver)


def lose_the_checkpoint(round: Round) -> None:
    """The checkpoint is lost; a new one goes on for it, from the source's beginning (case 12)."""
    if not round.kind.is_timed or round.kind.quarantine:
        return  # rows that do not fit may have no time by which they would be known again
    driver = round.running()
    round.goes_on(driver)
    round.kill(driver, "at a random moment")
    if not round.check().frontier:
        return
    shutil.rmtree(round.checkpoint)
    round.checkpoint, round.replaces = round.new_checkpoint(), round.checkpoint_id
    round.note("the checkpoint is lost, another one goes on for it")
    round.goes_on(round.running())


def restore_an_old_checkpoint(round: Round) -> None:
    """A backup of the checkpoint, older than the table: with a time of its own the table wins; micro-batches
    that are not what the table knows are refused (cases 13 and 69)."""
    if round.driver is not None:
        round.kill(round.driver, "at a random moment")
    if not round.checkpoint.exists():
        return
    backup = round.folder / "backup"
    shutil.rmtree(backup, ignore_errors=True)
    shutil.copytree(round.checkpoint, backup)
    before = round.check().frontier
    round.goes_on(round.running(), round.random.randrange(1, 4))
    assert round.driver is not None
    round.kill(round.driver, "at a random moment")
    moved = round.check().frontier > before
    newest = round.folder / "newest"
    round.checkpoint.rename(newest)
    backup.rename(round.checkpoint)
    round.note("an old copy of the checkpoint is restored" + (", the table has moved on" if moved else ""))
    if round.kind.is_timed:
        shutil.rmtree(newest)
        round.goes_on(round.running(), 2)
        return
    driver = round.running()
    wanted = driver.micro_batches + 2
    round.feed(driver, lambda: driver.ended is not None or driver.micro_batches >= wanted)
    if driver.ended is None:
        _still_runs(driver)
        # Spark had planned the table's last micro-batch before the copy was made: it is the same one again.
        shutil.rmtree(newest)
        return
    round.ends_by_itself(driver, ("Diverged",), "its checkpoint is older than the table")
    shutil.rmtree(round.checkpoint)
    newest.rename(round.checkpoint)
    round.note("the newest checkpoint is back")


def others_at_work(others: Others) -> Fault:
    """Another engine compacts, rewrites manifests or expires snapshots, while a driver works (38, 40)."""

    def fault(round: Round) -> None:
        driver = round.running()
        round.goes_on(driver)
        round.note(others.act(round))
        round.check()
        round.goes_on(driver)

    return fault


def _least_killed_at(round: Round) -> str:
    """A step at which the fewest drivers were killed so far."""
    kills, missed = round.tally.kills, round.tally.missed
    gone = _AT_THE_FIRST_START if round.snapshots else ()
    steps = [step for step in round.steps if (round.kind.name, step) not in missed and step not in gone]
    fewest = min(kills[step] for step in steps)
    return round.random.choice([step for step in steps if kills[step] == fewest])


def _was_killed(round: Round, driver: Driver, step: str) -> None:
    if driver.process.returncode != -signal.SIGKILL:
        raise Violation(f"{driver.name} ended by itself: {driver.report()}")
    round.lost(driver)
    round.tally.kills[step] += 1
    round.note(f"{driver.name} killed: {step}")


def _still_runs(driver: Driver) -> None:
    if not driver.is_alive:
        raise Violation(f"{driver.name} ended by itself: {driver.report()}")


def _must_be_locked_out(driver: Driver) -> None:
    ended: Any = driver.ended or {"message": "nothing was said"}
    if "locked" not in ended["message"]:
        raise Violation(f"{driver.name} did not begin: {driver.report()}")
