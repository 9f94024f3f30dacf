"""A reader of tables that calve did not write: manifest lists, manifests and Iceberg's delete rules.

An equality delete applies to a data file iff the file's sequence number is less than the delete's, and
the delete's spec is unpartitioned or both have one spec and partition.
"""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import fastavro
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.snapshots import Snapshot

from tests.simulation.source import Row
from tests.simulation.store import SimStore

EXISTING, ADDED, DELETED = 0, 1, 2
DATA_CONTENT, EQUALITY_CONTENT = 0, 2

Rows = Counter[Row]


class File(NamedTuple):
    """A file as a snapshot sees it: an entry with the numbers that it inherits."""

    status: int
    snapshot_id: int
    sequence: int
    file_sequence: int
    content: int
    path: str
    spec_id: int
    partition: tuple[int, ...]
    equality_ids: tuple[int, ...]
    records: int
    bytes: int

    @property
    def live(self) -> bool:
        return self.status != DELETED


@dataclass(frozen=True, slots=True)
class Manifest:
    """A row of a manifest list, and the entries of the manifest."""

    row: dict[str, Any]
    files: tuple[File, ...]

    @property
    def path(self) -> str:
        return str(self.row["manifest_path"])

    @property
    def live(self) -> tuple[File, ...]:
        return tuple(file for file in self.files if file.live)


class Reader:
    """Reads snapshots of a store; files never change, so each is decoded once."""

    def __init__(self, store: SimStore) -> None:
        self._store = store
        self._lists: dict[str, tuple[Manifest, ...]] = {}
        self._entries: dict[str, list[dict[str, Any]]] = {}
        self._manifests: dict[tuple[str, int], Manifest] = {}

    def manifests(self, snapshot: Snapshot) -> tuple[Manifest, ...]:
        known = self._lists.get(snapshot.manifest_list)
        if known is None:
            rows = _decode(self._store.read(snapshot.manifest_list))
            known = self._lists[snapshot.manifest_list] = tuple(map(self._manifest, rows))
        return known

    def files(self, snapshot: Snapshot) -> tuple[File, ...]:
        """All live files of a snapshot."""
        return tuple(file for manifest in self.manifests(snapshot) for file in manifest.live)

    def rows(self, metadata: TableMetadata, snapshot: Snapshot) -> Rows:
        """What anybody who reads the snapshot gets."""
        unpartitioned = {spec.spec_id for spec in metadata.partition_specs if not spec.fields}
        files = self.files(snapshot)
        deletes = [file for file in files if file.content != DATA_CONTENT]
        rows: Rows = Counter()
        for file in files:
            if file.content == DATA_CONTENT:
                rows.update(self.surviving(file, deletes, unpartitioned))
        return rows

    def surviving(self, file: File, deletes: list[File], unpartitioned: set[int]) -> list[Row]:
        """The rows of a data file that no delete takes away."""
        rows = list(self._store.rows[file.path])
        for delete in deletes:
            if applies(delete, file, unpartitioned):
                keys = {_key(row, delete) for row in self._store.rows[delete.path]}
                rows = [row for row in rows if _key(row, delete) not in keys]
        return rows

    def _manifest(self, row: dict[str, Any]) -> Manifest:
        path, number = row["manifest_path"], row["sequence_number"]
        known = self._manifests.get((path, number))
        if known is None or known.row != row:
            if path not in self._entries:
                self._entries[path] = _decode(self._store.read(path))
            files = tuple(_file(entry, row) for entry in self._entries[path])
            known = self._manifests[path, number] = Manifest(row, files)
        return known


def last_sequence(metadata: TableMetadata) -> int:
    """The table's last sequence number; tables here have format version 2."""
    return cast(TableMetadataV2, metadata).last_sequence_number


def applies(delete: File, data: File, unpartitioned: set[int]) -> bool:
    if data.sequence >= delete.sequence:
        return False
    if delete.spec_id in unpartitioned:
        return True
    return delete.spec_id == data.spec_id and delete.partition == data.partition


def _key(row: Row, delete: File) -> tuple[int, ...]:
    return tuple(row.field(field_id) for field_id in delete.equality_ids)


def _decode(content: bytes) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(content)))  # type: ignore[arg-type]


def _file(entry: dict[str, Any], row: dict[str, Any]) -> File:
    file = entry["data_file"]
    inherits = entry["status"] == ADDED
    return File(
        status=entry["status"],
        snapshot_id=_inherited(entry["snapshot_id"], row["added_snapshot_id"], True),
        sequence=_inherited(entry["sequence_number"], row["sequence_number"], inherits),
        file_sequence=_inherited(entry["file_sequence_number"], row["sequence_number"], inherits),
        content=file["content"],
        path=file["file_path"],
        spec_id=row["partition_spec_id"],
        partition=tuple(file["partition"].values()),
        equality_ids=tuple(file["equality_ids"] or ()),
        records=file["record_count"],
        bytes=file["file_size_in_bytes"],
    )


def _inherited(value: int | None, manifest: int, allowed: bool) -> int:
    if value is not None:
        return value
    # Only an added file may leave its numbers open (specification, "Sequence Number Inheritance").
    assert allowed, "an existing entry without a sequence number"
    return manifest
