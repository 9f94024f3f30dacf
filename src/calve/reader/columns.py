"""Columns: what a file holds, in the names and types that a table has now.

    stored columns ─▶ by id; in a file without ids by the table's name mapping, or by name ─▶ wanted columns

A column that a file lacks has the value of its partition, where the file was imported with the value in its
path alone; else the default that it had when it was added; else it is null. Types are widened as Iceberg
widens them: integers, floats, decimals, dates to timestamps. Fields inside structs, lists and maps are found
in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.nested import as_lists, elements
from calve.model.errors import StoreError

FIELD_ID = b"PARQUET:field_id"

Mapped = Sequence[Mapping[str, Any]]
"""A table's name mapping, as its property has it in JSON."""
Make = Callable[[Any, int], pa.Array]
"""The stored array, `None` if there is none, and how many rows; the wanted array."""

_NO_CONSTANTS: Mapping[int, pa.Array] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is wanted."""

    field: pa.Field
    """With the ids of its fields, on every level, in their metadata."""
    defaults: Mapping[int, pa.Array] = field(default_factory=dict)
    """By id, the value of a field that a file lacks, as an array of one."""

    @property
    def id(self) -> int:
        return _id_of(self.field) or 0


@dataclass(frozen=True, slots=True)
class Names:
    """How fields are known in files that have no ids."""

    mapping: Mapped | None = None
    """`None`: by their names."""


class Projection:
    """The wanted columns of one file."""

    def __init__(
        self,
        stored: pa.Schema,
        columns: Sequence[Column],
        names: Names,
        constants: Mapping[int, pa.Array] = _NO_CONSTANTS,
    ) -> None:
        has_ids = any(_has_id(one) for one in stored)
        self._sources: list[str | None] = []
        self._makes: list[Make] = []
        for column in columns:
            matched = _match([column.field], list(stored), names.mapping, has_ids)[0]
            constant = constants.get(column.id)
            if matched is None and constant is not None:
                self._sources.append(None)
                self._makes.append(_repeated(constant.cast(column.field.type)))
                continue
            self._sources.append(None if matched is None else matched[0].name)
            inner = None if matched is None else matched[1]
            found = None if matched is None else matched[0]
            self._makes.append(_maker(column.field, found, inner, has_ids, column.defaults))

    @property
    def names(self) -> list[str]:
        """The stored columns that are needed."""
        return list(dict.fromkeys(name for name in self._sources if name is not None))

    def apply(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The wanted columns of some rows of the file."""
        return [
            make(None if name is None else rows.column(rows.schema.get_field_index(name)), rows.num_rows)
            for name, make in zip(self._sources, self._makes, strict=True)
        ]


def _match(
    wanted: Sequence[pa.Field], stored: Sequence[pa.Field], mapping: Mapped | None, has_ids: bool
) -> list[tuple[pa.Field, Mapped | None] | None]:
    """For each field the stored one that it is, with the mapping of what lies inside."""
    found: list[tuple[pa.Field, Mapped | None] | None] = []
    fits: list[tuple[pa.Field, Mapped | None]]
    for one in wanted:
        if has_ids:
            fits = [(there, None) for there in stored if _id_of(there) == _id_of(one)]
        elif mapping is not None:
            entry = next((entry for entry in mapping if entry.get("field-id") == _id_of(one)), {})
            known = set(entry.get("names", ()))
            fits = [(there, entry.get("fields") or ()) for there in stored if there.name in known]
        else:
            fits = [(there, None) for there in stored if there.name == one.name]
        found.append(fits[0] if fits else None)
    return found


def _maker(
    wanted: pa.Field,
    stored: pa.Field | None,
    mapping: Mapped | None,
    has_ids: bool,
    defaults: Mapping[int, pa.Array],
) -> Make:
    kind = wanted.type
    if stored is None:
        default = defaults.get(_id_of(wanted) or 0)
        return _repeated(default) if default is not None else lambda _, rows: pa.nulls(rows, kind)

    def inside(field: pa.Field, there: pa.Field, name: str) -> Make:
        """Of an element, a key or a value: there is always one."""
        entry = next((one for one in mapping or () if name in one.get("names", ())), {})
        below = None if mapping is None else entry.get("fields") or ()
        return _maker(field, there, below, has_ids, defaults)

    if pa.types.is_struct(kind):
        return _struct_maker(wanted, stored, mapping, has_ids, defaults)
    if pa.types.is_map(kind):
        keys = inside(kind.key_field, stored.type.key_field, "key")
        items = inside(kind.item_field, stored.type.item_field, "value")
        return lambda array, _: _map(array, kind, keys, items)
    if pa.types.is_list(kind):
        make = inside(kind.value_field, stored.type.value_field, "element")
        return lambda array, _: _list(array, kind, make)
    return lambda array, _: cast(array, kind)


def _struct_maker(
    wanted: pa.Field,
    stored: pa.Field,
    mapping: Mapped | None,
    has_ids: bool,
    defaults: Mapping[int, pa.Array],
) -> Make:
    fields = list(wanted.type)
    there = list(stored.type)
    sources: list[int | None] = []
    makes: list[Make] = []
    for field_, matched in zip(fields, _match(fields, there, mapping, has_ids), strict=True):
        found, inner = (None, None) if matched is None else matched
        sources.append(None if found is None else there.index(found))
        makes.append(_maker(field_, found, inner, has_ids, defaults))

    def make(array: Any, rows: int) -> pa.Array:
        children = array.flatten()
        made = [
            make_(None if source is None else children[source], rows)
            for source, make_ in zip(sources, makes, strict=True)
        ]
        return pa.StructArray.from_arrays(made, fields=fields, mask=_null_mask(array))

    return make


def _list(array: Any, kind: pa.DataType, make: Make) -> pa.Array:
    inside = elements(array)
    made = make(inside, len(inside))
    return pa.ListArray.from_arrays(_offsets(array), made, type=kind, mask=_null_mask(array))


def _map(array: Any, kind: pa.DataType, keys: Make, items: Make) -> pa.Array:
    entries = as_lists(array)
    key, item = elements(entries).flatten()
    made = keys(key, len(key)), items(item, len(item))
    return pa.MapArray.from_arrays(_offsets(entries), *made, type=kind, mask=_null_mask(array))


def _offsets(array: Any) -> pa.Array:
    ends = pc.cumulative_sum_checked(pc.list_value_length(array).fill_null(0).cast(pa.int32()))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def _null_mask(array: Any) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _repeated(one: pa.Array) -> Make:
    return lambda _, rows: one.take(pa.nulls(rows, pa.int64()).fill_null(0))


def cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A leaf in its present type."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    elif pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array.cast(kind.storage_type))
    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise StoreError(
            f"a column of type {array.type} cannot be read as {kind}: {error}",
            hint="The file was not written for this table, or its schema was changed by hand.",
        ) from error


def _id_of(one: pa.Field) -> int | None:
    found = (one.metadata or {}).get(FIELD_ID)
    return None if found is None else int(found)


def _has_id(one: pa.Field) -> bool:
    if _id_of(one) is not None:
        return True
    kind = one.type
    return any(_has_id(kind.field(place)) for place in range(kind.num_fields)) if _nested(kind) else False


def _nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))
