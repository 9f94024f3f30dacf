"""Judge: what the table says of batches that a run wants to commit, or sent and does not know the fate of.

    intent (what we want) ─┐
                           ├─▶ judge ─▶ verdict
    look (what is there) ──┘

The table is the only memory. The order of the lines in `judge` is the argument: a table that is another
one says nothing of ours; a replica that lags says nothing yet; a snapshot id of ours that is there
proves that the commit was ours, whatever happened since; a fence that moved means another run; only then
it matters where main is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from calve.model.progress import Progress


class Verdict(Enum):
    """What the table says."""

    COMMIT = "commit"  # nothing of ours is there and nothing stands in its way
    LANDED = "landed"  # our snapshot is there: the answer was lost, not the commit
    FENCED = "fenced"  # another run has claimed the sink since
    GAP = "gap"  # the table ends before our lower: changes would be lost
    ROLLED_BACK = "rolled back"  # main does not descend from what we committed
    DIVERGED = "diverged"  # progress is gone or contradicts what we want to commit
    REPLACED = "replaced"  # another table stands under the name
    STALE = "stale"  # the answer is older than what we have seen: ask again


@dataclass(frozen=True, slots=True)
class Intent:
    """What a run wants to commit, and what it knows."""

    table_uuid: UUID
    snapshot_ids: tuple[int, ...]
    """Drawn once for all attempts: finding one in the table proves that the commit was ours."""
    lower: int
    """Of the first batch."""
    held: int | None
    """What this run last claimed or committed; `None` before its first claim of a new sink."""
    sequence_seen: int
    """The greatest sequence number that this run has seen in the table."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a table shows."""

    table_uuid: UUID
    last_sequence: int
    ours: frozenset[int]
    """Those of the intent's snapshot ids that are in the table."""
    held: int | None
    """The sink's last claim or commit."""
    progress: Progress | None
    """What that says."""
    descends: bool | None
    """Whether main descends from the sink's last commit; `None` if that stays open."""


def judge(intent: Intent, look: Look) -> Verdict:
    """The verdict on an intent."""
    if look.table_uuid != intent.table_uuid:
        return Verdict.REPLACED
    if look.last_sequence < intent.sequence_seen:
        return Verdict.STALE
    if look.ours or (look.progress is not None and look.progress.committed in intent.snapshot_ids):
        return Verdict.LANDED
    if look.held != intent.held:
        # What is gone was removed by hand: there is no other run to yield to, and no progress.
        return Verdict.DIVERGED if look.held is None else Verdict.FENCED
    if not look.descends:
        return Verdict.ROLLED_BACK
    frontier = 0 if look.progress is None else look.progress.frontier
    if intent.lower > frontier:
        return Verdict.GAP
    if intent.lower < frontier:
        return Verdict.DIVERGED
    return Verdict.COMMIT
