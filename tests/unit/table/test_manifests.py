"""Manifests byte by byte: what PyIceberg's own reader and a plain Avro reader find in them."""

from __future__ import annotations

import io
import json
import math
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    read_manifest_list,
    write_manifest,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from calve.model.batch import Batch
from calve.model.file import ColumnMetrics, FileClosed, FileKind
from calve.table import lists
from calve.table.entries import settled
from calve.table.fileio import StoreFileIO
from calve.table.lists import Content
from calve.table.manifests import Shape, added_manifest, by_manifest, merged_manifest, read_entries

IO = StoreFileIO()
METRICS = ColumnMetrics(
    column_bytes={1: 300, 2: 70_000_000_000},
    value_counts={1: 10, 2: 5_000_000},
    null_counts={1: 0, 2: 3},
    nan_counts={2: 1},
    lower_bounds={1: b"\x01\x00\x00\x00", 2: b""},
    upper_bounds={1: b"\xff" * 300, 2: "ü".encode()},
)

# No double beyond a float: PyIceberg 0.12 reads doubles of Avro through a C float.
TYPES: dict[str, tuple[Any, list[Any]]] = {
    "bool": (BooleanType(), [True, False, None]),
    "int": (IntegerType(), [-(2**31), 0, 2**31 - 1, None]),
    "long": (LongType(), [-(2**63), 2**63 - 1, None]),
    "float": (FloatType(), [1.5, -0.0, 0.0, math.inf, math.nan, None]),
    "double": (DoubleType(), [2.5, -0.0, 0.0, -math.inf, math.nan, None]),
    "date": (DateType(), [-719_162, 0, 2**31 - 1, None]),
    "time": (TimeType(), [0, 86_399_999_999, None]),
    "timestamp": (TimestampType(), [-(2**62), 0, 2**62, None]),
    "timestamptz beyond year 9999": (TimestamptzType(), [253_402_300_800_000_000, 2**62, None]),
    "string": (StringType(), ["", "a/b\n%", "ü🧊", "x" * 5000, None]),
    "binary": (BinaryType(), [b"", b"\x00\xff", None]),
    "fixed": (FixedType(3), [b"\x00\x01\x02", None]),
    "uuid": (UUIDType(), [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), None]),
    "decimal(9, 2)": (DecimalType(9, 2), [Decimal("-1234567.89"), Decimal("0.00"), None]),
    "decimal(38, 5)": (
        DecimalType(38, 5),
        [Decimal("-" + "9" * 33 + ".99999"), Decimal("123456789012345678901234567890123.45678"), None],
    ),
    "decimal(38, 0)": (DecimalType(38, 0), [Decimal("1" + "0" * 36 + "1"), None]),
}


def closed(
    partition: tuple[Any, ...] = (), kind: FileKind = FileKind.DATA, number: int = 0, **values: Any
) -> FileClosed:
    given: dict[str, Any] = {
        "batch": Batch(0, 1),
        "worker": "w0",
        "path": f"file:///t/data/{kind.value}-{number}.parquet",
        "kind": kind,
        "schema_id": 0,
        "spec_id": 0,
        "partition": partition,
        "record_count": 10 + number,
        "file_bytes": 4096,
        "metrics": METRICS,
        "split_offsets": (4, 70_000_000_000),
        "equality_ids": (1, 2) if kind is FileKind.EQUALITY_DELETE else (),
        "sort_order_id": 7,
    }
    return FileClosed(**(given | values))


def shape_of(
    kind: Any = None, transform: Any = None, content: Content = Content.DATA, name: str = "p"
) -> Shape:
    fields = [NestedField(1, "id", LongType(), required=True), NestedField(2, "v", DoubleType())]
    if kind is None:
        return Shape(Schema(*fields), PartitionSpec(spec_id=0), content)
    schema = Schema(*fields, NestedField(3, "source", kind))
    spec = PartitionSpec(PartitionField(3, 1000, transform or IdentityTransform(), name), spec_id=0)
    return Shape(schema, spec, content)


def plain_records(location: str) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, str]]:
    """Schema, records and metadata, by fastavro alone, logical types left out."""
    content = Path(location).read_bytes()
    reader = fastavro.reader(io.BytesIO(content))
    schema = json.loads(reader.metadata["avro.schema"])
    return schema, list(reader), dict(reader.metadata)  # type: ignore[arg-type]


def manifest_file(record: dict[str, Any], location: str) -> Any:
    """PyIceberg's view of a manifest, by way of a manifest list."""
    lists.write_manifest_list(
        IO, location, [record], snapshot_id=77, parent_id=None, sequence_number=5, compression="gzip"
    )
    (found,) = read_manifest_list(PyArrowFileIO().new_input(location))
    return found


# -- entries ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FileKind)
def test_every_field_of_a_file_is_read_back_by_pyiceberg(tmp_path: Path, kind: FileKind) -> None:
    content = Content.DATA if kind is FileKind.DATA else Content.DELETES
    files = [closed(kind=kind, number=number) for number in range(3)]
    record, _ = added_manifest(IO, f"{tmp_path}/m.avro", shape_of(content=content), 77, files)
    manifest = manifest_file(record, f"{tmp_path}/list.avro")
    assert manifest.content == (ManifestContent.DATA if kind is FileKind.DATA else ManifestContent.DELETES)
    assert (manifest.added_files_count, manifest.added_rows_count) == (3, 33)
    assert (manifest.existing_files_count, manifest.deleted_files_count) == (0, 0)
    assert (manifest.sequence_number, manifest.min_sequence_number, manifest.added_snapshot_id) == (5, 5, 77)
    assert manifest.manifest_length == Path(f"{tmp_path}/m.avro").stat().st_size
    entries = manifest.fetch_manifest_entry(PyArrowFileIO())
    assert [entry.data_file.file_path for entry in entries] == [file.path for file in files]
    for entry, file in zip(entries, files, strict=True):
        found = entry.data_file
        assert entry.status == ManifestEntryStatus.ADDED
        assert (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number) == (77, 5, 5)
        assert found.content == (
            DataFileContent.DATA if kind is FileKind.DATA else DataFileContent.EQUALITY_DELETES
        )
        assert found.file_format == FileFormat.PARQUET
        assert (found.record_count, found.file_size_in_bytes) == (file.record_count, 4096)
        assert found.column_sizes == METRICS.column_bytes
        assert found.value_counts == METRICS.value_counts
        assert found.null_value_counts == METRICS.null_counts
        assert found.nan_value_counts == METRICS.nan_counts
        assert found.lower_bounds == METRICS.lower_bounds
        assert found.upper_bounds == METRICS.upper_bounds
        assert found.split_offsets == [4, 70_000_000_000]
        assert found.equality_ids == ([1, 2] if kind is FileKind.EQUALITY_DELETE else None)
        assert found.sort_order_id == 7
        assert found.key_metadata is None


def test_the_avro_schema_is_icebergs_with_its_field_ids(tmp_path: Path) -> None:
    """`equality_ids` is a list of ints: a list of longs makes Iceberg's own reader fail."""
    shape = shape_of(content=Content.DELETES)
    added_manifest(IO, f"{tmp_path}/m.avro", shape, 77, [closed(kind=FileKind.EQUALITY_DELETE)])
    schema, (record,), metadata = plain_records(f"{tmp_path}/m.avro")
    ids = {field["name"]: field["field-id"] for field in schema["fields"]}
    assert ids == {
        "status": 0,
        "snapshot_id": 1,
        "sequence_number": 3,
        "file_sequence_number": 4,
        "data_file": 2,
    }
    (data_file,) = (field["type"] for field in schema["fields"] if field["name"] == "data_file")
    by_name = {field["name"]: field for field in data_file["fields"]}
    assert by_name["equality_ids"]["type"] == ["null", {"type": "array", "items": "int", "element-id": 136}]
    assert {name: field["field-id"] for name, field in by_name.items()} == {
        "content": 134,
        "file_path": 100,
        "file_format": 101,
        "partition": 102,
        "record_count": 103,
        "file_size_in_bytes": 104,
        "column_sizes": 108,
        "value_counts": 109,
        "null_value_counts": 110,
        "nan_value_counts": 137,
        "lower_bounds": 125,
        "upper_bounds": 128,
        "key_metadata": 131,
        "split_offsets": 132,
        "equality_ids": 135,
        "sort_order_id": 140,
    }
    assert record["status"] == 1
    assert record["sequence_number"] is None, "left open, so that a retry keeps the manifest"
    assert metadata["content"] == "deletes"
    assert metadata["format-version"] == "2"
    assert metadata["partition-spec-id"] == "0"
    assert json.loads(metadata["partition-spec"]) == []
    assert json.loads(metadata["schema"])["fields"][0]["name"] == "id"


@pytest.mark.parametrize("kind", TYPES)
def test_partition_values_of_every_type_come_back(tmp_path: Path, kind: str) -> None:
    type_, values = TYPES[kind]
    shape = shape_of(type_)
    files = [closed((value,), number=number) for number, value in enumerate(values)]
    record, _ = added_manifest(IO, f"{tmp_path}/m.avro", shape, 77, files)
    manifest = manifest_file(record, f"{tmp_path}/list.avro")
    found = [entry.data_file.partition[0] for entry in manifest.fetch_manifest_entry(PyArrowFileIO())]
    assert list(map(repr, found)) == list(map(repr, values)), "also the sign of a zero"
    (summary,) = manifest.partitions
    assert summary.contains_null
    assert summary.contains_nan == any(isinstance(value, float) and math.isnan(value) for value in values)
    assert summary.lower_bound is not None
    assert summary.upper_bound is not None


@pytest.mark.parametrize("kind", TYPES)
def test_a_manifest_equals_what_pyiceberg_writes_of_the_same_files(tmp_path: Path, kind: str) -> None:
    """Field by field, as a third reader sees both; but for `equality_ids`, where PyIceberg errs."""
    type_, values = TYPES[kind]
    shape = shape_of(type_)
    files = [closed((value,), number=number) for number, value in enumerate(values)]
    record, _ = added_manifest(IO, f"{tmp_path}/ours.avro", shape, 77, files)
    theirs = PyArrowFileIO().new_output(f"{tmp_path}/theirs.avro")
    with write_manifest(2, shape.spec, shape.schema, theirs, 77, "deflate") as writer:
        for file in files:
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=77, data_file=their_data_file(file)
                )
            )
    expected = writer.to_manifest_file()
    our_schema, _, our_metadata = plain_schema(f"{tmp_path}/ours.avro")
    their_schema, _, their_metadata = plain_schema(f"{tmp_path}/theirs.avro")
    assert without_equality_ids(our_schema) == without_equality_ids(their_schema)
    for name in ("schema", "partition-spec", "partition-spec-id", "format-version", "content"):
        assert json_or_text(our_metadata[name]) == json_or_text(their_metadata[name]), name
    if not any(isinstance(value, float) and math.isnan(value) for value in values):  # PyIceberg's NaNs differ
        assert physical(f"{tmp_path}/ours.avro") == physical(f"{tmp_path}/theirs.avro")
    assert expected.partitions is not None
    (ours,), (their_summary,) = record["partitions"], expected.partitions
    if kind not in ("float", "double"):  # there its bounds may be NaN, or a zero of either sign
        assert (ours["lower_bound"], ours["upper_bound"]) == (
            their_summary.lower_bound,
            their_summary.upper_bound,
        )


def their_data_file(file: FileClosed) -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*file.partition),
        record_count=file.record_count,
        file_size_in_bytes=file.file_bytes,
        column_sizes=dict(file.metrics.column_bytes),
        value_counts=dict(file.metrics.value_counts),
        null_value_counts=dict(file.metrics.null_counts),
        nan_value_counts=dict(file.metrics.nan_counts),
        lower_bounds=dict(file.metrics.lower_bounds),
        upper_bounds=dict(file.metrics.upper_bounds),
        key_metadata=None,
        split_offsets=list(file.split_offsets),
        equality_ids=None,
        sort_order_id=file.sort_order_id,
    )


def plain_schema(location: str) -> tuple[Any, None, dict[str, str]]:
    reader = fastavro.block_reader(io.BytesIO(Path(location).read_bytes()))
    return json.loads(reader.metadata["avro.schema"]), None, dict(reader.metadata)


def physical(location: str) -> list[Any]:
    """Records without logical types, which Python cannot always hold."""
    content = Path(location).read_bytes()
    blocks = fastavro.block_reader(io.BytesIO(content))
    schema = fastavro.parse_schema(strip(json.loads(blocks.metadata["avro.schema"])))
    records = []
    for block in blocks:
        stream = io.BytesIO(block.bytes_.getvalue())  # type: ignore[attr-defined]
        records += [fastavro.schemaless_reader(stream, schema, None) for _ in range(block.num_records)]
    return records


def strip(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: strip(value) for name, value in schema.items() if name != "logicalType"}
    return [strip(part) for part in schema] if isinstance(schema, list) else schema


def without_equality_ids(schema: Any) -> Any:
    (data_file,) = (field["type"] for field in schema["fields"] if field["name"] == "data_file")
    data_file["fields"] = [field for field in data_file["fields"] if field["name"] != "equality_ids"]
    return schema


def json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@pytest.mark.parametrize(
    "name", ["a b", "1st", "ü", "日本", "٣", "ü-🧊", "a.b", "x/y", "_ok9", "data_file", "r102", 'qu"ote']
)
def test_partition_fields_may_have_names_that_avro_does_not_take(tmp_path: Path, name: str) -> None:
    shape = shape_of(StringType(), name=name)
    record, _ = added_manifest(
        IO, f"{tmp_path}/m.avro", shape, 77, [closed(("north",)), closed((None,), number=1)]
    )
    manifest = manifest_file(record, f"{tmp_path}/list.avro")
    found = [entry.data_file.partition[0] for entry in manifest.fetch_manifest_entry(PyArrowFileIO())]
    assert found == ["north", None]
    schema, _, metadata = plain_schema(f"{tmp_path}/m.avro")
    assert json.loads(metadata["partition-spec"])[0]["name"] == name
    (field,) = partition_fields(schema)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", field["name"])
    assert field.get("iceberg-field-name", field["name"]) == name
    assert read_entries(IO, record | {"sequence_number": 5}, shape) is not None


def test_partition_fields_whose_names_avro_would_take_for_one_keep_their_values(tmp_path: Path) -> None:
    names = ("ü", "_xFC", "_xFC_")
    schema = Schema(*(NestedField(number, name, LongType()) for number, name in enumerate(names, start=1)))
    fields = [
        PartitionField(number, 1000 + number, IdentityTransform(), name)
        for number, name in enumerate(names, start=1)
    ]
    shape = Shape(schema, PartitionSpec(*fields, spec_id=0), Content.DATA)
    record, _ = added_manifest(IO, f"{tmp_path}/m.avro", shape, 77, [closed((1, 2, 3))])
    written = [field["name"] for field in partition_fields(plain_schema(f"{tmp_path}/m.avro")[0])]
    assert len(set(written)) == 3
    (entry,) = manifest_file(record, f"{tmp_path}/list.avro").fetch_manifest_entry(PyArrowFileIO())
    assert [entry.data_file.partition[place] for place in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("transform, value", [(VoidTransform(), None), (IdentityTransform(), 7)])
def test_a_partition_field_is_optional_though_its_column_is_required(
    tmp_path: Path, transform, value
) -> None:
    """As Iceberg's own writer has it: the value of a void field is always null."""
    schema = Schema(NestedField(1, "id", LongType(), required=True))
    shape = Shape(schema, PartitionSpec(PartitionField(1, 1000, transform, "p"), spec_id=0), Content.DATA)
    record, _ = added_manifest(IO, f"{tmp_path}/m.avro", shape, 77, [closed((value,))])
    (field,) = partition_fields(plain_schema(f"{tmp_path}/m.avro")[0])
    assert field["type"] == ["null", "long"]
    (entry,) = manifest_file(record, f"{tmp_path}/list.avro").fetch_manifest_entry(PyArrowFileIO())
    assert entry.data_file.partition[0] == value


def partition_fields(schema: Any) -> list[Any]:
    (data_file,) = (field["type"] for field in schema["fields"] if field["name"] == "data_file")
    (partition,) = (field["type"] for field in data_file["fields"] if field["name"] == "partition")
    return partition["fields"]


@pytest.mark.parametrize(
    "transform, type_, value",
    [
        (BucketTransform(16), StringType(), 15),
        (TruncateTransform(3), StringType(), "abc"),
        (TruncateTransform(10), DecimalType(38, 2), Decimal("-123456789012345678901234567890123456.70")),
        (YearTransform(), DateType(), -5),
        (MonthTransform(), TimestampType(), 700),
        (DayTransform(), TimestamptzType(), 20_000),
        (HourTransform(), TimestamptzType(), 2**31 - 1),
        (VoidTransform(), StringType(), None),
    ],
)
def test_partition_values_of_every_transform_come_back(tmp_path: Path, transform, type_, value) -> None:
    shape = shape_of(type_, transform)
    record, _ = added_manifest(IO, f"{tmp_path}/m.avro", shape, 77, [closed((value,))])
    manifest = manifest_file(record, f"{tmp_path}/list.avro")
    (entry,) = manifest.fetch_manifest_entry(PyArrowFileIO())
    assert entry.data_file.partition[0] == value


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    counts=st.dictionaries(st.integers(1, 2**31 - 1), st.integers(0, 2**62), max_size=6),
    bounds=st.dictionaries(st.integers(1, 2**31 - 1), st.binary(max_size=40), max_size=6),
    offsets=st.lists(st.integers(0, 2**62), max_size=4),
)
def test_maps_and_lists_of_any_size_come_back(tmp_path: Path, counts, bounds, offsets) -> None:
    metrics = ColumnMetrics(counts, counts, counts, counts, bounds, bounds)
    file = closed(metrics=metrics, split_offsets=tuple(offsets))
    location = f"{tmp_path}/{uuid.uuid4()}.avro"
    added_manifest(IO, location, shape_of(), 77, [file])
    found = physical(location)[0]["data_file"]
    assert {pair["key"]: pair["value"] for pair in found["value_counts"] or []} == counts
    assert {pair["key"]: pair["value"] for pair in found["upper_bounds"] or []} == bounds
    assert (found["split_offsets"] or []) == offsets
    assert found["equality_ids"] is None


# -- lists and merging -----------------------------------------------------------------------------


def test_a_retry_gives_open_manifests_the_new_number_and_leaves_the_others(tmp_path: Path) -> None:
    """A manifest that kept the number of a lost attempt would let rows escape our deletes."""
    record, _ = added_manifest(IO, f"{tmp_path}/m.avro", shape_of(), 77, [closed()])
    for attempt, sequence in enumerate((5, 9)):
        rows = lists.write_manifest_list(
            IO,
            f"{tmp_path}/{attempt}.avro",
            [record],
            snapshot_id=77,
            parent_id=3,
            sequence_number=sequence,
            compression="gzip",
        )
        assert [(row["sequence_number"], row["min_sequence_number"]) for row in rows] == [
            (sequence, sequence)
        ]
        assert lists.read_manifest_list(IO, f"{tmp_path}/{attempt}.avro") == rows
        again = lists.write_manifest_list(
            IO,
            f"{tmp_path}/{attempt}b.avro",
            rows,
            snapshot_id=78,
            parent_id=77,
            sequence_number=20,
            compression="uncompressed",
        )
        assert again == rows
    assert not lists.is_assigned(record)


def test_a_manifest_list_carries_icebergs_metadata(tmp_path: Path) -> None:
    location = f"{tmp_path}/list.avro"
    for parent, text in ((None, "null"), (3, "3")):
        lists.write_manifest_list(
            IO, location + text, [], snapshot_id=77, parent_id=parent, sequence_number=5, compression="gzip"
        )
        _, records, metadata = plain_records(location + text)
        assert records == []
        names = ("snapshot-id", "parent-snapshot-id", "sequence-number", "format-version")
        assert [metadata[name] for name in names] == ["77", text, "5", "2"]


def test_lists_of_older_writers_are_completed(tmp_path: Path) -> None:
    """A count that is missing is taken for live: nothing is dropped from a table on a guess."""
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            {"name": "manifest_path", "type": "string", "field-id": 500},
            {"name": "manifest_length", "type": "long", "field-id": 501},
            {"name": "partition_spec_id", "type": "int", "field-id": 502},
            {"name": "added_snapshot_id", "type": ["null", "long"], "field-id": 503},
            {"name": "added_data_files_count", "type": ["null", "int"], "field-id": 504},
        ],
    }
    row = {
        "manifest_path": "m",
        "manifest_length": 1,
        "partition_spec_id": 0,
        "added_snapshot_id": 1,
        "added_data_files_count": 4,
    }
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [row])
    (tmp_path / "list.avro").write_bytes(buffer.getvalue())
    (found,) = lists.read_manifest_list(IO, f"{tmp_path}/list.avro")
    assert (found["content"], found["sequence_number"], found["added_files_count"]) == (0, 0, 4)
    assert lists.is_live(found)


@pytest.mark.parametrize("kind", TYPES)
def test_merged_entries_keep_their_bytes_and_numbers(tmp_path: Path, kind: str) -> None:
    type_, values = TYPES[kind]
    shape = shape_of(type_)
    rows, written = [], []
    for number, value in enumerate(values):
        record, entries = added_manifest(
            IO, f"{tmp_path}/{number}.avro", shape, 70 + number, [closed((value,), number=number)]
        )
        rows.append(record | {"sequence_number": 5 + number, "min_sequence_number": 5 + number})
        written.append(entries)
    read = [read_entries(IO, row, shape) for row in rows]
    remembered = [settled(entries, row) for entries, row in zip(written, rows, strict=True)]
    assert read == remembered, "what was read back is what was remembered"
    merged = [entry for entries in remembered for entry in entries]
    record = merged_manifest(IO, f"{tmp_path}/merged.avro", shape, 99, rows, merged)
    manifest = manifest_file(record, f"{tmp_path}/list.avro")
    assert (manifest.existing_files_count, manifest.added_files_count) == (len(values), 0)
    assert manifest.existing_rows_count == sum(10 + number for number in range(len(values)))
    assert manifest.min_sequence_number == 5
    for number, entry in enumerate(manifest.fetch_manifest_entry(PyArrowFileIO())):
        assert entry.status == ManifestEntryStatus.EXISTING
        assert (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number) == (
            70 + number,
            5 + number,
            5 + number,
        )
        assert repr(entry.data_file.partition[0]) == repr(values[number])


def test_entries_of_another_avro_schema_are_left_alone(tmp_path: Path) -> None:
    record, _ = added_manifest(IO, f"{tmp_path}/m.avro", shape_of(FloatType()), 77, [closed((1.5,))])
    assert read_entries(IO, record, shape_of(DoubleType())) is None


def test_deleted_entries_are_not_carried_on(tmp_path: Path) -> None:
    shape = shape_of()
    theirs = PyArrowFileIO().new_output(f"{tmp_path}/theirs.avro")
    with write_manifest(2, shape.spec, shape.schema, theirs, 77, "deflate") as writer:
        for status, number in ((ManifestEntryStatus.DELETED, 0), (ManifestEntryStatus.EXISTING, 1)):
            entry = ManifestEntry.from_args(
                status=status,
                snapshot_id=70,
                sequence_number=3,
                file_sequence_number=2,
                data_file=their_data_file(closed(number=number)),
            )
            writer.add_entry(entry)
    schema = plain_schema(f"{tmp_path}/theirs.avro")[0]
    assert schema  # PyIceberg's equality_ids are longs, so its manifests are never copied
    record = {"manifest_path": f"{tmp_path}/theirs.avro", "sequence_number": 9, "added_snapshot_id": 77}
    assert read_entries(IO, record, shape) is None


def test_files_are_parted_by_content_and_spec_in_a_stable_order() -> None:
    files = [
        closed(kind=FileKind.EQUALITY_DELETE, spec_id=1),
        closed(spec_id=1, number=1),
        closed(spec_id=0, number=2),
        closed(spec_id=1, number=3),
    ]
    groups = by_manifest(files)
    assert list(groups) == [(Content.DATA, 0), (Content.DATA, 1), (Content.DELETES, 1)]
    assert [len(group) for group in groups.values()] == [1, 2, 1]
