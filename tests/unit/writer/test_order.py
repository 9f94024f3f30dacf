"""Order: rows as Iceberg orders them, for every type that a table can be sorted by."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.model.layout import SortField
from calve.writer.order import in_order, order_of, rows_until, taken

Row = dict[str, Any]
SCHEMA = pa.schema([("f", pa.float64()), ("s", pa.string()), ("row", pa.int64())])
FLOATS = st.one_of(st.none(), st.sampled_from([math.nan, -math.inf, math.inf, 0.0, -0.0, 1.0, -1.0, 2.5]))
ROWS = st.lists(st.tuples(FLOATS, st.sampled_from(["a", "b", None])), max_size=40)
FIELDS = st.tuples(
    st.builds(SortField, st.just("f"), st.booleans(), st.booleans()),
    st.builds(SortField, st.just("s"), st.booleans(), st.booleans()),
)


def compare(one: Any, two: Any, field: SortField) -> int:
    """Iceberg's order: NaN above all numbers, -0.0 below 0.0, nulls where the field says."""
    if one is None or two is None:
        return 0 if one is two else (-1 if (one is None) == field.nulls_first else 1)
    if isinstance(one, float):
        one, two = ((math.isnan(v), 0.0 if math.isnan(v) else v, math.copysign(1, v)) for v in (one, two))
        one, two = ((n, v, 0 if n else sign) for n, v, sign in (one, two))
    order = (one > two) - (one < two)
    return -order if field.descending else order


def comparing(sort: tuple[SortField, ...]) -> Callable[[Row, Row], int]:
    def order(one: Row, two: Row) -> int:
        return next(
            (found for field in sort if (found := compare(one[field.column], two[field.column], field))), 0
        )

    return order


def table_of(rows: list[tuple[Any, Any]], cut: int) -> tuple[list[Row], pa.Table]:
    numbered = [{"f": f, "s": s, "row": row} for row, (f, s) in enumerate(rows)]
    pieces = [pa.Table.from_pylist(part, schema=SCHEMA) for part in (numbered[:cut], numbered[cut:])]
    return numbered, pa.concat_tables(pieces)


@settings(max_examples=200, deadline=None)
@given(rows=ROWS, sort=FIELDS, cut=st.integers(0, 40))
def test_rows_stand_in_their_order_and_keep_it_where_it_says_nothing(
    rows: list[tuple[Any, Any]], sort: tuple[SortField, ...], cut: int
) -> None:
    numbered, table = table_of(rows, cut)
    order = order_of(sort, table)
    result = table if order is None else taken(table, order)
    expected = sorted(numbered, key=cmp_to_key(comparing(sort)))
    assert result["row"].to_pylist() == [row["row"] for row in expected]
    assert order_of(sort, result) is None


@settings(max_examples=200, deadline=None)
@given(rows=ROWS, sort=FIELDS, cut=st.integers(0, 40), bound=st.tuples(FLOATS, st.sampled_from(["a", None])))
def test_a_bound_stands_before_or_behind_its_equals(
    rows: list[tuple[Any, Any]], sort: tuple[SortField, ...], cut: int, bound: tuple[Any, Any]
) -> None:
    numbered, table = table_of(rows, cut)
    order = order_of(sort, table)
    (last,), limit = table_of([bound], 0)
    compared = [comparing(sort)(row, last) for row in numbered]
    stands = table if order is None else taken(table, order)
    assert rows_until(sort, stands, limit, ties=False) == sum(found < 0 for found in compared)
    assert rows_until(sort, stands, limit, ties=True) == sum(found <= 0 for found in compared)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([False, True]),
        pa.array([1, 2], pa.decimal128(38, 2)),
        pa.array([b"a", b"b"], pa.binary(1)),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([1, 2], pa.date32()),
        pa.array([1, 2], pa.time64("us")),
        pa.array([1, 2], pa.timestamp("us", "UTC")),
        pa.array([bytes(16), bytes(15) + b"1"], pa.uuid()),
        pa.array([1.5, 2.5], pa.float32()),
    ],
    ids=lambda values: str(values.type),
)
def test_every_type_can_be_sorted_by(values: pa.Array) -> None:
    rows = pa.table({"a": pa.concat_arrays([values.take([1]), values.take([0])])})
    sort = (SortField("a"),)
    order = order_of(sort, rows)
    assert order is not None
    assert taken(rows, order)["a"].to_pylist() == values.to_pylist()
    assert rows_until(sort, pa.table({"a": values}), rows.slice(1), ties=True) == 1


def test_a_table_of_keys_is_sorted_by_what_it_has_of_the_order() -> None:
    order = order_of((SortField("elsewhere"), SortField("id")), pa.table({"id": [3, 1, 2]}))
    assert order is not None
    assert order.to_pylist() == [1, 2, 0]


def test_a_seam_between_two_tables_is_in_order_or_not() -> None:
    sort = (SortField("a", descending=True),)
    assert in_order(sort, pa.table({"a": [9, 5]}), pa.table({"a": [5, 1]}))
    assert not in_order(sort, pa.table({"a": [9, 5]}), pa.table({"a": [6]}))
    assert in_order((), pa.table({"a": [9]}), pa.table({"a": [10]}))
