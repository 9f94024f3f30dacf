"""What a sink says of itself, as values."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from calve import ForeignRows
from calve.runtime.foreign import Foreign
from calve.runtime.health import Health, SinkMetrics
from calve.table.lineage import Lineage
from tests.support.sinks import Warehouse, changes, commit


def snapshot(number: int, operation: Operation = Operation.APPEND, **counts: str) -> Snapshot:
    texts = {name.replace("_", "-"): value for name, value in counts.items()}
    return Snapshot(
        snapshot_id=number, timestamp_ms=number, manifest_list="m", summary=Summary(operation, **texts)
    )


def test_rates_need_time() -> None:
    assert SinkMetrics().records_per_second == 0.0
    assert SinkMetrics(rows_flushed=100, open_ms=500.0).records_per_second == 200.0


def test_each_foreign_snapshot_is_counted_once_however_often_it_is_seen() -> None:
    foreign = Foreign("ns.t", "ns.t", halt=False)
    one, two, three = (snapshot(number, added_records=str(number)) for number in (1, 2, 3))
    foreign.count(Lineage(True, (two, one)))
    foreign.count(Lineage(True, (two, one)))
    foreign.count(Lineage(True, (three, two, one)))
    foreign.count(Lineage(True, ()))
    assert (foreign.rows, foreign.snapshots) == (6, 3)


def test_a_rewrite_adds_no_rows_and_one_that_drops_deletes_is_noted() -> None:
    """Case 38."""
    foreign = Foreign("ns.t", "ns.t", halt=True)
    foreign.count(Lineage(True, (snapshot(1, Operation.REPLACE, added_records="500"),)))
    assert (foreign.rows, foreign.rewrites_that_dropped_deletes) == (0, 0)
    foreign.count(Lineage(True, (snapshot(2, Operation.REPLACE, removed_equality_delete_files="1"),)))
    assert foreign.rewrites_that_dropped_deletes == 1
    with pytest.raises(ForeignRows):
        foreign.count(Lineage(True, (snapshot(3, Operation.OVERWRITE, added_records="1"),)))


def test_case_38_a_sink_beside_a_rewrite_that_dropped_deletes_is_degraded(tmp_path: Path) -> None:
    with Warehouse(tmp_path / "warehouse").upsert() as sink:
        commit(sink, 0, changes((1, "a", "I")))
        assert sink._coordinator is not None
        sink._coordinator.foreign.rewrites_that_dropped_deletes = 1
        status = sink.health_check()
    assert status.health is Health.DEGRADED
    assert "compare the table with its source" in status.hint


def test_a_commit_of_the_sink_itself_is_not_foreign() -> None:
    foreign = Foreign("ns.t", "ns.t", halt=True)
    ours = Summary(Operation.APPEND, **{"calve.sink-id": "ns.t", "added-records": "5"})
    foreign.count(Lineage(True, (Snapshot(snapshot_id=1, timestamp_ms=1, manifest_list="m", summary=ours),)))
    assert foreign.snapshots == 0
