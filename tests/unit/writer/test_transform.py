"""Transforms against PyIceberg, value by value, and against the vectors of Iceberg's specification."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal
from typing import Any

import mmh3
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from calve.model.errors import BadKey, BadPartition, BadRow
from calve.model.layout import PartitionField, Transform, TransformKind
from calve.writer.murmur import murmur3
from calve.writer.transform import apply_transform, check_transform, hash_keys, partition_value, result_type

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
DAYS = st.integers(-719_162, 2_932_896)  # 0001-01-01 … 9999-12-31, what Python's calendar has
MICROS = st.integers(-719_162 * 86_400_000_000, 2_932_896 * 86_400_000_000)

TYPES: dict[str, tuple[IcebergType, pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (IntegerType(), pa.int32(), INT),
    "long": (LongType(), pa.int64(), LONG),
    "date": (DateType(), pa.date32(), DAYS),
    "time": (TimeType(), pa.time64("us"), st.integers(0, 86_399_999_999)),
    "timestamp": (TimestampType(), pa.timestamp("us"), MICROS),
    "timestamptz": (TimestamptzType(), pa.timestamp("us", "UTC"), MICROS),
    "string": (StringType(), pa.string(), st.text(max_size=40)),
    "binary": (BinaryType(), pa.binary(), st.binary(max_size=40)),
    "fixed": (FixedType(7), pa.binary(7), st.binary(min_size=7, max_size=7)),
    "uuid": (UUIDType(), pa.uuid(), st.uuids()),
    "decimal(9,2)": (DecimalType(9, 2), pa.decimal128(9, 2), st.integers(-(10**9) + 1000, 10**9 - 1)),
    "decimal(38,10)": (DecimalType(38, 10), pa.decimal128(38, 10), st.integers(-(10**38) + 1000, 10**38 - 1)),
}


def arrow(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """Physical values as an Arrow array, in the middle of a larger one, as slices come."""
    if pa.types.is_decimal128(kind):
        values = [None if value is None else decimal(value, kind.scale) for value in values]
    elif kind == pa.uuid():
        values = [None if value is None else value.bytes for value in values]
    whole = pa.array([None, *values, None], kind)
    return whole.slice(1, len(values))


def decimal(unscaled: int, scale: int) -> Decimal:
    sign, digits = int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((sign, digits, -scale))


def physical(kind: pa.DataType, value: Any) -> Any:
    return decimal(value, kind.scale) if pa.types.is_decimal128(kind) and value is not None else value


def transform(text: str) -> Transform:
    name, _, width = text.rstrip("]").partition("[")
    return Transform(TransformKind(name), int(width) if width else None)


CASES = [
    *((f"bucket[{width}]", name) for name in TYPES for width in (1, 16, 2**31 - 1)),
    *(
        (f"truncate[{width}]", name)
        for name in ("int", "long", "string", "binary", "decimal(9,2)", "decimal(38,10)")
        for width in (1, 3, 50, 1000)
    ),
    *((unit, name) for name in ("date", "timestamp", "timestamptz") for unit in ("year", "month", "day")),
    *(("hour", name) for name in ("timestamp", "timestamptz")),
    *(("identity", name) for name in TYPES),
    *(("void", name) for name in TYPES),
]


@pytest.mark.parametrize("text, name", CASES, ids=[f"{text}-{name}" for text, name in CASES])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_transform_gives_the_values_of_pyiceberg(text: str, name: str, data: st.DataObject) -> None:
    iceberg, kind, strategy = TYPES[name]
    values = data.draw(st.lists(st.one_of(st.none(), strategy), max_size=30))
    oracle = parse_transform(text).transform(iceberg)
    expected = [oracle(physical(kind, value)) for value in values]
    if text.startswith("truncate") and name in ("int", "long"):
        # PyIceberg's integers do not end.
        least = -(2**31) if name == "int" else -(2**63)
        if any(value is not None and value < least for value in expected):
            with pytest.raises(BadRow, match="below the least"):
                apply_transform(transform(text), arrow(kind, values))
            return
    column = apply_transform(transform(text), arrow(kind, values))
    column.validate(full=True)
    assert column.type == result_type(transform(text), kind)
    assert [partition_value(scalar) for scalar in column] == expected


@pytest.mark.parametrize("text", ["bucket[16]", "truncate[3]", "identity", "void"])
@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_every_form_of_a_string_column_has_the_same_values(text: str, kind: pa.DataType) -> None:
    values = ["", "iceberg", None, "añb😀c", "x" * 1000]
    expected = apply_transform(transform(text), pa.array(values, pa.string()))
    column = apply_transform(transform(text), pa.chunked_array([pa.array(values).cast(kind)] * 2))
    assert column.to_pylist() == expected.to_pylist() * 2
    assert column.type == result_type(transform(text), kind)


@pytest.mark.parametrize(
    "column, expected",
    [
        (pa.array([34], pa.int32()), 2017239379),
        (pa.array([34], pa.int64()), 2017239379),
        (pa.array([Decimal("14.20")], pa.decimal128(9, 2)), -500754589),
        (pa.array([dt.date(2017, 11, 16)]), -653330422),
        (pa.array([dt.time(22, 31, 8)], pa.time64("us")), -662762989),
        (pa.array([dt.datetime(2017, 11, 16, 22, 31, 8, tzinfo=dt.UTC)], pa.timestamp("us")), -2047944441),
        (pa.array([dt.datetime(2017, 11, 16, 22, 31, 8, 1, dt.UTC)], pa.timestamp("us")), -1207196810),
        (
            pa.array([dt.datetime(2017, 11, 16, 14, 31, 8, tzinfo=dt.UTC)], pa.timestamp("us", "Asia/Tokyo")),
            None,
        ),
        (pa.array(["iceberg"]), 1210000089),
        (pa.array([uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes], pa.uuid()), 1488055340),
        (pa.array([b"\0\1\2\3"], pa.binary(4)), -188683207),
        (pa.array([b"\0\1\2\3"]), -188683207),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else str(value),
)
def test_hashes_are_those_of_the_specification(column: pa.Array, expected: int | None) -> None:
    if expected is None:  # a zone is how an instant is shown, not what it is
        expected = mmh3.hash(struct.pack("<q", column.cast(pa.int64())[0].as_py()))
    assert murmur3(column)[0].as_py() == expected % 2**32


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.binary(max_size=300)), max_size=80),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_hash_of_bytes_is_murmur3(values: list[bytes | None], seed: int) -> None:
    hashed = murmur3(pa.array(values, pa.binary()), seed).to_pylist()
    assert hashed == [None if v is None else mmh3.hash(v, seed, signed=False) for v in values]


def test_one_long_value_among_many_short_ones_is_hashed_right() -> None:
    values = [bytes([i % 256]) * (i % 9) for i in range(70_000)]
    values[123], values[69_999] = b"long" * 100_000, b"tail" * 5_000 + b"xyz"
    assert murmur3(pa.array(values)).to_pylist() == [mmh3.hash(value, signed=False) for value in values]


def test_years_beyond_every_calendar_of_python_are_counted() -> None:
    column = pa.array([2**31 - 1, -(2**31), 10**9], pa.int32()).view(pa.date32())
    # 400 years have 146,097 days: moved by whole cycles, a date keeps its month.
    cycles = [value // 146_097 for value in (2**31 - 1, -(2**31), 10**9)]
    inside = pa.array(
        [v - c * 146_097 for v, c in zip((2**31 - 1, -(2**31), 10**9), cycles, strict=True)], pa.int32()
    )
    years = pc.subtract(pc.year(inside.view(pa.date32())), 1970).to_pylist()
    assert apply_transform(transform("year"), column).to_pylist() == [
        y + 400 * c for y, c in zip(years, cycles, strict=True)
    ]


def test_case_54_an_instant_whose_hour_is_no_int_is_refused() -> None:
    with pytest.raises(BadRow, match="too far from 1970"):
        apply_transform(transform("hour"), pa.array([2**63 - 1], pa.timestamp("us")))


def test_truncating_decimals_of_38_digits_is_exact() -> None:
    values = (-(10**38) + 2**31, 10**38 - 1)
    column = pa.array([decimal(value, 0) for value in values], pa.decimal128(38, 0))
    truncated = apply_transform(transform("truncate[2147483647]"), column)
    assert [int(v) for v in truncated.to_pylist()] == [v - v % 2147483647 for v in values]


REFUSED = [
    ("bucket[4]", pa.float64()),
    ("bucket[4]", pa.bool_()),
    ("truncate[4]", pa.date32()),
    ("truncate[4]", pa.binary(4)),
    ("hour", pa.date32()),
    ("day", pa.int64()),
    ("day", pa.timestamp("ns")),
    ("year", pa.time64("us")),
    ("identity", pa.list_(pa.int32())),
    ("identity", pa.struct([("x", pa.int32())])),
]


@pytest.mark.parametrize("text, kind", REFUSED, ids=str)
def test_a_transform_on_a_type_that_it_does_not_take_is_refused_by_name(text: str, kind: pa.DataType) -> None:
    with pytest.raises(BadPartition) as refused:
        check_transform(PartitionField("when", transform(text)), kind)
    assert "'when'" in refused.value.message
    assert str(kind) in refused.value.message
    assert f"{transform(text).kind.value} takes" in refused.value.hint


def test_void_takes_every_type() -> None:
    check_transform(PartitionField("x", transform("void")), pa.list_(pa.int32()))
    assert apply_transform(transform("void"), pa.array([[1], None])).null_count == 2


KEYS = st.lists(st.tuples(st.one_of(st.none(), LONG), st.one_of(st.none(), st.text(max_size=9))), max_size=50)


@settings(max_examples=50, deadline=None)
@given(rows=KEYS, seed=st.integers(0, 9))
def test_equal_keys_have_equal_hashes_however_they_are_chunked(
    rows: list[tuple[Any, Any]], seed: int
) -> None:
    def table(pairs: list[tuple[Any, Any]], text: pa.DataType) -> pa.Table:
        return pa.table(
            {"a": pa.array([a for a, _ in pairs], pa.int64()), "b": pa.array([b for _, b in pairs], text)}
        )

    whole = hash_keys(table(rows, pa.string()), ["a", "b"], seed)
    pieces = pa.concat_tables([table(rows[:7], pa.large_string()), table(rows[7:], pa.large_string())])
    assert hash_keys(pieces, ["a", "b"], seed).to_pylist() == whole.to_pylist()
    assert whole.type == pa.uint32()
    assert whole.null_count == 0


def test_hashes_of_keys_spread_and_depend_on_seed_and_on_which_column_is_null() -> None:
    table = pa.table({"a": pa.array(range(10_000)), "b": pa.nulls(10_000, pa.int64())})
    one, two = hash_keys(table, ["a", "b"]), hash_keys(table, ["a", "b"], seed=1)
    assert pc.count_distinct(one).as_py() > 9_990
    assert pc.sum(pc.equal(one, two)).as_py() < 10
    assert hash_keys(table, ["b", "a"]).to_pylist() != one.to_pylist()
    buckets = pc.value_counts(pc.bit_wise_and(one, pa.scalar(7, pa.uint32())))
    assert all(1_000 < bucket["counts"].as_py() < 1_500 for bucket in buckets)


def test_keys_that_cannot_be_compared_exactly_are_not_hashed() -> None:
    with pytest.raises(BadKey, match="'a'"):
        hash_keys(pa.table({"a": [1.0]}), ["a"])


def test_booleans_and_uuids_are_keys() -> None:
    ids = [uuid.UUID(int=i).bytes for i in range(3)]
    table = pa.table({"a": [True, False, None], "b": pa.array(ids, pa.uuid())})
    assert pc.count_distinct(hash_keys(table, ["a", "b"])).as_py() == 3


def test_case_54_a_decimal_that_grows_by_a_digit_when_truncated_is_refused() -> None:
    column = pa.array([None, Decimal("-9999999999.99")], pa.decimal128(12, 2))
    with pytest.raises(BadRow) as refused:
        apply_transform(Transform(TransformKind.TRUNCATE, 10), column)
    assert "-9999999999.99" in refused.value.message


@pytest.mark.parametrize("kind, least", [(pa.int32(), -(2**31)), (pa.int64(), -(2**63))], ids=str)
def test_case_54_an_integer_that_would_wrap_around_when_truncated_is_refused(
    kind: pa.DataType, least: int
) -> None:
    """Wrapped, the key of an int would have another partition once its column is a long."""
    with pytest.raises(BadRow, match=f"{least + 5} truncated to a multiple of 1000000") as refused:
        apply_transform(transform("truncate[1000000]"), pa.array([7, least + 5, None], kind))
    assert "another transform" in refused.value.hint
    assert apply_transform(transform("truncate[2]"), pa.array([least], kind)).to_pylist() == [least]
