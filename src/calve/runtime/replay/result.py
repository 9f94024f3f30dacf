"""What is answered of a quarantine."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from calve.runtime.replay.kept import Entry


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row that waits in a quarantine."""

    id: str
    micro_batch: int
    reason: str
    hint: str
    row: dict[str, Any]
    """For people: texts where JSON has no type of its own."""
    replay: int | None
    """The replay that put it back; `None` if none has taken it up yet."""

    @classmethod
    def of(cls, entry: Entry) -> Quarantined:
        return cls(
            id=entry["id"],
            micro_batch=entry["micro_batch"],
            reason=entry["reason"],
            hint=entry["hint"],
            row=json.loads(entry["row"]),
            replay=entry["replay"],
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a quarantine."""

    table: str
    replay: int | None
    """Its number; `None` if there was nothing to do, and nothing was changed."""
    applied: int
    """Changes that went into the table."""
    superseded: int
    """Changes that are done with: the table, or a row of the same replay, has a newer one of their key."""
    left: tuple[Quarantined, ...]
    """What still waits."""
    snapshot_id: int | None = None

    @property
    def reasons(self) -> Counter[str]:
        """Why rows still wait, and how many for each."""
        return Counter(one.reason for one in self.left)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "left": [one.to_json() for one in self.left]}
