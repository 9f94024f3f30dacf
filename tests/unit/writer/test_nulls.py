"""Nulls that a table does not take are found wherever they stand, and nowhere else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from calve.writer.nulls import required_and_nullable, required_with_nulls


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


STRICT = pa.schema(
    [
        required("a", pa.int64()),
        pa.field("b", pa.int64()),
        required("s", pa.struct([required("x", pa.int64()), pa.field("y", pa.int64())])),
        pa.field("l", pa.list_(required("element", pa.struct([required("x", pa.int64())])))),
        pa.field("m", pa.map_(pa.string(), required("value", pa.list_(required("element", pa.int64()))))),
    ]
)
LOOSE = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.int64()),
        ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())])),
        ("l", pa.large_list(pa.struct([("x", pa.int64())]))),
        ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
    ]
)
WHOLE: dict[str, Any] = {
    "a": 1,
    "b": None,
    "s": {"x": 1, "y": None},
    "l": [{"x": 1}],
    "m": [("k", [1])],
}


@pytest.mark.parametrize(
    "row, found",
    [
        ({}, set()),
        ({"l": None, "m": None}, set()),
        ({"l": [], "m": [("k", [])]}, set()),
        ({"a": None}, {"a"}),
        ({"s": None}, {"s"}),
        ({"s": {"x": None, "y": 1}}, {"s.x"}),
        ({"l": [None]}, {"l.element"}),
        ({"l": [{"x": None}]}, {"l.element.x"}),
        ({"m": [("k", None)]}, {"m.value"}),
        ({"m": [("k", [1, None])]}, {"m.value.element"}),
        (
            {"a": None, "s": {"x": None, "y": 1}, "l": [{"x": None}, None]},
            {"a", "s.x", "l.element", "l.element.x"},
        ),
    ],
    ids=lambda one: str(sorted(one)) if isinstance(one, set) else str(one),
)
def test_a_null_is_found_where_a_value_is_required(row: dict[str, Any], found: set[str]) -> None:
    rows = pa.Table.from_pylist([WHOLE, {**WHOLE, **row}, WHOLE], LOOSE)
    assert required_with_nulls(rows, STRICT) == found
    assert required_with_nulls(pa.concat_tables([rows.slice(0, 1), rows.slice(1)]), STRICT) == found
    assert required_with_nulls(rows.slice(2), STRICT) == set(), "a slice shows nothing of the rows beside it"
    assert required_with_nulls(rows, LOOSE) == set()


def test_a_column_that_does_not_come_and_one_of_another_kind_show_no_nulls() -> None:
    assert required_with_nulls(pa.table({"b": [None]}), STRICT) == set()
    assert required_with_nulls(pa.table({"s": [1], "l": ["x"], "m": [2]}), STRICT) == set()


def test_a_column_of_nothing_but_nulls_is_null_itself_and_not_below() -> None:
    rows = pa.table({name: pa.nulls(2) for name in STRICT.names})
    assert required_with_nulls(rows, STRICT) == {"a", "s"}


def test_what_may_be_null_is_told_from_the_schema_alone() -> None:
    below = {"s.x", "l.element", "l.element.x", "m.value", "m.value.element"}
    assert required_and_nullable(LOOSE, STRICT) == {"a", "s"} | below
    assert required_and_nullable(STRICT, STRICT) == required_and_nullable(LOOSE, LOOSE) == set()
    assert required_and_nullable(LOOSE.remove(0), STRICT) == {"s"} | below
