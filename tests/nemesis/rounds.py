"""A round: one stream into one table, the drivers that write it, and what the nemesis knows of them."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.nemesis import spark_logs
from tests.nemesis.changefeeds import Bucket
from tests.nemesis.checker import Checker, Progress, Violation
from tests.nemesis.driver import Job
from tests.nemesis.kinds import Kind
from tests.nemesis.lakes import TABLE, Lakes, local_lake, sink_id
from tests.nemesis.processes import PATIENCE_S, Driver, Patience, Pool
from tests.nemesis.source import Stream

_BACKLOG_FILES = 4
_ROUNDS = itertools.count()

SHARED_LOSERS = ("Fenced", "StoreError", "Diverged", "StreamingQueryException")
"""What a run may end with when another one shares its checkpoint: it was fenced, or found a file taken or
gone, or Spark itself saw somebody else in its logs."""


@dataclass(slots=True)
class Tally:
    """What was done so far, over all rounds."""

    kills: Counter[str] = field(default_factory=Counter)
    """By the step at which a driver was killed, or how else."""
    missed: set[tuple[str, str]] = field(default_factory=set)
    """Kinds of tables, and steps that they do not take."""
    faults: Counter[str] = field(default_factory=Counter)
    snapshots: int = 0
    micro_batches: int = 0

    @property
    def killed(self) -> int:
        return sum(self.kills.values())


class Round:
    """One stream under attack, and its table; a feed has several."""

    def __init__(
        self,
        seed: int,
        kind: Kind,
        folder: Path,
        pool: Pool,
        duck: Any,
        tally: Tally,
        lakes: Lakes = local_lake,
    ) -> None:
        self.seed, self.kind, self.folder, self.pool, self.tally = seed, kind, folder, pool, tally
        self.random = Random(f"{seed} {kind.name} faults")
        # A session that knows a catalog keeps it, whatever it is told of the name later.
        self.catalog = f"{kind.name}_{seed}_{next(_ROUNDS)}".replace("-", "_")
        """Its name: an engine that sees the tables of several rounds tells them apart by it."""
        folder.mkdir(parents=True, exist_ok=True)
        self.lake = lakes(folder, self.catalog)
        self.stream = (Bucket if kind.is_feed else Stream)(seed, kind, folder / "source")
        self.checkpoint = folder / "checkpoint-0"
        self.checkers = [
            Checker(kind, self.lake, truth, duck, lambda: spark_logs.micro_batches(self.checkpoint), table)
            for table, truth in self.stream.tables.items()
        ]
        self.replaces: str | None = None
        self.checkpoint_id: str | None = None
        self.steps: Sequence[str] = ()
        """Where drivers may be killed."""
        self.history: list[str] = []
        self.listen: Callable[[str], None] = lambda _: None
        self.driver: Driver | None = None
        """The one that holds the sink, if one lives."""
        self._began = time.monotonic()
        self._checkpoints = 1

    # ---------------------------------------------------------------- the stream

    def deliver(self, times: int = 1) -> None:
        for _ in range(times):
            self.stream.deliver()

    # ---------------------------------------------------------------- drivers

    def start(self, checkpoint: Path | None = None, replaces: str | None = None) -> Driver:
        """A driver on the sink: with the round's own checkpoint, or with another one."""
        driver = self.pool.take()
        self.begin(driver, checkpoint, replaces)
        return driver

    def begin(self, driver: Driver, checkpoint: Path | None = None, replaces: str | None = None) -> None:
        driver.begin(
            Job(
                kind=self.kind.name,
                source=str(self.stream.folder),
                checkpoint=str(checkpoint or self.checkpoint),
                catalog=self.catalog,
                words=self.lake.words,
                table=sink_id(self.lake, "{table}" if self.kind.is_feed else TABLE),
                files_max=self.random.choice((1, 1, 2, 3)),
                replaces=replaces or (self.replaces if checkpoint is None else None),
            )
        )

    def running(self) -> Driver:
        """The driver that holds the sink; a new one if none lives."""
        if self.driver is None:
            self.driver = self.start()
        return self.driver

    def goes_on(self, driver: Driver, micro_batches: int = 1) -> None:
        """A driver that nothing stands against gets on with its work."""
        wanted = driver.micro_batches + micro_batches
        self.feed(driver, lambda: driver.micro_batches >= wanted)
        if driver.micro_batches < wanted:
            raise Violation(f"{driver.name} does not go on: {driver.report()}")
        self.checkpoint_id = driver.query or self.checkpoint_id

    def feed(self, driver: Driver, is_so: Callable[[], bool], timeout_s: float = PATIENCE_S) -> bool:
        """Bring more of the stream until something is so; False if the driver ended or took too long."""
        patience = Patience(timeout_s)
        fed, done = 0, driver.micro_batches
        while not is_so():
            if not driver.is_alive or patience.left() <= 0:
                return is_so()
            if fed - (driver.micro_batches - done) < _BACKLOG_FILES:
                self.deliver()
                fed += 1
            driver.wait_until(is_so, self.random.uniform(0.1, 1.0))
        return True

    def kill(self, driver: Driver, how: str) -> None:
        """The end of a driver, by SIGKILL."""
        driver.kill()
        self.lost(driver)
        self.tally.kills[how] += 1
        self.note(f"{driver.name} killed: {how}")

    def lost(self, driver: Driver) -> None:
        """A driver is gone."""
        driver.kill()  # what is left of it
        self.tally.micro_batches += driver.micro_batches
        if driver is self.driver:
            self.checkpoint_id = driver.query or self.checkpoint_id
            self.driver = None

    def ends_by_itself(self, driver: Driver, allowed: tuple[str, ...], why: str) -> str:
        """A driver must stop with one of these errors; which it was."""
        self.feed(driver, lambda: driver.ended is not None)
        ended = driver.ended
        if ended is None:
            raise Violation(f"{driver.name} still runs, though {why}: {driver.report()}")
        if ended["error"] not in allowed:
            raise Violation(f"{driver.name} ended with {ended}, though {why}: {driver.report()}")
        self.lost(driver)
        self.note(f"{driver.name} ended: {ended['error']}: {ended['message'].splitlines()[0][:100]}")
        return str(ended["error"])

    # ---------------------------------------------------------------- the table

    def check(self) -> Progress:
        """Look at every new snapshot; where the sink stands that is behind all others."""
        known = self.snapshots
        progress = min((checker.check() for checker in self.checkers), key=lambda one: one.frontier)
        self.tally.snapshots += self.snapshots - known
        if self.lake.together and self.driver is None:
            self._check_in_step()
        return progress

    @property
    def snapshots(self) -> int:
        return sum(len(checker.seen) for checker in self.checkers)

    @property
    def commits(self) -> int:
        """Batches that are in the tables."""
        return sum(checker.commits for checker in self.checkers)

    def _check_in_step(self) -> None:
        """What one table shows as of a time, all of them show."""
        for upper in {seen.frontier for checker in self.checkers for seen in checker.seen.values()}:
            for checker in self.checkers:
                checker.check_at(upper)

    def new_checkpoint(self) -> Path:
        """The place of a checkpoint that nobody had."""
        self._checkpoints += 1
        return self.folder / f"checkpoint-{self._checkpoints - 1}"

    def note(self, what: str) -> None:
        """For the history that a violation is told with."""
        self.history.append(f"{time.monotonic() - self._began:6.1f} s  {what}")
        self.listen(self.history[-1])

    def finish(self) -> None:
        """Let the stream end, and everything be in the table: whatever happened, it goes on (case 11)."""
        driver = self.running()
        self.stream.deliver_rest()
        reached = driver.wait_until(lambda: self._is_done(driver))
        if not reached:
            raise Violation(f"the stream ended, and the table has not all of it: {driver.report()}")
        driver.stop_query()
        driver.wait_until(lambda: driver.ended is not None)
        self.lost(driver)
        self.check()
        for checker in self.checkers:
            checker.check_again()
            if self.kind.quarantine:
                checker.check_quarantine(complete=True)
            at, end = checker.check().frontier, checker.expected_at_the_end()
            if at < end:
                raise Violation(f"the table {checker.table} ends at {at}, and the stream at {end}")
        self._check_in_step()
        self.note(f"all of it is in the table: {self.commits} batches")

    def _is_done(self, driver: Driver) -> bool:
        last = {event["sink"]: event for event in driver.events if event["event"] == "micro-batch"}
        for checker in self.checkers:
            if (said := last.get(checker.sink_id)) is None:
                return False
            end = checker.expected_at_the_end()
            at = said["frontier"] if self.kind.is_timed else said["number"] + 1
            if at < end or not (self.kind.is_timed or checker.all_taken()):
                return False
        return True
