"""Rounds: one table each, raced for through the proxy, then checked as a whole.

    seed ──▶ round 0: a table, a source, a schedule ──▶ proxy, two competitors, somebody ──▶ checker
         ──▶ round 1 …                                                        until the time is over

A round that was cut off by the clock is checked like any other: what is promised is promised at any time.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol
from uuid import uuid4

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from calve import CalveError, IcebergSink, SinkConfig
from calve.runtime.clock import Clock
from tests.faults.checker import Checker, Violation
from tests.faults.proxy import Proxy
from tests.faults.runs import Competitor, HastyClock, Scene, Somebody
from tests.faults.schedule import Fault, Kind, Schedule
from tests.faults.source import Source

NAMESPACE = "faults"
TIMEOUT_MS = 200
_END_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done."""

    seed: int
    seconds: float
    epochs: int = 80
    """Of a round: a table's metadata grows with each, and all of it is read after every fault."""
    rounds_max: int = 1_000_000
    lanes: int = 3
    """Rounds at a time: most of the time each waits for an answer that does not come."""
    modes: tuple[str, ...] = ("upsert", "append")


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a round goes through."""

    schedule: Schedule | None = None
    """Faults of the network; by the round's seed where nothing is said."""
    timeout_ms: int = TIMEOUT_MS
    expected: tuple[type[CalveError], ...] = ()
    inserts: bool = True
    """Whether somebody else inserts rows."""
    clock: Callable[[str], Clock] = lambda _: HastyClock()
    """The clock of a run, by the run's name."""
    meanwhile: Callable[[Proxy], None] = lambda _: None
    """What is done beside the race; called once with the proxy, before it begins."""


@dataclass(slots=True)
class Tally:
    """What was done."""

    rounds: int = 0
    commits: int = 0
    claims: int = 0
    inserts: int = 0
    acknowledged: int = 0
    requests: int = 0
    faults: Counter[tuple[Kind, Fault]] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    """Errors after which an epoch was committed again."""
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, scene: Scene, proxy: Proxy, checker: Checker | None) -> None:
        """A round that was checked."""
        with self._lock:
            self.rounds += 1
            self.faults += proxy.faults
            self.ends += scene.ends
            self.met += scene.met
            self.requests += proxy.requests
            self.acknowledged += len(scene.told.acknowledged)
            if checker is not None:
                self.commits += checker.commits
                self.claims += checker.claims
                self.inserts += checker.inserts

    def report(self) -> str:
        lines = [
            f"{self.rounds} rounds in {self.seconds:.0f} s: {self.commits} commits, {self.claims} claims, "
            f"{self.inserts} inserts by somebody else, {self.requests} requests, "
            f"{self.faults.total()} faults",
            "ends of runs: " + ", ".join(f"{count} × {end}" for end, count in self.ends.most_common()),
            "sent again after: " + ", ".join(f"{count} × {error}" for error, count in self.met.most_common()),
        ]
        for (kind, fault), count in sorted(
            self.faults.items(), key=lambda item: (item[0][0].value, item[0][1].name)
        ):
            lines.append(f"  {count:6} {kind.value}: {fault.name}")
        return "\n".join(lines)


class Server(Protocol):
    """A real catalog server, as these tests reach it."""

    @property
    def own_tokens(self) -> bool:
        """Whether the proxy makes the tokens: a server that checks them makes them itself."""
        ...

    @property
    def uri(self) -> str: ...

    def options(self, uri: str, run: str, timeout_ms: int) -> dict[str, object]:
        """Options of a run's connection through the proxy at `uri`."""
        ...

    def direct(self) -> Catalog:
        """PyIceberg's own catalog, at the server itself."""
        ...


def run(plan: Plan, server: Server, folder: Path, say: Callable[[str], None] = lambda _: None) -> Tally:
    """Rounds, some at a time, until the time is over. A violation names the seed, and leaves the log."""
    tally = Tally()
    started = time.monotonic()
    deadline = started + plan.seconds
    numbers = iter(range(plan.rounds_max))
    failed = threading.Event()

    def lane() -> None:
        while time.monotonic() < deadline and not failed.is_set():
            number = next(numbers, None)
            if number is None:
                return
            one = Round(plan, number, server, deadline)
            try:
                one.run(tally)
            except BaseException as error:
                failed.set()
                log = folder / f"faults-{plan.seed}-{number}.log"
                log.write_text("\n".join(one.log), encoding="utf-8")
                error.add_note(f"seed {plan.seed}, round {number}; what the proxy did: {log}")
                raise
            say(f"round {number}: {tally.commits} commits, {tally.faults.total()} faults so far")

    with ThreadPoolExecutor(plan.lanes) as pool:
        lanes = [pool.submit(lane) for _ in range(plan.lanes)]
    tally.seconds = time.monotonic() - started
    for done in lanes:
        done.result()
    return tally


_USUAL = Conditions()


class Round:
    """One table, from its first epoch to its check."""

    def __init__(
        self, plan: Plan, number: int, server: Server, deadline: float, conditions: Conditions = _USUAL
    ) -> None:
        self.seed = f"{plan.seed}/{number}"
        self._conditions = conditions
        self._server = server
        self._deadline = deadline
        self._mode = plan.modes[number % len(plan.modes)]
        self._source = Source(self.seed, plan.epochs, keyed=self._mode == "upsert")
        # A server that goes on after a test may hold the tables of another.
        self._table = f"t{number}_{uuid4().hex[:8]}"
        self.log: list[str] = []

    def run(self, tally: Tally) -> None:
        conditions = self._conditions
        schedule = conditions.schedule or Schedule(self.seed)
        with Proxy(
            self._server.uri, schedule, conditions.timeout_ms, own_tokens=self._server.own_tokens
        ) as proxy:
            self.log = proxy.log
            conditions.meanwhile(proxy)
            scene = self._race(proxy)
            proxy.drain()
            if scene.failure is not None:
                raise scene.failure
            checker = self._check(scene)
            tally.add(scene, proxy, checker)

    def _race(self, proxy: Proxy) -> Scene:
        def make_sink(name: str) -> IcebergSink:
            return IcebergSink(self._config(proxy.uri, name), clock=self._conditions.clock(name))

        scene = Scene(
            (NAMESPACE, self._table),
            self._source,
            make_sink,
            self._server.direct,
            self._deadline,
            self._conditions.expected,
        )
        threads = [
            Competitor("a", scene, Random(f"{self.seed}/a")),
            Competitor("b", scene, Random(f"{self.seed}/b")),
            *([Somebody(scene, Random(f"{self.seed}/somebody"))] if self._conditions.inserts else []),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, self._deadline - time.monotonic()) + _END_SECONDS)
            if thread.is_alive():
                raise Violation(f"{thread.name} does not end: {scene.ends}")
        return scene

    def _config(self, uri: str, run: str) -> SinkConfig:
        options: dict[str, object] = {
            "namespace": NAMESPACE,
            "table.name": self._table,
            "write.mode": self._mode,
            # Few, so that callers are told of doubts and send an epoch again; many, so that they are settled.
            "commit.attempts": Random(f"{self.seed}/{run}").choice((2, 3, 10)),
            **({"equality.delete.columns": "id"} if self._source.keyed else {}),
            **self._server.options(uri, run, self._conditions.timeout_ms),
        }
        return SinkConfig.from_options(options)

    def _check(self, scene: Scene) -> Checker | None:
        """The whole history; `None` where there is none."""
        catalog = self._server.direct()
        try:
            table = catalog.load_table((NAMESPACE, self._table))
        except NoSuchTableError:
            if scene.told.acknowledged:
                raise Violation("P3: epochs were acknowledged, and there is no table") from None
            return None
        finally:
            catalog.close()
        checker = Checker(table, self._source, f"{NAMESPACE}.{self._table}")
        checker.check(scene.told)
        return checker


def play(seed: int, server: Server, conditions: Conditions, *, epochs: int) -> Tally:
    """One round to its last epoch, checked."""
    plan = Plan(seed, seconds=250, epochs=epochs, modes=("upsert",))
    tally = Tally()
    one = Round(plan, 0, server, time.monotonic() + plan.seconds, conditions)
    try:
        one.run(tally)
    except BaseException:
        print("\n".join(one.log[-200:]))
        raise
    print(tally.report())
    if not tally.ends["the end"]:
        raise Violation("no run came to the last epoch")
    return tally
