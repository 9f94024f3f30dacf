"""Frontier: it never goes back, and it never runs ahead of a partition that may still speak (case 55)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.errors import BadTime, Diverged
from calve.model.time import TIME_MAX
from calve.protocol.frontier import Frontier

TIMES = st.integers(0, TIME_MAX)
PARTITIONS = st.sampled_from(["0", "1", "2"])
SAID = st.lists(st.dictionaries(PARTITIONS, TIMES, max_size=3), max_size=12)


@given(st.lists(st.one_of(st.none(), TIMES), max_size=12), st.integers(0, 10**30))
def test_the_greatest_time_less_a_delay_never_goes_back(greatest: list[int | None], delay: int) -> None:
    frontier, furthest = Frontier(), 0
    for time in greatest:
        after = frontier.seen(time, delay)
        assert after.time >= frontier.time
        frontier, furthest = after, max(furthest, time or 0)
    assert frontier.time == max(0, furthest - delay)


@given(st.lists(TIMES, max_size=12))
def test_a_watermark_never_takes_the_frontier_back(watermarks: list[int]) -> None:
    frontier = Frontier()
    for time in watermarks:
        frontier = frontier.reached(time)
    assert frontier.time == max(watermarks, default=0)


@given(SAID)
def test_case_55_the_frontier_is_the_least_of_what_every_partition_said_last(
    said: list[dict[str, int]],
) -> None:
    frontier, last = Frontier(), dict[str, int]()
    for marks in said:
        frontier = frontier.told(marks, 3)
        for partition, time in marks.items():
            last[partition] = max(last.get(partition, 0), time)
        assert frontier.time == (min(last.values()) if len(last) == 3 else 0)
    assert frontier.marks == last


@given(SAID, st.randoms(use_true_random=False))
def test_case_55_marks_in_any_order_and_any_number_of_times_say_the_same(said, random) -> None:
    in_order = Frontier()
    for marks in said:
        in_order = in_order.told(marks, 3)
    again = [*said, *said]
    random.shuffle(again)
    shuffled = Frontier()
    for marks in again:
        shuffled = shuffled.told(marks, 3)
    assert shuffled == in_order


def test_case_55_until_every_partition_has_spoken_there_is_no_frontier() -> None:
    frontier = Frontier().told({"0": 500, "1": 700}, 3)
    assert frontier.time == 0
    assert frontier.told({"2": 20}, 3).time == 20


def test_case_55_a_mark_that_goes_back_says_nothing_new() -> None:
    frontier = Frontier().told({"0": 50, "1": 70}, 2)
    assert frontier.told({"0": 10}, 2) == frontier


def test_more_partitions_than_there_should_be_stop_the_sink() -> None:
    frontier = Frontier().told({"0": 5}, 1)
    with pytest.raises(Diverged, match=r"2 partitions .* but there should be 1: 0, 1"):
        frontier.told({"1": 9}, 1)


def test_a_delay_that_is_longer_than_the_stream_closes_nothing() -> None:
    assert Frontier().seen(5, 10).time == 0


@pytest.mark.parametrize("mark", [-1, TIME_MAX + 1])
def test_a_mark_that_is_no_time_is_refused(mark: int) -> None:
    with pytest.raises(BadTime, match="mark"):
        Frontier().told({"0": mark}, 1)


def test_a_watermark_before_the_first_row_is_no_frontier() -> None:
    assert Frontier().reached(-62_135_596_800_000_000).time == 0


def test_case_55_a_partition_that_is_added_holds_the_frontier_until_it_speaks() -> None:
    frontier = Frontier().heard({"a": 10, "b": 12}, {"a", "b"})
    assert frontier.time == 10
    frontier = frontier.heard({"a": 30, "b": 30}, {"a", "b", "c"})
    assert frontier.time == 10
    assert frontier.heard({"c": 20}, {"a", "b", "c"}).time == 20


def test_a_partition_that_is_gone_holds_the_frontier_no_longer() -> None:
    frontier = Frontier().heard({"a": 10, "b": 12}, {"a", "b"})
    assert frontier.heard({"b": 15}, {"b"}).time == 15


def test_without_a_partition_nothing_is_known() -> None:
    assert Frontier().heard({}, set()).time == 0
