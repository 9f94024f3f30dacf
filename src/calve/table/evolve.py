"""Evolution: the schema that a table needs before it can hold the data that arrives. Pure.

    table's schema ─┐
                    ├─▶ plan_evolution ─▶ nothing · Evolution, for the data's own commit · SchemaMismatch
    data's schema ──┘

What may change: a new column or struct field, always optional, since older files lack it; int to long,
float to double, a decimal to more digits of the same scale; required to optional, where nulls did arrive.
Nothing ever becomes narrower, and a key column never becomes optional. A key column may be promoted:
readers promote the keys of older delete files as they do those of data files.

Guarantee: the evolved schema can read every file that the old one could, and the data at hand fits it.
All that does not fit is named in one error, before anything is written. A column that the data lacks is
null in its rows, which is right for an optional one and refused for a required one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from calve.model.errors import SchemaMismatch
from calve.table.schema import check_full_names, check_names
from calve.table.types import from_arrow, join

_WIDER: dict[type[IcebergType], type[IcebergType]] = {IntegerType: LongType, FloatType: DoubleType}


@dataclass(frozen=True, slots=True)
class Evolution:
    """A schema that a table is to get, and why."""

    schema: Schema
    last_column_id: int
    """The highest field id that the table has given away, with this schema."""
    changes: tuple[str, ...]
    """What changes, in words."""
    known: bool = False
    """The table had this very schema before: it is made current again, not added a second time."""


def plan_evolution(
    table_schema: Schema,
    incoming: pa.Schema,
    last_column_id: int,
    allowed: bool,
    *,
    nulls_in: frozenset[str] = frozenset(),
    next_schema_id: int | None = None,
) -> Evolution | None:
    """What the table's schema must become to hold `incoming`; None if it holds it already.

    `nulls_in` has the full names of fields in which the data at hand has nulls: a schema that merely
    could have nulls relaxes nothing.
    """
    check_names(incoming)
    merge = _Merge(frozenset(table_schema.identifier_field_ids), nulls_in, last_column_id)
    fields = merge.struct(table_schema.fields, list(incoming), "")
    if merge.problems:
        raise SchemaMismatch(
            "the data does not fit the table: " + "; ".join(merge.problems),
            hint="Cast or rename the columns before they come here, or change the table by hand. "
            "Nothing was written.",
        )
    if not merge.changes:
        return None
    check_full_names(_full_names(fields, ""))
    if not allowed:
        raise SchemaMismatch(
            "the table's schema would have to change: " + "; ".join(merge.changes),
            hint="Turn schema evolution on ('schema.evolution' = 'true'), or change the table by hand. "
            "Nothing was written.",
        )
    schema_id = table_schema.schema_id + 1 if next_schema_id is None else next_schema_id
    schema = Schema(*fields, schema_id=schema_id, identifier_field_ids=table_schema.identifier_field_ids)
    return Evolution(schema, merge.last_id, tuple(merge.changes))


def evolve(
    metadata: TableMetadata, incoming: pa.Schema, *, allowed: bool, nulls_in: frozenset[str] = frozenset()
) -> Evolution | None:
    """`plan_evolution` for a loaded table: the ids follow all that the table has ever given away."""
    evolution = plan_evolution(
        metadata.schema(),
        incoming,
        metadata.last_column_id,
        allowed,
        nulls_in=nulls_in,
        next_schema_id=max(schema.schema_id for schema in metadata.schemas) + 1,
    )
    if evolution is None:
        return None
    check_partition_names(metadata, evolution)
    for schema in metadata.schemas:
        # Catalogs keep one id for one schema: a second copy would get the first one's id behind our back.
        if schema == evolution.schema:
            return Evolution(schema, evolution.last_column_id, evolution.changes, known=True)
    return evolution


def check_partition_names(metadata: TableMetadata, evolution: Evolution) -> None:
    """Refuse a new column under the name of a partition field, of any spec: Iceberg's own reader binds all
    specs to the schema when it loads a table, and such a table it does not load."""
    taken = {field.name for spec in metadata.partition_specs for field in spec.fields}
    for column in evolution.schema.fields:
        if column.field_id > metadata.last_column_id and column.name in taken:
            raise SchemaMismatch(
                f"the new column {column.name!r} has the name of a partition field of the table",
                hint="Rename the column. Nothing was written.",
            )


class _Merge:
    """One walk over both schemas. Gathers changes and problems; a problem leaves the field as it was."""

    def __init__(self, identifiers: frozenset[int], nulls_in: frozenset[str], last_id: int) -> None:
        self._identifiers = identifiers
        self._nulls_in = nulls_in
        self.last_id = last_id
        self.changes: list[str] = []
        self.problems: list[str] = []

    def struct(self, have: tuple[NestedField, ...], incoming: list[pa.Field], path: str) -> list[NestedField]:
        arriving = {field.name: field for field in incoming}
        known = {field.name for field in have}
        kept = [self._field(field, arriving.get(field.name), path) for field in have]
        folded = {field.name.casefold(): field.name for field in have}
        added = []
        for field in incoming:
            if field.name in known:
                continue
            if other := folded.get(field.name.casefold()):
                self.problems.append(
                    f"column {join(path, field.name)!r} is the table's {join(path, other)!r} but for its case"
                )
            else:
                added.append(self._new(field, path))
        return kept + added

    def _field(self, have: NestedField, arriving: pa.Field | None, path: str) -> NestedField:
        full = join(path, have.name)
        field_type = have.field_type if arriving is None else self._type(have.field_type, arriving.type, full)
        if arriving is None and have.required and full not in self._nulls_in:
            self.problems.append(f"column {full!r} is required in the table and missing in the data")
        required = have.required and not self._relaxed(full, have.field_id)
        if field_type is have.field_type and required == have.required:
            return have
        return have.model_copy(update={"field_type": field_type, "required": required})

    def _relaxed(self, full: str, field_id: int) -> bool:
        """Whether a required field must become optional."""
        if full not in self._nulls_in:
            return False
        if field_id in self._identifiers:
            self.problems.append(f"column {full!r} is part of the key and has nulls in the data")
            return False
        self.changes.append(f"column {full!r} becomes optional")
        return True

    def _new(self, field: pa.Field, path: str) -> NestedField:
        full = join(path, field.name)
        field_id = self._next_id()
        provisional = from_arrow(field.type, full, itertools.count(1))
        fresh: IcebergType = assign_fresh_schema_ids(provisional, next_id=self._next_id)  # type: ignore[assignment]
        self.changes.append(f"column {full!r} is new, {_plain(fresh)}")
        return NestedField(field_id, field.name, fresh, required=False)

    def _next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def _type(self, have: IcebergType, arriving: pa.DataType, path: str) -> IcebergType:
        while pa.types.is_dictionary(arriving):
            arriving = arriving.value_type
        if pa.types.is_null(arriving):
            return have  # nothing but nulls: they fit any type
        match have:
            case StructType() if pa.types.is_struct(arriving):
                fields = self.struct(have.fields, list(arriving), path)
                return have if _same(have.fields, fields) else StructType(*fields)
            case ListType() if _is_list(arriving):
                return self._list(have, arriving, path)
            case MapType() if pa.types.is_map(arriving):
                return self._map(have, arriving, path)
        found = from_arrow(arriving, path, itertools.count(1))
        if have.is_primitive and found.is_primitive and (wider := wider_type(have, found)) is not None:
            if wider != have:
                self.changes.append(f"column {path!r} goes from {have} to {wider}")
                return wider
            return have
        self.problems.append(f"column {path!r}: found {_plain(found)}, wanted {_plain(have)}")
        return have

    def _list(self, have: ListType, arriving: pa.DataType, path: str) -> ListType:
        element = self._field(have.element_field, arriving.value_field.with_name("element"), path)
        if element is have.element_field:
            return have
        return ListType(
            element_id=have.element_id, element=element.field_type, element_required=element.required
        )

    def _map(self, have: MapType, arriving: pa.DataType, path: str) -> MapType:
        before = len(self.changes)
        self._type(have.key_type, arriving.key_type, join(path, "key"))
        if changed := self.changes[before:]:
            # Entries are found by their keys: Iceberg lets no key of a map change its type.
            del self.changes[before:]
            self.problems.append(f"the keys of map {path!r} cannot change: {'; '.join(changed)}")
        value = self._field(have.value_field, arriving.item_field.with_name("value"), path)
        if value is have.value_field:
            return have
        return MapType(
            key_id=have.key_id,
            key_type=have.key_type,
            value_id=have.value_id,
            value_type=value.field_type,
            value_required=value.required,
        )


def wider_type(have: IcebergType, arriving: IcebergType) -> IcebergType | None:
    """The type that holds both, if it is one of the two and Iceberg promotes the other to it."""
    if have == arriving or _WIDER.get(type(arriving)) is type(have):
        return have
    if _WIDER.get(type(have)) is type(arriving):
        return arriving
    match have, arriving:
        case DecimalType(), DecimalType() if have.scale == arriving.scale:
            return have if have.precision >= arriving.precision else arriving
    return None


def _full_names(fields: Iterable[NestedField], path: str) -> Iterator[str]:
    for field in fields:
        full = join(path, field.name)
        yield full
        yield from _full_names(_inner(field.field_type), full)


def _inner(iceberg: IcebergType) -> tuple[NestedField, ...]:
    match iceberg:
        case StructType():
            return iceberg.fields
        case ListType():
            return (iceberg.element_field,)
        case MapType():
            return (iceberg.key_field, iceberg.value_field)
    return ()


def _same(have: tuple[NestedField, ...], fields: list[NestedField]) -> bool:
    return len(have) == len(fields) and all(old is new for old, new in zip(have, fields, strict=True))


def _is_list(arrow: pa.DataType) -> bool:
    return pa.types.is_nested(arrow) and not pa.types.is_map(arrow) and hasattr(arrow, "value_field")


def _plain(iceberg: IcebergType) -> str:
    """A type in a message: nested ones without the ids, which tell a reader nothing."""
    if isinstance(iceberg, StructType):
        inner = ", ".join(f"{field.name} {_plain(field.field_type)}" for field in iceberg.fields)
        return f"a struct of ({inner})"
    if isinstance(iceberg, ListType):
        return f"a list of {_plain(iceberg.element_type)}"
    if isinstance(iceberg, MapType):
        return f"a map from {_plain(iceberg.key_type)} to {_plain(iceberg.value_type)}"
    return str(iceberg)
