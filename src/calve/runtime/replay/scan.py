"""Scan: the rows of a snapshot that have certain values, with its deletes applied.

    wanted values ─▶ data files that may hold one, by bounds ─▶ rows that have one ─▶ less what deletes take

A delete takes rows of data files that are older than it: an equality delete by the values of its columns, in
its own partition or, where its spec has none, in the whole table; a position delete by file and place. A null
equals a null. Files are read one at a time, and only the columns that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.schema import Schema

from calve.model.errors import TableDiffers
from calve.store import Store, store_for
from calve.table.base import Base
from calve.table.fileio import access_of
from calve.table.schema import to_arrow
from calve.writer.cast import decoded
from calve.writer.collapse import among

_FIELD_ID = b"PARQUET:field_id"
_PLACE = "__calve_place"


def rows_with(base: Base, wanted: pa.Table, names: Sequence[str]) -> pa.Table:
    """The columns `names` of the rows of main that have the values of a row of `wanted`, in its columns."""
    return _Scan(base, wanted, tuple(dict.fromkeys((*names, *wanted.column_names)))).run().select(list(names))


@dataclass(slots=True)
class _Scan:
    base: Base
    wanted: pa.Table
    names: tuple[str, ...]
    schema: pa.Schema = field(init=False)
    _data: list[ManifestEntry] = field(default_factory=list, init=False)
    _deletes: list[ManifestEntry] = field(default_factory=list, init=False)
    _known: dict[str, pa.Table] = field(default_factory=dict, init=False)
    """Delete files that were read."""

    def __post_init__(self) -> None:
        self.schema = to_arrow(self.base.metadata.schema())
        types = pa.schema([self.schema.field(name) for name in self.wanted.column_names])
        columns = [self.wanted[one.name].cast(one.type) for one in types]
        self.wanted = pa.table(columns, names=types.names)
        snapshot = self.base.metadata.current_snapshot()
        for manifest in [] if snapshot is None else snapshot.manifests(self.base.io):
            for entry in manifest.fetch_manifest_entry(self.base.io):
                entry.data_file.spec_id = manifest.partition_spec_id
                is_data = entry.data_file.content is DataFileContent.DATA
                (self._data if is_data else self._deletes).append(entry)

    def run(self) -> pa.Table:
        limits = dict(self._limits())
        found = [self._surviving(entry) for entry in self._data if _may_hold(entry.data_file, limits)]
        empty = pa.schema([self.schema.field(name) for name in self.names]).empty_table()
        return pa.concat_tables([_plain(table, self.names) for table in (empty, *found)])

    def _limits(self) -> Iterator[tuple[int, tuple[bytes | int, bytes | int]]]:
        """By column id, the least and the greatest value that is wanted."""
        for name in self.wanted.column_names:
            column = self.wanted[name]
            ordered = pa.types.is_integer(column.type) or pa.types.is_string(column.type)
            if ordered and len(column) and not column.null_count:
                seen = pc.min_max(column)
                least, greatest = (
                    value.encode() if isinstance(value, str) else value
                    for value in (seen["min"].as_py(), seen["max"].as_py())
                )
                yield self.base.metadata.schema().find_field(name).field_id, (least, greatest)

    def _surviving(self, entry: ManifestEntry) -> pa.Table:
        mine = [delete for delete in self._deletes if self._reaches(delete, entry)]
        by_value = [delete for delete in mine if delete.data_file.content is DataFileContent.EQUALITY_DELETES]
        schema = self.base.metadata.schema()
        extra = {name for delete in by_value for name in _equality_names(schema, delete.data_file)}
        rows = self._read_data(entry.data_file, tuple(dict.fromkeys((*self.names, *sorted(extra)))))
        for delete in mine if rows.num_rows else ():
            if delete in by_value:
                keys = self._deleted_keys(delete.data_file)
                rows = rows.filter(pc.invert(among(rows, keys)))
            else:
                places = self._deleted_places(delete.data_file, entry.data_file.file_path)
                rows = rows.filter(pc.invert(pc.is_in(rows[_PLACE], value_set=places)))
        return rows

    def _reaches(self, delete: ManifestEntry, data: ManifestEntry) -> bool:
        by_value = delete.data_file.content is DataFileContent.EQUALITY_DELETES
        newer = _sequence(delete) > _sequence(data) - (0 if by_value else 1)
        if not newer or (by_value and not self.base.metadata.specs()[delete.data_file.spec_id].fields):
            return newer
        return (delete.data_file.spec_id, delete.data_file.partition) == (
            data.data_file.spec_id,
            data.data_file.partition,
        )

    def _read_data(self, file: DataFile, names: tuple[str, ...]) -> pa.Table:
        found, place = [], 0
        for rows in self._read(file, names):
            places = pa.array(range(place, place + rows.num_rows), pa.int64())
            place += rows.num_rows
            rows = rows.append_column(_PLACE, places)
            found.append(rows.filter(among(rows, self.wanted)))
        return pa.concat_tables(found) if found else self._empty(names)

    def _store(self, file: DataFile) -> Store:
        return store_for(file.file_path, access_of(self.base.io))

    def _empty(self, names: tuple[str, ...]) -> pa.Table:
        columns = {name: pa.array([], self.schema.field(name).type) for name in names}
        return pa.table(columns | {_PLACE: pa.array([], pa.int64())})

    def _read(self, file: DataFile, names: Sequence[str]) -> Iterator[pa.Table]:
        """The columns of a file under their present names and types: they are known by their ids."""
        with self._store(file).open(file.file_path) as stream:
            parquet = pq.ParquetFile(stream)
            stored = {_id_of(one): one.name for one in parquet.schema_arrow}
            by_name = {one.name: one.name for one in parquet.schema_arrow} if set(stored) == {None} else {}
            source = {name: stored.get(_id_of(self.schema.field(name)), by_name.get(name)) for name in names}
            for batch in parquet.iter_batches(columns=[name for name in source.values() if name is not None]):
                columns = {
                    name: self._cast(name, batch.column(there))
                    if there is not None
                    else self._nulls(name, batch)
                    for name, there in source.items()
                }
                yield pa.table(columns)

    def _cast(self, name: str, array: pa.Array) -> pa.Array:
        kind = self.schema.field(name).type
        if array.type == kind:
            return array
        plain = decoded(array)
        if isinstance(kind, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(kind, plain.cast(kind.storage_type))
        return plain.cast(kind)

    def _nulls(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        return pa.nulls(batch.num_rows, self.schema.field(name).type)

    def _deleted_keys(self, file: DataFile) -> pa.Table:
        if file.file_path not in self._known:
            names = _equality_names(self.base.metadata.schema(), file)
            rows = list(self._read(file, names))
            self._known[file.file_path] = (
                pa.concat_tables(rows) if rows else self._empty(names).drop([_PLACE])
            )
        return self._known[file.file_path]

    def _deleted_places(self, file: DataFile, data_path: str) -> pa.Array:
        if file.file_path not in self._known:
            with self._store(file).open(file.file_path) as stream:
                self._known[file.file_path] = pq.read_table(stream, columns=["file_path", "pos"])
        rows = self._known[file.file_path]
        return rows.filter(pc.equal(rows["file_path"], data_path))["pos"].combine_chunks()


def _may_hold(file: DataFile, limits: Mapping[int, tuple[Any, Any]]) -> bool:
    """Whether a file may hold a wanted value, by the bounds that its manifest has of it."""
    for column, (least, greatest) in limits.items():
        low, high = (file.lower_bounds or {}).get(column), (file.upper_bounds or {}).get(column)
        if low is not None and _value(low, least) > greatest:
            return False
        if high is not None and _value(high, least) < least:
            return False
    return True


def _value(bound: bytes, like: bytes | int) -> Any:
    """A bound as what it is compared with. An int may have four bytes or eight: columns are widened."""
    return int.from_bytes(bound, "little", signed=True) if isinstance(like, int) else bound


def _equality_names(schema: Schema, file: DataFile) -> tuple[str, ...]:
    names = [schema.find_column_name(column) for column in file.equality_ids or ()]
    if not names or None in names:
        raise TableDiffers(
            f"the delete file {file.file_path} speaks of columns that the table does not have any more",
            hint="Compact the table with an engine that applies its deletes, then try again.",
        )
    return tuple(str(name) for name in names)


def _plain(rows: pa.Table, names: tuple[str, ...]) -> pa.Table:
    return pa.table({name: rows[name] for name in names})


def _id_of(one: pa.Field) -> bytes | None:
    return (one.metadata or {}).get(_FIELD_ID)


def _sequence(entry: ManifestEntry) -> int:
    return 0 if entry.sequence_number is None else entry.sequence_number
