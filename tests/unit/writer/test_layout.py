"""Layout: every row once, in the run of its partition, in order."""

from __future__ import annotations

import math
import struct
import uuid
from collections import defaultdict
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.writer.layout import in_order, split_by_partition
from calve.writer.plan import WritePlan

IDENTITY = Transform(TransformKind.IDENTITY)


def plan(
    schema: pa.Schema, partition: tuple[PartitionField, ...] = (), sort: tuple[SortField, ...] = ()
) -> WritePlan:
    names = tuple(f"p{number}" for number in range(len(partition)))
    return WritePlan("s", "/t", schema, 0, 0, partition=partition, partition_names=names, sort=sort)


def test_without_partition_and_order_the_table_itself_comes_out() -> None:
    table = pa.table({"a": [3, 1, 2]})
    ((partition, run),) = split_by_partition(plan(table.schema), table)
    assert partition == ()
    assert run is table


def test_no_rows_no_partition() -> None:
    table = pa.table({"a": pa.array([], pa.int64())})
    assert list(split_by_partition(plan(table.schema, (PartitionField("a", IDENTITY),)), table)) == []


def test_rows_of_one_partition_are_not_copied() -> None:
    table = pa.table({"a": [7, 7, 7], "b": ["x", "y", "z"]})
    ((partition, run),) = split_by_partition(plan(table.schema, (PartitionField("a", IDENTITY),)), table)
    assert partition == (7,)
    assert run is table


def test_rows_that_lie_in_runs_are_sliced_without_a_copy() -> None:
    table = pa.table({"a": [7, 7, None, 5], "b": [1, 2, 3, 4]})
    runs = list(split_by_partition(plan(table.schema, (PartitionField("a", IDENTITY),)), table))
    assert [partition for partition, _ in runs] == [(7,), (None,), (5,)]
    source = table["b"].chunk(0).buffers()[1].address
    assert all(run["b"].chunk(0).buffers()[1].address == source for _, run in runs)


def test_two_transforms_of_one_column_make_one_partition_each_pair() -> None:
    hours = [0, 25, 1, 26, 49]
    table = pa.table({"ts": pa.array([h * 3_600_000_000 for h in hours], pa.timestamp("us")), "h": hours})
    fields = (
        PartitionField("ts", Transform(TransformKind.DAY)),
        PartitionField("ts", Transform(TransformKind.BUCKET, 2)),
    )
    seen: dict[Any, list[int]] = defaultdict(list)
    for partition, run in split_by_partition(plan(table.schema, fields), table):
        assert partition not in seen
        seen[partition] += run["h"].to_pylist()
    assert {h // 24 for h in hours} == {day for day, _ in seen}
    assert sorted(h for rows in seen.values() for h in rows) == sorted(hours)
    assert all(h // 24 == day for (day, _), rows in seen.items() for h in rows)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_nans_are_one_partition_nulls_are_one_and_the_zeros_are_two(kind: pa.DataType) -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    values = [math.nan, 0.0, None, -0.0, other_nan, 0.0, None, -0.0, 1.5]
    table = pa.table({"f": pa.array(values, kind), "row": range(9)})
    runs = list(split_by_partition(plan(table.schema, (PartitionField("f", IDENTITY),)), table))
    rows = {str(partition[0]): run["row"].to_pylist() for partition, run in runs}
    assert rows == {"nan": [0, 4], "0.0": [1, 5], "None": [2, 6], "-0.0": [3, 7], "1.5": [8]}


@pytest.mark.parametrize(
    "values, kind, expected",
    [
        ([True, None, False, True], pa.bool_(), {True, False, None}),
        (
            [Decimal("1.50"), Decimal("-2.00"), Decimal("1.50")],
            pa.decimal128(9, 2),
            {Decimal("1.5"), Decimal(-2)},
        ),
        ([uuid.UUID(int=1).bytes, None, uuid.UUID(int=1).bytes], pa.uuid(), {uuid.UUID(int=1), None}),
        ([b"ab", b"cd", b"ab"], pa.binary(2), {b"ab", b"cd"}),
        (["x", "", None, "x"], pa.dictionary(pa.int8(), pa.string()), {"x", "", None}),
        ([3, -1, 3], pa.date32(), {3, -1}),
        ([3, -1, 3], pa.timestamp("us", "UTC"), {3, -1}),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_values_of_every_type_are_partitions(
    values: list[Any], kind: pa.DataType, expected: set[Any]
) -> None:
    column = pa.chunked_array([pa.array(values[:2], kind), pa.array(values[2:], kind)])
    table = pa.table({"a": column, "row": range(len(values))})
    runs = list(split_by_partition(plan(table.schema, (PartitionField("a", IDENTITY),)), table))
    assert {partition[0] for partition, _ in runs} == expected
    assert len(runs) == len(expected)
    assert all(run.schema == table.schema for _, run in runs)


def compare(one: Any, two: Any, field: SortField) -> int:
    """Iceberg's order: NaN above all numbers, -0.0 below 0.0, nulls where the field says."""
    if one is None or two is None:
        return 0 if one is two else (-1 if (one is None) == field.nulls_first else 1)
    if isinstance(one, float):
        one, two = ((math.isnan(v), 0.0 if math.isnan(v) else v, math.copysign(1, v)) for v in (one, two))
        one, two = ((n, v, 0 if n else sign) for n, v, sign in (one, two))
    order = (one > two) - (one < two)
    return -order if field.descending else order


FLOATS = st.one_of(st.none(), st.sampled_from([math.nan, -math.inf, math.inf, 0.0, -0.0, 1.0, -1.0, 2.5]))
ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 3)), FLOATS, st.sampled_from("abc")), max_size=40
)
FIELDS = st.tuples(
    st.builds(SortField, st.just("f"), st.booleans(), st.booleans()),
    st.builds(SortField, st.just("s"), st.booleans(), st.booleans()),
)


@settings(max_examples=200, deadline=None)
@given(rows=ROWS, sort=FIELDS, cut=st.integers(0, 40), partitioned=st.booleans())
def test_every_row_comes_out_once_in_its_partition_and_in_order(
    rows: list[tuple[Any, Any, Any]], sort: tuple[SortField, ...], cut: int, partitioned: bool
) -> None:
    numbered = [{"p": p, "f": f, "s": s, "row": row} for row, (p, f, s) in enumerate(rows)]
    schema = pa.schema([("p", pa.int32()), ("f", pa.float64()), ("s", pa.string()), ("row", pa.int64())])
    pieces = [pa.Table.from_pylist(part, schema=schema) for part in (numbered[:cut], numbered[cut:])]
    table = pa.concat_tables(pieces)
    partition = (PartitionField("p", IDENTITY),) if partitioned else ()

    def order(one: dict[str, Any], two: dict[str, Any]) -> int:
        for field in sort:
            if result := compare(one[field.column], two[field.column], field):
                return result
        return one["row"] - two["row"]

    runs = dict(split_by_partition(plan(schema, partition, sort), table))
    expected = defaultdict(list)
    for row in sorted(numbered, key=cmp_to_key(order)):
        expected[(row["p"],) if partitioned else ()].append(row["row"])
    assert {key: run["row"].to_pylist() for key, run in runs.items()} == dict(expected)


def test_a_table_of_keys_is_sorted_by_what_it_has_of_the_order() -> None:
    table = pa.table({"id": [3, 1, 2]})
    sort = (SortField("elsewhere"), SortField("id"))
    ((_, run),) = split_by_partition(plan(table.schema, (), sort), table)
    assert run["id"].to_pylist() == [1, 2, 3]


def test_a_seam_between_two_tables_is_in_order_or_not() -> None:
    sort = (SortField("a", descending=True),)
    assert in_order(sort, pa.table({"a": [9, 5]}), pa.table({"a": [5, 1]}))
    assert not in_order(sort, pa.table({"a": [9, 5]}), pa.table({"a": [6]}))
    assert in_order((), pa.table({"a": [9]}), pa.table({"a": [10]}))


def test_thousands_of_partitions_of_three_fields_are_told_apart() -> None:
    rows = 30_000
    table = pa.table(
        {
            "a": [i % 31 for i in range(rows)],
            "b": [i % 37 for i in range(rows)],
            "c": [i % 7 for i in range(rows)],
        }
    )
    fields = tuple(PartitionField(name, IDENTITY) for name in "abc")
    runs = list(split_by_partition(plan(table.schema, fields), table))
    assert len(runs) == len({partition for partition, _ in runs}) == 31 * 37 * 7
    assert sum(run.num_rows for _, run in runs) == rows
