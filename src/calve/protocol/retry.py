"""Retry: what follows an attempt to commit. A table that a reader can check line by line.

An answer is Landed, Conflict (the catalog says no) or Unknown (it may have happened). Nothing is
concluded from the answer alone: the table is read again and judged. Sending the same snapshot ids again
is safe at any time, because a commit of ours moves the tag, and the tag is a requirement of the next:
the catalog itself refuses the second of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from calve.protocol.judge import Verdict


class Answer(Enum):
    """What one attempt was answered."""

    LANDED = "landed"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"


class Step(Enum):
    """What a coordinator does next."""

    DONE = "done"
    TRY_AGAIN = "try again"  # rebuild on what the table shows now, and send
    LOOK_AGAIN = "look again"  # the table could not tell: read it once more, send nothing
    STOP = "stop"  # the verdict is an error of its own
    GIVE_UP = "give up"  # attempts are used up


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently. `attempts_max` counts every sending and every look that told nothing."""

    attempts_max: int = 10
    first_ms: int = 50
    most_ms: int = 10_000
    patience_ms: int = 300_000
    """Nothing is begun after this time, however many attempts are left."""

    def backoff_ms(self, attempt: int, jitter: float) -> int:
        """The pause before the attempt after `attempt` (counted from 1); `jitter` is in [0, 1)."""
        ceiling = min(self.most_ms, self.first_ms << min(attempt - 1, 32))
        return int(ceiling * (0.5 + jitter / 2))


def next_step(verdict: Verdict | None, attempt: int, waited_ms: float, policy: RetryPolicy) -> Step:
    """What follows a look; a look that failed altogether has no verdict."""
    match verdict:
        case Verdict.LANDED:
            return Step.DONE
        case Verdict.COMMIT:
            onward = Step.TRY_AGAIN
        case Verdict.STALE | None:
            onward = Step.LOOK_AGAIN
        case _:
            return Step.STOP
    return onward if attempt < policy.attempts_max and waited_ms < policy.patience_ms else Step.GIVE_UP
