"""A short run of the fault proxy for every day, a long one for the night. Cases 4, 7, 10, 15–26 and 41."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.faults.backends import ReferenceServer
from tests.faults.rounds import Plan, run
from tests.faults.schedule import Kind, all_faults
from tests.support.servers.iceberg_rest import IcebergRest

pytestmark = [pytest.mark.servers]

SEED = 5


@pytest.fixture
def server(iceberg_rest: IcebergRest) -> ReferenceServer:
    return ReferenceServer(iceberg_rest)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Warnings of thousands of commits that go wrong on purpose tell nothing."""
    for name in ("calve", "pyiceberg"):
        caplog.set_level(logging.CRITICAL, name)


@pytest.mark.timeout(300)
def test_two_runs_of_a_sink_keep_every_promise_whatever_the_network_answers(
    server: ReferenceServer, tmp_path: Path
) -> None:
    tally = run(Plan(SEED, seconds=60), server, tmp_path, print)
    print(tally.report())
    assert tally.commits >= 50
    # A fault that a client never meets would prove nothing.
    seen = {fault.reply for (kind, fault) in tally.faults if kind is Kind.COMMIT}
    assert seen == {fault.reply for (kind, fault) in all_faults() if kind is Kind.COMMIT}
    assert tally.ends["Fenced"] >= 10


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [SEED + 1, SEED + 2])
def test_thousands_of_commits_keep_every_promise_whatever_the_network_answers(
    seed: int, server: ReferenceServer, tmp_path: Path
) -> None:
    tally = run(Plan(seed, seconds=900, epochs=150), server, tmp_path, print)
    print(tally.report())
    assert set(tally.faults) == all_faults()
    assert tally.commits >= 2_000
