"""Scan: the rows of main that have certain values, in one process, with the table's deletes applied.

    wanted values ─▶ data files that may hold one, by bounds ─▶ rows that have one ─▶ less what deletes take

Which deletes reach a file is the plan's to say (table/scan.py), and how its columns are known the reader's
(reader/columns.py). Files are read one at a time, and only the columns that are asked for. A null equals a
null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import IcebergType, NestedField

from calve.reader.columns import Column, Names
from calve.reader.files import Piece, read_piece
from calve.reader.places import Places, places_of
from calve.store import Access
from calve.table.base import Base
from calve.table.fileio import access_of
from calve.table.live import LiveFile
from calve.table.overlap import comparable
from calve.table.scan import ScanPlan, plan_scan
from calve.table.schema import to_arrow
from calve.table.types import arrow_field
from calve.writer.collapse import among

_PLACE = "__calve_place"
_BY_NAME = Names()


def rows_with(base: Base, wanted: pa.Table, names: Sequence[str]) -> pa.Table:
    """The columns `names` of the rows of main that have the values of a row of `wanted`, in its columns."""
    plan = plan_scan(base.io, base.metadata, base.metadata.current_snapshot(), bounds=True)
    asked = tuple(dict.fromkeys((*names, *wanted.column_names)))
    return _Scan(plan, access_of(base.io), wanted, asked).run().select(list(names))


@dataclass(slots=True)
class _Scan:
    plan: ScanPlan
    access: Access
    wanted: pa.Table
    names: tuple[str, ...]
    schema: pa.Schema = field(init=False)
    _known: dict[str, pa.Table] = field(default_factory=dict, init=False)
    """Keys of delete files that were read."""

    def __post_init__(self) -> None:
        self.schema = to_arrow(self.plan.schema)
        types = pa.schema([self.schema.field(name) for name in self.wanted.column_names])
        columns = [self.wanted[one.name].cast(one.type) for one in types]
        self.wanted = pa.table(columns, names=types.names)

    def run(self) -> pa.Table:
        limits = list(self._limits())
        files = [file for file in self.plan.data if _may_hold(file, limits)]
        fields = [self.plan.schema.find_field(name) for name in self.names]
        empty = pa.schema([self.schema.field(name) for name in self.names]).empty_table()
        found = (self._surviving(file, fields) for file in files)
        return pa.concat_tables(
            [pa.table({name: rows[name] for name in self.names}) for rows in (empty, *found)]
        )

    def _limits(self) -> Iterator[tuple[int, IcebergType, Any, Any]]:
        """Of columns whose order is that of their bounds: the id, the least and the greatest wanted value."""
        for name in self.wanted.column_names:
            column = self.wanted[name]
            ordered = pa.types.is_integer(column.type) or pa.types.is_string(column.type)
            if ordered and len(column) and not column.null_count:
                seen = pc.min_max(column)
                least, greatest = (
                    value.encode() if isinstance(value, str) else value
                    for value in (seen["min"].as_py(), seen["max"].as_py())
                )
                one = self.plan.schema.find_field(name)
                yield one.field_id, one.field_type, least, greatest

    def _surviving(self, file: LiveFile, fields: Sequence[NestedField]) -> pa.Table:
        deletes = self.plan.of(file)
        keyed = {column for keys in deletes.keys for column in keys.columns}
        dropped = keyed - {one.field_id for one in self.plan.schema.fields}
        extra = [self.plan.key_fields[column] for column in sorted(keyed)]
        read = {one.field_id: one for one in (*fields, *extra)}
        rows = self._rows(file, list(read.values()), dropped)
        for keys, files in deletes.keys.items() if rows.num_rows else ():
            columns = [self.plan.key_fields[column] for column in keys.columns]
            for delete in files:
                rows = rows.filter(pc.invert(among(rows, self._keys(delete, columns, dropped))))
        if rows.num_rows and deletes.positions:
            places = [Places(one.path, one.blob) for one in deletes.positions]
            gone = places_of(file.path, places, self.access)
            rows = rows.filter(pc.invert(pc.is_in(rows[_PLACE], value_set=gone)))
        return rows

    def _rows(self, file: LiveFile, fields: Sequence[NestedField], dropped: set[int]) -> pa.Table:
        """The rows of a file that have a wanted value, with their places."""
        names = [*(_name(one, dropped) for one in fields), _PLACE]
        columns = [Column(arrow_field(one, "")) for one in fields]
        found = [
            pa.table([*(pa.array([], one.field.type) for one in columns), pa.array([], pa.int64())], names)
        ]
        for place, arrays in read_piece(Piece(file.path), columns, _BY_NAME, self.access):
            places = pa.array(range(place, place + len(arrays[0])), pa.int64())
            rows = pa.table([*arrays, places], names)
            found.append(rows.filter(among(rows, self.wanted)))
        return pa.concat_tables(found)

    def _keys(self, file: LiveFile, fields: Sequence[NestedField], dropped: set[int]) -> pa.Table:
        if file.path not in self._known:
            names = [_name(one, dropped) for one in fields]
            columns = [Column(arrow_field(one, "")) for one in fields]
            found = [pa.table([pa.array([], one.field.type) for one in columns], names)]
            for _, arrays in read_piece(Piece(file.path), columns, _BY_NAME, self.access):
                found.append(pa.table(arrays, names))
            self._known[file.path] = pa.concat_tables(found)
        return self._known[file.path]


def _name(one: NestedField, dropped: set[int]) -> str:
    """A column that was dropped may have had the name of one that is there now."""
    return f"{_PLACE}_{one.field_id}" if one.field_id in dropped else one.name


def _may_hold(file: LiveFile, limits: Sequence[tuple[int, IcebergType, Any, Any]]) -> bool:
    """Whether a file may hold a wanted value, by the bounds that its manifest has of it."""
    for column, kind, least, greatest in limits:
        low, high = comparable(file.lower.get(column), kind), comparable(file.upper.get(column), kind)
        if low is not None and low > greatest:
            return False
        if high is not None and high < least:
            return False
    return True
