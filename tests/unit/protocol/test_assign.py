"""Assign: every change has one fate, by its time alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.batch import Batch
from calve.model.errors import BadBatch
from calve.protocol.assign import Edges, Fate, assign, edges

TIMES = st.integers(0, 1_000)


@st.composite
def tiled(draw: st.DrawFn) -> Edges:
    bounds = sorted(draw(st.lists(TIMES, min_size=1, max_size=8, unique=True)))
    return edges(bounds[0], [Batch(*pair) for pair in pairwise(bounds)])


@given(tiled(), TIMES)
def test_a_change_goes_to_the_batch_that_holds_its_time_and_to_no_other(within: Edges, time: int) -> None:
    fate = assign(time, within)
    holding: list[Batch | Fate] = [batch for batch in within.batches if time in batch]
    assert [fate] == (holding or [Fate.REPLAY if time < within.committed else Fate.STASH])


@given(tiled())
def test_case_44_what_lies_before_the_committed_frontier_is_a_replay(within: Edges) -> None:
    if within.committed:
        assert assign(within.committed - 1, within) is Fate.REPLAY
    assert assign(within.committed, within) is not Fate.REPLAY


def test_a_change_at_an_upper_belongs_to_the_next_batch() -> None:
    within = edges(0, [Batch(0, 5), Batch(5, 9)])
    assert assign(5, within) == Batch(5, 9)
    assert assign(9, within) is Fate.STASH


@pytest.mark.parametrize("batches", [[Batch(1, 2)], [Batch(0, 2), Batch(3, 4)], [Batch(0, 3), Batch(2, 4)]])
def test_batches_that_leave_a_gap_or_overlap_are_refused(batches: list[Batch]) -> None:
    with pytest.raises(BadBatch, match="does not follow"):
        edges(0, batches)
