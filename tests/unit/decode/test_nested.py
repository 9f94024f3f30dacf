"""Lists and maps laid out flat, whatever lies in them and however little that is."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from calve.decode.nested import as_lists, elements
from calve.writer.conform import conform
from calve.writer.metrics import NanCounter
from calve.writer.same import rows_differ

_BYTES = bytes(15) + b"\x01"
_PLAIN = pa.struct([("u", pa.binary(16)), ("f", pa.float64())])
_ITEM = pa.struct([("u", pa.uuid()), ("f", pa.float64())])
_VALUE = {"u": _BYTES, "f": math.nan}

# A type as it arrives, the same with a uuid's bytes in its place, which Arrow can build, and a value of it.
KINDS: dict[str, tuple[pa.DataType, pa.DataType, Any]] = {
    "uuids": (pa.list_(pa.uuid()), pa.list_(pa.binary(16)), [_BYTES, None]),
    "structs": (pa.list_(_ITEM), pa.list_(_PLAIN), [_VALUE, None]),
    "lists": (pa.list_(pa.list_(pa.uuid())), pa.list_(pa.list_(pa.binary(16))), [[_BYTES], [], None]),
    "lists of structs": (pa.list_(pa.list_(_ITEM)), pa.list_(pa.list_(_PLAIN)), [[_VALUE], [], None]),
    "maps": (
        pa.list_(pa.map_(pa.string(), pa.uuid())),
        pa.list_(pa.map_(pa.string(), pa.binary(16))),
        [[("k", _BYTES)], None],
    ),
    "a map": (pa.map_(pa.string(), pa.uuid()), pa.map_(pa.string(), pa.binary(16)), [("k", _BYTES)]),
    "a map of structs": (pa.map_(pa.string(), _ITEM), pa.map_(pa.string(), _PLAIN), [("k", _VALUE)]),
    "a map of lists": (
        pa.map_(pa.string(), pa.list_(_ITEM)),
        pa.map_(pa.string(), pa.list_(_PLAIN)),
        [("k", [_VALUE]), ("l", None)],
    ),
    "a map by uuids": (pa.map_(pa.uuid(), _ITEM), pa.map_(pa.binary(16), _PLAIN), [(_BYTES, _VALUE)]),
    "a large list": (pa.large_list(_ITEM), pa.large_list(_PLAIN), [_VALUE, None]),
    "a struct of a list": (
        pa.struct([("l", pa.list_(_ITEM))]),
        pa.struct([("l", pa.list_(_PLAIN))]),
        {"l": [_VALUE]},
    ),
}
SHAPES = {
    "no row": slice(0, 0),
    "all null": slice(0, 2),
    "null and empty": slice(1, 3),
    "all empty": slice(2, 3),
    "only the end": slice(3, 4),
    "everything": slice(0, 4),
}

kinds = pytest.mark.parametrize("kind", KINDS)
shapes = pytest.mark.parametrize("shape", SHAPES)


def values_of(kind: str) -> list[Any]:
    arriving, _, value = KINDS[kind]
    empty: Any = {"l": []} if pa.types.is_struct(arriving) else []
    return [None, None, empty, value]


def arriving(kind: str, shape: str) -> pa.Array:
    """A slice of a larger array; where it is nothing but nulls, Arrow's own array of nulls."""
    type_, storage, _ = KINDS[kind]
    if shape == "all null":
        return pa.nulls(2, type_)
    return pa.array(values_of(kind), storage).cast(type_)[SHAPES[shape]]


def field(name: str, kind: pa.DataType) -> pa.Field:
    """A field of a table, with ids on every level; any id will do."""
    known = {b"PARQUET:field_id": b"1"}
    if pa.types.is_struct(kind):
        kind = pa.struct([field(inner.name, inner.type) for inner in kind])
    elif pa.types.is_map(kind):
        key = field("key", kind.key_type).with_nullable(False)
        kind = pa.map_(key, field("value", kind.item_type))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = pa.list_(field("element", kind.value_type))
    return pa.field(name, kind, metadata=known)


@kinds
@shapes
def test_values_with_uuids_below_conform_however_few_there_are(kind: str, shape: str) -> None:
    schema = pa.schema([field("a", KINDS[kind][0])])
    result = conform(pa.table({"a": arriving(kind, shape)}), schema)
    result.validate(full=True)
    assert result.schema.equals(schema, check_metadata=True)
    stored = pa.array(values_of(kind), KINDS[kind][1])[SHAPES[shape]]
    # By way of the text: a NaN is no other NaN, and a uuid shows its bytes.
    assert repr(_bare(result["a"].to_pylist())) == repr(_bare(stored.to_pylist()))


@kinds
@shapes
def test_rows_with_uuids_below_are_equal_to_themselves(kind: str, shape: str) -> None:
    schema = pa.schema([field("a", KINDS[kind][0])])
    rows = conform(pa.table({"a": arriving(kind, shape)}), schema)
    assert rows_differ(rows, rows).to_pylist() == [False] * rows.num_rows
    if shape == "all null":
        others = conform(pa.table({"a": arriving(kind, "everything")}), schema)
        assert rows_differ(rows, others.slice(2)).to_pylist() == [True, True]


@kinds
@shapes
def test_nans_beside_uuids_are_counted_however_few_there_are(kind: str, shape: str) -> None:
    schema = pa.schema([field("a", KINDS[kind][0])])
    counter = NanCounter(schema)
    counter.count(conform(pa.table({"a": arriving(kind, shape)}), schema))
    has_floats = "double" in str(KINDS[kind][0])
    expected = 1 if shape in ("everything", "only the end") else 0
    assert counter.totals() == ({1: expected} if has_floats else {})


def test_elements_are_those_of_lists_that_are_not_null() -> None:
    lists = pa.ListArray.from_arrays(
        [0, 2, 4, 4, 5], [1, 2, 3, 4, 5], mask=pa.array([False, True, False, False])
    )
    assert elements(lists).to_pylist() == [1, 2, 5]
    assert elements(lists.slice(1, 2)).to_pylist() == []
    assert elements(lists.slice(1)).to_pylist() == [5]
    assert elements(lists.slice(1, 1)).type == pa.int64()
    views = pa.ListViewArray.from_arrays([3, 0], [2, 1], [1, 2, 3, 4, 5])
    assert elements(views).to_pylist() == [4, 5, 1]


def test_maps_are_lists_of_their_entries() -> None:
    maps = pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int64()))
    entries = elements(as_lists(maps.slice(1)))
    assert [list(entry.values()) for entry in entries.to_pylist()] == [["b", None]]


def _bare(value: Any) -> Any:
    match value:
        case dict():
            return [_bare(inner) for inner in value.values()]
        case list() | tuple():
            return [_bare(inner) for inner in value]
    return getattr(value, "bytes", value)
