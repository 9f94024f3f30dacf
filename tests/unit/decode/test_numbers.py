"""Numbers and bytes in texts, against Python's own."""

from __future__ import annotations

import base64
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.decode.carriers import carrier
from calve.decode.numbers import digits, unbase64, unscaled

BYTES = st.lists(st.none() | st.binary(max_size=40), max_size=30)


def encoded(values: list[bytes | None]) -> pa.Array:
    return pa.array([None if one is None else base64.b64encode(one).decode() for one in values], pa.string())


@given(BYTES, st.integers(0, 5))
def test_base64_is_what_it_was_whatever_stands_around_it(values: list[bytes | None], cut: int) -> None:
    assert unbase64(encoded(values)).to_pylist() == values
    assert unbase64(encoded(values)[cut:]).to_pylist() == values[cut:]


@pytest.mark.parametrize("text", ["A", "AAA", "A===", "AA=A", "====", "A*AA", "AAAA\n", "AA==AAAA"])
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        unbase64(pa.array(["AAAA", text, "AA=="]))


@given(st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), max_size=30), st.integers(0, 38))
def test_unscaled_numbers_of_any_length_are_decimals(numbers: list[int | None], scale: int) -> None:
    def packed(one: int | None) -> bytes | None:
        return None if one is None else one.to_bytes(one.bit_length() // 8 + 1, "big", signed=True)

    found = unscaled(pa.array(list(map(packed, numbers)), pa.binary()), scale)
    assert found.type == pa.decimal128(38, scale)
    expected = [None if one is None else _scaled(one, scale) for one in numbers]
    assert found.to_pylist() == expected


def _scaled(number: int, scale: int) -> Decimal:
    sign, plain = (1 if number < 0 else 0), tuple(map(int, str(abs(number))))
    return Decimal((sign, plain, -scale))


@pytest.mark.parametrize("value", [b"", b"\x01" * 17, b"\x7f" + b"\xff" * 15, b"\x80" + b"\0" * 15])
def test_a_number_that_is_none_or_too_long_is_refused(value: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        unscaled(pa.array([b"\x01", value], pa.binary()), 2)


@given(st.lists(st.none() | st.integers(0, 2**63 - 1), max_size=30), st.integers(0, 5))
def test_digits_sort_as_their_numbers(numbers: list[int | None], cut: int) -> None:
    found = digits(pa.array(numbers, pa.int64())[cut:])
    assert found.to_pylist() == [None if one is None else f"{one:016X}" for one in numbers[cut:]]


@given(
    st.integers(-(10**90), 10**90),
    st.integers(0, 90),
    st.none() | st.integers(-220, 120),
    st.sampled_from(["decimal(10,2)", "decimal(38,10)", "decimal(38,0)", "decimal(38,38)", "decimal(19,2)"]),
)
def test_a_decimal_from_a_text_is_that_number_or_refused(
    number: int, point: int, power: int | None, kind: str
) -> None:
    plain = str(abs(number)).rjust(point + 1, "0")
    text = ("-" if number < 0 else "") + plain[: len(plain) - point]
    text += ("." + plain[len(plain) - point :]) if point else ""
    text += "" if power is None else f"e{power}"
    try:
        (found,) = carrier("d", kind).finish(pa.array([text])).to_pylist()
    except pa.ArrowInvalid:
        return
    assert found == Decimal(text)
