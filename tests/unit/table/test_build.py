"""Requests: what a claim and a group commit ask of the catalog, and what they require of the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
)

from calve import SinkConfig
from calve.model.batch import Batch
from calve.model.progress import Progress
from calve.runtime.coordinator import Coordinator
from calve.runtime.epoch import Epoch
from calve.runtime.hold import Identity
from calve.table.base import read_base
from calve.table.build import Builder, Ready
from calve.table.catalogs import open_catalog
from calve.table.fence import TagFence, read_progress
from calve.table.refs import AssertTag
from tests.support.sinks import NAME, CountingStore, MovableClock, Warehouse, changes, commit
from tests.support.truth import (
    Source,
    check_every_snapshot,
    entries_of,
    rows_of,
    snapshots_of_main,
    summary_of,
)

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def coordinator_of(catalog: Catalog) -> Coordinator:
    coordinator = Coordinator(catalog, Identity(NAME, "ns.t", "epoch"), clock=MovableClock())
    coordinator.claim()
    return coordinator


def ready_of(
    config: SinkConfig, coordinator: Coordinator, batch: Batch, rows: pa.Table, folder: Path
) -> Ready:
    epoch = Epoch(config, batch.upper - 1, batch, folder, "w0", MovableClock())
    epoch.add(rows, coordinator.base, coordinator.refresh)
    return epoch.close_files(coordinator.base)


@pytest.mark.parametrize("partition", ["", "bucket(2, id)", "v"])
def test_a_group_commit_is_one_request_with_a_snapshot_a_batch(
    warehouse: Warehouse, tmp_path: Path, partition: str
) -> None:
    """Each batch has its own sequence number, because equality deletes reach only older ones (P1, P2)."""
    options = {"partition_spec": partition} if partition else {}
    source = Source(("id",))
    with warehouse.upsert(**options) as sink:
        commit(sink, 0, ROWS)
    source.apply(0, ROWS.to_pylist())
    config = SinkConfig.from_options(
        warehouse.options(write_mode="upsert", equality_delete_columns="id", **options)
    )
    catalog = open_catalog(config.catalog)
    coordinator = coordinator_of(catalog)
    steps = [
        changes((1, f"v{epoch}", "u"), (2, "x", "D" if epoch % 2 else "u"), (10 + epoch, "n", "I"))
        for epoch in range(1, 11)
    ]
    batches = []
    for epoch, rows in enumerate(steps, 1):
        batches.append(ready_of(config, coordinator, Batch(epoch, epoch + 1), rows, tmp_path))
        source.apply(epoch, rows.to_pylist())
    before = len(warehouse.load().metadata.metadata_log)
    progress = coordinator.commit(batches)
    catalog.close()
    table = warehouse.load()
    assert len(table.metadata.metadata_log) == before + 1
    assert progress.frontier == 11
    assert check_every_snapshot(table, source) == 11
    chain = snapshots_of_main(table)
    sequences = [snapshot.sequence_number or 0 for snapshot in chain]
    assert sequences == sorted(set(sequences))
    stamps = [snapshot.timestamp_ms for snapshot in chain]
    assert stamps == sorted(set(stamps))
    bounds = [(int(summary_of(s)["calve.lower"]), int(summary_of(s)["calve.frontier"])) for s in chain]
    assert bounds == [(epoch, epoch + 1) for epoch in range(11)]
    assert len({summary_of(snapshot)["calve.batch-id"] for snapshot in chain}) == 11
    assert len([spec for spec in table.metadata.partition_specs if not spec.fields]) <= 1


def test_a_commit_requires_all_that_it_was_built_on(warehouse: Warehouse, tmp_path: Path) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
    config = SinkConfig.from_options(warehouse.options())
    with warehouse.catalog() as catalog:
        coordinator = coordinator_of(catalog)
        builder = Builder(TagFence("ns.t"))
        ready = ready_of(config, coordinator, Batch(1, 2), ROWS, tmp_path)
        prepared = builder.prepare(coordinator.base, ready, 77)
        attempt = builder.group_commit(coordinator.base, [prepared], coordinator.progress, 5, now_ms=1)
    metadata = coordinator.base.metadata
    wanted = {
        AssertTableUUID: metadata.table_uuid,
        AssertTag: 5,
        AssertCurrentSchemaId: 0,
        AssertLastAssignedFieldId: 2,
        AssertDefaultSpecId: 0,
        AssertDefaultSortOrderId: 0,
        AssertRefSnapshotId: metadata.current_snapshot_id,
    }
    assert {type(requirement) for requirement in attempt.requirements} == set(wanted)
    for requirement in attempt.requirements:
        values = requirement.model_dump()
        assert wanted[type(requirement)] in values.values(), requirement
    (fence,) = (required for required in attempt.requirements if isinstance(required, AssertTag))
    assert fence.ref == "calve-ns.t"
    added, main, tag = attempt.updates
    assert isinstance(added, AddSnapshotUpdate)
    assert added.snapshot.parent_snapshot_id == metadata.current_snapshot_id
    assert added.snapshot.timestamp_ms == metadata.last_updated_ms + 1, (
        "a clock that is behind is not believed"
    )
    assert isinstance(main, SetSnapshotRefUpdate)
    assert isinstance(tag, SetSnapshotRefUpdate)
    assert (main.ref_name, main.snapshot_id, main.type) == ("main", 77, "branch")
    assert (tag.ref_name, tag.snapshot_id, tag.type) == ("calve-ns.t", 77, "tag")


def test_a_claim_moves_the_tag_alone_and_keeps_the_progress(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        commit(sink, 4, ROWS)
        commit(sink, 9, ROWS)
    before = warehouse.load()
    with warehouse.upsert():
        pass
    after = warehouse.load()
    assert after.metadata.current_snapshot_id == before.metadata.current_snapshot_id
    assert rows_of(after) == rows_of(before)
    known, claimed = (read_progress(table, "ns.t") for table in (before, after))
    assert known is not None
    assert claimed is not None
    assert claimed.generation == known.generation + 1
    assert claimed.writer != known.writer
    assert (claimed.frontier, claimed.lower, claimed.committed, claimed.batch_id) == (
        known.frontier,
        known.lower,
        known.committed,
        known.batch_id,
    )
    tag = after.snapshot_by_id(after.metadata.refs["calve-ns.t"].snapshot_id)
    assert tag is not None
    paths = {entry.data_file.file_path for entry in entries_of(tag)}
    assert paths == {entry.data_file.file_path for entry in entries_of(snapshots_of_main(after)[-1])}
    assert summary_of(tag)["total-records"] == summary_of(snapshots_of_main(after)[-1])["total-records"]


def test_a_first_claim_is_fenced_as_well(warehouse: Warehouse) -> None:
    """On a table without snapshots PyIceberg checks no tag: two first claims must not both be taken."""
    schema = pa.schema([("id", pa.int64())])
    warehouse.folder.mkdir()
    with warehouse.catalog() as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(NAME, schema)
        base = read_base(table)
        assert base.main is None
        assert read_progress(base.table, "ns.t") is None
        attempts = []
        for number in (1, 2):
            coordinator = Coordinator(catalog, Identity(NAME, "ns.t", "epoch"))
            progress = Progress("ns.t", 0, 0, 1, coordinator.writer, "epoch")
            attempts.append(Builder(TagFence("ns.t")).claim(base, progress, number, now_ms=1))
        catalog.commit_table(table, attempts[0].requirements, attempts[0].updates)
        with pytest.raises(CommitFailedException):
            catalog.commit_table(table, attempts[1].requirements, attempts[1].updates)
        assert catalog.load_table(NAME).metadata.refs["calve-ns.t"].snapshot_id == 1


def test_p7_a_commit_lists_nothing_and_reads_nothing_but_metadata(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: manifests come from FileClosed alone; and what this run wrote itself it does not read again."""
    store = CountingStore()
    for place in ("calve.runtime.epoch.store_for", "calve.table.fileio.store_for"):
        monkeypatch.setattr(place, lambda *_: store)
    listed: list[object] = []
    merge = {"table_prop_commit_manifest_min-count-to-merge": "3"}
    with warehouse.upsert(partition_spec="bucket(2, id)", **merge) as sink:
        commit(sink, 0, ROWS)
        commit(sink, 1, ROWS)
        store.opened.clear()
        store.looked_at.clear()
        for name in ("listdir", "scandir"):
            monkeypatch.setattr(f"os.{name}", lambda *path: listed.append(path))
        for epoch in range(2, 9):
            commit(sink, epoch, ROWS)
    assert listed == []
    assert store.looked_at == []
    assert {location.rpartition(".")[2] for location in store.opened} == {"json"}, "only the table's metadata"
    assert all("/metadata/" in location for location in store.opened)
    monkeypatch.undo()
    assert len(rows_of(warehouse.load())) == 2


def test_p7_a_restarted_sink_reads_metadata_alone(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = {"table_prop_commit_manifest_min-count-to-merge": "3"}
    for epoch in range(2):
        with warehouse.upsert(**merge) as sink:
            commit(sink, epoch, ROWS)
    store = CountingStore()
    for place in ("calve.runtime.epoch.store_for", "calve.table.fileio.store_for"):
        monkeypatch.setattr(place, lambda *_: store)
    with warehouse.upsert(**merge) as sink:
        for epoch in range(2, 5):
            commit(sink, epoch, ROWS)
    assert not [location for location in store.opened if "/data/" in location]
    manifests = [location for location in store.opened if location.endswith("m0.avro")]
    assert manifests, "what an older run wrote is read back to be merged"
    assert len(manifests) == len({*manifests}), "and once"


def test_old_metadata_files_are_removed_where_the_table_asks_for_it(warehouse: Warehouse) -> None:
    asked = {
        "table_prop_write_metadata_delete-after-commit_enabled": "true",
        "table_prop_write_metadata_previous-versions-max": "3",
    }
    with warehouse.sink(**asked) as sink:
        for epoch in range(8):
            commit(sink, epoch, ROWS)
    table = warehouse.load()
    listed = {entry.metadata_file for entry in table.metadata.metadata_log} | {table.metadata_location}
    assert len(listed) == 4
    there = {
        f"file://{warehouse.folder}/{name}" for name in warehouse.files() if name.endswith(".metadata.json")
    }
    assert there == listed
    assert len(rows_of(table)) == 16


def test_old_metadata_files_stay_where_it_does_not(warehouse: Warehouse) -> None:
    with warehouse.sink(**{"table_prop_write_metadata_previous-versions-max": "2"}) as sink:
        for epoch in range(5):
            commit(sink, epoch, ROWS)
    assert sum(name.endswith(".metadata.json") for name in warehouse.files()) == 7
