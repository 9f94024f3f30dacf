"""FileWriter: whole files of the right size with ids and metrics, or none at all."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calve.writer.files as files_module
from calve.model.batch import Batch
from calve.model.errors import BadRow, SchemaMismatch, SinkState, StoreError
from calve.model.file import FileClosed, FileKind
from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.store import LocalStore
from calve.writer.files import FileWriter
from calve.writer.plan import FileSettings, WritePlan

KB, MB = 1024, 1024 * 1024
BATCH = Batch(0, 7)


def field(name: str, kind: pa.DataType, field_id: int, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {"PARQUET:field_id": str(field_id)})


def with_ids(table: pa.Table) -> pa.Table:
    fields = [field(item.name, item.type, number) for number, item in enumerate(table.schema, 1)]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields))


def plan_for(folder: Path, schema: pa.Schema, **settings: Any) -> WritePlan:
    return WritePlan("sink", str(folder), schema, 3, 0, settings=FileSettings(**settings))


def writer_of(plan: WritePlan, kind: FileKind = FileKind.DATA) -> FileWriter:
    return FileWriter(plan, LocalStore(), BATCH, "w", kind, (), plan.spec_id)


def written(plan: WritePlan, *tables: pa.Table, kind: FileKind = FileKind.DATA) -> list[FileClosed]:
    writer = writer_of(plan, kind)
    for table in tables:
        writer.write(table)
    return writer.close()


def read(files: list[FileClosed]) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(file.path).read() for file in files])


def test_rows_come_back_as_they_were_and_the_message_says_what_is_there(tmp_path: Path) -> None:
    table = with_ids(pa.table({"id": [1, 2], "v": ["é", None]}))
    (closed,) = written(plan_for(tmp_path, table.schema), table)
    assert read([closed]).to_pylist() == table.to_pylist()
    assert (closed.record_count, closed.schema_id, closed.kind) == (2, 3, FileKind.DATA)
    assert closed.file_bytes == Path(closed.path).stat().st_size
    assert closed.split_offsets == (4,)
    assert closed.metrics.value_counts[1] == 2
    assert FileClosed.from_json(closed.to_json()) == closed


def test_no_rows_no_file(tmp_path: Path) -> None:
    table = with_ids(pa.table({"id": [1, 2]}))
    assert written(plan_for(tmp_path, table.schema)) == []
    assert written(plan_for(tmp_path, table.schema), table.slice(0, 0)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_delete_file_holds_the_key_alone_and_names_it(tmp_path: Path) -> None:
    table = with_ids(pa.table({"v": ["a", "b"], "id": [1, 2], "region": ["x", "y"]}))
    plan = replace(
        plan_for(tmp_path, table.schema), key=("region", "id"), sort=(SortField("v"),), sort_order_id=1
    )
    (closed,) = written(plan, table, kind=FileKind.EQUALITY_DELETE)
    assert closed.equality_ids == (3, 2)
    assert closed.kind is FileKind.EQUALITY_DELETE
    assert closed.sort_order_id is None
    assert read([closed]).to_pylist() == table.select(["region", "id"]).to_pylist()
    assert set(closed.metrics.value_counts) == {2, 3}
    assert Path(closed.path).name.startswith("eqdel-")


def test_a_file_of_a_partition_lies_in_its_folder_and_says_its_values(tmp_path: Path) -> None:
    table = with_ids(pa.table({"id": [1]}))
    bucket = PartitionField("id", Transform(TransformKind.BUCKET, 4))
    plan = replace(plan_for(tmp_path, table.schema), partition=(bucket,), partition_names=("id_bucket",))
    writer = FileWriter(plan, LocalStore(), BATCH, "w", FileKind.DATA, (2,), spec_id=5)
    writer.write(table)
    (closed,) = writer.close()
    assert (closed.partition, closed.spec_id) == ((2,), 5)
    assert Path(closed.path).parent == tmp_path / "sink" / "7" / "w" / "id_bucket=2"


def words(rows: int) -> pa.Table:
    chooser = random.Random(5)
    vocabulary = ["".join(chooser.choices("abcdefghijklmnop", k=chooser.randint(3, 9))) for _ in range(2000)]
    return pa.table({"text": [" ".join(chooser.choices(vocabulary, k=150)) for _ in range(rows)]})


def noise(rows: int) -> pa.Table:
    return pa.table({"bytes": [random.Random(row).randbytes(1000) for row in range(rows)]})


def numbers(rows: int) -> pa.Table:
    source = np.random.default_rng(7)
    return pa.table({f"c{i}": pa.array(source.integers(0, 10 ** (i % 9 + 1), rows)) for i in range(20)})


def counter(rows: int) -> pa.Table:
    return pa.table({"n": pa.array(np.arange(rows)), "same": pa.array(np.zeros(rows))})


def wide(rows: int) -> pa.Table:
    source = np.random.default_rng(8)
    return pa.table({f"c{i}": pa.array(source.integers(0, 1000, rows)) for i in range(150)})


SHAPES: list[tuple[Callable[[int], pa.Table], int, int]] = [
    (words, 8_000, 256 * KB),
    (words, 16_000, 2 * MB),
    (noise, 3_000, 256 * KB),
    (noise, 12_000, 4 * MB),
    (numbers, 60_000, 256 * KB),
    (numbers, 200_000, 4 * MB),
    (counter, 1_500_000, 256 * KB),
    (counter, 3_000_000, 1 * MB),
    (wide, 6_000, 256 * KB),
    (wide, 20_000, 2 * MB),
]


@pytest.mark.parametrize("shape, rows, target", SHAPES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_files_roll_within_a_tenth_of_the_target(
    tmp_path: Path, shape: Callable[[int], pa.Table], rows: int, target: int
) -> None:
    table = with_ids(shape(rows))
    record_batches = table.to_batches(max_chunksize=rows // 11)
    plan = plan_for(tmp_path, table.schema, target_file_bytes=target)
    files = written(plan, *(pa.Table.from_batches([record_batch]) for record_batch in record_batches))
    assert len(files) > 2
    assert all(0.9 * target <= file.file_bytes <= 1.1 * target for file in files[:-1])
    assert files[-1].file_bytes <= 1.1 * target
    assert [file.file_bytes for file in files] == [Path(file.path).stat().st_size for file in files]
    assert sum(file.record_count for file in files) == rows
    assert read(files).equals(table.combine_chunks())


def test_a_row_larger_than_the_target_is_a_file_of_its_own(tmp_path: Path) -> None:
    table = with_ids(pa.table({"b": [random.Random(row).randbytes(400_000) for row in range(3)]}))
    files = written(plan_for(tmp_path, table.schema, target_file_bytes=256 * KB), table)
    assert [file.record_count for file in files] == [1, 1, 1]


def test_small_tables_are_gathered_into_one_row_group(tmp_path: Path) -> None:
    table = with_ids(pa.table({"a": range(20_000)}))
    plan = plan_for(tmp_path, table.schema)
    files = written(plan, *(table.slice(start, 10) for start in range(0, 20_000, 10)))
    assert [len(file.split_offsets) for file in files] == [1]
    assert read(files).equals(table)


def test_row_groups_keep_to_their_rows(tmp_path: Path) -> None:
    table = with_ids(pa.table({"a": range(2_500)}))
    (closed,) = written(plan_for(tmp_path, table.schema, row_group_rows_max=1_000), table)
    metadata = pq.read_metadata(closed.path)
    assert [metadata.row_group(i).num_rows for i in range(3)] == [1_000, 1_000, 500]


def test_p9_no_more_than_a_row_group_is_held(tmp_path: Path) -> None:
    table = with_ids(noise(200))
    writer = writer_of(plan_for(tmp_path, table.schema, row_group_bytes=1 * MB))
    for _ in range(40):
        writer.write(table)
        assert writer.held_bytes <= 1 * MB + table.nbytes
    assert sum(file.record_count for file in writer.close()) == 8_000


def test_a_file_that_is_not_sorted_does_not_say_so(tmp_path: Path) -> None:
    up = with_ids(pa.table({"a": range(100)}))
    plan = replace(
        plan_for(tmp_path, up.schema, row_group_rows_max=100), sort=(SortField("a"),), sort_order_id=4
    )
    later = with_ids(pa.table({"a": range(100, 200)}))
    assert [file.sort_order_id for file in written(plan, up, later)] == [4]
    assert [file.sort_order_id for file in written(plan, later, up)] == [None]


def test_rows_of_another_schema_are_refused_and_nothing_is_created(tmp_path: Path) -> None:
    plan = plan_for(tmp_path, with_ids(pa.table({"a": [1]})).schema)
    with pytest.raises(SchemaMismatch, match="a int32"):
        written(plan, pa.table({"a": pa.array([1], pa.int32())}))
    assert list(tmp_path.iterdir()) == []


def test_a_closed_writer_takes_no_rows(tmp_path: Path) -> None:
    table = with_ids(pa.table({"a": [1]}))
    writer = writer_of(plan_for(tmp_path, table.schema))
    writer.write(table)
    writer.close()
    with pytest.raises(SinkState):
        writer.write(table)
    with pytest.raises(SinkState):
        writer.close()


def test_case_2_a_file_that_was_given_up_is_an_orphan_that_nobody_reports(tmp_path: Path) -> None:
    table = with_ids(noise(500))
    writer = writer_of(plan_for(tmp_path, table.schema, target_file_bytes=256 * KB))
    writer.write(table)
    writer.abort()
    orphans = list(tmp_path.rglob("*.parquet"))
    assert orphans
    with pytest.raises(SinkState):
        writer.close()


def test_a_file_over_the_limit_is_never_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_ids(pa.table({"b": [random.Random(1).randbytes(300_000)]}))
    monkeypatch.setattr(files_module, "FILE_BYTES_MAX", 200_000)
    with pytest.raises(BadRow, match="over the limit"):
        written(plan_for(tmp_path, table.schema), table)


FULL_DISK = """
import random, resource, sys
import pyarrow as pa
from calve.model.batch import Batch
from calve.model.errors import SinkState, StoreError
from calve.model.file import FileKind
from calve.store import LocalStore
from calve.writer.files import FileWriter
from calve.writer.plan import FileSettings, WritePlan

folder, limit, close_only = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "close"
schema = pa.schema([pa.field("b", pa.binary(), metadata={"PARQUET:field_id": "1"})])
rows = pa.table([[random.Random(row).randbytes(1000) for row in range(3000)]], schema=schema)
settings = FileSettings(row_group_bytes=1 << 30 if close_only else 1 << 20)
plan = WritePlan("s", folder, schema, 0, 0, settings=settings)
writer = FileWriter(plan, LocalStore(), Batch(0, 1), "w", FileKind.DATA, (), 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
try:
    writer.write(rows)
    writer.close()
except StoreError as error:
    print(error)
    try:
        writer.close()
    except SinkState:
        print("nothing reported")
finally:
    # What measures this process writes a file of its own when it ends.
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


@pytest.mark.parametrize("where, limit", [("write", 1_500_000), ("close", 1_500_000), ("close", 10)])
def test_case_35_a_full_disk_fails_cleanly_and_reports_nothing(
    tmp_path: Path, where: str, limit: int
) -> None:
    """A real limit of the kernel: a write is first cut short, the next one fails."""
    command = [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(tmp_path), str(limit), where]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert child.returncode == 0, child.stderr
    assert "cannot write" in child.stdout
    assert "hint: Nothing of this batch was committed" in child.stdout
    assert "nothing reported" in child.stdout


class _SecondFileFails(LocalStore):
    """A store that is out of reach from the second file on."""

    created = 0

    def create(self, location: str, *, overwrite: bool = False) -> pa.NativeFile:
        self.created += 1
        if self.created > 1:
            raise StoreError(f"cannot create {location}", hint="Try again.")
        return super().create(location, overwrite=overwrite)


def test_after_any_failure_no_file_of_the_writer_is_reported(tmp_path: Path) -> None:
    """The first file is whole, but rows of the second are lost: half of the rows is no report."""
    table = with_ids(noise(1_000))
    plan = plan_for(tmp_path, table.schema, target_file_bytes=256 * KB)
    writer = FileWriter(plan, _SecondFileFails(), BATCH, "w", FileKind.DATA, (), 0)
    with pytest.raises(StoreError, match="cannot create"):
        writer.write(table)
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    with pytest.raises(SinkState):
        writer.close()


def test_case_35_a_folder_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "sink").write_text("a file where a folder must be")
    table = with_ids(pa.table({"a": [1]}))
    with pytest.raises(StoreError):
        written(plan_for(tmp_path, table.schema), table)
