"""The files of a batch say exactly what its changes say, read back by a reader that we did not write."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.model.batch import Batch
from calve.model.errors import SchemaMismatch, SinkState, StoreError
from calve.model.file import FileClosed, FileKind
from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.store import LocalStore, local_path
from calve.writer.collapse import collapse
from calve.writer.conform import conform
from calve.writer.ops import DELETE, OP_COLUMN, UPSERT
from calve.writer.plan import DeleteScope, FileSettings, WritePlan
from calve.writer.spill import Scratch
from calve.writer.spool import Spool
from calve.writer.worker import StreamingAppend, can_stream, write_batch_files

BATCH = Batch(10, 20)
SPEC, GLOBAL_SPEC = 3, 7


def field(number: int, name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {b"PARQUET:field_id": str(number).encode()})


SCHEMA = pa.schema(
    [
        field(1, "id", pa.int64(), nullable=False),
        field(2, "region", pa.string()),
        field(3, "v", pa.int64()),
        field(4, "tags", pa.list_(field(5, "element", pa.string()))),
    ]
)
BY_REGION = (PartitionField("region", Transform(TransformKind.IDENTITY)),)
BY_BUCKET = (PartitionField("id", Transform(TransformKind.BUCKET, 4)),)


def plan_in(folder: Path, **more: Any) -> WritePlan:
    names = tuple(f"{one.column}_{one.transform.kind.value}" for one in more.get("partition", ()))
    settings: dict[str, Any] = {
        "sink_id": "sink",
        "data_location": f"file://{folder}/data",
        "schema": SCHEMA,
        "schema_id": 1,
        "spec_id": SPEC,
        "partition_names": names,
        "key": ("id",),
        "deletes": DeleteScope.GLOBAL,
        "global_spec_id": GLOBAL_SPEC,
    }
    return WritePlan(**(settings | more))


def changes_of(*rows: tuple[int, str | None, int, int]) -> pa.Table:
    """Changes as (op, region, id, v)."""
    incoming = pa.table(
        {
            "id": pa.array([row[2] for row in rows], pa.int64()),
            "region": pa.array([row[1] for row in rows], pa.string()),
            "v": pa.array([row[3] for row in rows], pa.int64()),
            "tags": pa.array([[str(row[3])] for row in rows], pa.list_(pa.string())),
        }
    )
    codes = pa.array([row[0] for row in rows], pa.int8())
    return conform(incoming, SCHEMA).append_column(OP_COLUMN, codes)


def read(closed: FileClosed) -> pa.Table:
    return pq.read_table(local_path(closed.path), partitioning=None)


def of_kind(closed: list[FileClosed], kind: FileKind) -> list[FileClosed]:
    return [one for one in closed if one.kind is kind]


def rows_of(closed: list[FileClosed]) -> list[dict[str, Any]]:
    return [row for one in of_kind(closed, FileKind.DATA) for row in read(one).to_pylist()]


def keys_of(closed: list[FileClosed]) -> list[int]:
    return sorted(
        key for one in of_kind(closed, FileKind.EQUALITY_DELETE) for key in read(one)["id"].to_pylist()
    )


def scratch_of(plan: WritePlan, memory_bytes_max: int = 1 << 30) -> Scratch:
    return Scratch(local_path(plan.data_location).parent / "spill", memory_bytes_max)


def write(plan: WritePlan, *parts: pa.Table) -> list[FileClosed]:
    return write_batch_files(plan, LocalStore(), BATCH, "worker-1", iter(parts), scratch_of(plan))


# ------------------------------------------------------------------ deletes


def test_case_67_a_key_that_moves_through_three_partitions_leaves_one_row(tmp_path: Path) -> None:
    changes = changes_of((UPSERT, "a", 1, 1), (UPSERT, "b", 1, 2), (UPSERT, "c", 1, 3), (UPSERT, "a", 2, 4))
    closed = write(plan_in(tmp_path, partition=BY_REGION), collapse(changes, ("id",)))
    assert sorted((row["id"], row["region"], row["v"]) for row in rows_of(closed)) == [
        (1, "c", 3),
        (2, "a", 4),
    ]
    (deletes,) = of_kind(closed, FileKind.EQUALITY_DELETE)
    assert (deletes.spec_id, deletes.partition) == (GLOBAL_SPEC, ())
    assert keys_of(closed) == [1, 2]


def test_deletes_name_only_the_key_columns_and_their_field_ids(tmp_path: Path) -> None:
    changes = collapse(changes_of((DELETE, "a", 1, 0), (UPSERT, "b", 2, 0)), ("region", "id"))
    closed = write(plan_in(tmp_path, key=("region", "id")), changes)
    (deletes,) = of_kind(closed, FileKind.EQUALITY_DELETE)
    assert deletes.equality_ids == (2, 1)
    table = read(deletes)
    assert table.column_names == ["region", "id"]
    assert [one.metadata[b"PARQUET:field_id"] for one in table.schema] == [b"2", b"1"]
    assert sorted(table.to_pylist(), key=str) == [{"region": "a", "id": 1}, {"region": "b", "id": 2}]


def test_case_46_insert_and_delete_into_an_empty_table_write_nothing_at_all(tmp_path: Path) -> None:
    changes = collapse(changes_of((UPSERT, "a", 1, 1), (DELETE, "a", 1, 1)), ("id",))
    assert write(plan_in(tmp_path, deletes=DeleteScope.NONE), changes) == []
    assert not (tmp_path / "data").exists()


def test_case_46_elsewhere_the_delete_stays_because_an_older_row_may_exist(tmp_path: Path) -> None:
    changes = collapse(changes_of((UPSERT, "a", 1, 1), (DELETE, "a", 1, 1)), ("id",))
    closed = write(plan_in(tmp_path), changes)
    assert rows_of(closed) == []
    assert keys_of(closed) == [1]


def test_no_delete_is_written_where_no_older_row_can_exist(tmp_path: Path) -> None:
    closed = write(
        plan_in(tmp_path, deletes=DeleteScope.NONE), changes_of((UPSERT, "a", 1, 1), (DELETE, "a", 2, 1))
    )
    assert [one.kind for one in closed] == [FileKind.DATA]
    assert [row["id"] for row in rows_of(closed)] == [1]


def test_scoped_deletes_stand_in_the_partition_of_their_key(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, partition=BY_BUCKET, deletes=DeleteScope.PARTITION)
    changes = changes_of(
        *((DELETE if number % 3 == 0 else UPSERT, None, number, number) for number in range(100))
    )
    closed = write(plan, changes)
    data = {one.partition: set(read(one)["id"].to_pylist()) for one in of_kind(closed, FileKind.DATA)}
    deletes = {
        one.partition: set(read(one)["id"].to_pylist()) for one in of_kind(closed, FileKind.EQUALITY_DELETE)
    }
    assert len(data) == len(deletes) == 4
    assert all(rows < deletes[partition] for partition, rows in data.items())
    assert all(one.spec_id == SPEC for one in closed)
    assert keys_of(closed) == list(range(100))


def test_scoped_deletes_of_an_unpartitioned_table_are_one_file_over_all_parts(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, deletes=DeleteScope.PARTITION)
    closed = write(plan, *(changes_of((UPSERT, None, number, 0)) for number in range(20)))
    assert [(one.kind, one.record_count) for one in closed] == [
        (FileKind.DATA, 20),
        (FileKind.EQUALITY_DELETE, 20),
    ]


def test_a_plan_of_global_deletes_without_their_spec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match="no unpartitioned spec"):
        write(plan_in(tmp_path, global_spec_id=None), changes_of((UPSERT, "a", 1, 1)))


# ------------------------------------------------------------------ files


def test_counts_partitions_and_ids_in_the_reports_are_those_of_the_files(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, partition=BY_REGION)
    rows = [(UPSERT, "ab"[number % 2], number, number) for number in range(50)]
    closed = write(plan, changes_of(*rows), changes_of((DELETE, None, 99, 0)))
    assert sum(one.record_count for one in of_kind(closed, FileKind.DATA)) == 50
    assert sum(one.record_count for one in of_kind(closed, FileKind.EQUALITY_DELETE)) == 51
    for one in closed:
        path = local_path(one.path)
        assert one.file_bytes == path.stat().st_size
        assert one.record_count == pq.read_metadata(path).num_rows
        assert (one.batch, one.worker, one.schema_id) == (BATCH, "worker-1", 1)
        if one.kind is FileKind.DATA:
            assert set(read(one)["region"].to_pylist()) == {one.partition[0]}
            assert read(one).schema.field("tags").type.value_field.metadata[b"PARQUET:field_id"] == b"5"


def test_without_partitions_and_order_all_parts_go_into_one_file(tmp_path: Path) -> None:
    closed = write(plan_in(tmp_path), *(changes_of((UPSERT, None, number, 0)) for number in range(20)))
    assert [one.record_count for one in closed] == [20, 20]


def test_a_file_that_says_it_is_sorted_is_sorted_over_all_parts(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, sort=(SortField("v", descending=True),), sort_order_id=1)
    parts = [changes_of(*((UPSERT, None, 100 * part + n, n) for n in range(50))) for part in range(3)]
    closed = write(plan, *parts)
    data = of_kind(closed, FileKind.DATA)
    assert [one.record_count for one in data] == [150]
    for one in data:
        assert one.sort_order_id == 1
        values = read(one)["v"].to_pylist()
        assert values == sorted(values, reverse=True)
    assert all(one.sort_order_id is None for one in of_kind(closed, FileKind.EQUALITY_DELETE))


def test_no_parts_are_no_files(tmp_path: Path) -> None:
    assert write(plan_in(tmp_path)) == []


def test_rows_without_a_key_are_written_as_they_are(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, key=(), deletes=DeleteScope.NONE, partition=BY_REGION)
    rows = changes_of((UPSERT, "a", 1, 1), (UPSERT, "a", 1, 1), (UPSERT, None, 2, 2)).drop_columns(
        [OP_COLUMN]
    )
    closed = write(plan, rows)
    assert sorted((row["id"], row["v"]) for row in rows_of(closed)) == [(1, 1), (1, 1), (2, 2)]


def test_a_part_that_fails_reports_nothing_and_commits_nothing(tmp_path: Path) -> None:
    def parts() -> Iterator[pa.Table]:
        yield changes_of((UPSERT, "a", 1, 1))
        raise StoreError("the spill is gone", hint="-")

    plan = plan_in(tmp_path)
    with pytest.raises(StoreError, match="the spill is gone"):
        write_batch_files(plan, LocalStore(), BATCH, "worker-1", parts(), scratch_of(plan))


def test_a_part_that_fails_leaves_nothing_of_what_was_arranged_before(tmp_path: Path) -> None:
    def parts() -> Iterator[pa.Table]:
        for number in range(10):
            yield changes_of((UPSERT, "a", number, 1))
        assert list((tmp_path / "spill").iterdir())
        raise StoreError("the spill is gone", hint="-")

    plan = plan_in(tmp_path, partition=BY_REGION)
    with pytest.raises(StoreError, match="the spill is gone"):
        write_batch_files(plan, LocalStore(), BATCH, "worker-1", parts(), scratch_of(plan, 1_000))
    assert list((tmp_path / "spill").iterdir()) == []
    assert not (tmp_path / "data").exists()


# ------------------------------------------------------------------ all of it

one_change = st.tuples(
    st.sampled_from([UPSERT, DELETE]),
    st.sampled_from(["a", "b", None]),
    st.integers(0, 20),
    st.integers(0, 99),
)


@given(
    epoch=st.lists(st.lists(one_change, min_size=1, max_size=40), max_size=5),
    partition=st.sampled_from([(), BY_REGION, BY_BUCKET]),
    sort=st.sampled_from([(), (SortField("v"),)]),
    memory_bytes_max=st.sampled_from([2_000, 1 << 30]),
)
@settings(max_examples=40, deadline=None)
def test_p1_the_files_of_an_epoch_are_its_net_changes(
    tmp_path_factory: pytest.TempPathFactory,
    epoch: list[list[tuple[int, str | None, int, int]]],
    partition: tuple[PartitionField, ...],
    sort: tuple[SortField, ...],
    memory_bytes_max: int,
) -> None:
    folder = tmp_path_factory.mktemp("epoch")
    plan = plan_in(folder, partition=partition, sort=sort, sort_order_id=1 if sort else None)
    with Spool(folder / "spill", memory_bytes_max, key=("id",)) as spool:
        for rows in epoch:
            spool.add(changes_of(*rows))
        closed = write_batch_files(plan, LocalStore(), BATCH, "worker-1", spool.parts(), spool.scratch)
    last = {row[2]: row for rows in epoch for row in rows}
    expected = sorted((key, row[3]) for key, row in last.items() if row[0] == UPSERT)
    assert sorted((row["id"], row["v"]) for row in rows_of(closed)) == expected
    assert keys_of(closed) == sorted(last)


# ------------------------------------------------------------------ streaming


def append_plan(folder: Path, **more: Any) -> WritePlan:
    return plan_in(folder, key=(), deletes=DeleteScope.NONE, global_spec_id=None, **more)


def test_an_append_streams_into_rolling_files_and_keeps_its_order(tmp_path: Path) -> None:
    plan = append_plan(
        tmp_path, settings=FileSettings(target_file_bytes=256 * 1024, row_group_bytes=64 * 1024)
    )
    stream = StreamingAppend(plan, LocalStore(), BATCH, "worker-1")
    for start in range(0, 100_000, 10_000):
        rows = [
            (UPSERT, f"{number * 2654435761 % 2**32:x}", number, number)
            for number in range(start, start + 10_000)
        ]
        stream.write(changes_of(*rows).drop_columns([OP_COLUMN]))
    closed = stream.close()
    assert len(closed) > 1
    assert [row["id"] for row in rows_of(closed)] == list(range(100_000))
    with pytest.raises(SinkState):
        stream.write(SCHEMA.empty_table())


def test_an_append_without_rows_has_no_file(tmp_path: Path) -> None:
    assert StreamingAppend(append_plan(tmp_path), LocalStore(), BATCH, "worker-1").close() == []


def test_an_append_that_is_given_up_reports_nothing(tmp_path: Path) -> None:
    stream = StreamingAppend(append_plan(tmp_path), LocalStore(), BATCH, "worker-1")
    stream.write(changes_of((UPSERT, "a", 1, 1)).drop_columns([OP_COLUMN]))
    stream.abort()
    with pytest.raises(SinkState):
        stream.close()


@pytest.mark.parametrize(
    "more",
    [{"partition": BY_REGION}, {"sort": (SortField("v"),)}, {"key": ("id",)}],
    ids=["partition", "sort", "key"],
)
def test_what_needs_a_spool_is_not_streamed(tmp_path: Path, more: dict[str, Any]) -> None:
    plan = plan_in(tmp_path, **({"key": (), "deletes": DeleteScope.NONE} | more))
    assert not can_stream(plan)
    with pytest.raises(SchemaMismatch, match="cannot be streamed"):
        StreamingAppend(plan, LocalStore(), BATCH, "worker-1")


# ------------------------------------------------------------------ memory

EPOCH = """
import json, resource, sys
from pathlib import Path
import pyarrow as pa
import pyarrow.compute as pc
from calve.model.batch import Batch
from calve.store import LocalStore
from calve.writer.conform import conform
from calve.writer.ops import with_ops
from calve.writer.plan import DeleteScope, WritePlan
from calve.writer.spool import Spool
from calve.writer.transform import hash_keys
from calve.writer.worker import write_batch_files

folder, changes, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

def field(number, name, kind):
    return pa.field(name, kind, name != "id", {b"PARQUET:field_id": str(number).encode()})

schema = pa.schema([field(1, "id", pa.int64()), field(2, "a", pa.float64()), field(3, "note", pa.string())])
plan = WritePlan("sink", f"file://{folder}/data", schema, 0, 0, key=("id",),
                 deletes=DeleteScope.GLOBAL, global_spec_id=0)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
step = 50_000
before = peak()
arrow_bytes = 0
with Spool(folder / "spill", limit, key=("id",)) as spool:
    for start in range(0, changes, step):
        numbers = pa.table({"n": pa.array(range(start, start + step), pa.int64())})
        hashed = hash_keys(numbers, ("n",), 99).cast(pa.int64())
        text = hashed.cast(pa.string())
        rows = pa.table({
            "id": pc.bit_wise_and(hashed, (1 << 20) - 1),
            "a": numbers["n"].cast(pa.float64()),
            "note": pc.binary_join_element_wise(*[text] * 10, "-"),
        })
        arrow_bytes += rows.nbytes
        spool.add(with_ops(conform(rows, schema), 1))
    closed = write_batch_files(plan, LocalStore(), Batch(0, 1), "worker", spool.parts(), spool.scratch)
print(json.dumps({"grown_mb": peak() - before, "arrow_mb": arrow_bytes >> 20,
                  "counts": [one.record_count for one in closed]}))
"""


def epoch_in_a_process(folder: Path, changes: int, memory_bytes_max: int) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", EPOCH, str(folder), str(changes), str(memory_bytes_max)],
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(ran.stdout))


# What two open Parquet files, an incoming table and the allocator take beside the spool, whatever the epoch.
# Without a limit this epoch of two million takes 650 MB.
FIXED_MB = 200


@pytest.mark.nightly
def test_p9_an_epoch_of_two_million_changes_stays_near_its_limit(tmp_path: Path) -> None:
    used = epoch_in_a_process(tmp_path, 2_000_000, 64 << 20)
    assert used["arrow_mb"] > 3 * 64, "the epoch is larger than the limit"
    assert len(set(used["counts"])) == 1, "as many rows as keys"
    assert used["grown_mb"] < 64 + FIXED_MB


@pytest.mark.nightly
def test_p9_memory_does_not_grow_with_the_epoch(tmp_path: Path) -> None:
    used = epoch_in_a_process(tmp_path, 8_000_000, 64 << 20)
    assert used["arrow_mb"] > 12 * 64
    assert used["grown_mb"] < 64 + FIXED_MB
