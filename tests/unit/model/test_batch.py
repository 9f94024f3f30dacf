"""Batches: half-open, never empty, with an id that is the same whoever commits them."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.batch import Batch, batch_id
from calve.model.errors import BadBatch, BadTime
from calve.model.time import TIME_MAX

TIMES = st.integers(0, TIME_MAX)
TABLE = uuid.UUID("a3d0a2ca-7e5f-4f0b-9d1e-9d2f5f4d1c11")


@given(TIMES, TIMES)
def test_a_batch_has_a_lower_below_its_upper_or_is_refused(lower: int, upper: int) -> None:
    if lower < upper:
        assert Batch(lower, upper).upper == upper
    else:
        with pytest.raises(BadBatch, match="holds no time"):
            Batch(lower, upper)


def test_bounds_that_are_not_times_are_refused() -> None:
    with pytest.raises(BadTime, match="lower -1"):
        Batch(-1, 1)
    with pytest.raises(BadTime, match="upper"):
        Batch(0, TIME_MAX + 1)


@given(st.lists(TIMES, min_size=3, max_size=3, unique=True).map(sorted), TIMES, st.sampled_from([-1, 0, 1]))
def test_two_batches_that_follow_each_other_share_no_time_and_leave_none_out(
    bounds: list[int], anywhere: int, off: int
) -> None:
    first, second = Batch(bounds[0], bounds[1]), Batch(bounds[1], bounds[2])
    for time in (anywhere, *(bound + off for bound in bounds)):
        assert (time in first) + (time in second) == (bounds[0] <= time < bounds[2])


def test_a_batch_says_its_bounds_as_they_are() -> None:
    assert str(Batch(0, 10)) == "[0, 10)"


def test_batches_order_by_time() -> None:
    assert sorted([Batch(5, 9), Batch(0, 5)]) == [Batch(0, 5), Batch(5, 9)]


def test_the_id_of_a_batch_never_changes_between_releases() -> None:
    """P3: an id that a later release computed otherwise would let a batch in twice."""
    assert batch_id("shop.orders", TABLE, 42) == uuid.UUID("04e088c5-1d05-55c7-81ba-bc2b24705b32")


@given(st.text(), st.text(), st.uuids(), st.uuids(), TIMES, TIMES)
def test_ids_differ_by_sink_table_and_upper(
    sink: str, other_sink: str, table: uuid.UUID, other_table: uuid.UUID, upper: int, other_upper: int
) -> None:
    same = (sink, table, upper) == (other_sink, other_table, other_upper)
    assert (batch_id(sink, table, upper) == batch_id(other_sink, other_table, other_upper)) == same
