"""Mint: batches tile time from the committed frontier on, whatever the frontier does (P2)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.batch import Batch
from calve.model.errors import BadBatch, BadTime, Overcompacted
from calve.model.time import TIME_MAX
from calve.protocol.mint import CLOSED_MAX, MintPolicy, advance, catch_up, resume, settle

TIMES = st.integers(0, 10_000)
POLICIES = st.builds(MintPolicy, interval=st.none() | st.integers(1, 500), ahead=st.integers(0, 5))
ENDING = st.builds(replace, POLICIES, until=st.integers(1, 10_000))


@given(POLICIES | ENDING, TIMES, st.lists(TIMES, max_size=20))
def test_p2_closed_batches_tile_time_and_never_pass_the_frontier(
    policy: MintPolicy, committed: int, frontiers: list[int]
) -> None:
    mint = resume(policy, committed)
    closed: list[Batch] = []
    furthest = 0
    for frontier in frontiers:
        furthest = max(furthest, frontier)
        mint, now = advance(mint, frontier)
        closed += now
        assert all(batch.upper <= furthest for batch in now)
    uppers = [committed, *(batch.upper for batch in closed)]
    assert [batch.lower for batch in closed] == uppers[:-1]
    assert mint.lower == uppers[-1]


@given(POLICIES, TIMES, st.lists(TIMES, max_size=10))
def test_open_batches_go_on_where_closed_ones_end(
    policy: MintPolicy, committed: int, frontiers: list[int]
) -> None:
    mint = resume(policy, committed)
    for frontier in frontiers:
        before = mint.open
        mint, closed = advance(mint, frontier)
        lowers = [mint.lower, *(batch.upper for batch in mint.open)]
        assert [batch.lower for batch in mint.open] == lowers[:-1]
        assert len(mint.open) == (policy.ahead if policy.interval else 0)
        if len(closed) <= len(before) and policy.interval:
            # What was minted ahead is what is closed: changes that were placed there stay there.
            assert closed == before[: len(closed)] or (closed and closed[0].upper > before[0].upper)


@given(st.integers(1, 500), TIMES, TIMES)
def test_with_an_interval_every_bound_but_the_first_lower_is_a_multiple_of_it(
    interval: int, committed: int, frontier: int
) -> None:
    _, closed = advance(resume(MintPolicy(interval=interval), committed), frontier)
    assert all(batch.upper % interval == 0 for batch in closed)
    assert all(batch.lower % interval == 0 for batch in closed[1:])


@given(ENDING, TIMES, st.lists(TIMES, max_size=10), st.booleans())
def test_a_run_that_is_to_end_at_a_time_ends_a_batch_there_and_closes_nothing_beyond(
    policy: MintPolicy, committed: int, frontiers: list[int], resumed: bool
) -> None:
    assert policy.until is not None
    mint, uppers = resume(policy, committed), [committed]
    for number, frontier in enumerate(frontiers):
        step = catch_up if resumed and not number else advance
        mint, closed = step(mint, frontier)
        uppers += [batch.upper for batch in closed]
    assert uppers[-1] <= max(policy.until, committed)
    if max(frontiers, default=0) >= policy.until > committed:
        assert uppers[-1] == policy.until
    # Files that are written ahead are of batches that end there, too.
    assert not any(batch.lower < policy.until < batch.upper for batch in mint.open)


@given(TIMES, TIMES)
def test_without_an_interval_a_resolved_time_is_one_batch(committed: int, frontier: int) -> None:
    _, closed = advance(resume(MintPolicy(), committed), frontier)
    assert closed == ((Batch(committed, frontier),) if frontier > committed else ())


@given(POLICIES, TIMES, TIMES)
def test_a_frontier_that_repeats_or_goes_back_closes_nothing(
    policy: MintPolicy, frontier: int, older: int
) -> None:
    """Case 55: resolved times out of order."""
    mint, _ = advance(resume(policy, 0), frontier)
    again, closed = advance(mint, min(older, frontier))
    assert not closed
    assert again == mint


@given(POLICIES, TIMES, TIMES)
def test_after_a_stop_one_batch_leads_to_the_current_frontier(
    policy: MintPolicy, committed: int, frontier: int
) -> None:
    mint, closed = catch_up(resume(policy, committed), frontier)
    assert len(closed) <= 1
    assert mint.lower <= max(frontier, committed)
    assert all(batch.lower == committed for batch in closed)


def test_a_long_jump_is_one_batch_and_not_thousands() -> None:
    _, closed = advance(resume(MintPolicy(interval=1), 0), CLOSED_MAX + 2)
    assert closed == (Batch(0, CLOSED_MAX + 2),)
    _, closed = advance(resume(MintPolicy(interval=1), 0), CLOSED_MAX)
    assert len(closed) == CLOSED_MAX


def test_case_53_a_source_that_lost_what_follows_the_frontier_is_refused() -> None:
    with pytest.raises(Overcompacted, match="begins at 11, but the table ends at 10"):
        resume(MintPolicy(), committed=10, since=11)
    assert resume(MintPolicy(), committed=10, since=10).lower == 10


def test_minting_ahead_ends_where_time_does() -> None:
    mint = resume(MintPolicy(interval=10**37, ahead=3), TIME_MAX - 1)
    assert mint.open == ()
    assert advance(mint, TIME_MAX)[1] == ()


@pytest.mark.parametrize(
    "policy", [{"interval": 0}, {"interval": -1}, {"heartbeat": 0}, {"ahead": -1}, {"ahead": 1001}]
)
def test_a_policy_that_mints_nothing_sensible_is_refused(policy: dict[str, int]) -> None:
    with pytest.raises(BadBatch):
        MintPolicy(**policy)


def test_a_frontier_that_is_no_time_is_refused() -> None:
    with pytest.raises(BadTime):
        advance(resume(MintPolicy(), 0), -1)
    with pytest.raises(BadTime):
        resume(MintPolicy(), TIME_MAX + 1)


@st.composite
def closed_batches(draw: st.DrawFn) -> tuple[int, list[tuple[Batch, bool]]]:
    bounds = sorted(draw(st.lists(TIMES, min_size=1, max_size=12, unique=True)))
    return bounds[0], [(Batch(*pair), draw(st.booleans())) for pair in pairwise(bounds)]


@given(closed_batches(), st.none() | st.integers(1, 5_000))
def test_case_52_published_batches_tile_and_an_empty_one_is_none(
    closed: tuple[int, list[tuple[Batch, bool]]], heartbeat: int | None
) -> None:
    """P2 and case 52: every batch with changes is published once, in one that ends where it ends."""
    committed, batches = closed
    published = settle(committed, batches, heartbeat)
    uppers = [committed, *(batch.upper for batch in published)]
    assert [batch.lower for batch in published] == uppers[:-1]
    with_changes = [batch.upper for batch, has_changes in batches if has_changes]
    silent = [upper for upper in uppers[1:] if upper not in with_changes]
    assert [upper for upper in uppers[1:] if upper in with_changes] == with_changes
    assert len(silent) <= (heartbeat is not None)


def test_case_52_an_idle_source_publishes_once_a_heartbeat_and_not_before() -> None:
    idle = [(Batch(0, 5), False), (Batch(5, 10), False)]
    assert settle(0, idle) == ()
    assert settle(0, idle, heartbeat=11) == ()
    assert settle(0, idle, heartbeat=10) == (Batch(0, 10),)


def test_batches_that_do_not_tile_are_a_defect_and_said_so() -> None:
    with pytest.raises(BadBatch, match="does not follow 0"):
        settle(0, [(Batch(1, 2), True)])


@given(st.integers(0, 50), st.sets(st.integers(0, 200), max_size=12), st.integers(0, 200))
def test_p2_each_resolved_time_that_the_frontier_passes_ends_a_batch(
    committed: int, resolved: set[int], frontier: int
) -> None:
    mint, closed = advance(resume(MintPolicy(), committed), frontier, resolved)
    uppers = [batch.upper for batch in closed]
    ends = {time for time in resolved if committed < time <= frontier}
    assert uppers == sorted(ends | ({frontier} if frontier > committed else set()))
    assert [batch.lower for batch in closed] == [committed, *uppers][:-1] if closed else not uppers
    assert mint.lower == max(committed, frontier)


def test_a_long_backlog_of_resolved_times_is_one_batch() -> None:
    _, closed = advance(resume(MintPolicy(), 0), 5000, range(1, 5001))
    assert closed == (Batch(0, 5000),)
