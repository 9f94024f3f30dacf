"""Times: integers of up to 38 digits, and CockroachDB's HLC at the door."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calve.model.errors import BadTime
from calve.model.time import TIME_MAX, check_time, format_hlc, parse_hlc

TIMES = st.integers(0, TIME_MAX)


@given(TIMES)
@example(0)
@example(TIME_MAX)
def test_every_integer_of_38_digits_is_a_time(value: int) -> None:
    assert check_time(value) == value


@given(st.integers(max_value=-1) | st.integers(min_value=TIME_MAX + 1))
def test_an_integer_outside_38_digits_is_refused_by_name(value: int) -> None:
    with pytest.raises(BadTime, match=f"upper {value} is outside"):
        check_time(value, "upper")


@pytest.mark.parametrize("value", [True, 1.0, "1", None, Decimal(1)])
def test_what_is_not_an_int_is_refused_also_a_bool_and_a_float(value: object) -> None:
    with pytest.raises(BadTime, match="not an integer"):
        check_time(value)  # type: ignore[arg-type]


@given(TIMES)
def test_the_hlc_text_of_a_time_reads_back_as_that_time(time: int) -> None:
    assert parse_hlc(format_hlc(time)) == time


@given(TIMES, TIMES)
def test_times_order_as_their_hlcs_do(one: int, other: int) -> None:
    """Wall nanoseconds first, then the logical part: as decimals, which is how CockroachDB orders them."""
    assert (one < other) == (Decimal(format_hlc(one)) < Decimal(format_hlc(other)))


def test_a_real_hlc_keeps_all_of_its_29_digits() -> None:
    assert parse_hlc("1698775840453391000.0000000001") == 16987758404533910000000000001


def test_an_hlc_without_its_logical_part_has_zero_there() -> None:
    assert parse_hlc("1698775840453391000") == parse_hlc("1698775840453391000.0000000000")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.2",
        "1.00000000001",
        "-1.0000000000",
        "1.0000000000\n",
        " 1",
        "1e9",
        "١.0000000000",
        "1" * 29,
        "1.",
    ],
)
def test_a_text_that_is_not_an_hlc_is_refused(text: str) -> None:
    """Case 54: also digits of other scripts, a sign, a newline, a logical part of another length."""
    with pytest.raises(BadTime, match="hybrid logical clock"):
        parse_hlc(text)
