"""Transactions: how far a source is, so that a snapshot never shows half a transaction.

    events ──▶ arrived: so many of a transaction, by table and partition ─┐
    END ─────▶ ended: at this LSN, with so many events of each table ─────┼─▶ advance ─▶ State, its `mark`
    the state of the micro-batch before ──────────────────────────────────┘

An event's time is the LSN of the last commit before its transaction (`envelope.py`), so it is below the LSN
at which its own transaction ended. The transaction topic has one partition and tells ENDs in the order of
commits. `mark` is the greatest END such that all transactions up to it are complete: no event before it is to
come.

Complete means: as many events as END says, of each table that is read. An event that a restarted connector
sends again is not counted twice: a partition delivers the events of a transaction in their order, so one that
is not beyond the last counted one of its partition was counted.

What is not here: events of transactions that ended before `reached` and wait for nothing are copies, and are
left out. The state holds what is open and nothing else, and refuses to grow beyond OPEN_MAX.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from calve.model.errors import BadMessage, Diverged

OPEN_MAX = 10_000
"""Transactions that wait for events or for their END."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """Events of one transaction in one partition of a table's topic, beyond those counted before."""

    transaction: str
    table: str
    partition: str
    events: int
    last: int
    """The greatest order in the transaction."""
    time: int
    """The time of the events."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The END of a transaction."""

    transaction: str
    at: int
    """The LSN behind its commit."""
    before: int
    """The END before it; 0 where there is none."""
    events: Mapping[str, int]
    """How many there are of each table that is read."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a micro-batch shows: what is open, and of the rest no more than how far it goes."""

    arrived: Sequence[Arrived] = ()
    ended: Sequence[Ended] = ()
    reached: int = 0
    """The greatest END."""
    told_at: int = 0
    """The greatest time of day of an END, by the clock of the source."""
    went_back: str | None = None
    """An END that is below those before and younger: of another server."""
    copied: int = 0
    """The LSN of a snapshot whose last row came."""


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction of which something is still to come."""

    counted: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    """By table and partition: how many events, and the last one's order."""
    end: Ended | None = None

    @property
    def complete(self) -> bool:
        if self.end is None:
            return False
        return all(self._events(table) >= events for table, events in self.end.events.items())

    def _events(self, table: str) -> int:
        return sum(events for events, _ in self.counted.get(table, {}).values())

    def missing(self) -> str:
        if self.end is None:
            return "its END"
        parts = [
            f"{events - self._events(table)} of {events} events of {table}"
            for table, events in self.end.events.items()
            if self._events(table) < events
        ]
        return ", ".join(parts)

    def with_events(self, one: Arrived) -> Open:
        counted = {table: dict(parts) for table, parts in self.counted.items()}
        events, last = counted.setdefault(one.table, {}).get(one.partition, (0, 0))
        counted[one.table][one.partition] = (events + one.events, max(last, one.last))
        return replace(self, counted=counted)


@dataclass(frozen=True, slots=True)
class State:
    """How far a source is, and what is open."""

    mark: int = 0
    """No event before it is to come."""
    reached: int = 0
    """All ENDs up to it are known."""
    told_at: int = 0
    open: Mapping[str, Open] = field(default_factory=dict)

    def last_of(self) -> dict[tuple[str, str], int]:
        """The last counted event of each open transaction and partition."""
        return {
            (name, partition): last
            for name, one in self.open.items()
            for parts in one.counted.values()
            for partition, (_, last) in parts.items()
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "mark": self.mark,
            "reached": self.reached,
            "told_at": self.told_at,
            "open": {name: _to_json(one) for name, one in self.open.items()},
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> State:
        try:
            waiting = {name: _from_json(name, one) for name, one in said["open"].items()}
            return cls(said["mark"], said["reached"], said["told_at"], waiting)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadMessage(
                f"the state of transactions cannot be read: {error!r}",
                hint="A newer release wrote it, or it was changed. Use that release, or restore it.",
            ) from error


def advance(state: State, seen: Seen) -> State:
    """The state after a micro-batch. The same micro-batch after the same state gives the same."""
    if seen.went_back is not None:
        raise Diverged(
            f"the source goes back: {seen.went_back} is below {state.reached}, where it was, and younger",
            hint="The connector reads another server, or one that was restored: times no longer continue. "
            "Write to new tables from a new snapshot.",
        )
    waiting = dict(state.open)
    for end in seen.ended:
        waiting[end.transaction] = replace(waiting.get(end.transaction, Open()), end=end)
    reached = max(state.reached, seen.reached)
    for one in seen.arrived:
        # All ENDs up to `reached` are known: what began before it and is not waited for was complete.
        if one.transaction in waiting or one.time >= reached:
            waiting[one.transaction] = waiting.get(one.transaction, Open()).with_events(one)
    waiting = {name: one for name, one in waiting.items() if not one.complete}
    ends = [one.end for one in waiting.values() if one.end is not None]
    first = min(ends, key=lambda end: end.at) if ends else None
    mark = reached if first is None else first.before
    if first is None:
        mark = max(mark, seen.copied)
    return _bounded(State(max(mark, state.mark), reached, max(state.told_at, seen.told_at), waiting))


def _bounded(state: State) -> State:
    if len(state.open) > OPEN_MAX:
        name, one = next(iter(state.open.items()))
        raise Diverged(
            f"{len(state.open)} transactions wait for events; the first, {name}, misses {one.missing()}",
            hint="Events are lost on their way: a transform that filters them, a topic that is not read or "
            "whose records expired, a transaction topic of another connector.",
        )
    return state


def check_one_partition(topic: str, partitions: Collection[str]) -> None:
    """ENDs are in the order of commits in one partition alone."""
    if len(partitions) > 1:
        raise Diverged(
            f"the transaction topic {topic!r} has {len(partitions)} partitions: nothing says in which order "
            "transactions ended",
            hint="Make it with one partition.",
        )


def _to_json(one: Open) -> dict[str, Any]:
    end = one.end
    return {
        "counted": {table: dict(parts) for table, parts in one.counted.items()},
        "end": None if end is None else [end.at, end.before, dict(end.events)],
    }


def _from_json(name: str, said: Mapping[str, Any]) -> Open:
    counted = {
        table: {part: (int(events), int(last)) for part, (events, last) in parts.items()}
        for table, parts in said["counted"].items()
    }
    end = None
    if said["end"] is not None:
        at, before, events = said["end"]
        end = Ended(name, int(at), int(before), dict(events))
    return Open(counted, end)
