"""The snapshots of a table: whose each is, and what it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.table.snapshots import Summary
from pyiceberg.table.update import AddSnapshotUpdate

from calve.model.progress import fence_property, tag_name
from calve.table.base import read_base
from calve.table.history import Kind, entries
from calve.table.sinks import dropped, sink_ids
from calve.table.unchanged import unchanged
from tests.support.sinks import NAME, Warehouse
from tests.support.timed import Timed, insert, rewrite, set_ref


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def test_commits_claims_and_what_others_did_are_told_apart_newest_first(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    first, second = sink.put(10)[0], sink.put(25, ids=(1, 2))[0]
    foreign = insert(warehouse, 7, 8)
    compacted = rewrite(warehouse)
    found = entries(warehouse.load().metadata)
    assert [(one.snapshot_id, one.kind) for one in found[:4]] == [
        (compacted, Kind.REWRITE),
        (foreign, Kind.FOREIGN),
        (second, Kind.COMMIT),
        (first, Kind.COMMIT),
    ]
    (claim,) = found[4:]
    assert (claim.kind, claim.on_main, claim.sink_id) == (Kind.CLAIM, False, "ns.t")
    assert all(one.on_main for one in found[:4])
    assert [one.sink_id for one in found[:4]] == [None, None, "ns.t", "ns.t"]


def test_a_commit_says_its_batch_its_run_and_what_it_changed(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    sink.put(10, ids=(1, 2, 3))
    sink.put(25, ids=(1, 2))
    last = entries(warehouse.load().metadata)[0]
    assert last.progress is not None
    assert (last.progress.lower, last.progress.frontier, last.progress.generation) == (10, 25, 1)
    assert last.progress.writer == sink.run.writer
    assert (last.operation, last.counts.rows_added, last.counts.keys_deleted) == ("overwrite", 2, 2)
    assert (last.counts.data_files_added, last.counts.delete_files_added) == (1, 1)
    assert last.refs == (tag_name("ns.t"), "main")
    assert int(last.committed_at.timestamp() * 1000) == pytest.approx(sink.clock.now_ms(), abs=10)


def test_it_is_told_to_programs_with_times_as_text(warehouse: Warehouse) -> None:
    time = 1_698_775_840_453_391_000 * 10**10
    Timed(warehouse, "hlc").put(time + 1)
    last, claim = (json.loads(json.dumps(one.to_json())) for one in entries(warehouse.load().metadata))
    assert (last["frontier"], last["frontier_text"]) == (
        str(time + 1),
        "1698775840453391000.0000000001",
    )
    assert last["frontier_at"] == "2023-10-31T18:10:40.453391+00:00"
    assert (claim["kind"], claim["frontier"], claim["frontier_at"]) == ("claim", "0", None)


def test_a_rewrite_that_took_equality_deletes_away_is_marked(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    sink.put(10)
    rewrite(warehouse)
    bad = rewrite(warehouse, removed_equality_deletes=2)
    marked = [one.snapshot_id for one in entries(warehouse.load().metadata) if one.dropped_deletes]
    assert marked == [bad]


def test_what_was_rolled_back_is_not_on_main(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    first, second = (sink.put(upper)[0] for upper in (10, 20))
    set_ref(warehouse, "main", first, "branch")
    on_main = {one.snapshot_id: one.on_main for one in entries(warehouse.load().metadata)}
    assert (on_main[first], on_main[second]) == (True, False)


def test_with_the_fence_on_main_a_claim_is_on_main(warehouse: Warehouse) -> None:
    Timed(warehouse, options={"fence": "main"}).put(10)
    found = entries(warehouse.load().metadata)
    assert [(one.kind, one.on_main) for one in found] == [(Kind.COMMIT, True), (Kind.CLAIM, True)]


def test_a_snapshot_whose_progress_cannot_be_read_is_shown_as_that(warehouse: Warehouse) -> None:
    Timed(warehouse).put(10)
    with warehouse.catalog() as catalog:
        table = catalog.load_table(NAME)
        made, _ = unchanged(read_base(table), table.metadata.current_snapshot(), 77, 0, {})
        assert made.summary is not None
        says = {"calve.sink-id": "ns.t", "calve.frontier": "soon", "added-records": "many"}
        made = made.model_copy(update={"summary": Summary(made.summary.operation, **says)})
        catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=made),))
    last = entries(warehouse.load().metadata)[0]
    assert (last.snapshot_id, last.kind, last.sink_id, last.progress) == (77, Kind.UNREADABLE, "ns.t", None)
    assert last.counts.rows_added == 0


def test_the_sinks_of_a_table_are_known_by_their_marks_and_tags(warehouse: Warehouse) -> None:
    for name in ("b", "a"):
        Timed(warehouse, options={"writer_id": name})
    Timed(warehouse, options={"writer_id": "a.replay"})  # rows of the quarantine of `a`
    Timed(warehouse, options={"writer_id": "c", "fence": "main"}).put(5)
    set_ref(warehouse, "calve-of-somebody", warehouse.load().metadata.snapshots[0].snapshot_id)
    metadata = warehouse.load().metadata
    assert sink_ids(metadata) == ("a", "b", "c")
    assert fence_property("c") in metadata.properties
    assert dropped(metadata) == {}


def test_a_tag_alone_is_a_sink_if_it_is_at_a_snapshot_of_it(warehouse: Warehouse) -> None:
    Timed(warehouse).put(10)
    with warehouse.catalog() as catalog, catalog.load_table(NAME).transaction() as change:
        change.remove_properties("calve.sink.ns.t")
    assert sink_ids(warehouse.load().metadata) == ("ns.t",)
