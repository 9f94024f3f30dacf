"""A batch larger than memory has the files of one that is not: few, of the target size, sorted as a whole."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from calve.model.batch import Batch
from calve.model.file import FileClosed, FileKind
from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.store import LocalStore, local_path
from calve.writer import merge
from calve.writer.ops import DELETE, UPSERT, with_ops
from calve.writer.plan import DeleteScope, FileSettings, WritePlan
from calve.writer.spool import Spool
from calve.writer.transform import hash_keys
from calve.writer.worker import write_batch_files

KB = 1024
TARGET = 64 * KB
LIMIT = 2048 * KB
SPEC, GLOBAL_SPEC = 3, 7


def field(number: int, name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {b"PARQUET:field_id": str(number).encode()})


SCHEMA = pa.schema(
    [
        field(1, "id", pa.int64(), nullable=False),
        field(2, "region", pa.int32()),
        field(3, "at", pa.int64()),
        field(4, "noise", pa.string()),
    ]
)
BY_BUCKET = (PartitionField("id", Transform(TransformKind.BUCKET, 4)),)
BY_REGION = (PartitionField("region", Transform(TransformKind.IDENTITY)),)
SORTED = (SortField("at", descending=True),)


@dataclass(frozen=True)
class Case:
    """A table and what its rows are."""

    key: tuple[str, ...]
    partition: tuple[PartitionField, ...]
    sort: tuple[SortField, ...] = ()
    deletes: DeleteScope = DeleteScope.NONE

    def plan(self, folder: Path) -> WritePlan:
        return WritePlan(
            sink_id="sink",
            data_location=f"file://{folder}/data",
            schema=SCHEMA,
            schema_id=1,
            spec_id=SPEC,
            partition=self.partition,
            partition_names=tuple(f"p{number}" for number in range(len(self.partition))),
            sort=self.sort,
            sort_order_id=1 if self.sort else None,
            key=self.key,
            deletes=self.deletes,
            global_spec_id=GLOBAL_SPEC,
            settings=FileSettings(target_file_bytes=TARGET, row_group_bytes=32 * KB),
        )


CASES = {
    "the partition follows from the key": Case(("id",), BY_BUCKET, deletes=DeleteScope.PARTITION),
    "a key moves between partitions": Case(("id",), BY_REGION, deletes=DeleteScope.GLOBAL),
    "a key moves, sorted": Case(("id",), BY_REGION, SORTED, DeleteScope.GLOBAL),
    "the partition follows, sorted": Case(("id",), BY_BUCKET, SORTED, DeleteScope.PARTITION),
    "a key, sorted, no partition": Case(("id",), (), SORTED, DeleteScope.GLOBAL),
    "a key, neither": Case(("id",), (), (), DeleteScope.GLOBAL),
    "no key, partitioned": Case((), BY_REGION),
    "no key, sorted": Case((), (), SORTED),
    "no key, both": Case((), BY_BUCKET, SORTED),
}
ROWS, STEP, KEYS = 40_000, 4_000, 28_000


def arrivals() -> Iterator[tuple[pa.Table, int]]:
    """Rows and their op, in order of arrival. A key's later rows are in other regions."""
    for first in range(0, ROWS, STEP):
        numbers = pa.table({"n": pa.array(range(first, first + STEP), pa.int64())})
        hashed = hash_keys(numbers, ("n",), 7).cast(pa.int64())
        more = hash_keys(numbers, ("n",), 8).cast(pa.int64())
        text = [column.cast(pa.string()) for column in (hashed, more, pc.multiply(hashed, more))]
        columns = [
            pc.if_else(pc.less(numbers["n"], KEYS), numbers["n"], pc.subtract(numbers["n"], KEYS)),
            pc.bit_wise_and(hashed, 3).cast(pa.int32()),
            pc.bit_wise_and(more, 0xFFFF),
            pc.binary_join_element_wise(*text, ""),
        ]
        yield pa.Table.from_arrays(columns, schema=SCHEMA), DELETE if first == ROWS - STEP else UPSERT


def written(case: Case, folder: Path) -> list[FileClosed]:
    with Spool(folder / "spill", LIMIT, key=case.key) as spool:
        for rows, op in arrivals():
            spool.add(with_ops(rows, op) if case.key else rows)
        assert spool.spilled_rows, "the batch is larger than memory"
        plan = case.plan(folder)
        closed = write_batch_files(plan, LocalStore(), Batch(0, 1), "w", spool.parts(), spool.scratch)
    assert list((folder / "spill").iterdir()) == []
    return closed


def runs_of(closed: list[FileClosed], kind: FileKind) -> dict[Any, list[FileClosed]]:
    runs: dict[Any, list[FileClosed]] = defaultdict(list)
    for one in closed:
        if one.kind is kind:
            runs[one.partition].append(one)
    return runs


def read(one: FileClosed) -> pa.Table:
    return pq.read_table(local_path(one.path), partitioning=None)


def expected_rows(case: Case) -> tuple[list[Any], set[int]]:
    """What the files must say: the rows that stay, and the keys that were touched."""
    if not case.key:
        return [tuple(row.values()) for rows, _ in arrivals() for row in rows.to_pylist()], set()
    last = {row["id"]: (op, tuple(row.values())) for rows, op in arrivals() for row in rows.to_pylist()}
    return [row for op, row in last.values() if op == UPSERT], set(last)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_files_are_few_of_the_target_size_and_hold_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.setattr(merge, "_CHUNK_BYTES_MIN", 8 * KB)
    closed = written(case, tmp_path)
    rows, keys = expected_rows(case)
    data = runs_of(closed, FileKind.DATA)
    assert len(data) == (4 if case.partition else 1)
    found = []
    for partition, files in data.items():
        assert len(files) > 2
        check_sizes(files)
        tables = [read(one) for one in files]
        in_one = pa.concat_tables(tables)
        if case.sort:
            assert {one.sort_order_id for one in files} == {1}
            at = in_one["at"].to_pylist()
            assert at == sorted(at, reverse=True), "over all files of a partition, not only inside each"
        if case.partition == BY_REGION:
            assert set(in_one["region"].to_pylist()) == {partition[0]}
        found += [tuple(row.values()) for row in in_one.to_pylist()]
    assert sorted(found) == sorted(rows)
    check_deletes(case, closed, keys)


def check_sizes(run: list[FileClosed]) -> None:
    assert all(0.9 * TARGET <= one.file_bytes <= 1.1 * TARGET for one in run[:-1])
    assert run[-1].file_bytes <= 1.1 * TARGET


def check_deletes(case: Case, closed: list[FileClosed], keys: set[int]) -> None:
    deletes = runs_of(closed, FileKind.EQUALITY_DELETE)
    wanted = {DeleteScope.NONE: 0, DeleteScope.GLOBAL: 1, DeleteScope.PARTITION: 4}[case.deletes]
    assert len(deletes) == wanted
    for files in deletes.values():
        check_sizes(files)
    named = [key for files in deletes.values() for one in files for key in read(one)["id"].to_pylist()]
    assert sorted(named) == sorted(keys)
    if case.deletes is DeleteScope.PARTITION:
        data = runs_of(closed, FileKind.DATA)
        for partition, (one,) in deletes.items():
            ids = {key for file in data[partition] for key in read(file)["id"].to_pylist()}
            assert ids < set(read(one)["id"].to_pylist()), (
                "a scoped delete stands beside the rows of its keys"
            )


def test_rows_without_a_key_keep_their_order_in_their_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "_CHUNK_BYTES_MIN", 8 * KB)
    for files in runs_of(written(CASES["no key, partitioned"], tmp_path), FileKind.DATA).values():
        table = pa.concat_tables([read(one) for one in files])
        arrived = {row["noise"]: n for n, row in enumerate(r for t, _ in arrivals() for r in t.to_pylist())}
        places = [arrived[text] for text in table["noise"].to_pylist()]
        assert places == sorted(places)


# ------------------------------------------------------------------ memory

EPOCH = """
import json, resource, sys
from pathlib import Path
import pyarrow as pa
import pyarrow.compute as pc
from calve.model.batch import Batch
from calve.model.file import FileKind
from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.store import LocalStore
from calve.writer.conform import conform
from calve.writer.ops import with_ops
from calve.writer.plan import DeleteScope, FileSettings, WritePlan
from calve.writer.spool import Spool
from calve.writer.transform import hash_keys
from calve.writer.worker import write_batch_files

folder, changes, limit, partitions = Path(sys.argv[1]), *map(int, sys.argv[2:5])
key = ("id",) if sys.argv[5] == "key" else ()

def field(number, name, kind):
    return pa.field(name, kind, name != "id", {b"PARQUET:field_id": str(number).encode()})

schema = pa.schema([field(1, "id", pa.int64()), field(2, "a", pa.float64()), field(3, "note", pa.string())])
plan = WritePlan(
    "sink", f"file://{folder}/data", schema, 0, 0, key=key,
    partition=(PartitionField("id", Transform(TransformKind.BUCKET, partitions)),), partition_names=("b",),
    sort=(SortField("a"),), sort_order_id=1,
    deletes=DeleteScope.PARTITION if key else DeleteScope.NONE,
    settings=FileSettings(target_file_bytes=4 << 20, row_group_bytes=1 << 20),
)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
step = 20_000
before = peak()
arrow_bytes = 0
with Spool(folder / "spill", limit, key=key) as spool:
    for start in range(0, changes, step):
        numbers = pa.table({"n": pa.array(range(start, start + step), pa.int64())})
        hashed = hash_keys(numbers, ("n",), 99).cast(pa.int64())
        text = hashed.cast(pa.string())
        rows = pa.table({
            "id": numbers["n"],
            "a": hashed.cast(pa.float64()),
            "note": pc.binary_join_element_wise(*[text] * 10, "-"),
        })
        arrow_bytes += rows.nbytes
        rows = conform(rows, schema)
        spool.add(with_ops(rows, 1) if key else rows)
        del rows
    spool.flush()
    closed = write_batch_files(plan, LocalStore(), Batch(0, 1), "worker", spool.parts(), spool.scratch)
files = {kind.value: [one.record_count for one in closed if one.kind is kind] for kind in FileKind}
print(json.dumps({"grown_mb": peak() - before, "pool_mb": pa.default_memory_pool().max_memory() >> 20,
                  "arrow_mb": arrow_bytes >> 20, "files": files}))
"""

FIXED_MB = 200
"""What the allocator keeps beside what was asked of it, and libraries that are loaded on the way."""


def epoch_in_a_process(folder: Path, changes: int, limit: int, partitions: int, key: str) -> dict[str, Any]:
    arguments = [str(folder), str(changes), str(limit), str(partitions), key]
    ran = subprocess.run(
        [sys.executable, "-c", EPOCH, *arguments], check=True, capture_output=True, text=True
    )
    return dict(json.loads(ran.stdout))


@pytest.mark.parametrize("key, partitions", [("key", 1), ("none", 500)])
def test_p9_a_batch_with_partitions_and_a_sort_order_stays_under_its_limit(
    tmp_path: Path, key: str, partitions: int
) -> None:
    used = epoch_in_a_process(tmp_path, 600_000, 48 << 20, partitions, key)
    assert used["arrow_mb"] > 48, "the batch is larger than the limit"
    assert used["pool_mb"] < 48
    assert used["grown_mb"] < 48 + FIXED_MB
    assert sum(used["files"]["data"]) == 600_000
    if partitions == 500:
        assert len(used["files"]["data"]) == 500
    else:
        assert sum(used["files"]["equality-delete"]) == 600_000
