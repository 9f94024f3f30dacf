"""Entries: the files of a manifest, as bytes.

    FileClosed ──encode_file──▶ Entry.data_file ──▶ manifest, and every manifest it is merged into

The partition record is fastavro's. Its fields are optional, whatever their columns are: the value of a void
field is always null. Their names are written in the letters that Avro allows; readers go by field ids.
Counts and bounds come encoded with the message: the worker did that.
`equality_ids` is a list of ints, as the specification says: a list of longs makes Iceberg's own reader fail.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast
from uuid import UUID

import fastavro
from pyiceberg.manifest import data_file_with_partition, manifest_entry_schema_with_data_file
from pyiceberg.types import DecimalType, StructType
from pyiceberg.utils.decimal import decimal_required_bytes, decimal_to_unscaled
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from calve.model.encoding import NULL, SMALL, SOME, longs, optional_long, sized, zigzag
from calve.model.file import FileClosed, FileKind, PartitionValue
from calve.table.avro import AvroSchema, without_logical_types
from calve.table.lists import ManifestRecord

_EXISTING, _ADDED, DELETED = 0, 1, 2

_PARQUET = sized(b"PARQUET")

_NO_LETTER = re.compile(r"[^A-Za-z0-9_]")

_FILE_CONTENT = {FileKind.DATA: SMALL[0], FileKind.EQUALITY_DELETE: SMALL[2]}


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
            SOME + zigzag(snapshot_id),
            optional_long(sequence_number),
            optional_long(file_sequence_number),
        )
    )


def settled(entries: Sequence[Entry], manifest: ManifestRecord) -> tuple[Entry, ...]:
    """Entries as they stand in the table, with the numbers that they inherit from their manifest."""
    number = manifest["sequence_number"]
    return tuple(
        entry
        if entry.sequence_number is not None
        else replace(entry, sequence_number=number, file_sequence_number=number)
        for entry in entries
    )


def inherit(record: dict[str, Any], encoded: bytes, manifest: ManifestRecord) -> Entry:
    numbers = (record[name] for name in ("snapshot_id", "sequence_number", "file_sequence_number"))
    prefix = (SMALL[record["status"]], *map(optional_long, numbers))
    inherited = manifest["sequence_number"]
    return Entry(
        snapshot_id=_or(record["snapshot_id"], manifest["added_snapshot_id"]),
        sequence_number=_or(record["sequence_number"], inherited),
        file_sequence_number=_or(record["file_sequence_number"], inherited),
        data_file=encoded[len(b"".join(prefix)) :],
    )


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def encode_file(file: FileClosed, encode_partition: PartitionEncoder) -> bytes:
    """The fields of `data_file` in their order in the schema."""
    return b"".join(
        (
            _FILE_CONTENT[file.kind],
            sized(file.path.encode()),
            _PARQUET,
            encode_partition(file.partition),
            zigzag(file.record_count),
            zigzag(file.file_bytes),
            file.metrics.encoded,
            NULL,  # key_metadata
            longs(file.split_offsets),
            longs(file.equality_ids),
            optional_long(file.sort_order_id),
        )
    )


class PartitionEncoder:
    """Partition tuples to Avro, each distinct one once."""

    def __init__(self, partition: StructType) -> None:
        self._types = [field.field_type for field in partition.fields]
        data_file = next(f["type"] for f in entry_schema(partition)["fields"] if f["name"] == "data_file")
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


@lru_cache(maxsize=64)
def entry_schema(partition: StructType) -> AvroSchema:
    entry = manifest_entry_schema_with_data_file(2, data_file_with_partition(_in_avro(partition), 2))
    schema = cast(AvroSchema, AvroSchemaConversion().iceberg_to_avro(entry, "manifest_entry"))
    (data_file,) = (field["type"] for field in schema["fields"] if field["name"] == "data_file")
    for field in data_file["fields"]:
        if field["name"] == "equality_ids":
            # PyIceberg says list<long>; Iceberg's own reader then fails to cast.
            field["type"] = ["null", {"type": "array", "items": "int", "element-id": 136}]
        if field["name"] == "partition":
            for written, ours in zip(field["type"]["fields"], partition.fields, strict=True):
                if written["name"] != ours.name:
                    written["iceberg-field-name"] = ours.name
    return cast(AvroSchema, fastavro.parse_schema(schema))


def _in_avro(partition: StructType) -> StructType:
    """The partition with names that Avro allows, each its own, and with every field optional."""
    names: list[str] = []
    for field in partition.fields:
        name = _avro_name(field.name)
        while name in names:  # `ü` beside a column that is called `_xFC`
            name += "_"
        names.append(name)
    return StructType(
        *(
            field.model_copy(update={"name": name, "required": False})
            for name, field in zip(names, partition.fields, strict=True)
        )
    )


def _avro_name(name: str) -> str:
    """As Iceberg writes it, but for letters beyond ASCII: Java takes them for letters, Avro's specification
    and other readers do not."""
    escaped = _NO_LETTER.sub(lambda found: f"_x{ord(found[0]):X}", name)
    return f"_{escaped}" if escaped[0].isdigit() else escaped
