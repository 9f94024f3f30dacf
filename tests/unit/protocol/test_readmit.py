"""Which rows a replay takes up, and what becomes of them: decided without a table."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.errors import Diverged
from calve.model.progress import Progress
from calve.protocol.readmit import Candidate, Fate, Round, Rules, Tables, draw, fates

TABLES = Tables("t", "q", 9)


def progress(frontier: int, **positions: Any) -> Progress:
    return Progress("s", frontier, 0, 1, uuid.uuid4(), "replay", positions=positions)


def change(name: str, key: Any, at: Any, content: str | None = None, **more: Any) -> Candidate:
    return Candidate(name, (key,), (at,), content or name, **more)


def told(*candidates: Candidate, present: dict[Any, Any] | None = None, **rules: Any) -> dict[str, str]:
    there = {(key,): None if at is None else (at,) for key, at in (present or {}).items()}
    return {name: fate.value for name, fate in fates(candidates, there, Rules(**rules)).items()}


# -- rounds ---------------------------------------------------------------------------------------


def test_the_first_replay_takes_up_all_that_is_there():
    due = draw(None, None, TABLES)
    assert due == Round(1, 0, 9, resumed=False)
    assert [due.takes(batch, None) for batch in (1, 9, 10)] == [True, True, False]
    assert not due.takes(1, 1)


def test_the_next_takes_up_what_came_since_and_what_the_last_one_put_back():
    due = draw(progress(3, until=5, quarantine="q"), progress(7, until=5, target="t", replay=3), TABLES)
    assert due == Round(4, 5, 9, resumed=False)
    assert [due.takes(batch, None) for batch in (5, 6, 9, 10)] == [False, True, True, False]
    assert [due.takes(2, replay) for replay in (2, 3, 4)] == [False, True, False]


def test_one_that_was_interrupted_goes_on_under_its_number_and_bounds():
    due = draw(progress(3, until=5, quarantine="q"), progress(9, until=7, target="t", replay=4), TABLES)
    assert due == Round(4, 5, 7, resumed=True)


def test_p6_a_quarantine_that_was_put_back_is_refused():
    with pytest.raises(Diverged, match="replayed up to 10, but what the stream wrote ends at 9"):
        draw(progress(3, until=10, quarantine="q"), None, TABLES)


def test_p6_a_table_that_was_put_back_by_more_than_one_replay_is_refused():
    with pytest.raises(Diverged, match="has seen replay 5, but the table ends with replay 3"):
        draw(progress(3, until=5, quarantine="q"), progress(9, until=7, target="t", replay=5), TABLES)


def test_a_new_quarantine_begins_at_its_own_beginning():
    """One that was dropped and made again: its numbers are others."""
    due = draw(progress(3, until=50, quarantine="the old one"), None, TABLES)
    assert due == Round(4, 0, 9, resumed=False)


def test_what_was_put_back_for_a_table_that_is_gone_is_no_replay_of_this_one():
    assert draw(None, progress(9, until=7, target="the old one", replay=1), TABLES).resumed is False


# -- fates ----------------------------------------------------------------------------------------


def test_a_change_goes_in_where_the_table_s_row_is_older():
    rows = [change("older", 1, 4), change("same", 2, 5), change("newer", 3, 6)]
    present = {1: 5, 2: 5, 3: 5}
    assert told(*rows, present=present) == {"older": "superseded", "same": "superseded", "newer": "apply"}


def test_a_row_that_does_not_say_how_old_it_is_is_older():
    assert told(change("a", 1, 4), present={1: None}) == {"a": "apply"}


def test_a_key_that_is_not_there_is_held_back_unless_told_otherwise():
    assert told(change("a", 1, 4)) == {"a": "absent"}
    assert told(change("a", 1, 4), insert_absent=True) == {"a": "apply"}


def test_a_delete_of_a_key_that_is_not_there_has_nothing_to_do():
    assert told(change("a", 1, 4, delete=True)) == {"a": "superseded"}


def test_of_several_changes_of_a_key_the_last_decides_for_all():
    rows = [change("first", 1, 6), change("last", 1, 8), change("again", 1, 8, "last")]
    done = {"first": "superseded", "last": "apply", "again": "superseded"}
    assert told(*rows, present={1: 5}) == done
    assert set(told(*rows).values()) == {"absent"}


def test_changes_that_nothing_decides_between_stay_and_the_one_before_them_is_the_last():
    rows = [change("a", 1, 8), change("b", 1, 8), change("c", 1, 7), change("d", 1, 6)]
    assert told(*rows, present={1: 5}) == {"a": "tied", "b": "tied", "c": "apply", "d": "superseded"}


def test_p1_a_change_that_the_stream_is_not_past_stays():
    """Else an older change of its key, still on its way, would land on top of it."""
    rows = [change("past", 1, 8, time=8), change("ahead", 1, 9, time=9), change("when", 1, 7)]
    assert told(*rows, present={1: 5}, stream=9) == {"past": "apply", "ahead": "ahead", "when": "ahead"}


def test_new_changes_go_in_whatever_is_there():
    rows = [change("a", 1, 4), change("b", 1, 5), change("c", 2, 1)]
    assert told(*rows, present={1: 9}, newest=True) == {"a": "superseded", "b": "apply", "c": "apply"}


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from("xy"), st.booleans()), max_size=12
    ),
    present=st.dictionaries(st.integers(0, 3), st.integers(0, 5)),
    insert=st.booleans(),
)
def test_p3_every_row_has_one_fate_and_a_key_goes_in_once(rows, present, insert):
    several = [
        change(str(number), key, at, "delete" if delete else content, delete=delete)
        for number, (key, at, content, delete) in enumerate(rows)
    ]
    found = told(*several, present=present, insert_absent=insert)
    assert set(found) == {one.id for one in several}
    applied = [one for one in several if found[one.id] == Fate.APPLY.value]
    assert len({one.key for one in applied}) == len(applied)
    for one in applied:
        assert present.get(one.key[0], -1) < one.sequence[0]
