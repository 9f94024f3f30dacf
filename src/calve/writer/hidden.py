"""Nulls that a null struct hides, taken out of required fields below it.

    {x: 1}, null ─▶ x is [1, null] ─▶ x is [1, anything], and the struct is null all the same

Why: where a struct is null, so are its fields, also required ones; that is how Arrow takes, fills up and
casts. Its Parquet writer refuses a null in a required leaf without asking what is above (pyarrow 26). What a
null struct hides is not written, so it may be anything: the bitmap of nulls is left out, the values stay.

Rows were brought to the schema before (cast.py): a null that no struct hides does not come here.
"""

from __future__ import annotations

import pyarrow as pa

_Types = pa.types


def hiding_columns(schema: pa.Schema) -> tuple[int, ...]:
    """The numbers of the columns with an optional struct that has a required leaf below it."""
    return tuple(number for number, field in enumerate(schema) if _hides(field))


def without_hidden_nulls(rows: pa.Table, columns: tuple[int, ...]) -> pa.Table:
    """The same rows, with no null in required leaves of these columns."""
    for number in columns:
        field = rows.schema.field(number)
        chunks = [_uncovered(chunk, field) for chunk in rows.column(number).chunks]
        rows = rows.set_column(number, field, pa.chunked_array(chunks, field.type))
    return rows


def _below(kind: pa.DataType) -> list[pa.Field]:
    if _Types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if _Types.is_list(kind):
        return [kind.value_field]
    return list(kind) if _Types.is_struct(kind) else []


def _hides(field: pa.Field) -> bool:
    if _Types.is_struct(field.type) and field.nullable and _has_required_leaf(field):
        return True
    return any(map(_hides, _below(field.type)))


def _has_required_leaf(field: pa.Field) -> bool:
    below = _below(field.type)
    return any(map(_has_required_leaf, below)) if below else not field.nullable


def _uncovered(array: pa.Array, field: pa.Field) -> pa.Array:
    kind = field.type
    if not _has_required_leaf(field):
        return array
    if _Types.is_struct(kind):
        children = [_uncovered(array.field(number), inner) for number, inner in enumerate(kind)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if _Types.is_map(kind):
        entries = [_uncovered(array.keys, kind.key_field), _uncovered(array.items, kind.item_field)]
        fields = [kind.key_field, kind.item_field]
        return _with_inside(array, pa.StructArray.from_arrays(entries, fields=fields))
    if _Types.is_list(kind):
        return _with_inside(array, _uncovered(array.values, kind.value_field))
    return _without_bitmap(array) if array.null_count else array


def _with_inside(array: pa.Array, inside: pa.Array) -> pa.Array:
    """A list or map with other elements, as many as it had. `inside` is all of them, also beyond a slice."""
    bitmap, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        array.type, len(array), [bitmap, offsets], array.null_count, array.offset, [inside]
    )


def _without_bitmap(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(array.type, _without_bitmap(array.storage))
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)
