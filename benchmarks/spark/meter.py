"""What a running stream took for a round of files: its micro-batches, and the CPU of all its processes.

Time is Spark's own `triggerExecution` of the micro-batches that had rows: from looking for new files to the
entry in the commit log, for us and for a peer alike. A query that idles between its rounds costs a listing a
second. CPU time is that of this process and of all that descend from it: driver, JVM, Python workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.spark.feed import Feed

KINDS = ("driver", "JVM", "workers")

TRIGGER = "1 second"
"""How often an idle query looks for files."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a round took: micro-batches by the clock, and CPU time by who spent it."""

    wall_s: float
    driver_s: float
    jvm_s: float
    workers_s: float

    @property
    def cpu_s(self) -> float:
        return self.driver_s + self.jvm_s + self.workers_s


@dataclass(eq=False, slots=True)
class Running:
    """A query that runs, and the feed that it reads."""

    name: str
    feed: Feed
    start: Callable[[], Any]
    """Starts the query; called once there is a first round to read."""
    query: Any = None
    _seen: int = -1

    def round(self, files: Sequence[Path]) -> Spent:
        """Feed files and wait until they are in the table."""
        before = cpu_by_kind()
        self.feed.add(files)
        if self.query is None:
            self.query = self.start()
        self.query.processAllAvailable()
        wall_s = sum(self.new_micro_batches_ms()) / 1000
        if wall_s == 0:
            raise RuntimeError(f"{self.name} saw no row of its round")
        after = cpu_by_kind()
        return Spent(wall_s, *(after[kind] - before[kind] for kind in KINDS))

    def new_micro_batches_ms(self) -> list[float]:
        """How long each micro-batch with rows took that was not told before."""
        fresh = [
            one for one in self.query.recentProgress if one["batchId"] > self._seen and one["numInputRows"]
        ]
        self._seen = max((one["batchId"] for one in fresh), default=self._seen)
        return [one["durationMs"]["triggerExecution"] for one in fresh]

    def stop(self) -> None:
        """End the query; its table stays."""
        if self.query is not None:
            self.query.stop()


@dataclass(frozen=True, slots=True)
class Rounds:
    """What each round of one stream took."""

    each: tuple[Spent, ...]

    @property
    def median(self) -> Spent:
        """The median of each number."""
        names = (field.name for field in fields(Spent))
        return Spent(*(median(getattr(one, name) for one in self.each) for name in names))

    @property
    def wall_s(self) -> float:
        return median(one.wall_s for one in self.each)

    @property
    def cpu_s(self) -> float:
        return median(one.cpu_s for one in self.each)

    @property
    def spread(self) -> float:
        """The slowest round over the fastest."""
        return max(one.wall_s for one in self.each) / min(one.wall_s for one in self.each)


def take_turns(streams: Mapping[Running, Sequence[Sequence[Path]]], warm_ups: int) -> dict[str, Rounds]:
    """Feed each stream its rounds of files, one stream at a time, in turns; the first rounds only warm up."""
    took: dict[str, list[Spent]] = {stream.name: [] for stream in streams}
    for number in range(min(map(len, streams.values()))):
        for stream, files in streams.items():
            one = stream.round(files[number])
            if number >= warm_ups:
                took[stream.name].append(one)
    return {name: Rounds(tuple(all_of_it)) for name, all_of_it in took.items()}


def cpu_seconds() -> float:
    """CPU time of this process and of its descendants; of those that ended, as far as a parent waited."""
    return sum(cpu_by_kind().values())


def cpu_by_kind() -> dict[str, float]:
    """The same, apart: the driver's Python, the JVM, the Python workers."""
    spent = dict.fromkeys(KINDS, 0.0)
    for process in descendants(os.getpid()):
        stat = read_proc(process, "stat")
        if stat is None:
            continue
        name, _, rest = stat.rpartition(")")
        kind = "driver" if process == os.getpid() else "JVM" if "(java" in name else "workers"
        spent[kind] += sum(map(int, rest.split()[11:15])) / os.sysconf("SC_CLK_TCK")
    return spent


def read_proc(process: int, what: str) -> str | None:
    """A file that the kernel has of a process; `None` if the process is gone."""
    try:
        return Path(f"/proc/{process}/{what}").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None


def descendants(root: int) -> Iterator[int]:
    """A process and all below it."""
    yield root
    try:
        tasks = os.listdir(f"/proc/{root}/task")
    except (FileNotFoundError, ProcessLookupError):
        return  # it has ended meanwhile
    for task in tasks:
        for child in (read_proc(root, f"task/{task}/children") or "").split():
            yield from descendants(int(child))
