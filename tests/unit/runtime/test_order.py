"""The order of epochs: what is written, what is skipped, and from where a run goes on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve import Gap, SinkConfig, SinkState
from calve.runtime.order import admit
from tests.support.sinks import Warehouse, commit
from tests.support.truth import rows_of, snapshots_of_main, summary_of


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


@given(epoch=st.integers(0, 9), frontier=st.integers(0, 9), last_seen=st.integers(-1, 9))
def test_exactly_once_skips_what_is_in_the_table_and_at_least_once_nothing(
    epoch: int, frontier: int, last_seen: int
) -> None:
    exactly = SinkConfig(namespace="n", table="t")
    least = exactly.replace(delivery="at-least-once")
    assert admit(least, epoch, None, frontier=frontier, last_seen=last_seen)
    try:
        written = admit(exactly, epoch, None, frontier=frontier, last_seen=last_seen)
    except SinkState:
        assert frontier <= epoch <= last_seen
    else:
        assert written is (epoch >= frontier)


def rows(epoch: int) -> pa.Table:
    return pa.table({"epoch": [epoch]})


def test_at_least_once_goes_on_from_its_frontier_and_loses_no_epoch(warehouse: Warehouse) -> None:
    """What is sent again moves time on, and not the frontier: else a run that goes on from it would leave
    out epochs that never came."""
    with warehouse.sink(delivery_guarantee="at-least-once") as sink:
        for epoch in (0, 1, 2):
            commit(sink, epoch, rows(epoch))
    with warehouse.sink(delivery_guarantee="at-least-once") as sink:
        assert sink.frontier() == 3
        for epoch in (0, 1, 1):  # a caller that is not sure
            assert commit(sink, epoch, rows(epoch)).snapshot_id is not None
            assert sink.frontier() == sink.metrics().frontier == 3
    with warehouse.sink(delivery_guarantee="at-least-once") as sink:
        for epoch in range(sink.frontier(), 6):
            commit(sink, epoch, rows(epoch))
        assert sink.frontier() == 6
    table = warehouse.load()
    seen = sorted(row["epoch"] for row in rows_of(table))
    assert seen == [0, 0, 1, 1, 1, 2, 3, 4, 5]
    uppers = [int(summary_of(snapshot)["calve.frontier"]) for snapshot in snapshots_of_main(table)]
    assert uppers == sorted(set(uppers)), "P2 all the same"


def test_at_least_once_finds_a_gap_that_replays_would_hide(warehouse: Warehouse) -> None:
    with warehouse.sink(delivery_guarantee="at-least-once") as sink:
        for epoch in (0, 1, 0, 1, 0):
            commit(sink, epoch, rows(epoch))
        with pytest.raises(Gap, match="ends before epoch 2, but epoch 4 follows 3"):
            sink.begin_epoch(4, after=3)
        assert sink.begin_epoch(2, after=1)


def test_a_heartbeat_of_an_at_least_once_sink_moves_its_frontier(warehouse: Warehouse) -> None:
    with warehouse.sink(delivery_guarantee="at-least-once", heartbeat="2") as sink:
        commit(sink, 0, rows(0))
        commit(sink, 4)
        assert sink.frontier() == 5
