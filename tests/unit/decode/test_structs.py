"""Rows of many topics in one frame: each value under its own name, and no wider for other topics."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.decode.structs import Structs, apart, together

KINDS = st.sampled_from(
    [pa.int64(), pa.string(), pa.decimal128(9, 2), pa.decimal128(9, 3), pa.list_(pa.int64())]
)
TOPICS = st.dictionaries(
    st.text("ab.-", min_size=1, max_size=3),
    st.dictionaries(st.text("xyz`.", min_size=1, max_size=3), KINDS, min_size=1, max_size=6),
    min_size=1,
    max_size=6,
)


def struct_of(columns: dict[str, pa.DataType]) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in columns.items()])


def rows_of(kind: pa.DataType, count: int) -> list[dict[str, Any] | None]:
    """Rows of which some are null, and some values."""
    return [
        None
        if number % 3 == 2
        else {
            field.name: None if (number + at) % 4 == 3 else _value(field.type, number * 100 + at)
            for at, field in enumerate(kind)
        }
        for number in range(count)
    ]


def _value(kind: pa.DataType, number: int) -> Any:
    if pa.types.is_list(kind):
        return [number]
    if pa.types.is_decimal(kind):
        return Decimal(number).scaleb(-kind.scale)
    return str(number) if pa.types.is_string(kind) else number


def read_back(structs: Structs, topic: str, arrays: list[pa.Array]) -> list[dict[str, Any] | None]:
    place = structs.places[topic]
    array = arrays[list(structs.columns).index(place.column)]
    return [row and {name: row[field] for name, field in place.fields.items()} for row in array.to_pylist()]


@pytest.mark.parametrize("make", [apart, together])
@given(found=TOPICS)
def test_each_value_comes_back_under_its_own_name(make: Any, found: dict[str, Any]) -> None:
    topics = {topic: struct_of(columns) for topic, columns in found.items()}
    structs = make(topics)
    for topic, kind in topics.items():
        rows = rows_of(kind, 8)
        # Sliced, as halves of a batch are.
        array = pa.array([rows[0], *rows], kind).slice(1)
        arrays = structs.put(topic, array, 8)
        for one, (column, wanted) in zip(arrays, structs.columns.items(), strict=True):
            one.validate(full=True)
            assert (one.type, len(one)) == (wanted, 8)
            if column != structs.places[topic].column:
                assert one.null_count == 8
        assert read_back(structs, topic, arrays) == rows


@given(found=TOPICS)
def test_a_struct_has_of_each_type_what_one_topic_has(found: dict[str, Any]) -> None:
    topics = {topic: struct_of(columns) for topic, columns in found.items()}
    (shared,) = together(topics).columns.values()
    types = [field.type for field in shared]
    for kind in set(types):
        most = max(sum(field.type == kind for field in topic) for topic in topics.values())
        assert types.count(kind) == most


def test_rows_that_are_not_read_and_topics_that_are_not_known_are_null() -> None:
    kind = struct_of({"a": pa.int64()})
    structs = together({"t": kind})
    for topic, rows in (("t", None), ("other", pa.array([{"a": 1}], kind)), (None, None)):
        (found,) = structs.put(topic, rows, 1)
        assert found.to_pylist() == [None]


def test_a_frame_without_topics_has_no_struct() -> None:
    for make in (apart, together):
        assert make({}).columns == {}
        assert make({}).put("t", None, 3) == []
