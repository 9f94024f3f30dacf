"""Columns of files by their ids, by a mapping, or by names, in the types that the table has now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from calve.model.errors import StoreError
from calve.reader.columns import Column, Names, Projection


def field(id_: int | None, name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata=None if id_ is None else {b"PARQUET:field_id": str(id_).encode()})


BY_NAME = Names()


def read(
    stored: Sequence[tuple[pa.Field, Any]],
    wanted: list[pa.Field],
    names: Names = BY_NAME,
    defaults: dict[int, pa.Array] | None = None,
    constants: dict[int, pa.Array] | None = None,
) -> list[list[Any]]:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values, one.type) for one, values in stored], schema=pa.schema([one for one, _ in stored])
    )
    columns = [Column(one, defaults or {}) for one in wanted]
    projection = Projection(batch.schema, columns, names, constants or {})
    needed = batch.select(projection.names) if projection.names else batch
    made = projection.apply(needed)
    for array, one in zip(made, wanted, strict=True):
        assert array.type == one.type
        array.validate(full=True)
    return [array.to_pylist() for array in made]


INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()


def test_a_column_is_known_by_its_id_whatever_it_is_called():
    stored = [(field(1, "a", INT), [1, None]), (field(2, "b", TEXT), ["x", "y"])]
    assert read(stored, [field(2, "a", TEXT), field(1, "b", LONG), field(3, "c", TEXT)]) == [
        ["x", "y"],
        [1, None],
        [None, None],
    ]


def test_without_ids_a_column_is_known_by_the_mapping_or_by_its_name():
    stored = [
        (field(None, "a", INT), [1]),
        (field(None, "s", pa.struct([field(None, "x", INT)])), [{"x": 5}]),
    ]
    wanted = [field(1, "new", INT), field(2, "s2", pa.struct([field(3, "y", LONG)])), field(4, "a", INT)]
    mapping = [
        {"field-id": 1, "names": ["old", "a"]},
        {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]},
    ]
    assert read(stored, wanted, Names(mapping)) == [[1], [{"y": 5}], [None]]
    assert read(stored, [field(1, "a", LONG), field(2, "s", pa.struct([field(3, "x", INT)]))]) == [
        [1],
        [{"x": 5}],
    ]


def test_nested_fields_are_found_in_the_same_way():
    point = pa.struct([field(11, "x", INT), field(12, "y", TEXT)])
    stored = [
        (field(1, "s", point), [{"x": 1, "y": "a"}, None]),
        (field(2, "l", pa.list_(field(20, "element", point))), [[{"x": 2, "y": "b"}, None], None]),
        (
            field(3, "m", pa.map_(field(30, "key", TEXT).with_nullable(False), field(31, "value", point))),
            [[("k", {"x": 3, "y": "c"})], []],
        ),
    ]
    now = pa.struct([field(12, "why", TEXT), field(13, "z", LONG), field(11, "x", LONG)])
    wanted = [
        field(1, "s", now),
        field(2, "l", pa.list_(field(20, "element", now))),
        field(3, "m", pa.map_(field(30, "key", TEXT).with_nullable(False), field(31, "value", now))),
    ]
    defaults = {13: pa.array([7], LONG)}
    made = read(stored, wanted, defaults=defaults)
    assert made == [
        [{"why": "a", "z": 7, "x": 1}, None],
        [[{"why": "b", "z": 7, "x": 2}, None], None],
        [[("k", {"why": "c", "z": 7, "x": 3})], []],
    ]


def test_nested_columns_of_a_slice_are_those_of_the_slice():
    kind = pa.list_(field(2, "element", INT))
    whole = pa.RecordBatch.from_arrays(
        [pa.array([[1], [2, 3], None, [4]], kind)], schema=pa.schema([field(1, "l", kind)])
    )
    wide = field(1, "l", pa.list_(field(2, "element", LONG)))
    made = Projection(whole.schema, [Column(wide)], Names()).apply(whole.slice(1, 3))
    assert made[0].to_pylist() == [[2, 3], None, [4]]


@pytest.mark.parametrize(
    "before, now, value, seen",
    [
        (pa.int32(), pa.int64(), 5, 5),
        (pa.float32(), pa.float64(), 1.5, 1.5),
        (pa.decimal128(9, 2), pa.decimal128(18, 2), Decimal("1.20"), Decimal("1.20")),
        (pa.date32(), pa.timestamp("us"), date(2024, 2, 29), datetime(2024, 2, 29)),  # noqa: DTZ001
        (pa.large_string(), pa.string(), "x", "x"),
        (pa.dictionary(pa.int32(), pa.string()), pa.string(), "x", "x"),
        (pa.binary(16), pa.binary(), b"0123456789abcdef", b"0123456789abcdef"),
        (pa.time64("us"), pa.int64(), 5, 5),
    ],
)
def test_types_are_widened_as_iceberg_widens_them(
    before: pa.DataType, now: pa.DataType, value: Any, seen: Any
):
    assert read([(field(1, "c", before), [value, None])], [field(1, "c", now)]) == [[seen, None]]


def test_a_uuid_is_its_bytes_or_itself():
    stored = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16)))
    batch = pa.RecordBatch.from_arrays([stored], schema=pa.schema([field(1, "u", pa.uuid())]))
    for kind in (pa.binary(), pa.uuid()):
        made = Projection(batch.schema, [Column(field(1, "u", kind))], Names()).apply(batch)[0]
        assert made.type == kind


def test_a_type_that_cannot_be_read_is_refused():
    with pytest.raises(StoreError, match="a column of type string cannot be read as int64"):
        read([(field(1, "c", TEXT), ["x"])], [field(1, "c", LONG)])


def test_a_column_that_a_file_lacks_has_its_partitions_value_its_default_or_is_null():
    stored = [(field(1, "a", INT), [1, 2])]
    wanted = [field(2, "b", LONG), field(3, "c", TEXT), field(4, "d", TEXT)]
    made = read(
        stored,
        wanted,
        defaults={2: pa.array([7], LONG), 3: pa.array(["default"])},
        constants={3: pa.array(["eu"]), 1: pa.array([9], INT)},
    )
    assert made == [[7, 7], ["eu", "eu"], [None, None]]
    assert read(stored, [field(1, "a", INT)], constants={1: pa.array([9], INT)}) == [[1, 2]], "it has its own"
