"""Manifests and manifest lists, written from messages alone (P7), and read where another run wrote them.

    FileClosed ──encode_file──▶ Entry ─┐
                                       ├─▶ manifest (one a content and spec) ──▶ manifest list
    entries of a merged manifest ──────┘

Sequence numbers are left null in new entries: a reader takes the manifest's, which stands in the
manifest list of each attempt. So manifests survive a retry and only the list is written again.
`equality_ids` is a list of ints, as the specification says; a list of longs makes Iceberg's own reader
fail. Delete files stand in delete manifests: in a data manifest their keys would be read as rows.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from typing import Any, cast
from uuid import UUID

import fastavro
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, StructType
from pyiceberg.utils.decimal import decimal_required_bytes, decimal_to_unscaled
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from calve.model.file import FileClosed, FileKind, PartitionValue
from calve.table.avro import (
    SMALL,
    AvroSchema,
    container,
    counts,
    raw_records,
    sized,
    without_logical_types,
    zigzag,
)
from calve.table.partitions import merge_summaries, summarize

ManifestRecord = dict[str, Any]
"""A row of a manifest list, by Iceberg's names."""

_NULL, _SOME = SMALL[0], SMALL[1]
_EXISTING, _ADDED, _DELETED = 0, 1, 2
_PARQUET = sized(b"PARQUET")
_FILE_CONTENT = {FileKind.DATA: SMALL[0], FileKind.EQUALITY_DELETE: SMALL[2]}


class Content(IntEnum):
    """What the files of a manifest are, as a manifest list says it."""

    DATA = 0
    DELETES = 1

    @classmethod
    def of(cls, file: FileClosed) -> Content:
        return cls.DATA if file.kind is FileKind.DATA else cls.DELETES


@dataclass(frozen=True, slots=True)
class Entry:
    """A live file of a manifest. `sequence_number` is open for a file that this commit adds."""

    snapshot_id: int
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: bytes

    def encode(self) -> bytes:
        return _entry_head(self.snapshot_id, self.sequence_number, self.file_sequence_number) + self.data_file


@lru_cache(maxsize=1024)
def _entry_head(snapshot_id: int, sequence_number: int | None, file_sequence_number: int | None) -> bytes:
    """What stands before an entry's file: the same for all files of a snapshot."""
    status = _ADDED if sequence_number is None else _EXISTING
    return b"".join(
        (
            SMALL[status],
            _SOME + zigzag(snapshot_id),
            _optional_long(sequence_number),
            _optional_long(file_sequence_number),
        )
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """What all manifests of one schema, spec and content share."""

    schema: Schema
    spec: PartitionSpec
    content: Content
    compression: str = "gzip"

    @property
    def partition_type(self) -> StructType:
        return self.spec.partition_type(self.schema)

    @property
    def avro_schema(self) -> AvroSchema:
        return _entry_schema(self.partition_type)

    @property
    def metadata(self) -> dict[str, str]:
        fields = [field.model_dump(mode="json", by_alias=True) for field in self.spec.fields]
        return {
            "schema": self.schema.model_dump_json(),
            "schema-id": str(self.schema.schema_id),
            "partition-spec": json.dumps(fields),
            "partition-spec-id": str(self.spec.spec_id),
            "format-version": "2",
            "content": "data" if self.content is Content.DATA else "deletes",
        }


def added_manifest(
    io_: FileIO, location: str, shape: Shape, snapshot_id: int, files: Sequence[FileClosed]
) -> tuple[ManifestRecord, tuple[Entry, ...]]:
    """Write the manifest of files that a snapshot adds; its row for the list, and its entries."""
    encode_partition = _partition_encoder(shape.partition_type)
    entries = tuple(Entry(snapshot_id, None, None, _encode_file(file, encode_partition)) for file in files)
    length = _write(io_, location, shape, entries)
    rows = sum(file.record_count for file in files)
    record = _record(location, length, shape, snapshot_id)
    record |= {"added_files_count": len(files), "added_rows_count": rows}
    record["partitions"] = summarize(shape.partition_type, {file.partition for file in files})
    return record, entries


def merged_manifest(
    io_: FileIO,
    location: str,
    shape: Shape,
    snapshot_id: int,
    inputs: Sequence[ManifestRecord],
    entries: Sequence[Entry],
) -> ManifestRecord:
    """Write one manifest with the live entries of several; its row for the list."""
    length = _write(io_, location, shape, entries)
    record = _record(location, length, shape, snapshot_id)
    record["min_sequence_number"] = min(cast(int, entry.sequence_number) for entry in entries)
    record["existing_files_count"] = len(entries)
    record["existing_rows_count"] = sum(live_rows(manifest) for manifest in inputs)
    record["partitions"] = merge_summaries(
        shape.partition_type, [manifest["partitions"] for manifest in inputs]
    )
    return record


def read_entries(io_: FileIO, manifest: ManifestRecord, shape: Shape) -> tuple[Entry, ...] | None:
    """The live entries of a manifest, with the numbers that they inherit; `None` if it was written with
    another Avro schema than this release writes, so that its bytes cannot be copied."""
    with io_.new_input(manifest["manifest_path"]).open() as stream:
        schema, records = raw_records(stream.read())
    if _comparable(schema) != _comparable(shape.avro_schema):
        return None
    return tuple(
        _inherit(record, encoded, manifest) for record, encoded in records if record["status"] != _DELETED
    )


def write_manifest_list(
    io_: FileIO,
    location: str,
    manifests: Sequence[ManifestRecord],
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    compression: str,
) -> tuple[ManifestRecord, ...]:
    """Write a snapshot's manifest list; its rows as they stand in it.

    Rows that this snapshot adds get its sequence number, in copies: the next attempt needs them open.
    """
    rows = tuple(_assigned(manifest, sequence_number) for manifest in manifests)
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(sequence_number),
        "format-version": "2",
    }
    _put(io_, location, container(_list_schema(), metadata, compression, map(_encoded_row, rows)))
    return rows


_ROWS_KNOWN_MAX = 4096
_rows_known: dict[int, tuple[ManifestRecord, bytes]] = {}


def _encoded_row(row: ManifestRecord) -> bytes:
    """A row of a manifest list, encoded once. Nearly all rows of a list stood in the list before, and
    are the same objects; a row is never changed once it stands in a list. The row is kept beside its
    bytes, so that no other object can have its id."""
    known = _rows_known.get(id(row))
    if known is not None:
        return known[1]
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, _list_schema(), row)
    if len(_rows_known) >= _ROWS_KNOWN_MAX:
        _rows_known.clear()
    encoded = stream.getvalue()
    _rows_known[id(row)] = (row, encoded)
    return encoded


def read_manifest_list(io_: FileIO, location: str) -> tuple[ManifestRecord, ...]:
    """The rows of a manifest list, whoever wrote it, with what older writers leave out filled in."""
    with io_.new_input(location).open() as stream:
        rows = list(fastavro.reader(io.BytesIO(stream.read())))
    return tuple(_completed(cast(ManifestRecord, row)) for row in rows)


def settled(entries: Sequence[Entry], manifest: ManifestRecord) -> tuple[Entry, ...]:
    """Entries as they stand in the table, with the numbers that they inherit from their manifest."""
    number = manifest["sequence_number"]
    return tuple(
        entry
        if entry.sequence_number is not None
        else replace(entry, sequence_number=number, file_sequence_number=number)
        for entry in entries
    )


def is_assigned(manifest: ManifestRecord) -> bool:
    """Whether a manifest is part of a snapshot already, and so has its sequence number."""
    return bool(manifest["sequence_number"] != _UNASSIGNED)


def is_live(manifest: ManifestRecord) -> bool:
    """Whether a manifest names a file that is still part of the table."""
    return bool(manifest["added_files_count"] or manifest["existing_files_count"])


def live_rows(manifest: ManifestRecord) -> int:
    return int(manifest["added_rows_count"] + manifest["existing_rows_count"])


def live_files(manifest: ManifestRecord) -> int:
    return int(manifest["added_files_count"] + manifest["existing_files_count"])


_UNASSIGNED = -1

_LIST_DEFAULTS: Mapping[str, Any] = {
    "content": 0,
    "sequence_number": 0,
    "min_sequence_number": 0,
    "partitions": None,
    "key_metadata": None,
}
_COUNTS = tuple(
    f"{state}_{unit}_count" for state in ("added", "existing", "deleted") for unit in ("files", "rows")
)


def _record(location: str, length: int, shape: Shape, snapshot_id: int) -> ManifestRecord:
    return {
        "manifest_path": location,
        "manifest_length": length,
        "partition_spec_id": shape.spec.spec_id,
        "content": int(shape.content),
        "sequence_number": _UNASSIGNED,
        "min_sequence_number": _UNASSIGNED,
        "added_snapshot_id": snapshot_id,
        **dict.fromkeys(_COUNTS, 0),
        "partitions": None,
        "key_metadata": None,
    }


def _assigned(manifest: ManifestRecord, sequence_number: int) -> ManifestRecord:
    if manifest["sequence_number"] != _UNASSIGNED:
        return manifest
    least = manifest["min_sequence_number"]
    return manifest | {
        "sequence_number": sequence_number,
        "min_sequence_number": sequence_number if least == _UNASSIGNED else least,
    }


def _completed(row: ManifestRecord) -> ManifestRecord:
    """v1 lists spell counts otherwise or leave them out. A count that is missing is taken for live."""
    completed = dict(_LIST_DEFAULTS) | row
    for name in _COUNTS:
        older = name.replace("_files_count", "_data_files_count")
        if completed.get(name) is None:
            completed[name] = completed.get(older) if completed.get(older) is not None else 1
    return {name: completed[name] for name in _record_names()}


@lru_cache(maxsize=1)
def _record_names() -> tuple[str, ...]:
    return tuple(field["name"] for field in _list_schema()["fields"])


@lru_cache(maxsize=1)
def _list_schema() -> AvroSchema:
    schema = AvroSchemaConversion().iceberg_to_avro(MANIFEST_LIST_FILE_SCHEMAS[2], "manifest_file")
    return cast(AvroSchema, fastavro.parse_schema(cast(AvroSchema, schema)))


@lru_cache(maxsize=64)
def _entry_schema(partition: StructType) -> AvroSchema:
    entry = manifest_entry_schema_with_data_file(2, data_file_with_partition(partition, 2))
    schema = cast(AvroSchema, AvroSchemaConversion().iceberg_to_avro(entry, "manifest_entry"))
    (data_file,) = (field["type"] for field in schema["fields"] if field["name"] == "data_file")
    for field in data_file["fields"]:
        if field["name"] == "equality_ids":
            # PyIceberg says list<long>; Iceberg's own reader then fails to cast.
            field["type"] = ["null", {"type": "array", "items": "int", "element-id": 136}]
    return cast(AvroSchema, fastavro.parse_schema(schema))


def _comparable(schema: AvroSchema) -> str:
    return json.dumps(
        {key: value for key, value in schema.items() if not key.startswith("__")}, sort_keys=True
    )


def _write(io_: FileIO, location: str, shape: Shape, entries: Sequence[Entry]) -> int:
    content = container(
        shape.avro_schema, shape.metadata, shape.compression, (entry.encode() for entry in entries)
    )
    _put(io_, location, content)
    return len(content)


def _put(io_: FileIO, location: str, content: bytes) -> None:
    with io_.new_output(location).create() as stream:
        stream.write(content)


def _inherit(record: dict[str, Any], encoded: bytes, manifest: ManifestRecord) -> Entry:
    numbers = (record[name] for name in ("snapshot_id", "sequence_number", "file_sequence_number"))
    prefix = (SMALL[record["status"]], *map(_optional_long, numbers))
    inherited = manifest["sequence_number"]
    return Entry(
        snapshot_id=_or(record["snapshot_id"], manifest["added_snapshot_id"]),
        sequence_number=_or(record["sequence_number"], inherited),
        file_sequence_number=_or(record["file_sequence_number"], inherited),
        data_file=encoded[len(b"".join(prefix)) :],
    )


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _optional_long(value: int | None) -> bytes:
    return _NULL if value is None else _SOME + zigzag(value)


def _encode_file(file: FileClosed, encode_partition: _PartitionEncoder) -> bytes:
    """The fields of `data_file` in their order in the schema."""
    metrics = file.metrics
    return b"".join(
        (
            _FILE_CONTENT[file.kind],
            sized(file.path.encode()),
            _PARQUET,
            encode_partition(file.partition),
            zigzag(file.record_count),
            zigzag(file.file_bytes),
            _counts(metrics.column_bytes),
            _counts(metrics.value_counts),
            _counts(metrics.null_counts),
            _counts(metrics.nan_counts),
            _bounds(metrics.lower_bounds),
            _bounds(metrics.upper_bounds),
            _NULL,  # key_metadata
            _longs(file.split_offsets),
            _longs(file.equality_ids),
            _optional_long(file.sort_order_id),
        )
    )


def _counts(numbers: Mapping[int, int]) -> bytes:
    if not numbers:
        return _NULL
    distinct = set(numbers.values())
    if len(distinct) == 1 and max(numbers) < len(SMALL):
        # All columns of a file have its rows, and most have no null: such a number is encoded once.
        encoded = zigzag(distinct.pop())
        pairs = encoded.join([SMALL[key] for key in numbers]) + encoded
    else:
        pairs = counts(numbers)
    return b"".join((_SOME, zigzag(len(numbers)), pairs, _NULL))


def _bounds(bounds: Mapping[int, bytes]) -> bytes:
    if not bounds:
        return _NULL
    small, size = SMALL, len(SMALL)
    pairs: list[bytes] = [_SOME, zigzag(len(bounds))]
    for key, bound in bounds.items():
        length = len(bound)
        if key < size and length < size:
            pairs += (small[key], small[length], bound)
        else:
            pairs += (zigzag(key), sized(bound))
    pairs.append(_NULL)
    return b"".join(pairs)


def _longs(values: Sequence[int]) -> bytes:
    if not values:
        return _NULL
    return b"".join((_SOME, zigzag(len(values)), *map(zigzag, values), _NULL))


class _PartitionEncoder:
    """Partition tuples to Avro, each distinct one once."""

    def __init__(self, partition: StructType) -> None:
        self._types = [field.field_type for field in partition.fields]
        data_file = next(f["type"] for f in _entry_schema(partition)["fields"] if f["name"] == "data_file")
        record = next(f["type"] for f in data_file["fields"] if f["name"] == "partition")
        self._schema = fastavro.parse_schema(without_logical_types(record))
        self._names = [field["name"] for field in record["fields"]]
        self._known: dict[tuple[PartitionValue, ...], bytes] = {}

    def __call__(self, values: tuple[PartitionValue, ...]) -> bytes:
        # -0.0 and 0.0 are two partitions, and one key of a dictionary.
        key = tuple(repr(value) if isinstance(value, float) else value for value in values)
        known = self._known.get(key)
        if known is None:
            stream = io.BytesIO()
            physical = map(_physical, self._types, values)
            fastavro.schemaless_writer(stream, self._schema, dict(zip(self._names, physical, strict=True)))
            known = self._known[key] = stream.getvalue()
        return known


def _partition_encoder(partition: StructType) -> _PartitionEncoder:
    return _PartitionEncoder(partition)


def _physical(type_: Any, value: PartitionValue) -> Any:
    """A partition value as Avro holds it without its logical type."""
    match value:
        case UUID():
            return value.bytes
        case Decimal() if isinstance(type_, DecimalType):
            # Not `scaleb`: it rounds to the context's 28 digits.
            unscaled = decimal_to_unscaled(value)
            return unscaled.to_bytes(decimal_required_bytes(type_.precision), "big", signed=True)
    return value


def by_manifest(files: Iterable[FileClosed]) -> dict[tuple[Content, int], list[FileClosed]]:
    """Files by what their manifest must be: content and spec id, in a stable order."""
    groups: dict[tuple[Content, int], list[FileClosed]] = {}
    for file in files:
        groups.setdefault((Content.of(file), file.spec_id), []).append(file)
    return dict(sorted(groups.items()))
