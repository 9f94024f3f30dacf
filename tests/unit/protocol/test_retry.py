"""Retry: what follows a look, and that it ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.protocol.judge import Verdict
from calve.protocol.retry import RetryPolicy, Step, next_step

POLICY = RetryPolicy(attempts_max=3, first_ms=50, most_ms=1_000, patience_ms=10_000)
STOPS = [
    Verdict.FENCED,
    Verdict.GAP,
    Verdict.ROLLED_BACK,
    Verdict.DIVERGED,
    Verdict.REPLACED,
]


@pytest.mark.parametrize(
    "verdict, step",
    [
        (Verdict.LANDED, Step.DONE),
        (Verdict.COMMIT, Step.TRY_AGAIN),
        (Verdict.STALE, Step.LOOK_AGAIN),
        (None, Step.LOOK_AGAIN),
        *((verdict, Step.STOP) for verdict in STOPS),
    ],
)
def test_every_verdict_has_its_step(verdict: Verdict | None, step: Step) -> None:
    assert next_step(verdict, 1, 0, POLICY) is step


def test_every_verdict_is_in_the_table_above() -> None:
    assert {Verdict.LANDED, Verdict.COMMIT, Verdict.STALE, *STOPS} == set(Verdict)


@pytest.mark.parametrize("verdict", [Verdict.COMMIT, Verdict.STALE, None])
def test_attempts_and_patience_end(verdict: Verdict | None) -> None:
    assert next_step(verdict, 3, 0, POLICY) is Step.GIVE_UP
    assert next_step(verdict, 1, 10_000, POLICY) is Step.GIVE_UP


@pytest.mark.parametrize("verdict", [Verdict.LANDED, *STOPS])
def test_what_the_table_tells_for_certain_is_not_given_up(verdict: Verdict) -> None:
    """A last look that finds the batch in the table is a success, however late."""
    assert next_step(verdict, 99, 10**9, POLICY) is not Step.GIVE_UP


@given(st.integers(1, 1_000), st.floats(0, 1, exclude_max=True))
def test_a_pause_is_never_longer_than_the_most_and_never_shorter_than_half_its_step(
    attempt: int, jitter: float
) -> None:
    ceiling = min(POLICY.most_ms, POLICY.first_ms * 2 ** (attempt - 1))
    assert ceiling // 2 <= POLICY.backoff_ms(attempt, jitter) <= ceiling


@given(st.integers(1, 50), st.floats(0, 1, exclude_max=True))
def test_pauses_grow_with_the_attempts(attempt: int, jitter: float) -> None:
    assert POLICY.backoff_ms(attempt, jitter) <= POLICY.backoff_ms(attempt + 1, jitter)
