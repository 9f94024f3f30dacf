"""A batch: `[lower, upper)` in a source's time. Batches tile the time line; each is one snapshot."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from calve.model.errors import BadBatch
from calve.model.time import check_time

_NAMESPACE = uuid.UUID("5d5f3b0e-3e0c-5d8a-9c57-8c6f0f9a4b11")
"""Where batch ids live. It never changes: an id must be the same in every release."""


@dataclass(frozen=True, slots=True, order=True)
class Batch:
    """The changes with `lower <= time < upper`."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        check_time(self.lower, "lower")
        check_time(self.upper, "upper")
        if self.lower >= self.upper:
            raise BadBatch(
                f"[{self.lower}, {self.upper}) holds no time",
                hint="A batch's upper is greater than its lower.",
            )

    def __contains__(self, time: int) -> bool:
        return self.lower <= time < self.upper

    def __str__(self) -> str:
        return f"[{self.lower}, {self.upper})"


def batch_id(sink_id: str, table_uuid: uuid.UUID, upper: int) -> uuid.UUID:
    """The identity of a batch: the same whoever commits it, and whenever."""
    return uuid.uuid5(_NAMESPACE, f"{sink_id}\n{table_uuid}\n{upper}")
