"""Assign: which batch a change belongs to, by its time alone.

    committed        closed batches          open
    ────┼──────┬──────────┬───────────┬─────────────▶ time
    replay     │  batch 0 │  batch 1  │   stash

Half-open everywhere, so no change can belong to two batches or to none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from calve.model.batch import Batch
from calve.model.errors import BadBatch


class Fate(Enum):
    """What becomes of a change that goes into no closed batch."""

    REPLAY = "replay"  # before the committed frontier: it is in the table already
    STASH = "stash"  # at or beyond the last closed upper: its batch is still open


@dataclass(frozen=True, slots=True)
class Edges:
    """The uppers of closed batches over a committed frontier: sorted bounds that any engine can search."""

    committed: int
    batches: tuple[Batch, ...]

    def __post_init__(self) -> None:
        lower = self.committed
        for batch in self.batches:
            if batch.lower != lower:
                raise BadBatch(
                    f"{batch} does not follow {lower}",
                    hint="Batches tile time: this is a defect of the caller.",
                )
            lower = batch.upper


def edges(committed: int, batches: Sequence[Batch]) -> Edges:
    """Closed batches, checked to tile from the committed frontier on."""
    return Edges(committed, tuple(batches))


def assign(time: int, within: Edges) -> Batch | Fate:
    """The batch of a change, or what else becomes of it."""
    if time < within.committed:
        return Fate.REPLAY
    index = bisect_right([batch.upper for batch in within.batches], time)
    return within.batches[index] if index < len(within.batches) else Fate.STASH
