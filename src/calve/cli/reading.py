"""The rows of a snapshot: its data files, without what its equality deletes remove.

A delete reaches data files with a smaller sequence number: of its own spec and partition, or of the
whole table where its spec is unpartitioned. Small on purpose and for small tables: a file is read
whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from calve.store import store_for
from calve.table.fileio import access_of


def main_snapshots(table: Table) -> list[Snapshot]:
    """The snapshots of main, the oldest first."""
    found = []
    snapshot = table.current_snapshot()
    while snapshot is not None:
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return found[::-1]


def read_rows(table: Table, snapshot: Snapshot) -> pa.Table:
    """The rows that a reader of this snapshot must see."""
    data: list[ManifestEntry] = []
    deletes: list[ManifestEntry] = []
    for entry in _entries(table, snapshot):
        (data if entry.data_file.content is DataFileContent.DATA else deletes).append(entry)
    return pa.concat_tables([_surviving(table, entry, deletes) for entry in data])


def _entries(table: Table, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            entry.data_file.spec_id = manifest.partition_spec_id
            yield entry


def _surviving(table: Table, entry: ManifestEntry, deletes: list[ManifestEntry]) -> pa.Table:
    rows = _read(table, entry.data_file)
    for delete in deletes:
        if _sequence(delete) > _sequence(entry) and _reaches(table, delete.data_file, entry.data_file):
            keys = _read(table, delete.data_file)
            kept = rows.join(keys, keys.column_names, join_type="left anti")
            rows = kept.cast(rows.schema)  # a join forgets what is not null
    return rows


def _reaches(table: Table, delete: DataFile, data: DataFile) -> bool:
    if not table.specs()[delete.spec_id].fields:
        return True
    return delete.spec_id == data.spec_id and delete.partition == data.partition


def _sequence(entry: ManifestEntry) -> int:
    assert entry.sequence_number is not None, "PyIceberg fills it in from the manifest"
    return entry.sequence_number


def _read(table: Table, file: DataFile) -> pa.Table:
    with store_for(file.file_path, access_of(table.io)).open(file.file_path) as stream:
        return pq.read_table(stream)
