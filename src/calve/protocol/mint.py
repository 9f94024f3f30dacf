"""Mint: make the bounds of batches ahead of their data.

    frontier ──▶ advance ──▶ closed batches ──▶ settle ──▶ batches to publish

Two ways, by the source: one batch a resolved time, or bounds at the multiples of an interval in the
source's own time. After a stop, one catch-up batch leads from the committed frontier to where the
source is now. A run that is to end at a time ends a batch there, and closes nothing beyond it. Batches tile:
each lower is the upper before it (P2), and the first lower is the frontier that the table remembers. A
source that lost what follows that frontier is refused: a batch over a hole would be a lie (P6, case 53).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from calve.model.batch import Batch
from calve.model.errors import BadBatch, Overcompacted
from calve.model.time import TIME_MAX, check_time

CLOSED_MAX = 1_000
"""Batches that one step of the frontier may close; a longer jump becomes one catch-up batch."""


@dataclass(frozen=True, slots=True)
class MintPolicy:
    """How bounds are chosen. Both lengths are in the source's own time."""

    interval: int | None = None
    """`None`: one batch a resolved time. Otherwise bounds are multiples of it."""
    ahead: int = 1
    """How many open batches are minted beyond the frontier, where there is an interval."""
    heartbeat: int | None = None
    """A frontier that moved this far without a change is published all the same."""
    until: int | None = None
    """A bound of its own: nothing is closed beyond it."""

    def __post_init__(self) -> None:
        for name in ("interval", "heartbeat", "until"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= TIME_MAX:
                raise BadBatch(f"{name} {value} is not a length of time", hint="Give a positive integer.")
        if not 0 <= self.ahead <= CLOSED_MAX:
            raise BadBatch(
                f"ahead {self.ahead} is outside 0 … {CLOSED_MAX}", hint="Mint a few batches ahead."
            )


@dataclass(frozen=True, slots=True)
class Mint:
    """Where the time line is cut so far: everything before `lower` has left as closed batches."""

    policy: MintPolicy
    lower: int
    open: tuple[Batch, ...] = ()


def resume(policy: MintPolicy, committed: int, since: int = 0) -> Mint:
    """A mint that goes on from the committed frontier, if the source still has what follows it."""
    check_time(committed, "committed frontier")
    if since > committed:
        raise Overcompacted(
            f"the source begins at {since}, but the table ends at {committed}: changes in between are gone",
            hint="Load the table anew from a full snapshot of the source, under a new sink id.",
        )
    return _mint_ahead(Mint(policy, committed))


def catch_up(mint: Mint, frontier: int) -> tuple[Mint, tuple[Batch, ...]]:
    """After a stop: one batch from the committed frontier to the current one."""
    upper = _last_bound(frontier, mint.policy)
    if upper <= mint.lower:
        return mint, ()
    return _mint_ahead(Mint(mint.policy, upper)), (Batch(mint.lower, upper),)


def advance(mint: Mint, frontier: int, resolved: Collection[int] = ()) -> tuple[Mint, tuple[Batch, ...]]:
    """The batches that a frontier closes. One that stands still or goes back closes nothing. Without an
    interval, each of the `resolved` times that it passes ends a batch."""
    check_time(frontier, "frontier")
    interval, frontier = mint.policy.interval, _capped(frontier, mint.policy)
    if interval is None:
        uppers = sorted(time for time in {*resolved, frontier} if mint.lower < time <= frontier)
        if len(uppers) > CLOSED_MAX:
            return catch_up(mint, frontier)
        lowers = (mint.lower, *uppers)
        ends = tuple(Batch(lower, upper) for lower, upper in zip(lowers, uppers, strict=False))
        return replace(mint, lower=max(mint.lower, frontier)), ends
    if (frontier - mint.lower) // interval > CLOSED_MAX:
        return catch_up(mint, frontier)
    closed = []
    lower = mint.lower
    while (upper := _next_bound(lower, interval, mint.policy.until)) <= frontier:
        closed.append(Batch(lower, upper))
        lower = upper
    return _mint_ahead(replace(mint, lower=lower)), tuple(closed)


def settle(
    committed: int, closed: Sequence[tuple[Batch, bool]], heartbeat: int | None = None
) -> tuple[Batch, ...]:
    """The batches to publish, of closed ones and whether each has changes.

    An empty batch is not a snapshot (case 52): its time goes to the next batch that has changes, so that
    lowers still are the frontier before. Time that stays empty at the end is published once it reaches
    the heartbeat.
    """
    lower = upper = committed
    published = []
    for batch, has_changes in closed:
        if batch.lower != upper:
            raise BadBatch(
                f"{batch} does not follow {upper}", hint="Batches tile time: this is a defect of the caller."
            )
        upper = batch.upper
        if has_changes:
            published.append(Batch(lower, upper))
            lower = upper
    if heartbeat is not None and upper - lower >= heartbeat:
        published.append(Batch(lower, upper))
    return tuple(published)


def _mint_ahead(mint: Mint) -> Mint:
    if mint.policy.interval is None:
        return replace(mint, open=())
    minted = []
    lower = mint.lower
    for _ in range(mint.policy.ahead):
        upper = _next_bound(lower, mint.policy.interval, mint.policy.until)
        if upper > TIME_MAX:
            break
        minted.append(Batch(lower, upper))
        lower = upper
    return replace(mint, open=tuple(minted))


def _next_bound(time: int, interval: int, until: int | None) -> int:
    bound = (time // interval + 1) * interval
    return bound if until is None or not time < until < bound else until


def _last_bound(frontier: int, policy: MintPolicy) -> int:
    """The last bound that a frontier has reached."""
    time = _capped(frontier, policy)
    if policy.interval is None or time == policy.until:
        return time
    return time // policy.interval * policy.interval


def _capped(frontier: int, policy: MintPolicy) -> int:
    return frontier if policy.until is None else min(frontier, policy.until)
