"""Live: the files of a snapshot as its manifests name them, as plain values, whoever wrote them.

    snapshot ─▶ manifest list ─▶ manifests, several at a time ─▶ LiveFile …

Manifests of deletes come first: whether bounds of data files are of use is known from them.

Manifests of format versions 1, 2 and 3 are read, of ours and of others. What an older version leaves out is
what it means there: content is data, the sequence number is 0. A file that a manifest adds without a number
has that of the manifest.

Values of a partition are compared as Avro holds them, without their logical types: writers differ in whether
a day is a date or a number. A decimal is compared as a number, because its bytes are more once its column is
wider; a float by its digits, because NaN is one partition, and -0.0 another than 0.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Protocol

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from calve.table.avro import AvroSchema, records_without
from calve.table.base import live_manifests
from calve.table.entries import DELETED
from calve.table.lists import Content, ManifestRecord

_MANIFESTS_AT_ONCE = 8
_UNUSED = frozenset({"column_sizes", "value_counts", "nan_value_counts", "split_offsets", "sort_order_id"})
_MEASURES = frozenset({"lower_bounds", "upper_bounds", "null_value_counts"})
_NONE: Mapping[int, Any] = MappingProxyType({})

Scope = tuple[int, tuple[Any, ...]]
"""A spec and the values of a partition of it, in a form that can be compared."""


class FileContent(IntEnum):
    """What a file holds, as a manifest says it."""

    DATA = 0
    POSITIONS = 1
    """Places of deleted rows; in a Puffin file as a deletion vector."""
    KEYS = 2
    """Equality deletes: the values of some columns, by which rows are deleted."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file or a delete file that is part of a snapshot."""

    path: str
    content: FileContent
    format: str
    """In capital letters: PARQUET, PUFFIN, ORC, AVRO."""
    scope: Scope
    sequence: int
    """When it was added, in the table's own order."""
    records: int
    size: int
    """In bytes."""
    equality_ids: tuple[int, ...] = ()
    lower: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    upper: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    nulls: Mapping[int, int] = field(default_factory=dict, repr=False)
    referenced: str | None = None
    """The one data file that a delete file is of, where it says so."""
    blob: tuple[int, int] | None = None
    """Where in its file a deletion vector begins, and how long it is."""
    encrypted: bool = False

    @property
    def spec_id(self) -> int:
        return self.scope[0]


class Only(Protocol):
    """Which data files are asked for."""

    def keeps_manifest(self, manifest: ManifestRecord) -> bool:
        """Whether a manifest may name one."""
        ...

    def needs_bounds(self, spec_id: int) -> bool:
        """Whether bounds of the files of a spec are looked at."""
        ...

    def keeps(self, file: LiveFile) -> bool:
        """Whether it is one."""
        ...


def live_files(
    io: FileIO,
    metadata: TableMetadata,
    snapshot: Snapshot,
    *,
    bounds: bool = False,
    only: Only | None = None,
) -> tuple[LiveFile, ...]:
    """The files of a snapshot, all deletes, and all data files or those that are asked for alone. Bounds of
    data files are known where that is asked for, or where there are equality deletes."""
    manifests = live_manifests(io, snapshot)
    fields = {id_: [one.field_id for one in spec.fields] for id_, spec in metadata.specs().items()}

    def read(manifest: ManifestRecord, measured: bool) -> list[LiveFile]:
        spec_id = manifest["partition_spec_id"]
        with io.new_input(manifest["manifest_path"]).open() as stream:
            left_out = _UNUSED if measured else _UNUSED | _MEASURES
            schema, records = records_without(stream.read(), "data_file", left_out)
            scoped = _Scoped(schema, fields[spec_id], spec_id)
            live = (_live(record, manifest, scoped) for record in records if record["status"] != DELETED)
            if only is None or not scoped.is_complete or manifest["content"] == Content.DELETES:
                return list(live)
            return list(filter(only.keeps, live))

    with ThreadPoolExecutor(_MANIFESTS_AT_ONCE, "calve-manifests") as threads:
        deletes = [one for one in manifests if one["content"] == Content.DELETES]
        data = [
            one
            for one in manifests
            if one["content"] != Content.DELETES and (only is None or only.keeps_manifest(one))
        ]
        found = [file for files in threads.map(lambda one: read(one, True), deletes) for file in files]
        measured = bounds or any(file.content is FileContent.KEYS for file in found)

        def asked(one: ManifestRecord) -> bool:
            return measured or (only is not None and only.needs_bounds(one["partition_spec_id"]))

        found += [file for files in threads.map(lambda one: read(one, asked(one)), data) for file in files]
    return tuple(found)


def _live(record: Mapping[str, Any], manifest: ManifestRecord, scoped: _Scoped) -> LiveFile:
    file: dict[str, Any] = record["data_file"]
    sequence = record.get("sequence_number")
    offset = file.get("content_offset")
    return LiveFile(
        path=file["file_path"],
        content=FileContent(file.get("content") or 0),
        format=str(file["file_format"]).upper(),
        scope=scoped(file["partition"]),
        sequence=manifest["sequence_number"] if sequence is None else sequence,
        records=file["record_count"],
        size=file["file_size_in_bytes"],
        equality_ids=tuple(sorted(file.get("equality_ids") or ())),
        lower=_pairs(file.get("lower_bounds")),
        upper=_pairs(file.get("upper_bounds")),
        nulls=_pairs(file.get("null_value_counts")),
        referenced=file.get("referenced_data_file"),
        blob=None if offset is None else (offset, file["content_size_in_bytes"]),
        encrypted=file.get("key_metadata") is not None,
    )


def _pairs(pairs: Iterable[Mapping[str, Any]] | None) -> Mapping[int, Any]:
    return {one["key"]: one["value"] for one in pairs} if pairs else _NONE


class _Scoped:
    """The scope of a file, from the partition record of its manifest."""

    def __init__(self, schema: AvroSchema, field_ids: list[int], spec_id: int) -> None:
        (partition,) = (
            inner["type"]
            for outer in schema["fields"]
            if outer["name"] == "data_file"
            for inner in outer["type"]["fields"]
            if inner["name"] == "partition"
        )
        written = {one.get("field-id"): one for one in partition["fields"]}
        self._fields = [written.get(id_) for id_ in field_ids]
        self._is_decimal = [one is not None and _is_decimal(one["type"]) for one in self._fields]
        self._spec_id = spec_id

    @property
    def is_complete(self) -> bool:
        """Whether the manifest has every value of its partitions: what it lacks is taken for null."""
        return None not in self._fields

    def __call__(self, partition: Mapping[str, Any]) -> Scope:
        values = (None if one is None else partition.get(one["name"]) for one in self._fields)
        return self._spec_id, tuple(map(_comparable, values, self._is_decimal))


def _is_decimal(kind: Any) -> bool:
    kinds = kind if isinstance(kind, list) else [kind]
    return any(isinstance(one, dict) and one.get("logicalType") == "decimal" for one in kinds)


def _comparable(value: Any, is_decimal: bool) -> Any:
    if isinstance(value, float):
        return repr(value)
    if is_decimal and isinstance(value, bytes):
        return int.from_bytes(value, "big", signed=True)
    return value
