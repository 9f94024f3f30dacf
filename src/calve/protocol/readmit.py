"""Readmit: which rows of a quarantine a replay takes up, and which of them go into the target. Pure.

    time of the quarantine   ──────────────┬──────────────────────┬──────▶
                                           after                  until
                             replayed before │ taken up by replay n │ of the next one
                                             + what replay n-1 put back

A replay writes to two tables: first it puts back into the quarantine what still does not fit (sink
`.again`), then the target gets the rest (sink `.replay`). The target's progress says which replay was the
last and how far it went; what the quarantine says beyond that is a replay that was interrupted between the
two, and is gone on with under the same number and bounds. Rows have ids: what it put back is not put back
again.

**Which rows go in.** In an upsert table a replayed change is older than what the stream has done since. So
the stream must be past its time, or an older change that is still on its way would land on top of it; and it
goes in only where the table's row is older than it. A key that is not in the table may never have been there,
or may have been deleted since: the table cannot tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from calve.model.errors import Diverged
from calve.model.progress import Progress

UNTIL, QUARANTINE, TARGET, REPLAY = "until", "quarantine", "target", "replay"

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """The two tables of a replay, by their uuids, and how far the stream is in the quarantine."""

    target: str
    quarantine: str
    frontier: int


@dataclass(frozen=True, slots=True)
class Round:
    """One replay: its number and the rows that it takes up."""

    number: int
    after: int
    until: int
    resumed: bool
    """It was interrupted after it had put rows back."""

    def takes(self, batch: int, replay: int | None) -> bool:
        """Whether a row is taken up; `replay` is the one that put it back."""
        return self.after < batch <= self.until if replay is None else replay == self.number - 1

    def target_positions(self, tables: Tables) -> dict[str, Any]:
        return {UNTIL: self.until, QUARANTINE: tables.quarantine}

    def again_positions(self, tables: Tables) -> dict[str, Any]:
        return {UNTIL: self.until, TARGET: tables.target, REPLAY: self.number}


def draw(target: Progress | None, again: Progress | None, tables: Tables) -> Round:
    """The replay that is due; `target` and `again` are what replays said in the two tables."""
    done, after = 0, 0
    if target is not None:
        done = target.frontier
        if target.positions.get(QUARANTINE) == tables.quarantine:
            after = int(target.positions[UNTIL])
    if after > tables.frontier:
        raise Diverged(
            f"the quarantine was replayed up to {after}, but what the stream wrote ends at {tables.frontier}",
            hint="The quarantine was put back to an older snapshot. Put it forward again: rows that come "
            "under the same numbers cannot be told from those that were replayed.",
        )
    if again is not None and again.positions.get(TARGET) == tables.target:
        begun = int(again.positions[REPLAY])
        if begun > done + 1:
            raise Diverged(
                f"the quarantine has seen replay {begun}, but the table ends with replay {done}",
                hint="The table was put back to an older snapshot. Put it forward again, or copy the rows "
                "that are missing out of the quarantine by hand.",
            )
        if begun == done + 1:
            return Round(begun, after, int(again.positions[UNTIL]), resumed=True)
    return Round(done + 1, after, tables.frontier, resumed=False)


class Fate(Enum):
    """What becomes of a row that fits."""

    APPLY = "apply"  # it goes in
    SUPERSEDED = "superseded"  # the table, or another row of the replay, has a newer change of the key
    ABSENT = "absent"  # its key is not in the table, and nobody can tell why: it stays in the quarantine
    AHEAD = "ahead"  # the stream is not past its time: it stays
    TIED = "tied"  # another row of the replay says something else at the same place of the order: both stay


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row that fits. Values are compared as they are."""

    id: str
    key: Key
    sequence: tuple[Any, ...]
    content: str
    """All that it says: two candidates with the same are one change."""
    delete: bool = False
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """How fates are decided."""

    stream: int | None = None
    """How far the stream is in the target; `None` where order does not matter."""
    newest: bool = False
    """Rows go in as new changes, whatever the table has."""
    insert_absent: bool = False


def fates(
    candidates: Iterable[Candidate], present: Mapping[Key, tuple[Any, ...] | None], rules: Rules
) -> dict[str, Fate]:
    """The fate of each candidate, by its id. `present` are the keys that are in the table, with the place of
    their rows in the order; `None` where a row does not say."""
    found: dict[str, Fate] = {}
    by_key: dict[Key, list[Candidate]] = defaultdict(list)
    for one in candidates:
        if rules.stream is not None and (one.time is None or one.time >= rules.stream):
            found[one.id] = Fate.AHEAD
        else:
            by_key[one.key].append(one)
    for key, several in by_key.items():
        last = _without_ties(several, found)
        if last is None:
            continue
        fate = _fate(last, key in present, present.get(key), rules)
        rest = Fate.ABSENT if fate is Fate.ABSENT else Fate.SUPERSEDED
        found |= {one.id: rest for one in several if one.id not in found}
        found[last.id] = fate
    return found


def _without_ties(several: list[Candidate], found: dict[str, Fate]) -> Candidate | None:
    """The last change of a key. Those that nothing decides between are left where they are, and the one
    before them is the last."""
    left = list(several)
    while left:
        top = max(one.sequence for one in left)
        last = [one for one in left if one.sequence == top]
        if len({one.content for one in last}) == 1:
            return last[0]
        found |= {one.id: Fate.TIED for one in last}
        left = [one for one in left if one.sequence != top]
    return None


def _fate(last: Candidate, there: bool, place: tuple[Any, ...] | None, rules: Rules) -> Fate:
    if rules.newest:
        return Fate.APPLY
    if there:
        return Fate.SUPERSEDED if place is not None and place >= last.sequence else Fate.APPLY
    if last.delete:
        return Fate.SUPERSEDED  # it is gone
    return Fate.APPLY if rules.insert_absent else Fate.ABSENT
