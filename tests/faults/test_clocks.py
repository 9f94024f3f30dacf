"""Drivers whose clocks are an hour off, in both directions, under the faults of the network."""

from __future__ import annotations

import pytest

from calve.runtime.clock import Clock
from tests.faults.backends import ReferenceServer, SeaweedServer
from tests.faults.rounds import Conditions, Server, play
from tests.faults.runs import HastyClock

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

SEED = 3
HOUR_MS = 3_600_000


class WrongClock(HastyClock):
    """The machine's clock, some time off."""

    def __init__(self, off_ms: int) -> None:
        self._off_ms = off_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._off_ms


@pytest.mark.parametrize(
    "name, a_ms, b_ms",
    [
        pytest.param("reference", HOUR_MS, HOUR_MS, id="both an hour ahead"),
        pytest.param("reference", -HOUR_MS, HOUR_MS, id="one behind, one ahead"),
        pytest.param("reference", -HOUR_MS, -HOUR_MS, id="both an hour behind", marks=pytest.mark.nightly),
        pytest.param("seaweedfs", -HOUR_MS, HOUR_MS, id="one behind, one ahead of SeaweedFS"),
    ],
)
def test_runs_whose_clocks_are_an_hour_off_keep_every_promise_and_go_on(
    name: str, a_ms: int, b_ms: int, request: pytest.FixtureRequest
) -> None:
    """A server may refuse a snapshot that is ahead of its own clock: the sink goes on all the same."""
    server: Server = (
        ReferenceServer(request.getfixturevalue("iceberg_rest"))
        if name == "reference"
        else SeaweedServer(request.getfixturevalue("seaweedfs"))
    )

    def clock(run: str) -> Clock:
        return WrongClock(a_ms if run.startswith("a") else b_ms)

    tally = play(SEED, server, Conditions(inserts=False, clock=clock), epochs=25)
    assert not tally.met["CommitConflict"]
