"""What times mean: as text, as a point in time, and as a person gives them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calve.model.errors import BadTime
from calve.model.meaning import Meaning, check_said
from calve.model.time import TIME_MAX

HLC, MZ, LSN = Meaning("hlc"), Meaning("mz_timestamp"), Meaning("lsn")
STAMP, NTZ, NUMBER = (
    Meaning("column ts (timestamp)"),
    Meaning("column ts (timestamp_ntz)"),
    Meaning("column n (bigint)"),
)
EPOCH, BATCH = Meaning("epoch"), Meaning("micro-batch")
ALL = (HLC, MZ, LSN, STAMP, NTZ, NUMBER, EPOCH, BATCH)


@given(st.sampled_from(ALL), st.integers(10**28, TIME_MAX) | st.integers(0, 10**19))
@example(STAMP, 2**63 - 1)
@example(LSN, 2**64)
def test_the_text_of_a_time_reads_back_as_that_time(meaning: Meaning, time: int) -> None:
    assert meaning.parse(meaning.text(time)) == time


@pytest.mark.parametrize(
    "meaning, time, text",
    [
        (HLC, 16987758404533910000000000001, "1698775840453391000.0000000001"),
        (MZ, 1698775840453, "1698775840453"),
        (STAMP, 1698775840453391, "2023-10-31T18:10:40.453391Z"),
        (NTZ, 1698775840000000, "2023-10-31T18:10:40.000000Z"),
        (LSN, 0x16_B374D848, "16/B374D848"),
        (EPOCH, 7, "7"),
    ],
)
def test_a_time_is_shown_as_its_source_prints_it(meaning: Meaning, time: int, text: str) -> None:
    assert meaning.text(time) == text


@pytest.mark.parametrize("meaning", [HLC, MZ, STAMP, NTZ])
def test_where_times_are_a_clock_they_are_points_in_time_with_a_lag(meaning: Meaning) -> None:
    at = datetime(2026, 11, 17, 12, 0, 0, 250_000, UTC)
    time = meaning.parse(at)
    assert meaning.at(time) == at
    assert meaning.lag_ms(time, int(at.timestamp() * 1000) + 1_500) == 1_500


@pytest.mark.parametrize("meaning", [LSN, NUMBER, EPOCH, BATCH])
def test_where_times_are_no_clock_there_is_neither(meaning: Meaning) -> None:
    assert meaning.at(1_000_000) is None
    assert meaning.lag_ms(1, 2) is None
    with pytest.raises(BadTime, match="is a wall time; times of this sink are"):
        meaning.parse("2026-11-17T12:00:00Z")


def test_a_point_beyond_pythons_calendar_is_none_and_the_number_is_shown() -> None:
    assert STAMP.at(2**63 - 1) is None
    assert STAMP.text(2**63 - 1) == str(2**63 - 1)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-17T12:00:00Z",
        "2026-11-17T12:00:00z",
        "2026-11-17 12:00:00",
        "2026-11-17T12:00",
        "2026-11-17 12:00:00.000000000 Z",
        "2026-11-17T14:00:00+02:00",
        "2026-11-17T06:30:00-05:30",
        " 2026-11-17T12:00:00Z ",
    ],
)
def test_a_wall_time_without_a_zone_is_utc_and_with_one_is_what_it_says(text: str) -> None:
    noon = int(datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp())
    assert STAMP.parse(text) == noon * 10**6
    assert HLC.parse(text) == noon * 10**19
    assert MZ.parse(text) == noon * 10**3


def test_a_day_alone_is_its_midnight() -> None:
    assert STAMP.parse("2026-11-17") == STAMP.parse("2026-11-17T00:00:00Z")


def test_a_datetime_is_taken_and_without_a_zone_is_utc() -> None:
    zoned = datetime(2026, 11, 17, 14, tzinfo=timezone(timedelta(hours=2)))
    assert STAMP.parse(zoned) == STAMP.parse(datetime(2026, 11, 17, 12)) == STAMP.parse("2026-11-17T12:00Z")  # noqa: DTZ001


@given(st.integers(0, 10**19))
def test_a_wall_time_is_exact_to_the_nanosecond_and_never_later(nanoseconds: int) -> None:
    """What a coarser clock cannot say is cut off: a unit more would show a change that is later."""
    whole, rest = divmod(nanoseconds, 10**9)
    text = f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
    assert HLC.parse(text) == nanoseconds * 10**10
    assert STAMP.parse(text) == nanoseconds // 1_000
    assert MZ.parse(text) == nanoseconds // 1_000_000


def test_nanoseconds_without_a_logical_part_are_taken_as_cockroachdb_takes_them() -> None:
    whole = HLC.parse("1698775840453391000.0000000000")
    assert HLC.parse("1698775840453391000") == HLC.parse(1698775840453391000) == HLC.parse(whole) == whole


@pytest.mark.parametrize(
    "meaning, said, reason",
    [
        (HLC, "1698775840453391000.1", "not a hybrid logical clock"),
        (STAMP, "1698775840453391000.0000000001", "is no time; times of this sink are wall times"),
        (EPOCH, "yesterday", "is no time; times of this sink are numbers of epochs"),
        (EPOCH, "", "is no time"),
        (EPOCH, "-1", "is no time"),
        (EPOCH, "1" * 39, "is no time"),
        (STAMP, "2026-13-17", "on no calendar"),
        (STAMP, "2026-11-17T25:00", "on no calendar"),
        (STAMP, "1969-12-31", "outside 0"),
        (EPOCH, -1, "outside 0"),
        (EPOCH, True, "not an integer"),
        (LSN, "16/B374D848X", "is no time; times of this sink are LSNs"),
        (STAMP, "2026-11-17T12:00:00.0000000001Z", "is no time"),
    ],
)
def test_what_is_no_time_of_the_sink_is_refused_with_what_is(
    meaning: Meaning, said: str | int, reason: str
) -> None:
    with pytest.raises(BadTime, match=reason):
        meaning.parse(said)


@pytest.mark.parametrize(
    "text",
    ["42", "1698775840453391000.0000000001", "16/B374D848", "2026-11-17", "2026-11-17T12:00:00.5+01:00"],
)
def test_what_may_be_a_time_of_some_source_is_not_refused_early(text):
    check_said(text)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-40", "-1", "1.2.3", "16/", "12:00"])
def test_what_is_no_time_of_any_source_is_refused_before_it_is_known_which_one_is_asked(text):
    with pytest.raises(BadTime, match="is no time of any source"):
        check_said(text)
