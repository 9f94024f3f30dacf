"""When all of a transaction has arrived: by hand, and by chance with partitions that lag and come again."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.envelope.debezium import transactions
from calve.envelope.debezium.transactions import Arrived, Ended, Seen, State, advance
from calve.model.errors import BadMessage, Diverged


def _arrived(transaction: str, events: int, *, time: int, last: int | None = None, **at: str) -> Arrived:
    table, partition = at.get("table", "s.a"), at.get("partition", "a/0")
    return Arrived(transaction, table, partition, events, last or events, time)


def test_a_transaction_is_through_when_all_of_its_events_and_its_end_are_there() -> None:
    state = advance(State(), Seen([_arrived("7", 2, time=0)]))
    assert (state.mark, list(state.open)) == (0, ["7"])

    state = advance(state, Seen(ended=[Ended("7", 100, 0, {"s.a": 2})], reached=100))
    assert (state.mark, state.open) == (100, {})


def test_an_end_without_its_events_holds_the_mark_at_the_end_before() -> None:
    ends = [Ended("7", 100, 0, {"s.a": 1}), Ended("8", 200, 100, {"s.a": 2}), Ended("9", 300, 200, {})]
    state = advance(State(), Seen([_arrived("7", 1, time=0), _arrived("8", 1, time=100)], ends, 300))
    assert (state.mark, list(state.open)) == (100, ["8"])

    state = advance(state, Seen([_arrived("8", 1, time=100, last=2)]))
    assert (state.mark, state.open) == (300, {})


def test_events_of_a_complete_transaction_that_come_again_open_nothing() -> None:
    state = advance(State(), Seen([_arrived("7", 1, time=50)], [Ended("7", 100, 0, {"s.a": 1})], 100))
    again = advance(state, Seen([_arrived("7", 1, time=50)]))
    assert again == state


def test_a_transaction_behind_one_that_waits_is_not_opened_again_by_copies() -> None:
    ends = [Ended("7", 100, 0, {"s.a": 1}), Ended("8", 200, 100, {"s.a": 1})]
    waiting = advance(State(), Seen([_arrived("8", 1, time=100)], ends, 200))
    assert list(advance(waiting, Seen([_arrived("8", 1, time=100)])).open) == ["7"]


def test_the_last_row_of_a_snapshot_marks_its_lsn() -> None:
    assert advance(State(), Seen(copied=40)).mark == 40
    assert advance(State(mark=100, reached=100), Seen(copied=40)).mark == 100
    ends = [Ended("7", 100, 0, {"s.a": 1})]
    assert advance(State(), Seen([], ends, 100, copied=40)).mark == 0


def test_a_source_that_goes_back_is_refused() -> None:
    with pytest.raises(Diverged, match="goes back: 5:90"):
        advance(State(mark=100, reached=100), Seen(went_back="5:90"))


def test_too_many_open_transactions_are_refused_with_what_the_first_misses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactions, "OPEN_MAX", 1)
    ends = [Ended("7", 100, 0, {"s.a": 3}), Ended("8", 200, 100, {"s.a": 1})]
    with pytest.raises(Diverged, match=r"the first, 7, misses 2 of 3 events of s\.a"):
        advance(State(), Seen([_arrived("7", 1, time=0)], ends, 200))


def test_a_transaction_topic_of_several_partitions_is_refused() -> None:
    transactions.check_one_partition("t", {"t/0"})
    with pytest.raises(Diverged, match="2 partitions"):
        transactions.check_one_partition("t", {"t/0", "t/1"})


@pytest.mark.parametrize("text", ["{}", '{"mark": 1, "reached": 1, "told_at": 1, "open": {"7": {}}}', "[]"])
def test_a_state_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadMessage):
        State.from_json(json.loads(text) or {"open": []})


# ---------------------------------------------------------------- by chance


@dataclass(frozen=True)
class Event:
    transaction: int
    table: str
    partition: str
    number: int
    time: int


@dataclass(frozen=True)
class Source:
    """What a connector sends: events a partition, and ENDs, each in its order."""

    partitions: dict[str, list[Event]]
    ends: list[Ended]


def _source(chance: random.Random) -> Source:
    """Transactions with events of two tables in three partitions; the connector restarts and sends some of
    them again, now and then."""
    partitions: dict[str, list[Event]] = {"a/0": [], "a/1": [], "b/0": []}
    ends: list[Ended] = []
    sent: list[tuple[str, Event] | Ended] = []
    lsn, last = 10, 0
    for transaction in range(chance.randrange(1, 12)):
        counts: dict[str, int] = {}
        for number in range(1, chance.randrange(0, 6) + 1):
            partition = chance.choice(list(partitions))
            table = f"s.{partition[0]}"
            counts[table] = counts.get(table, 0) + 1
            time = last or lsn
            lsn += chance.randrange(1, 5)
            sent.append((partition, Event(transaction, table, partition, number, time)))
        lsn += 10
        sent.append(Ended(str(transaction), lsn, last, counts))
        last = lsn
        if chance.random() < 0.3:
            # From some point on, again, as it was.
            sent += sent[chance.randrange(len(sent)) :]
    for one in sent:
        if isinstance(one, Ended):
            ends.append(one)
        else:
            partitions[one[0]].append(one[1])
    return Source(partitions, ends)


def _seen(events: list[Event], ends: list[Ended], state: State) -> Seen:
    """What `observe.py` makes of a micro-batch, in plain Python."""
    last = state.last_of()
    counted: dict[tuple[str, str, str], set[int]] = {}
    times: dict[tuple[str, str, str], int] = {}
    for one in events:
        if one.number > last.get((str(one.transaction), one.partition), 0):
            name = (str(one.transaction), one.table, one.partition)
            counted.setdefault(name, set()).add(one.number)
            times[name] = min(one.time, times.get(name, one.time))
    new = {end.at: end for end in ends if end.at > state.reached}
    ordered = [new[at] for at in sorted(new)]
    starts = [state.reached, *(end.at for end in ordered)]
    return Seen(
        [Arrived(*name, len(numbers), max(numbers), times[name]) for name, numbers in counted.items()],
        [
            Ended(end.transaction, end.at, start, end.events)
            for end, start in zip(ordered, starts, strict=False)
        ],
        starts[-1],
    )


@given(st.integers(0, 2**32))
def test_no_event_before_the_mark_is_still_to_come_and_the_end_is_reached(seed: int) -> None:
    chance = random.Random(seed)
    source = _source(chance)
    left = {name: list(events) for name, events in source.partitions.items()}
    ends = list(source.ends)
    missing = {event for events in left.values() for event in events}
    state = State()
    while ends or any(left.values()):
        taken: list[Event] = []
        for events in left.values():
            count = chance.choice([0, 0, 1, len(events)])
            taken += events[:count]
            del events[:count]
        count = chance.choice([0, 1, len(ends)])
        told, ends = ends[:count], ends[count:]
        state = advance(state, _seen(taken, told, state))
        missing -= set(taken)
        assert all(event.time >= state.mark for event in missing), state
        assert state == State.from_json(json.loads(json.dumps(state.to_json())))
    assert (state.mark, state.open) == (max(end.at for end in source.ends), {})
