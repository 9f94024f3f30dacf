"""Manifest lists: which manifests a snapshot has. One is written for every attempt; manifests stay.

A row that is new has no sequence number yet: the list of each attempt gives it its own, in a copy. So
manifests survive a retry, and a lost attempt's number never stays on a row that is tried again.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, cast

import fastavro
from pyiceberg.io import FileIO
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from calve.model.file import FileClosed, FileKind
from calve.table.avro import AvroSchema, container

ManifestRecord = dict[str, Any]
"""A row of a manifest list, by Iceberg's names."""


class Content(IntEnum):
    """What the files of a manifest are, as a manifest list says it."""

    DATA = 0
    DELETES = 1

    @classmethod
    def of(cls, file: FileClosed) -> Content:
        return cls.DATA if file.kind is FileKind.DATA else cls.DELETES


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
    put(io_, location, container(_list_schema(), metadata, compression, map(_encoded_row, rows)))
    return rows


def read_manifest_list(io_: FileIO, location: str) -> tuple[ManifestRecord, ...]:
    """The rows of a manifest list, whoever wrote it, with what older writers leave out filled in."""
    with io_.new_input(location).open() as stream:
        rows = list(fastavro.reader(io.BytesIO(stream.read())))
    return tuple(_completed(cast(ManifestRecord, row)) for row in rows)


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


def new_row(location: str, length: int, content: Content, spec_id: int, snapshot_id: int) -> ManifestRecord:
    """The row of a manifest that a snapshot adds, without counts yet."""
    return {
        "manifest_path": location,
        "manifest_length": length,
        "partition_spec_id": spec_id,
        "content": int(content),
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


def put(io_: FileIO, location: str, content: bytes) -> None:
    with io_.new_output(location).create() as stream:
        stream.write(content)
