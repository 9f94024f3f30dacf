"""Intervals in the words of Spark's users."""

import pyarrow as pa
import pytest

from calve.model.errors import ConfigError
from calve.runtime.spark.intervals import parse_interval, units_of

SECOND = 1_000_000


@pytest.mark.parametrize(
    "text,microseconds",
    [
        ("10 seconds", 10 * SECOND),
        ("1 second", SECOND),
        ("0 seconds", 0),
        ("1 minute", 60 * SECOND),
        ("INTERVAL 1 Minute", 60 * SECOND),
        ("1 hour 30 minutes", 5400 * SECOND),
        ("500ms", SECOND // 2),
        ("5 milliseconds", 5_000),
        ("7 microseconds", 7),
        ("2d", 172_800 * SECOND),
        ("1 week", 604_800 * SECOND),
        (" 5m ", 300 * SECOND),
    ],
)
def test_an_interval_is_read_in_microseconds(text, microseconds):
    assert parse_interval(text, "delay") == microseconds


@pytest.mark.parametrize(
    "text", ["", " ", "10", "seconds", "1 month", "-1 second", "1.5 seconds", "1 minute x"]
)
def test_what_is_no_interval_is_refused_with_what_is_taken(text):
    with pytest.raises(ConfigError, match="delay cannot be") as refused:
        parse_interval(text, "delay")
    assert "10 seconds" in refused.value.hint


def test_a_timestamp_counts_in_microseconds_and_a_number_in_its_own_units():
    assert units_of("1 second", "ts", pa.timestamp("us", tz="UTC"), "delay") == SECOND
    assert units_of(5, "ts", pa.timestamp("us"), "delay") == 5
    assert units_of(5, "lsn", pa.int64(), "delay") == 5
    assert units_of("5", "lsn", pa.int64(), "delay") == 5
    with pytest.raises(ConfigError, match="cannot be '5'"):
        units_of("5", "ts", pa.timestamp("us"), "delay")  # of what?


def test_words_for_a_number_are_refused_because_nobody_knows_its_unit():
    with pytest.raises(ConfigError, match="'lsn' is int64") as refused:
        units_of("1 second", "lsn", pa.int64(), "delay")
    assert "units of the column" in refused.value.hint


@pytest.mark.parametrize("value", [None, True, 1.5, ["1 second"]])
def test_anything_else_is_refused(value):
    with pytest.raises(ConfigError, match="delay is a"):
        units_of(value, "ts", pa.timestamp("us"), "delay")
