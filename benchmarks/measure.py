"""Measuring on a machine that others use: in turns, several times, medians, CPU time beside wall time.

Us and the peer take turns inside one run, so that whatever slows the machine down slows both. A ratio is
the median of the ratios of the rounds, not the ratio of two medians: each round had its own weather.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Took:
    """What one run took. CPU time is that of the whole process, all threads."""

    wall_s: float
    cpu_s: float


def timed(act: Callable[..., object], *arguments: object) -> Took:
    """Run once, with the garbage of what went before collected outside of the time."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    act(*arguments)
    return Took(time.perf_counter() - wall, time.process_time() - cpu)


@dataclass(frozen=True, slots=True)
class Duel:
    """Rounds of us and the peer."""

    ours: tuple[Took, ...]
    peer: tuple[Took, ...]

    @property
    def ours_s(self) -> float:
        return median(took.wall_s for took in self.ours)

    @property
    def peer_s(self) -> float:
        return median(took.wall_s for took in self.peer)

    @property
    def ours_cpu_s(self) -> float:
        return median(took.cpu_s for took in self.ours)

    @property
    def peer_cpu_s(self) -> float:
        return median(took.cpu_s for took in self.peer)

    @property
    def speedup(self) -> float:
        """How many times faster we are, by the wall clock."""
        return median(peer.wall_s / ours.wall_s for ours, peer in zip(self.ours, self.peer, strict=True))

    @property
    def speedup_cpu(self) -> float:
        """The same by CPU time."""
        return median(peer.cpu_s / ours.cpu_s for ours, peer in zip(self.ours, self.peer, strict=True))


def duel(rounds: int, ours: Callable[[int], object], peer: Callable[[int], object]) -> Duel:
    """Let both run in turns; each is told the number of the round."""
    ours_took, peer_took = [], []
    for number in range(rounds):
        ours_took.append(timed(ours, number))
        peer_took.append(timed(peer, number))
    return Duel(tuple(ours_took), tuple(peer_took))


class CpuClock:
    """A sink's clock whose durations are CPU time: what others do on the machine is not in them."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def ticks_ms(self) -> float:
        return time.process_time() * 1000

    def wait_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)


def milliseconds(took: Sequence[Took]) -> float:
    """The median of the wall time."""
    return 1000 * median(one.wall_s for one in took)
