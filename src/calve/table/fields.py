"""Fields: what a table's columns are and were, over all schemas that it knows.

A file keeps the names that its columns had when it was written; readers know them by id. Two questions follow
that a reader by name must ask first: whether a name may mean another column in an older file, and whether a
struct of an older file may have none of the fields that it has now. Where schemas were removed from the
metadata, nobody knows: both are answered with yes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from calve.model.errors import Unreadable


def field_of(metadata: TableMetadata, schema: Schema, column: int, where: str) -> NestedField:
    """A column of the table by its id, also one that was dropped since."""
    known = (schema, *sorted(metadata.schemas, key=lambda one: one.schema_id, reverse=True))
    for one in known:
        if (found := next((field for field in one.fields if field.field_id == column), None)) is not None:
            return found
    name = next((name for one in known if (name := one.find_column_name(column)) is not None), None)
    if name is not None:
        raise Unreadable(
            f"{where} deletes rows by {name!r}, which lies inside another column",
            hint="Rewrite the table's data files with the engine that wrote it, which applies its deletes.",
        )
    raise Unreadable(
        f"{where} deletes rows by a column (id {column}) that no schema of the table has any more",
        hint="Rewrite the table's data files with the engine that wrote it, which applies its deletes.",
    )


def names_are_reused(metadata: TableMetadata, schema: Schema) -> bool:
    """Whether a name of the schema may stand for another column in some file of the table."""
    if not _is_complete(metadata):
        return True
    now = {place: field.field_id for place, field in _places(schema.as_struct())}
    return any(
        now.get(place, field.field_id) != field.field_id
        for older in metadata.schemas
        for place, field in _places(older.as_struct())
    )


def structs_may_be_hollow(metadata: TableMetadata, schema: Schema) -> bool:
    """Whether a struct of some file may have none of the fields that it has in the schema."""
    now = dict(_structs(schema.as_struct()))
    if not now:
        return False
    if not _is_complete(metadata):
        return True
    return any(
        inside.isdisjoint(now.get(id_, inside))
        for older in metadata.schemas
        for id_, inside in _structs(older.as_struct())
    )


def _is_complete(metadata: TableMetadata) -> bool:
    """Whether the metadata still has every schema that the table ever had: they are numbered from 0 on."""
    ids = {schema.schema_id for schema in metadata.schemas}
    return ids == set(range(max(ids) + 1))


Place = tuple[int | None, str]
"""The id of a struct, `None` for the row itself, and the name of a field in it."""


def _places(struct: StructType, outer: int | None = None) -> Iterator[tuple[Place, NestedField]]:
    for field in struct.fields:
        yield (outer, field.name), field
        for id_, inner in structs_in(field.field_type, field.field_id):
            yield from _places(inner, id_)


def _structs(struct: StructType) -> Iterator[tuple[int, frozenset[int]]]:
    for field in struct.fields:
        for id_, inner in structs_in(field.field_type, field.field_id):
            yield id_, frozenset(one.field_id for one in inner.fields)
            yield from _structs(inner)


def structs_in(kind: IcebergType, id_: int) -> Sequence[tuple[int, StructType]]:
    """The outermost structs of a type, each with the id of the field that it is the type of."""
    match kind:
        case StructType():
            return [(id_, kind)]
        case ListType():
            return structs_in(kind.element_type, kind.element_id)
        case MapType():
            return [*structs_in(kind.key_type, kind.key_id), *structs_in(kind.value_type, kind.value_id)]
    return []
