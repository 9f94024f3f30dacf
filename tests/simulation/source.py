"""The truth of a simulated world: a source whose changes follow from a seed, and its state at any time.

A change sets a key to a value or deletes it. Values are never used twice, so a row tells which change it
came from. Where a row's `region` follows from its value, a key moves between partitions; where it
follows from the key, it stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from calve.model.batch import Batch

KEYS = 5
REGIONS = 3
_CHANGES_MAX = 3
_DELETES = 0.3


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table, in the order of its field ids 1 … 4."""

    id: int
    region: int
    shard: int
    val: int

    def field(self, field_id: int) -> int:
        return (self.id, self.region, self.shard, self.val)[field_id - 1]


class Source:
    """Changes at the times `0 … horizon - 1`."""

    def __init__(self, random: Random, horizon: int, moving: bool) -> None:
        self.horizon = horizon
        self.moving = moving
        self._changes = [_draw(random, time) for time in range(horizon)]
        self._states: list[Mapping[int, int]] = [{}]

    @property
    def key_ids(self) -> tuple[int, ...]:
        """The field ids of the key: where region is part of it, deletes can be scoped to a partition."""
        return (1,) if self.moving else (1, 2)

    def row(self, key: int, value: int) -> Row:
        region = value if self.moving else key
        return Row(key, region % REGIONS, key % 2, value)

    def net(self, batch: Batch) -> Mapping[int, int | None]:
        """The last change of every key within a batch; `None` is a delete."""
        net: dict[int, int | None] = {}
        for time in range(batch.lower, batch.upper):
            net |= self._changes[time]
        return net

    def state(self, frontier: int) -> Mapping[int, int]:
        """The collection as of a frontier."""
        while len(self._states) <= frontier:
            state = dict(self._states[-1])
            for key, value in self._changes[len(self._states) - 1].items():
                if value is None:
                    state.pop(key, None)
                else:
                    state[key] = value
            self._states.append(state)
        return self._states[frontier]


def _draw(random: Random, time: int) -> dict[int, int | None]:
    keys = random.sample(range(KEYS), random.randint(0, _CHANGES_MAX))
    return {key: None if random.random() < _DELETES else time * KEYS + key for key in keys}
