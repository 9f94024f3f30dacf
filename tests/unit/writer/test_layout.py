"""Partitions: rows have one number exactly where they are of one partition."""

from __future__ import annotations

import math
import struct
import uuid
from collections import defaultdict
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from calve.model.errors import BadName
from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.writer.layout import NUMBER_COLUMN, Partitions

IDENTITY = Transform(TransformKind.IDENTITY)


def by(*columns: str) -> Partitions:
    return Partitions(tuple(PartitionField(column, IDENTITY) for column in columns))


def numbers(rows: pa.Table) -> list[int]:
    found: list[int] = rows[NUMBER_COLUMN].to_pylist()
    return found


def test_a_table_without_partitions_is_as_it_is() -> None:
    partitions, table = Partitions(()), pa.table({"a": [3, 1, 2]})
    assert partitions.number(table) is table
    assert [(number, rows is table) for number, rows in partitions.cut(table)] == [(0, True)]
    assert partitions[0] == ()
    assert partitions.before((SortField("a"),)) == (SortField("a"),)


def test_no_rows_have_no_number() -> None:
    numbered = by("a").number(pa.table({"a": pa.array([], pa.int64())}))
    assert numbers(numbered) == []


def test_a_partition_keeps_its_number_over_all_tables() -> None:
    partitions = by("a", "b")
    first = partitions.number(pa.table({"a": [7, 7, 5], "b": ["x", "y", "x"]}))
    second = partitions.number(pa.table({"a": [5, 6, 7], "b": ["x", "x", "x"]}))
    assert (numbers(first), numbers(second)) == ([0, 1, 2], [2, 3, 0])
    assert [partitions[number] for number in range(4)] == [(7, "x"), (7, "y"), (5, "x"), (6, "x")]


def test_numbered_rows_are_cut_without_a_copy_and_without_their_numbers() -> None:
    table = pa.table({"a": [7, 7, None, 5], "b": [1, 2, 3, 4]})
    partitions = by("a")
    runs = list(partitions.cut(partitions.number(table)))
    assert [partitions[number] for number, _ in runs] == [(7,), (None,), (5,)]
    assert all(run.schema == table.schema for _, run in runs)
    source = table["b"].chunk(0).buffers()[1].address
    assert all(run["b"].chunk(0).buffers()[1].address == source for _, run in runs)


def test_two_transforms_of_one_column_make_one_partition_each_pair() -> None:
    hours = [0, 25, 1, 26, 49]
    table = pa.table({"ts": pa.array([h * 3_600_000_000 for h in hours], pa.timestamp("us")), "h": hours})
    partitions = Partitions(
        (
            PartitionField("ts", Transform(TransformKind.DAY)),
            PartitionField("ts", Transform(TransformKind.BUCKET, 2)),
        )
    )
    seen: dict[Any, list[int]] = defaultdict(list)
    for hour, number in zip(hours, numbers(partitions.number(table)), strict=True):
        seen[partitions[number]].append(hour)
    assert {day for day, _ in seen} == {h // 24 for h in hours}
    assert all(h // 24 == day for (day, _), of_one in seen.items() for h in of_one)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_nans_are_one_partition_nulls_are_one_and_the_zeros_are_two_over_all_tables(
    kind: pa.DataType,
) -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    values = [math.nan, 0.0, None, -0.0, other_nan, 0.0, None, -0.0, 1.5]
    partitions = by("f")
    rows: dict[str, list[int]] = defaultdict(list)
    for cut in (slice(0, 4), slice(4, 9)):
        table = partitions.number(pa.table({"f": pa.array(values[cut], kind), "row": range(9)[cut]}))
        for number, row in zip(numbers(table), table["row"].to_pylist(), strict=True):
            rows[str(partitions[number][0])].append(row)
    assert rows == {"nan": [0, 4], "0.0": [1, 5], "None": [2, 6], "-0.0": [3, 7], "1.5": [8]}


@pytest.mark.parametrize(
    "values, kind, expected",
    [
        ([True, None, False, True], pa.bool_(), [True, None, False]),
        (
            [Decimal("1.50"), Decimal("-2.00"), Decimal("1.50")],
            pa.decimal128(9, 2),
            [Decimal("1.5"), Decimal(-2)],
        ),
        ([uuid.UUID(int=1).bytes, None, uuid.UUID(int=1).bytes], pa.uuid(), [uuid.UUID(int=1), None]),
        ([b"ab", b"cd", b"ab"], pa.binary(2), [b"ab", b"cd"]),
        (["x", "", None, "x"], pa.dictionary(pa.int8(), pa.string()), ["x", "", None]),
        (["x", "", None, "x"], pa.string_view(), ["x", "", None]),
        ([3, -1, 3], pa.date32(), [3, -1]),
        ([3, -1, 3], pa.timestamp("us", "UTC"), [3, -1]),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_values_of_every_type_are_partitions(
    values: list[Any], kind: pa.DataType, expected: list[Any]
) -> None:
    column = pa.chunked_array([pa.array(values[:2], kind), pa.array(values[2:], kind)])
    partitions = by("a")
    found = numbers(partitions.number(pa.table({"a": column})))
    assert [partitions[number][0] for number in range(max(found) + 1)] == expected
    assert found == [expected.index(value) for value in (partitions[number][0] for number in found)]
    assert len(set(found)) == len(expected)


def test_a_void_field_asks_for_no_column() -> None:
    partitions = Partitions((PartitionField("gone", Transform(TransformKind.VOID)),))
    assert numbers(partitions.number(pa.table({"id": [1, 2]}))) == [0, 0]
    assert partitions[0] == (None,)


def test_thousands_of_partitions_of_three_fields_are_told_apart() -> None:
    rows = 30_000
    table = pa.table(
        {
            "a": [i % 31 for i in range(rows)],
            "b": [i % 37 for i in range(rows)],
            "c": [i % 7 for i in range(rows)],
        }
    )
    partitions = by("a", "b", "c")
    found = numbers(partitions.number(table))
    assert len(set(found)) == 31 * 37 * 7
    assert all(
        partitions[number] == (i % 31, i % 37, i % 7) for i, number in zip(range(rows), found, strict=True)
    )


def test_a_column_with_the_name_of_the_numbers_is_refused() -> None:
    with pytest.raises(BadName, match="is the sink's own"):
        by("a").number(pa.table({"a": [1], NUMBER_COLUMN: [1]}))
