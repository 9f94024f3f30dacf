"""The source: what each epoch brings, from a seed, and what a table must show as of a frontier.

Every run of a sink asks for the same epoch and gets the same rows, as a log or a feed would give them. Some
epochs are empty, some bring deletes alone, and some delete a key that is not there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pyarrow as pa

Row = tuple[int, str]
"""id and v."""

KEYS = 12
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
_CHANGES_MAX = 4
_DELETES = 0.3
_EMPTY = 0.05


@dataclass(frozen=True, slots=True)
class Change:
    id: int
    v: str
    op: str


class Source:
    """Epochs `0 … horizon - 1` of one table."""

    def __init__(self, seed: str, horizon: int, *, keyed: bool, empty: float = _EMPTY) -> None:
        """`empty`: how likely an epoch is to bring nothing."""
        self.horizon = horizon
        self.keyed = keyed
        self._epochs = [
            _draw(Random(f"{seed}/epoch/{epoch}"), epoch, keyed, empty) for epoch in range(horizon)
        ]
        self._states: list[Counter[Row]] = [Counter()]

    def rows(self, epoch: int) -> pa.Table | None:
        """What a run writes in an epoch; `None` where nothing happened."""
        changes = self._epochs[epoch]
        if not changes:
            return None
        columns = {
            "id": pa.array([change.id for change in changes], pa.int64()),
            "v": pa.array([change.v for change in changes], pa.string()),
        }
        if self.keyed:
            columns["_op"] = pa.array([change.op for change in changes], pa.string())
        return pa.table(columns)

    def state(self, frontier: int) -> Counter[Row]:
        """The rows of a table with this frontier."""
        while len(self._states) <= frontier:
            epoch = len(self._states) - 1
            before = self._states[-1]
            if self.keyed:
                rows = dict(list(before))
                for change in self._epochs[epoch]:
                    rows.pop(change.id, None)
                    if change.op != "D":
                        rows[change.id] = change.v
                self._states.append(Counter(rows.items()))
            else:
                self._states.append(before + Counter((one.id, one.v) for one in self._epochs[epoch]))
        return self._states[frontier]


def foreign_rows(number: int) -> pa.Table:
    """Rows of somebody else, whose keys are none of the source's."""
    return pa.table(
        {"id": pa.array([-number], pa.int64()), "v": pa.array([f"foreign {number}"])},
    )


def _draw(random: Random, epoch: int, keyed: bool, empty: float) -> list[Change]:
    if random.random() < empty and epoch:
        return []
    keys = random.sample(range(KEYS), random.randint(1, _CHANGES_MAX))
    return [
        Change(key, f"{key} at {epoch}", "D" if keyed and epoch and random.random() < _DELETES else "U")
        for key in keys
    ]
