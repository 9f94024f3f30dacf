"""Epochs: what becomes of their rows, whatever the keys, the partitions, the schema and others do."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from calve import IcebergSink, PremiseBroken, SchemaMismatch, SinkState
from calve.model.errors import BadRow, StoreError
from tests.support.sinks import NAME, CountingStore, Warehouse, changes, commit
from tests.support.truth import (
    Source,
    check_every_snapshot,
    entries_of,
    ordered,
    rows_of,
    snapshots_of_main,
    summary_of,
)

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def between(sink: IcebergSink, act: Callable[[], object]) -> None:
    """Let somebody else act in the moment before the sink's next commit reaches the catalog."""
    catalog = sink._target.catalog
    assert catalog is not None
    real = catalog.commit_table

    def commit_table(*arguments: Any) -> Any:
        catalog.commit_table = real  # type: ignore[method-assign]
        act()
        return real(*arguments)

    catalog.commit_table = commit_table  # type: ignore[assignment, method-assign]


# -- upsert: every snapshot is the source (P1) -----------------------------------------------------

SHAPES: dict[str, dict[str, object]] = {
    "unpartitioned": {},
    "scoped": {"partition.spec": "bucket(3, a)"},
    "scoped by the whole key": {"partition.spec": "a, truncate(1, b)"},
    "global": {"partition.spec": "v"},
    "global by half of the key": {"partition.spec": "a, v"},
    "sorted": {"sort.order": "v DESC"},
    "void": {"partition.spec": "void(v), a"},
    "void of the key": {"partition.spec": "void(a)"},
}


@pytest.mark.parametrize("null_keys", ["refuse", "allow"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_every_snapshot_equals_the_source_as_of_its_epoch(
    warehouse: Warehouse, shape: str, null_keys: str, seed: int
) -> None:
    """P1, cases 44 to 48 and 67, over composite keys, with nulls in them where that is allowed."""
    random = Random(f"{shape} {null_keys} {seed}")
    source = Source(("a", "b"), ("a", "b", "v"))
    kinds = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.string()), ("_op", pa.string())])
    options = {
        **warehouse.options(write_mode="upsert"),
        "equality.delete.columns": "a, b",
        "null.keys": null_keys,
        "table.prop.commit.manifest.min-count-to-merge": "3",
        **SHAPES[shape],
    }
    nulls = [None] if null_keys == "allow" else []
    epochs = 6
    for run in (range(epochs // 2), range(epochs // 2, epochs)):
        with IcebergSink.from_options(options) as sink:
            for epoch in run:
                rows = [
                    {
                        "a": random.choice([1, 2, *nulls]),
                        "b": random.choice(["x", "y", "yz", *nulls]),
                        "v": random.choice(["p", "q", None]),
                        "_op": random.choice(["I", "u", "D"]),
                    }
                    for _ in range(random.randrange(1, 7))
                ]
                table = pa.Table.from_pylist(rows, kinds)
                cut = random.randrange(len(rows))
                commit(sink, epoch, table.slice(0, cut), table.slice(cut))
                source.apply(epoch, rows)
    assert check_every_snapshot(warehouse.load(), source) >= 1


def test_the_first_epoch_of_an_empty_table_writes_no_deletes(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        assert commit(sink, 0, ROWS).files == 1
        assert commit(sink, 1, ROWS).files == 2
    assert {entry.data_file.content.name for entry in entries_of(snapshots_of_main(warehouse.load())[0])} == {
        "DATA"
    }


def test_deletes_are_scoped_where_the_partition_follows_from_the_key_and_global_elsewhere(
    warehouse: Warehouse,
) -> None:
    def delete_specs(options: dict[str, object]) -> set[int]:
        with warehouse.upsert(**options) as sink:
            commit(sink, 0, ROWS)
            commit(sink, 1, ROWS)
        table = warehouse.load(("ns", str(options["table_name"])))
        specs = table.specs()
        return {
            len(specs[entry.data_file.spec_id].fields)
            for entry in entries_of(snapshots_of_main(table)[-1])
            if entry.data_file.equality_ids
        }

    assert delete_specs({"table_name": "scoped", "partition_spec": "bucket(2, id)"}) == {1}
    assert delete_specs({"table_name": "wide", "partition_spec": "v"}) == {0}


def test_an_epoch_larger_than_memory_is_right_all_the_same(warehouse: Warehouse, tmp_path: Path) -> None:
    """P9."""
    wide = "x" * 1000
    options = {"memory_limit": "32MB", "spill_folder": str(tmp_path / "spill"), "max_buffer_records": "2000"}
    with warehouse.upsert(**options) as sink:
        sink.begin_epoch(0)
        for start in range(0, 20_000, 2_000):
            ids = list(range(start, start + 2_000))
            sink.write_batch(pa.table({"id": ids, "v": [f"{i}{wide}" for i in ids]}))
        assert any((tmp_path / "spill").rglob("*.arrows"))
        sink.write_batch(pa.table({"id": [5], "v": ["last"]}))
        sink.commit_epoch(0)
    rows = rows_of(warehouse.load())
    assert len(rows) == 20_000
    assert [row["v"] for row in rows if row["id"] == 5] == ["last"]
    assert not any((tmp_path / "spill").rglob("*.arrows"))


# -- schema evolution ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_new_columns_and_wider_types_come_in_the_datas_own_commit(warehouse: Warehouse, mode: str) -> None:
    options: dict[str, object] = {"schema_evolution": "true", "write_mode": mode}
    if mode == "upsert":
        options["equality_delete_columns"] = "id"
    first = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "f": pa.array([0.5], pa.float32()),
            "d": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
            "s": pa.array([{"a": 1}], pa.struct([("a", pa.int32())])),
            "need": pa.array(["x"]),
        },
        schema=pa.schema(
            [
                ("id", pa.int32()),
                ("f", pa.float32()),
                ("d", pa.decimal128(5, 2)),
                ("s", pa.struct([("a", pa.int32())])),
                pa.field("need", pa.string(), nullable=False),
            ]
        ),
    )
    second = pa.table(
        {
            "id": pa.array([2**40], pa.int64()),
            "f": pa.array([1e300], pa.float64()),
            "d": pa.array([Decimal("12345678.90")], pa.decimal128(12, 2)),
            "s": pa.array([{"a": 2**40, "b": "new"}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
            "need": pa.array([None], pa.string()),
            "l": pa.array([[{"k": 1}]], pa.list_(pa.struct([("k", pa.int64())]))),
        }
    )
    with warehouse.sink(**options) as sink:
        commit(sink, 0, first)
        commit(sink, 1, second)
        schema = sink.schema()
    assert schema is not None
    table = warehouse.load()
    assert [str(field.field_type) for field in table.schema().fields][:3] == [
        "long",
        "double",
        "decimal(12, 2)",
    ]
    assert not table.schema().find_field("need").required
    rows = [
        {**first.to_pylist()[0], "s": {"a": 1, "b": None}, "l": None},
        second.to_pylist()[0],
    ]
    assert rows_of(table) == ordered(rows)
    old, new = snapshots_of_main(table)
    assert (old.schema_id, new.schema_id) == (0, table.schema().schema_id)
    assert rows_of(table, old.snapshot_id) == first.to_pylist()
    assert len(table.metadata.schemas) == 2
    # A claim aside, every metadata file is one commit: no schema change stands alone.
    assert all(row["f"] == 0.5 for row in rows_of(table) if row["id"] == 1)


@pytest.mark.parametrize("partition", ["", "bucket(2, id)"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_schema_may_grow_twice_in_one_epoch(warehouse: Warehouse, mode: str, partition: str) -> None:
    options: dict[str, object] = {"schema_evolution": "true", "write_mode": mode}
    if mode == "upsert":
        options["equality_delete_columns"] = "id"
    if partition:
        options["partition_spec"] = partition
    with warehouse.sink(**options) as sink:
        commit(sink, 0, ROWS)
        commit(
            sink,
            1,
            pa.table({"id": [3], "v": ["c"]}),
            pa.table({"id": [4], "v": ["d"], "w": pa.array([1], pa.int32())}),
            pa.table({"id": [5], "v": ["e"], "w": [2**40], "x": ["new"]}),
            pa.table({"id": [6], "v": ["f"]}),
        )
        commit(sink, 2, pa.table({"id": [7], "v": ["g"], "w": [7], "x": ["y"]}))
    table = warehouse.load()
    assert table.schema().column_names == ["id", "v", "w", "x"]
    assert len(table.metadata.schemas) == 2
    rows = [(1, "a"), (2, "b"), (3, "c"), (4, "d", 1), (5, "e", 2**40, "new"), (6, "f"), (7, "g", 7, "y")]
    assert rows_of(table) == ordered(
        dict(zip(("id", "v", "w", "x"), (*row, None, None)[:4], strict=True)) for row in rows
    )
    assert len(snapshots_of_main(table)) == 3


def test_without_evolution_nothing_is_written_and_the_error_says_what_would_change(
    warehouse: Warehouse,
) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
        files = warehouse.files()
        sink.begin_epoch(1)
        with pytest.raises(SchemaMismatch, match="column 'w' is new, long") as caught:
            sink.write_batch(pa.table({"id": [3], "v": ["c"], "w": [1]}))
        assert "schema.evolution" in caught.value.hint
        assert warehouse.files() == files


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_without_evolution_a_null_where_none_may_be_is_shown_with_its_place(
    warehouse: Warehouse, mode: str
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.string(), False)])
    options: dict[str, object] = {} if mode == "append" else {"equality_delete_columns": "id"}
    with warehouse.sink(write_mode=mode, **options) as sink:
        commit(sink, 0, ROWS.cast(schema))
        sink.begin_epoch(1)
        sink.write_batch(ROWS)
        with pytest.raises(BadRow, match="column 'v', row 3"):
            sink.write_batch(pa.table({"id": [1, 2], "v": ["a", None]}))


def test_a_new_column_may_not_have_the_name_of_a_partition_field_however_late_it_comes(
    warehouse: Warehouse,
) -> None:
    with warehouse.sink(schema_evolution="true", partition_spec="bucket(2, id)") as sink:
        sink.begin_epoch(0)
        sink.write_batch(ROWS)
        sink.write_batch(pa.table({"id": [1], "w": [1]}))
        with pytest.raises(SchemaMismatch, match="id_bucket"):
            sink.write_batch(pa.table({"id": [1], "id_bucket": [1]}))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sort_order": "id"},
        {"write_mode": "upsert", "equality_delete_columns": "id"},
        {"write_mode": "upsert", "equality_delete_columns": "id", "sort_order": "id DESC"},
    ],
    ids=["streamed", "sorted", "upsert", "upsert, sorted"],
)
def test_nested_uuids_that_are_all_null_come_through(warehouse: Warehouse, options: dict[str, Any]) -> None:
    item = pa.struct([("u", pa.uuid()), ("f", pa.float64())])
    kinds = (
        pa.list_(pa.uuid()),
        pa.list_(item),
        pa.list_(pa.list_(pa.uuid())),
        pa.large_list(item),
        pa.map_(pa.string(), pa.uuid()),
        pa.map_(pa.string(), item),
        pa.struct([("l", pa.list_(item))]),
    )
    columns = {"id": pa.array([2, 1])} | {f"c{n}": pa.nulls(2, kind) for n, kind in enumerate(kinds)}
    with warehouse.sink(schema_evolution="true", **options) as sink:
        commit(sink, 1, pa.table(columns), pa.table(columns))
        more = {f"new {name}": column for name, column in columns.items() if name != "id"}
        commit(sink, 2, pa.table(columns | more), pa.table(columns | more))
    table = warehouse.load()
    assert len(table.schema().fields) == 1 + 2 * len(kinds)
    # The files themselves: PyIceberg 0.12 reads a null list of structs as an empty one.
    paths = [entry.data_file.file_path for entry in entries_of(snapshots_of_main(table)[-1])]
    rows = [row for path in paths for row in pq.read_table(path.removeprefix("file://")).to_pylist()]
    assert {row["id"] for row in rows} == {1, 2}
    assert all(value is None for row in rows for name, value in row.items() if name != "id")


def test_an_epoch_that_comes_to_nothing_brings_no_partition_spec(warehouse: Warehouse) -> None:
    """The spec of global deletes comes with the first delete file, not with rows that cancel out."""
    with warehouse.upsert(partition_spec="v", inserts_are_new="true", heartbeat="1") as sink:
        commit(sink, 0, changes((1, "a", "insert")))
        commit(sink, 1, changes((2, "b", "insert"), (2, "b", "delete")))
        table = warehouse.load()
        assert len(snapshots_of_main(table)) == 2
        assert set(table.specs()) == {0}
        commit(sink, 2, changes((1, "b", "update")))
        table = warehouse.load()
        assert set(table.specs()) == {0, 1}
    assert rows_of(table) == [{"id": 1, "v": "b"}]


# -- others change the table -----------------------------------------------------------------------


def add_column(warehouse: Warehouse, name: str, kind: Any = None) -> None:
    with warehouse.catalog() as catalog:
        with catalog.load_table(NAME).update_schema() as update:
            update.add_column(name, kind or StringType())


def drop_column(warehouse: Warehouse, name: str) -> None:
    with warehouse.catalog() as catalog:
        with catalog.load_table(NAME).update_schema(allow_incompatible_changes=True) as update:
            update.delete_column(name)


def add_bucket(warehouse: Warehouse, column: str, buckets: int = 2) -> None:
    with warehouse.catalog() as catalog:
        with catalog.load_table(NAME).update_spec() as update:
            update.add_field(column, BucketTransform(buckets), f"{column}_foreign")


def insert(warehouse: Warehouse, rows: pa.Table) -> None:
    with warehouse.catalog() as catalog:
        table = catalog.load_table(NAME)
        table.append(rows.cast(table.schema().as_arrow()))


@pytest.mark.parametrize("when", ["between epochs", "in the middle"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_case_43_a_column_that_somebody_adds_is_taken_as_it_is(
    warehouse: Warehouse, mode: str, when: str
) -> None:
    options: dict[str, object] = {} if mode == "append" else {"equality_delete_columns": "id"}
    with warehouse.sink(write_mode=mode, **options) as sink:
        commit(sink, 0, ROWS)
        if when == "between epochs":
            add_column(warehouse, "w")
            commit(sink, 1, pa.table({"id": [3], "v": ["c"]}))
        else:
            between(sink, lambda: add_column(warehouse, "w"))
            commit(sink, 1, pa.table({"id": [3], "v": ["c"]}))
        commit(sink, 2, pa.table({"id": [4], "v": ["d"], "w": ["mine"]}))
        assert sink.metrics().batches_rewritten == 0
    rows = [(1, "a", None), (2, "b", None), (3, "c", None), (4, "d", "mine")]
    assert rows_of(warehouse.load()) == ordered(dict(zip(("id", "v", "w"), row, strict=True)) for row in rows)


@pytest.mark.parametrize("partition", ["", "bucket(2, id)"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_case_62_a_column_added_with_the_id_that_we_meant_to_use(
    warehouse: Warehouse, mode: str, partition: str
) -> None:
    """The epoch is written again under new ids; streamed rows cannot be: the caller sends them again."""
    options: dict[str, object] = {"schema_evolution": "true", "write_mode": mode}
    options |= {"equality_delete_columns": "id"} if mode == "upsert" else {}
    options |= {"partition_spec": partition} if partition else {}
    grown = pa.table({"id": [3], "v": ["c"], "mine": [1]})
    with warehouse.sink(**options) as sink:
        commit(sink, 0, ROWS)
        between(sink, lambda: add_column(warehouse, "theirs", LongType()))
        sink.begin_epoch(1)
        sink.write_batch(grown)
        if mode == "append" and not partition:
            with pytest.raises(PremiseBroken) as caught:
                sink.commit_epoch(1)
            assert "Roll epoch 1 back" in caught.value.hint
            sink.rollback_epoch(1)
            commit(sink, 1, grown)
        else:
            sink.commit_epoch(1)
            assert sink.metrics().batches_rewritten == 1
    table = warehouse.load()
    assert table.schema().column_names == ["id", "v", "theirs", "mine"]
    rows = [(1, "a", None, None), (2, "b", None, None), (3, "c", None, 1)]
    assert rows_of(table) == ordered(
        dict(zip(("id", "v", "theirs", "mine"), row, strict=True)) for row in rows
    )


def test_streamed_rows_and_rows_that_come_after_a_foreign_change_do_not_mix(warehouse: Warehouse) -> None:
    """Case 62 in the middle of an epoch whose first rows are in a file already."""
    with warehouse.sink(schema_evolution="true") as sink:
        commit(sink, 0, ROWS)
        sink.begin_epoch(1)
        sink.write_batch(pa.table({"id": [3], "mine": [1]}))
        sink.flush()
        add_column(warehouse, "theirs")
        # Refused by the table as it was, this makes the sink look at it again.
        with pytest.raises((PremiseBroken, SchemaMismatch)):
            sink.write_batch(pa.table({"id": [4], "v": pa.array([1.5])}))
        sink.write_batch(pa.table({"id": [4], "theirs": ["x"]}))  # held against the table as it was
        with pytest.raises(PremiseBroken) as caught:
            sink.commit_epoch(1)
        assert "Roll epoch 1 back" in caught.value.hint
        sink.rollback_epoch(1)
        commit(sink, 1, pa.table({"id": [3], "mine": [1]}), pa.table({"id": [4], "theirs": ["x"]}))
    rows = {row["id"]: (row["mine"], row["theirs"]) for row in rows_of(warehouse.load())}
    assert rows == {1: (None, None), 2: (None, None), 3: (1, None), 4: (None, "x")}


@pytest.mark.parametrize("when", ["after the first row", "in the middle"])
def test_case_62_an_insert_into_the_table_that_was_empty(warehouse: Warehouse, when: str) -> None:
    """Deletes were left out because there was no row: the epoch is written again with them."""
    with warehouse.upsert() as sink:
        sink.begin_epoch(0)
        sink.write_batch(ROWS)
        foreign = pa.table({"id": [1, 9], "v": ["foreign", "foreign"]})
        if when == "in the middle":
            between(sink, lambda: insert(warehouse, foreign))
        else:
            insert(warehouse, foreign)
        sink.commit_epoch(0)
        assert sink.metrics().batches_rewritten == 1
    rows = [*ROWS.to_pylist(), {"id": 9, "v": "foreign"}]
    assert rows_of(warehouse.load()) == ordered(rows)


@pytest.mark.parametrize("when", ["between epochs", "in the middle"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("partition", ["", "bucket(4, id)", "v"])
def test_case_62_a_new_partition_spec_underneath(
    warehouse: Warehouse, mode: str, partition: str, when: str
) -> None:
    options: dict[str, object] = {} if mode == "append" else {"equality_delete_columns": "id"}
    given = {**options, **({"partition_spec": partition} if partition else {})}

    def others() -> None:
        add_bucket(warehouse, "v" if partition.startswith("bucket") else "id")
        insert(warehouse, pa.table({"id": [1, 50], "v": ["theirs", "theirs"]}))

    expected = {row["id"]: row for row in ROWS.to_pylist()}
    with warehouse.sink(write_mode=mode, **given) as sink:
        commit(sink, 0, ROWS)
        if when == "in the middle":
            between(sink, others)
        else:
            others()
        commit(sink, 1, pa.table({"id": [1, 3], "v": ["A", "c"]}))
        commit(sink, 2, pa.table({"id": [50, 2], "v": ["ours", "B"]}))
    rows = rows_of(warehouse.load())
    if mode == "append":
        assert len(rows) == 8
        return
    expected |= {
        1: {"id": 1, "v": "A"},
        3: {"id": 3, "v": "c"},
        50: {"id": 50, "v": "ours"},
        2: {"id": 2, "v": "B"},
    }
    assert rows == ordered(expected.values())


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_case_43_a_column_that_somebody_drops_stops_rows_that_have_it(
    warehouse: Warehouse, mode: str
) -> None:
    options: dict[str, object] = {} if mode == "append" else {"equality_delete_columns": "id"}
    both = pa.table({"id": [1], "v": ["a"], "w": [1]})
    with warehouse.sink(write_mode=mode, **options) as sink:
        commit(sink, 0, both)
        drop_column(warehouse, "w")
        sink.begin_epoch(1)
        sink.write_batch(both)  # the table is not read again for every row
        with pytest.raises((SchemaMismatch, PremiseBroken), match="w"):
            sink.commit_epoch(1)
        sink.rollback_epoch(1)
        commit(sink, 1, pa.table({"id": [2], "v": ["b"]}))
    assert rows_of(warehouse.load()) == ordered([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])


def test_case_43_a_type_that_somebody_widens_is_followed(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        commit(sink, 0, pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}))
        with warehouse.catalog() as catalog:
            table = catalog.load_table(NAME)
            wider = Schema(
                NestedField(1, "id", LongType(), required=True),
                NestedField(2, "v", StringType()),
                identifier_field_ids=[1],
            )
            assert isinstance(table.schema().find_type("id"), IntegerType)
            with table.update_schema() as update:
                update.union_by_name(wider)
        commit(sink, 1, pa.table({"id": pa.array([1], pa.int32()), "v": ["b"]}))
        commit(sink, 2, pa.table({"id": [2**40], "v": ["c"]}))
    assert rows_of(warehouse.load()) == ordered([{"id": 1, "v": "b"}, {"id": 2**40, "v": "c"}])


# -- a disk that fails -----------------------------------------------------------------------------


class FullDisk(CountingStore):
    """A store whose disk has no room from a moment on."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def create(self, location: str, *, overwrite: bool = False) -> pa.NativeFile:
        if self.full:
            raise StoreError(f"cannot create {location}: {os.strerror(28)}", hint="Make room.")
        return super().create(location, overwrite=overwrite)


def test_case_35_rows_that_could_not_be_written_are_never_missing_in_silence(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk()
    monkeypatch.setattr("calve.runtime.epoch.store_for", lambda *_: disk)
    with warehouse.sink(max_buffer_records="1") as sink:
        commit(sink, 0, ROWS)
        sink.begin_epoch(1)
        sink.write_batch(ROWS)
        disk.full = True
        with pytest.raises(StoreError):
            sink.commit_epoch(1)  # rows are gathered before they go to the disk
        disk.full = False
        with pytest.raises(SinkState, match="lost rows") as caught:
            sink.write_batch(ROWS)
        assert "Roll epoch 1 back" in caught.value.hint
        with pytest.raises(SinkState, match="lost rows"):
            sink.commit_epoch(1)
        sink.rollback_epoch(1)
        commit(sink, 1, ROWS)
    assert len(rows_of(warehouse.load())) == 4


def test_case_35_a_commit_that_found_the_disk_full_goes_in_later(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk()
    monkeypatch.setattr("calve.runtime.epoch.store_for", lambda *_: disk)
    monkeypatch.setattr("calve.table.fileio.store_for", lambda *_: disk)
    with warehouse.upsert() as sink:
        commit(sink, 0, ROWS)
        before = warehouse.load().metadata
        sink.begin_epoch(1)
        sink.write_batch(changes((1, "x", "u"), (2, "b", "D")))
        disk.full = True
        for _ in range(2):
            with pytest.raises(StoreError):
                sink.commit_epoch(1)
        assert warehouse.load().metadata == before
        disk.full = False
        assert sink.commit_epoch(1).snapshot_id is not None
    assert rows_of(warehouse.load()) == [{"id": 1, "v": "x"}]


def test_progress_of_every_snapshot_tiles_time(warehouse: Warehouse) -> None:
    """P2."""
    with warehouse.sink() as sink:
        for epoch in (2, 3, 10, 40):
            commit(sink, epoch, ROWS)
    summaries = [summary_of(snapshot) for snapshot in snapshots_of_main(warehouse.load())]
    bounds = [(int(summary["calve.lower"]), int(summary["calve.frontier"])) for summary in summaries]
    assert bounds == [(0, 3), (3, 4), (4, 11), (11, 41)]
