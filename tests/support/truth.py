"""Truth: what a snapshot shows, by a reader of its own; and what it must show, by a model of the source.

    table, snapshot ──▶ manifests (PyIceberg) ──▶ data files minus equality deletes ──▶ rows
    changes, epoch by epoch ──▶ Source ──▶ rows as of an epoch

The reader shares no code with the sink. Equality deletes are applied by the letter of the specification: a
delete file of sequence number s reaches the data files with a smaller one, of its own spec and partition, or
all of them if its spec has no fields. It is small and slow, and made for small tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

Row = dict[str, Any]

DELETE_WORDS = frozenset({"D", "-D", "-U", "d", "delete"})


def rows_of(table: Table, snapshot_id: int | None = None) -> list[Row]:
    """The rows of a snapshot (of main, where none is named), in an order that follows from them."""
    snapshot = table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return []
    schema = _schema_of(table, snapshot)
    data, deletes = _entries(snapshot, files_of(table))
    rows: list[Row] = []
    for entry in data:
        found = _read_data(table, schema, entry.data_file)
        for delete in deletes:
            if _reaches(table, delete, entry):
                found = _without(found, _read_keys(table, schema, delete.data_file))
        rows += found
    return ordered(rows)


def snapshots_of_main(table: Table) -> list[Snapshot]:
    """The snapshots on main, oldest first, as far as the table still knows them."""
    chain: list[Snapshot] = []
    current = table.current_snapshot()
    while current is not None:
        chain.append(current)
        parent = current.parent_snapshot_id
        current = None if parent is None else table.snapshot_by_id(parent)
    return chain[::-1]


def commits_of_main(table: Table) -> list[Snapshot]:
    """The sinks' commits on main, oldest first: with the fence on main, claims are there as well."""
    return [
        snapshot
        for snapshot in snapshots_of_main(table)
        if summary_of(snapshot).get("calve.committed") == str(snapshot.snapshot_id)
    ]


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    assert snapshot.summary is not None
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


def entries_of(snapshot: Snapshot) -> list[ManifestEntry]:
    """The live entries of a snapshot on a local disk, data and deletes."""
    data, deletes = _entries(snapshot, PyArrowFileIO())
    return data + deletes


def files_of(table: Table) -> FileIO:
    """PyIceberg's own way to the files of a table, with the logins that its catalog has for them."""
    if table.location().startswith("abfss:"):
        return table.io  # PyIceberg's own takes the account's host for a part of the path
    return PyArrowFileIO(table.io.properties)


def ordered(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows in an order that follows from them."""
    return sorted((dict(row) for row in rows), key=lambda row: repr(sorted(row.items())))


@dataclass(slots=True)
class Source:
    """A source collection: a row a key, as of each epoch that was noted."""

    key: tuple[str, ...]
    columns: tuple[str, ...] = ()
    """Those of the table; a row that lacks one has a null there."""
    states: dict[int, list[Row]] = field(default_factory=dict)
    _rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)

    def apply(self, epoch: int, changes: Sequence[Mapping[str, Any]], op: str = "_op") -> None:
        """Changes of an epoch, in their order."""
        for change in changes:
            row = {name: value for name, value in change.items() if name != op}
            key = tuple(row[name] for name in self.key)
            if change.get(op) in DELETE_WORDS:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row
        self.states[epoch] = [dict(row) for row in self._rows.values()]

    def as_of(self, epoch: int) -> list[Row]:
        return ordered(self._complete(row) for row in self.states[epoch])

    def _complete(self, row: Row) -> Row:
        names = self.columns or tuple(row)
        return {name: row.get(name) for name in names}


def check_every_snapshot(table: Table, source: Source) -> int:
    """Compare each snapshot on main with the source as of its epoch (P1); how many that were."""
    chain = snapshots_of_main(table)
    for snapshot in chain:
        frontier = int(summary_of(snapshot)["calve.frontier"])
        seen, wanted = rows_of(table, snapshot.snapshot_id), source.as_of(frontier - 1)
        names = {name for row in seen for name in row}
        wanted = [
            {name: value for name, value in row.items() if not names or name in names} for row in wanted
        ]
        assert seen == ordered(wanted), f"snapshot {snapshot.snapshot_id} at frontier {frontier}"
    return len(chain)


def _schema_of(table: Table, snapshot: Snapshot) -> Schema:
    return table.schemas()[snapshot.schema_id] if snapshot.schema_id is not None else table.schema()


def _entries(snapshot: Snapshot, io: FileIO) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    data: list[ManifestEntry] = []
    deletes: list[ManifestEntry] = []
    for manifest in snapshot.manifests(io):
        into = data if manifest.content == ManifestContent.DATA else deletes
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
            wanted = (
                DataFileContent.DATA
                if manifest.content == ManifestContent.DATA
                else DataFileContent.EQUALITY_DELETES
            )
            assert entry.data_file.content == wanted, "a file stands in a manifest of another content"
            entry.data_file.spec_id = manifest.partition_spec_id
            into.append(entry)
    return data, deletes


def _reaches(table: Table, delete: ManifestEntry, data: ManifestEntry) -> bool:
    assert delete.sequence_number is not None
    assert data.sequence_number is not None
    if delete.sequence_number <= data.sequence_number:
        return False
    if not table.specs()[delete.data_file.spec_id].fields:
        return True
    same_spec = delete.data_file.spec_id == data.data_file.spec_id
    return same_spec and repr(delete.data_file.partition) == repr(data.data_file.partition)


def _read_data(table: Table, schema: Schema, file: DataFile) -> list[Row]:
    scan = ArrowScan(table.metadata, files_of(table), schema, AlwaysTrue(), case_sensitive=True)
    rows = scan.to_table([FileScanTask(file)])
    assert rows.num_rows == file.record_count, f"{file.file_path} has {rows.num_rows} rows"
    return _plain(rows)


def _read_keys(table: Table, schema: Schema, file: DataFile) -> pa.Table:
    """The keys of a delete file under the names and types that the schema has for their ids."""
    with files_of(table).new_input(file.file_path).open() as stream:
        stored = pq.read_table(stream)
    assert stored.num_rows == file.record_count
    assert file.equality_ids
    ids = [int(column.metadata[b"PARQUET:field_id"]) for column in stored.schema]
    assert sorted(ids) == sorted(file.equality_ids), "a delete file has other columns than its key"
    wanted = schema_to_pyarrow(schema)
    names = [schema.find_column_name(field_id) for field_id in ids]
    columns = [
        column.cast(wanted.field(name).type) for name, column in zip(names, stored.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=names)


def _without(rows: list[Row], keys: pa.Table) -> list[Row]:
    gone = {repr(tuple(row.values())) for row in _plain(keys)}
    names = keys.column_names
    return [row for row in rows if repr(tuple(row[name] for name in names)) not in gone]


def _plain(rows: pa.Table) -> list[Row]:
    """Rows as Python values; a uuid as its bytes, whatever the reader made of it."""
    columns = []
    for column in rows.columns:
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.cast(column.type.storage_type)
        columns.append(column)
    return pa.Table.from_arrays(columns, names=rows.column_names).to_pylist()
