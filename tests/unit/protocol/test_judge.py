"""Judge: the table of verdicts, line by line, and that its order holds for everything that can be seen."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.progress import Progress
from calve.protocol.judge import Intent, Look, Verdict, judge

TABLE, OTHER_TABLE = UUID(int=1), UUID(int=2)
OURS, ANOTHER = 100, 200

PROGRESS = Progress(
    sink_id="s", frontier=5, lower=4, generation=1, writer=UUID(int=7), source="epoch", committed=50
)
INTENT = Intent(table_uuid=TABLE, snapshot_ids=(OURS,), lower=5, held=50, sequence_seen=3)
LOOK = Look(table_uuid=TABLE, last_sequence=3, ours=frozenset(), held=50, progress=PROGRESS, descends=True)


def test_a_table_as_it_was_left_lets_the_batch_in() -> None:
    assert judge(INTENT, LOOK) is Verdict.COMMIT


@pytest.mark.parametrize(
    "shown, verdict",
    [
        ({"table_uuid": OTHER_TABLE}, Verdict.REPLACED),
        ({"last_sequence": 2}, Verdict.STALE),
        ({"ours": frozenset({OURS})}, Verdict.LANDED),
        ({"progress": replace(PROGRESS, committed=OURS)}, Verdict.LANDED),
        ({"held": ANOTHER}, Verdict.FENCED),
        ({"held": None, "progress": None}, Verdict.DIVERGED),
        ({"descends": False}, Verdict.ROLLED_BACK),
        ({"descends": None}, Verdict.ROLLED_BACK),
        ({"progress": replace(PROGRESS, frontier=4)}, Verdict.GAP),
        ({"progress": replace(PROGRESS, frontier=6)}, Verdict.DIVERGED),
    ],
)
def test_one_thing_that_is_otherwise_decides(shown: dict[str, object], verdict: Verdict) -> None:
    assert judge(INTENT, replace(LOOK, **shown)) is verdict  # type: ignore[arg-type]


def test_the_first_batch_of_a_new_sink_begins_at_zero() -> None:
    new = replace(INTENT, lower=0, held=None)
    assert judge(new, replace(LOOK, held=None, progress=None)) is Verdict.COMMIT
    assert judge(replace(new, lower=1), replace(LOOK, held=None, progress=None)) is Verdict.GAP


LOOKS = st.builds(
    Look,
    table_uuid=st.sampled_from([TABLE, OTHER_TABLE]),
    last_sequence=st.integers(2, 4),
    ours=st.sampled_from([frozenset(), frozenset({OURS})]),
    held=st.sampled_from([None, 50, OURS, ANOTHER]),
    progress=st.none()
    | st.builds(
        lambda frontier, committed: replace(PROGRESS, frontier=frontier, committed=committed),
        st.integers(4, 6),
        st.sampled_from([None, 50, OURS, ANOTHER]),
    ),
    descends=st.sampled_from([True, False, None]),
)


@given(LOOKS)
def test_p3_a_table_that_has_our_snapshot_never_lets_it_in_again(look: Look) -> None:
    if look.ours:
        assert judge(INTENT, look) in (Verdict.LANDED, Verdict.REPLACED, Verdict.STALE)


@given(LOOKS)
def test_p4_a_table_whose_tag_is_not_ours_never_lets_a_batch_in(look: Look) -> None:
    if look.held != INTENT.held:
        assert judge(INTENT, look) is not Verdict.COMMIT


@given(LOOKS)
def test_p6_a_batch_goes_in_only_on_a_main_that_descends_and_at_the_frontier(look: Look) -> None:
    if judge(INTENT, look) is Verdict.COMMIT:
        assert look.descends is True
        assert look.progress is not None
        assert look.progress.frontier == INTENT.lower


@given(LOOKS)
def test_case_25_nothing_is_concluded_from_a_look_older_than_what_was_seen(look: Look) -> None:
    if look.last_sequence < INTENT.sequence_seen and look.table_uuid == TABLE:
        assert judge(INTENT, look) is Verdict.STALE


@given(LOOKS)
def test_the_same_look_gives_the_same_verdict(look: Look) -> None:
    assert judge(INTENT, look) is judge(INTENT, replace(look))
