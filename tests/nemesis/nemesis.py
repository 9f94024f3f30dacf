"""The nemesis: rounds of faults from a seed, until the time is over or enough was killed.

seed ──▶ kinds in turn ──▶ round: fault, check, fault, check, … ──▶ the stream ends, all of it is there
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.nemesis import archive, faults
from tests.nemesis.checker import Violation
from tests.nemesis.driver import JVM_OPTIONS
from tests.nemesis.faults import Fault
from tests.nemesis.kinds import KINDS, Kind
from tests.nemesis.lakes import Lakes, local_lake
from tests.nemesis.others import Others
from tests.nemesis.processes import Pool
from tests.nemesis.rounds import Round, Tally
from tests.nemesis.source import difference, in_order
from tests.support.cluster import Cluster
from tools.venvs import executor, object_executor

_ROUND_S = 150.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, and on what."""

    seed: int
    seconds: float
    kinds: tuple[str, ...] = tuple(KINDS)
    round_seconds: float = _ROUND_S
    kills_max: int | None = None
    """After so many kills it is enough, whatever time is left."""
    only: tuple[str, ...] = ()
    """The names of faults, where not all of them are wanted."""
    steps: tuple[str, ...] = ()
    """Where drivers may be killed, where not all steps are wanted."""
    verbose: bool = False
    """Tell every fault when it happens."""


class Nemesis:
    """All rounds of a run."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        duck: Any,
        spark: Any,
        cluster: Cluster | None = None,
        say: Callable[[str], None] = print,
        lakes: Lakes = local_lake,
    ) -> None:
        """`spark` is another engine at work on the tables. Drivers run alone, or on a cluster."""
        self.plan, self.folder, self.tally = plan, folder, Tally()
        self._duck, self._say, self._cluster, self._lakes = duck, say, cluster, lakes
        self._others = Others(spark)
        self.drivers: list[int] = []
        """The process ids of all drivers that there were."""
        self._steps: set[str] = set()

    def run(self) -> Tally:
        """Rounds, one kind after the other; the first violation ends it, with all that is known of it."""
        ends = time.monotonic() + self.plan.seconds
        number = 0
        while number == 0 or (time.monotonic() < ends and not self._is_enough()):
            kind = KINDS[self.plan.kinds[number % len(self.plan.kinds)]]
            seed = self.plan.seed * 1000 + number
            left = max(ends - time.monotonic(), 0)
            self.play(seed, kind, min(left, self.plan.round_seconds))
            number += 1
        return self.tally

    def play(self, seed: int, kind: Kind, seconds: float) -> None:
        """One round."""
        folder = self.folder / f"{seed}-{kind.name}"
        killed, began = self.tally.killed, time.monotonic()
        with self._pool(folder / "drivers") as pool:
            round = Round(seed, kind, folder, pool, self._duck, self.tally, self._lakes)
            steps = faults.STEPS if self._cluster is None else faults.DRIVER_STEPS
            round.steps = self.plan.steps or faults.steps_of(kind, faults.steps_on(round.lake, steps))
            if self.plan.verbose:
                round.listen = self._say
            pool.prepare()
            round.deliver(2)
            try:
                self._attack(round, began + seconds)
                pool.no_more()
                round.finish()
                self._compare_engines(round)
            except Violation as violation:
                raise Violation(self._told(round, violation)) from violation
            finally:
                self._steps |= pool.steps()
                self.drivers += pool.pids()
        self._say(
            f"seed {seed}, {kind.name}: {self.tally.killed - killed} kills, {round.commits} batches, "
            f"{round.snapshots} snapshots, {time.monotonic() - began:.0f} s, no violation"
        )

    def make_archive(self) -> None:
        """Let one driver leave an archive of its classes to all that follow."""
        place = archive.place()
        if place.exists():
            return
        folder = self.folder / "archive"
        half = folder / "classes.jsa"
        settings = {"spark.driver.extraJavaOptions": archive.options_to_make(half)}
        with Pool(folder / "drivers", settings, spares=0) as pool:
            round = Round(0, KINDS["upsert-maximum"], folder, pool, self._duck, Tally())
            round.deliver(2)
            round.goes_on(round.running(), 2)
            round.finish()
        half.rename(place)

    def steps_reached(self) -> set[str]:
        return self._steps

    def _attack(self, round: Round, ends: float) -> None:
        while time.monotonic() < ends and not self._is_enough():
            fault = self._choose(round.random)
            fault(round)
            self.tally.faults[_name(fault)] += 1
            round.check()

    def _is_enough(self) -> bool:
        return self.plan.kills_max is not None and self.tally.killed >= self.plan.kills_max

    def _pool(self, folder: Path) -> Pool:
        if self._cluster is None:
            return Pool(folder)
        settings = {
            # With pyarrow, obstore where it is needed, and nothing of ours but what is sent to it.
            "python": str(executor() if self._lakes is local_lake else object_executor()),
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": JVM_OPTIONS,
            "spark.executor.memory": "512m",
            "spark.master": self._cluster.url,
        }
        # A driver that waits would hold the executors that the others need.
        return Pool(folder, settings, spares=0)

    def _choose(self, random: Random) -> Fault:
        weighted: list[tuple[Fault, int]] = [
            (faults.kill_at_a_step, 50),
            (faults.kill_at_a_random_moment, 12),
            (faults.pause, 3),
            (faults.lose_the_checkpoint, 4),
            (faults.restore_an_old_checkpoint, 6),
            (faults.others_at_work(self._others), 15),
        ]
        if self._cluster is not None:
            weighted.append((faults.kill_an_executor(self._cluster), 50))
        else:
            weighted += [
                (faults.kill_a_worker, 8),
                (faults.stop_and_replace, 10),
                (faults.rival, 6),
                (faults.stranger, 4),
            ]
        wanted = [one for one in weighted if not self.plan.only or _name(one[0]) in self.plan.only]
        chosen, weights = zip(*wanted, strict=True)
        fault: Fault = random.choices(chosen, weights)[0]
        return fault

    def _compare_engines(self, round: Round) -> None:
        """The last snapshot of each table, read by a second engine."""
        for checker in round.checkers:
            last = max(checker.seen.values(), key=lambda seen: seen.frontier)
            rows = in_order(self._others.read(round, checker, last))
            if rows != last.rows:
                raise Violation(f"engines differ on {last.snapshot_id}: {difference(rows, last.rows)}")

    def _told(self, round: Round, violation: Violation) -> str:
        return (
            f"seed {round.seed}, {round.kind.name}: {violation}\n"
            f"what was done to it (folder {round.folder}):\n  " + "\n  ".join(round.history)
        )


def _name(fault: Fault) -> str:
    with suppress(AttributeError):
        return fault.__qualname__.partition(".")[0].replace("_", " ")
    return str(fault)


def report(nemesis: Nemesis, steps: Sequence[str] = faults.STEPS) -> str:
    """What a run did, for people."""
    tally, reached = nemesis.tally, nemesis.steps_reached()
    spared = sorted(reached & set(steps) - tally.kills.keys())
    lines = [
        f"{tally.killed} kills, {tally.snapshots} snapshots compared, {tally.micro_batches} micro-batches",
        "faults: " + ", ".join(f"{name} {count}" for name, count in tally.faults.most_common()),
        "kills by step:",
        *(f"  {tally.kills[step]:4d}  {step}" for step in steps if tally.kills[step]),
        *(f"  {count:4d}  {how}" for how, count in tally.kills.items() if how not in steps),
        "reached, and nobody killed there: " + (", ".join(spared) or "none"),
        "never reached: " + (", ".join(sorted(set(steps) - reached)) or "none"),
    ]
    return "\n".join(lines)
