"""Where nulls stand that a table does not take: what evolution must make optional.

    rows, the table's schema ─▶ walk both, only where something is required ─▶ full names: `s.x`, `l.element`

Guarantee: a field is named if and only if it is required and null in a row whose struct, list or map around
it is there. Names are Iceberg's. The key of a map is never named: it cannot become optional.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from calve.decode.nested import as_lists, elements
from calve.writer.cast import decoded, is_list_like

_Types = pa.types


def required_with_nulls(rows: pa.Table, schema: pa.Schema) -> frozenset[str]:
    """The fields of the schema that are required, and null somewhere in the rows."""
    return frozenset(
        name
        for field in schema
        if field.name in rows.column_names and _requires(field)
        for chunk in rows[field.name].chunks
        for name in _in_array(chunk, field, field.name, nulls_above=0)
    )


def required_and_nullable(incoming: pa.Schema, schema: pa.Schema) -> frozenset[str]:
    """The fields of the schema that are required, and may be null in rows of another schema."""
    return frozenset(
        name
        for field in schema
        if field.name in incoming.names and _requires(field)
        for name in _in_field(incoming.field(field.name), field, field.name)
    )


def _requires(field: pa.Field) -> bool:
    """Whether a value is required here or anywhere below."""
    return not field.nullable or any(_requires(inner) for _, inner in _inside(field.type))


def _inside(kind: pa.DataType) -> list[tuple[str, pa.Field]]:
    """The fields below a type of a table that may become optional, each with Iceberg's name."""
    if _Types.is_struct(kind):
        return [(field.name, field) for field in kind]
    if _Types.is_map(kind):
        return [("value", kind.item_field)]
    return [("element", kind.value_field)] if is_list_like(kind) else []


def _in_array(array: pa.Array, field: pa.Field, path: str, nulls_above: int) -> Iterator[str]:
    array = decoded(array)
    if not field.nullable and array.null_count > nulls_above:
        yield path
    below = {name: inner for name, inner in _inside(field.type) if _requires(inner)}
    if not below:
        return
    for name, values in _values_inside(array).items():
        if name in below:
            # A struct's fields are null where it is; what stands in a list stands there for itself.
            above = array.null_count if _Types.is_struct(array.type) else 0
            yield from _in_array(values, below[name], f"{path}.{name}", above)


def _values_inside(array: pa.Array) -> dict[str, pa.Array]:
    """What lies below an array, under the names of `_inside`."""
    if _Types.is_struct(array.type):
        return dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    if _Types.is_map(array.type):
        return {"value": elements(as_lists(array)).flatten()[1]}
    return {"element": elements(array)} if is_list_like(array.type) else {}


def _in_field(incoming: pa.Field, field: pa.Field, path: str) -> Iterator[str]:
    if incoming.nullable and not field.nullable:
        yield path
    arriving = dict(_inside(incoming.type))
    for name, inner in _inside(field.type):
        if name in arriving:
            yield from _in_field(arriving[name], inner, f"{path}.{name}")
