"""Servers that are killed in the middle and come back, a full disk, a lost right, clocks that are wrong.

Cases 4, 22, 24, 27, 31, 33 and 35, on real servers; afterwards the same checks as after any other round.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from random import Random

import pytest

from calve.runtime.clock import Clock
from tests.faults.backends import ReferenceServer
from tests.faults.proxy import Proxy, Request
from tests.faults.rounds import Conditions, Plan, Round, Tally
from tests.faults.runs import HastyClock
from tests.faults.schedule import Kind, Scripted
from tests.support.servers.iceberg_rest import IcebergRest
from tests.support.servers.process import Server

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

SEED = 3
HOUR_MS = 3_600_000


def play(server: ReferenceServer, conditions: Conditions, *, epochs: int, mode: str = "upsert") -> Tally:
    """One round to its last epoch, checked."""
    plan = Plan(SEED, seconds=120, epochs=epochs, modes=(mode,))
    tally = Tally()
    one = Round(plan, 0, server, time.monotonic() + plan.seconds, conditions)
    try:
        one.run(tally)
    except BaseException:
        print("\n".join(one.log[-200:]))
        raise
    print(tally.report())
    assert tally.ends["the end"], "no run came to the last epoch"
    return tally


class Killer:
    """Kills a server while it works on a commit, a given time after the request was sent, and starts it
    again."""

    def __init__(self, server: Server, delays_ms: dict[int, float]) -> None:
        """`delays_ms`: by the number of the commit."""
        self._server = server
        self._delays_ms = dict(delays_ms)
        self._lock = threading.Lock()
        self.kills = 0

    def watch(self, proxy: Proxy) -> None:
        proxy.before_forward = self._before

    def _before(self, request: Request) -> None:
        delay_ms = self._delays_ms.pop(request.nth, None) if request.kind is Kind.COMMIT else None
        if delay_ms is not None:
            threading.Thread(target=self._kill, args=(delay_ms,), daemon=True).start()

    def _kill(self, delay_ms: float) -> None:
        with self._lock:  # one death at a time
            time.sleep(delay_ms / 1000)
            self._server.kill()
            self.kills += 1
            self._server.start()


def test_a_catalog_that_is_killed_in_the_middle_of_commits_has_each_of_them_once() -> None:
    random = Random(SEED)
    with IcebergRest() as server:
        killer = Killer(server, {8 + 9 * number: random.uniform(0, 25) for number in range(3)})
        conditions = Conditions(Scripted(), timeout_ms=2_000, inserts=False, meanwhile=killer.watch)
        play(ReferenceServer(server), conditions, epochs=36)
    assert killer.kills == 3


class WrongClock(HastyClock):
    """The machine's clock, some time off."""

    def __init__(self, off_ms: int) -> None:
        self._off_ms = off_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._off_ms


def test_runs_whose_clocks_are_an_hour_off_in_both_directions_keep_every_promise(
    iceberg_rest: IcebergRest,
) -> None:
    """One run is an hour behind, the other an hour ahead, under the faults of the network."""
    used: Counter[int] = Counter()

    def clock(run: str) -> Clock:
        off_ms = -HOUR_MS if run.startswith("a") else HOUR_MS
        used[off_ms] += 1
        return WrongClock(off_ms)

    play(ReferenceServer(iceberg_rest), Conditions(inserts=False, clock=clock), epochs=40)
    assert len(used) == 2
