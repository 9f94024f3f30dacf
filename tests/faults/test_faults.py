"""A short run of the fault proxy for every day, a long one for the night. Cases 4, 7, 10, 15–26 and 41."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.faults.backends import ReferenceServer, SeaweedServer
from tests.faults.rounds import Plan, Server, run
from tests.faults.schedule import Act, Fault, Kind, Reply, all_faults

pytestmark = [pytest.mark.servers]

SEED = 5


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Warnings of thousands of commits that go wrong on purpose tell nothing."""
    for name in ("calve", "pyiceberg"):
        caplog.set_level(logging.CRITICAL, name)


def server_of(name: str, request: pytest.FixtureRequest) -> Server:
    if name == "reference":
        return ReferenceServer(request.getfixturevalue("iceberg_rest"))
    return SeaweedServer(request.getfixturevalue("seaweedfs"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name, seconds",
    # What is wrong is the network, whatever the server is: another one is for the night.
    [("reference", 35), pytest.param("seaweedfs", 25, marks=pytest.mark.nightly)],
)
def test_two_runs_of_a_sink_keep_every_promise_whatever_the_network_answers(
    name: str, seconds: float, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Cases 7, 10, 15 to 26 and 41."""
    tally = run(Plan(SEED, seconds), server_of(name, request), tmp_path, print)
    print(tally.report())
    assert tally.commits >= 30
    assert tally.ends["Fenced"] >= 3
    assert tally.met["CommitUnknown"], "no epoch was ever in doubt"
    # A fault that a client never meets would prove nothing.
    met = {fault for (kind, fault) in tally.faults if kind is Kind.COMMIT}
    assert len(met) >= 15
    assert tally.faults[Kind.LOAD, Fault(Act.DROP, Reply.OLDER)] >= 3


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["reference", "seaweedfs"])
def test_thousands_of_commits_keep_every_promise_whatever_the_network_answers(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Cases 7, 10, 15 to 26 and 41."""
    tally = run(Plan(SEED + 1, seconds=900, epochs=150), server_of(name, request), tmp_path, print)
    print(tally.report())
    assert set(tally.faults) == all_faults()
    assert tally.commits >= 1_000
