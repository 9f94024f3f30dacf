"""Bounds: Iceberg's binary form against PyIceberg's, and cut bounds that still bound."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from calve.writer.bounds import encode_bound, encode_unscaled, truncate_lower, truncate_upper

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
CASES: list[tuple[IcebergType, pa.DataType, st.SearchStrategy[Any]]] = [
    (BooleanType(), pa.bool_(), st.booleans()),
    (IntegerType(), pa.int32(), INT),
    (LongType(), pa.int64(), LONG),
    (FloatType(), pa.float32(), st.floats(width=32, allow_nan=False)),
    (DoubleType(), pa.float64(), st.floats(allow_nan=False)),
    (DateType(), pa.date32(), INT),
    (TimeType(), pa.time64("us"), LONG),
    (TimestampType(), pa.timestamp("us"), LONG),
    (TimestamptzType(), pa.timestamp("us", "UTC"), LONG),
    (StringType(), pa.string(), st.text()),
    (StringType(), pa.large_string(), st.text()),
    (BinaryType(), pa.binary(), st.binary()),
    (FixedType(3), pa.binary(3), st.binary(min_size=3, max_size=3)),
    (UUIDType(), pa.uuid(), st.uuids()),
]


@pytest.mark.parametrize("iceberg, kind, values", CASES, ids=[str(case[1]) for case in CASES])
@given(data=st.data())
def test_a_bound_has_the_bytes_of_pyiceberg(
    iceberg: Any, kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)
    assert encode_bound(value, kind) == to_bytes(iceberg, value)


@given(precision=st.integers(1, 38), data=st.data())
def test_decimals_of_every_precision_have_minimal_bytes(precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))
    unscaled = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    value = Decimal((int(unscaled < 0), digits, -scale))
    encoded = encode_bound(value, pa.decimal128(precision, scale))
    assert encoded == encode_unscaled(unscaled) == to_bytes(DecimalType(precision, scale), value)
    assert int.from_bytes(encoded, "big", signed=True) == unscaled


def test_a_decimal_of_another_scale_keeps_its_value_or_is_refused() -> None:
    assert encode_bound(Decimal("1.5"), pa.decimal128(9, 3)) == encode_unscaled(1500)
    assert encode_bound(Decimal("2E+3"), pa.decimal128(9, 0)) == encode_unscaled(2000)
    with pytest.raises(ValueError, match="scale 1"):
        encode_bound(Decimal("1.55"), pa.decimal128(9, 1))


def test_a_null_has_no_bound() -> None:
    with pytest.raises(TypeError):
        encode_bound(None, pa.int32())


TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=8)


@given(value=TEXT, length=st.integers(1, 4))
@example(value="\U0010ffff" * 3, length=2)
@example(value="a\ud7ffb", length=2)
@example(value="a\U0010ffffb", length=2)
def test_cut_text_still_bounds_and_stays_text(value: str, length: int) -> None:
    lower, upper = truncate_lower(value, length), truncate_upper(value, length)
    assert lower.encode() <= value.encode()
    assert len(lower) <= length
    if upper is None:
        assert set(value[:length]) == {"\U0010ffff"}
    else:
        assert value.encode() <= upper.encode()
        assert len(upper) <= length


@given(value=st.binary(max_size=8), length=st.integers(1, 4))
@example(value=b"\xff\xff\xff", length=2)
@example(value=b"a\xff\xff", length=2)
def test_cut_bytes_still_bound(value: bytes, length: int) -> None:
    lower, upper = truncate_lower(value, length), truncate_upper(value, length)
    assert lower <= value
    if upper is None:
        assert set(value[:length]) == {0xFF}
    else:
        assert value <= upper
        assert len(upper) <= length


def test_a_code_point_grows_past_the_surrogates() -> None:
    assert truncate_upper("\ud7ffx", 1) == "\ue000"
    assert truncate_upper("a\U0010ffffx", 2) == "b"
    assert truncate_upper("abc", 3) == "abc"
    assert truncate_upper(b"a\xffx", 2) == b"b"


def test_uuids_are_their_sixteen_bytes() -> None:
    value = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    assert encode_bound(value, pa.uuid()) == encode_bound(value.bytes, pa.uuid()) == value.bytes
