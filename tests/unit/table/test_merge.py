"""Own manifests merge at the table's threshold, and every snapshot stays what it was."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table

from calve import ConfigError
from tests.support.sinks import NAME, Warehouse, commit
from tests.support.truth import Source, check_every_snapshot, entries_of, rows_of, snapshots_of_main

MERGE_AT_3 = {"table_prop_commit_manifest_min-count-to-merge": "3"}


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def pour(warehouse: Warehouse, runs: list[range], **options: object) -> Source:
    source = Source(("id",), ("id", "v"))
    for run in runs:
        with warehouse.upsert(**options) as sink:
            for epoch in run:
                rows = [
                    {"id": epoch % 4, "v": f"v{epoch}", "_op": "u"},
                    {"id": 100 + epoch, "v": "new", "_op": "I"},
                    {"id": 100 + epoch - 2, "v": "gone", "_op": "D"},
                ]
                commit(sink, epoch, pa.Table.from_pylist(rows))
                source.apply(epoch, rows)
    return source


def manifests_of(table: Table, content: ManifestContent) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return sum(manifest.content == content for manifest in snapshot.manifests(table.io))


@pytest.mark.parametrize("runs", [[range(11)], [range(4), range(4, 5), range(5, 6), range(6, 11)]], ids=len)
@pytest.mark.parametrize("partition", ["", "bucket(2, id)", "v"])
def test_manifests_of_both_contents_merge_and_every_snapshot_stays_right(
    warehouse: Warehouse, partition: str, runs: list[range]
) -> None:
    """P1 before and after a restart: then the entries are read back from files."""
    options = {**MERGE_AT_3, **({"partition_spec": partition} if partition else {})}
    source = pour(warehouse, runs, **options)
    table = warehouse.load()
    assert check_every_snapshot(table, source) == 11
    # Tiers of three: at most two manifests a tier and three tiers, instead of 11.
    assert manifests_of(table, ManifestContent.DATA) <= 7
    assert manifests_of(table, ManifestContent.DELETES) <= 7
    total = {
        entry.data_file.file_path for snapshot in snapshots_of_main(table) for entry in entries_of(snapshot)
    }
    last = snapshots_of_main(table)[-1]
    assert {entry.data_file.file_path for entry in entries_of(last)} == total


def test_merging_can_be_switched_off(warehouse: Warehouse) -> None:
    options = {**MERGE_AT_3, "table_prop_commit_manifest-merge_enabled": "false"}
    source = pour(warehouse, [range(7)], **options)
    table = warehouse.load()
    assert manifests_of(table, ManifestContent.DATA) == 7
    assert check_every_snapshot(table, source) == 7


def test_only_own_manifests_are_merged(warehouse: Warehouse) -> None:
    """The sinks `a` and `a-1` have names that begin alike."""
    with warehouse.sink(writer_id="a", **MERGE_AT_3) as one, warehouse.sink(writer_id="a-1") as other:
        for epoch in range(2):
            commit(one, epoch, pa.table({"id": [epoch]}))
            commit(other, epoch, pa.table({"id": [epoch]}))
        with warehouse.catalog() as catalog:
            catalog.load_table(NAME).append(pa.table({"id": [9]}))
        commit(one, 2, pa.table({"id": [2]}))
    table = warehouse.load()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(table.io)) == 6
    assert len(rows_of(table)) == 6


@pytest.mark.parametrize(
    "narrow, wide, value",
    [
        (pa.int32(), pa.int64(), 2**40),
        (pa.float32(), pa.float64(), 0.1),
        (pa.decimal128(5, 2), pa.decimal128(20, 2), Decimal("123456789012.34")),
    ],
    ids=str,
)
@pytest.mark.parametrize("restart", [False, True])
def test_manifests_from_before_a_promotion_of_a_partition_column_are_not_mixed_with_later_ones(
    warehouse: Warehouse, narrow: pa.DataType, wide: pa.DataType, value: object, restart: bool
) -> None:
    """A float in four bytes amid doubles of eight would shift everything that follows it."""
    options = {**MERGE_AT_3, "partition_spec": "p", "schema_evolution": "true"}
    sink = warehouse.sink(**options).open()
    for epoch in range(2):
        commit(
            sink,
            epoch,
            pa.table({"p": pa.array([Decimal("1.00") if pa.types.is_decimal(narrow) else 1], narrow)}),
        )
    if restart:
        sink.close()
        sink = warehouse.sink(**options).open()
    for epoch in range(2, 7):
        commit(sink, epoch, pa.table({"p": pa.array([value], wide)}))
    sink.close()
    entries = entries_of(snapshots_of_main(warehouse.load())[-1])
    assert len(entries) == 7
    assert len({entry.data_file.file_path for entry in entries}) == 7
    assert sum(entry.data_file.record_count for entry in entries) == 7


def test_a_partition_column_that_was_dropped_stops_merging_and_nothing_else(warehouse: Warehouse) -> None:
    with warehouse.sink(partition_spec="p", **MERGE_AT_3) as sink:
        for epoch in range(3):
            commit(sink, epoch, pa.table({"id": [epoch], "p": ["x"]}))
        with warehouse.catalog() as catalog:
            table = catalog.load_table(NAME)
            with table.update_spec() as spec:
                spec.remove_field("p")
            with table.update_schema(allow_incompatible_changes=True) as schema:
                schema.delete_column("p")
    with warehouse.sink() as sink:
        for epoch in range(3, 8):
            commit(sink, epoch, pa.table({"id": [epoch]}))
        assert sink.frontier() == 8


def test_a_threshold_that_is_no_number_is_refused_by_name(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, pa.table({"id": [1]}))
        with warehouse.catalog() as catalog:
            with catalog.load_table(NAME).transaction() as transaction:
                transaction.set_properties({"commit.manifest.min-count-to-merge": "many"})
    with warehouse.sink() as sink:
        sink.begin_epoch(1)
        sink.write_batch(pa.table({"id": [1]}))
        with pytest.raises(ConfigError, match="min-count-to-merge"):
            sink.commit_epoch(1)


def test_manifests_that_are_as_large_as_the_table_wants_them_are_left_alone(warehouse: Warehouse) -> None:
    small = {"table_prop_commit_manifest_target-size-bytes": "1"}
    pour(warehouse, [range(7)], **MERGE_AT_3, **small)
    table = warehouse.load()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert not [m for m in snapshot.manifests(table.io) if "merged" in m.manifest_path]
