"""Drivers whose clocks are an hour off, in both directions, under the faults of the network."""

from __future__ import annotations

import datetime as dt
from typing import Any

import botocore.auth
import pyarrow as pa
import pytest

from calve import AccessDenied, IcebergSink, SinkConfig
from calve.runtime.clock import Clock
from tests.faults.backends import ReferenceServer, SeaweedServer
from tests.faults.rounds import NAMESPACE, Conditions, Server, play
from tests.faults.runs import HastyClock
from tests.support.servers.seaweedfs import KEY, REGION, SECRET, SeaweedFS
from tests.support.sinks import commit

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

    tally = play(SEED, server, Conditions(inserts=False, clock=clock), epochs=12)
    assert not tally.met["CommitConflict"]


@pytest.mark.parametrize("off_ms", [-HOUR_MS, HOUR_MS])
def test_a_clock_that_is_too_wrong_for_signatures_is_told_and_the_epoch_waits(
    off_ms: int, seaweedfs: SeaweedFS, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SigV4 is good for some minutes: the server's own words reach the user, and nothing is lost. Case 27."""
    right = botocore.auth.get_current_datetime

    def wrong(*arguments: Any) -> dt.datetime:
        return right(*arguments) + dt.timedelta(milliseconds=off_ms)

    options = {
        **SeaweedServer(seaweedfs).options(seaweedfs.rest_uri, "only", 5_000),
        "namespace": NAMESPACE,
        "table.name": f"{table_name[-40:]}_{off_ms > 0}".lower(),
        "catalog.prop.rest.sigv4-enabled": "true",
        "catalog.prop.rest.signing-name": "s3tables",
        "catalog.prop.rest.signing-region": REGION,
        "catalog.prop.client.access-key-id": KEY,
        "catalog.prop.client.secret-access-key": SECRET,
    }
    del options["catalog.prop.credential"]
    rows = pa.table({"id": [1]})
    with IcebergSink(SinkConfig.from_options(options), clock=HastyClock()) as sink:
        commit(sink, 0, rows)
        sink.begin_epoch(1)
        sink.write_batch(rows)
        with monkeypatch.context() as patch:
            patch.setattr(botocore.auth, "get_current_datetime", wrong)
            with pytest.raises(AccessDenied, match="time"):
                sink.commit_epoch(1)
        assert sink.commit_epoch(1).snapshot_id is not None
        assert sink.frontier() == 2
