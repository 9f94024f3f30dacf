"""Replay: a micro-batch is skipped only where the table proves that the very same one is in it (P3, P6)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.errors import Diverged
from calve.model.progress import Progress
from calve.protocol.replay import base_of, check_checkpoint, is_replay, positions

OURS, OTHER = "0a36ffbc-0000-4000-8000-000000000001", "0a36ffbc-0000-4000-8000-000000000002"


def progress(frontier: int = 0, **where: object) -> Progress:
    return Progress(
        sink_id="s", frontier=frontier, lower=0, generation=1, writer=UUID(int=1), source="micro-batch",
        positions=where,
    )  # fmt: skip


def written(number: int, offsets: str, base: int = 0, checkpoint: str = OURS) -> Progress:
    """The table after a micro-batch."""
    return progress(base + number + 1, **positions(checkpoint, number, offsets, base))


@given(
    base=st.integers(0, 1000),
    micro_batches=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12),
)
def test_p3_whatever_is_sent_twice_every_micro_batch_with_rows_is_written_once(base, micro_batches) -> None:
    """Cases 5 and 13: each may be empty, which leaves no trace in the table, and each may come again."""
    table, taken = progress(base), []
    for number, (has_rows, comes_again) in enumerate(micro_batches):
        for _ in range(2 if comes_again else 1):
            if is_replay(table, OURS, number, f"digest {number}"):
                continue
            first = base_of(table, OURS)
            assert first == base
            if has_rows:
                taken.append(number)
                table = written(number, f"digest {number}", first)
    assert taken == [number for number, (has_rows, _) in enumerate(micro_batches) if has_rows]


@given(st.integers(0, 20), st.integers(0, 20), st.sampled_from(["same", "other"]))
def test_case_69_nothing_below_the_frontier_is_skipped_but_the_last_one_with_the_same_rows(
    last: int, number: int, offsets: str
) -> None:
    table = written(last, "same")
    if number > last:
        assert not is_replay(table, OURS, number, offsets)
    elif number == last and offsets == "same":
        assert is_replay(table, OURS, number, offsets)
    else:
        with pytest.raises(Diverged, match=f"micro-batch {number} comes again with other rows"):
            is_replay(table, OURS, number, offsets)


def test_case_5_the_last_micro_batch_that_comes_again_is_skipped() -> None:
    assert is_replay(written(7, "abc"), OURS, 7, "abc")


def test_case_13_an_older_one_is_not_skipped_on_the_word_of_its_number() -> None:
    with pytest.raises(Diverged, match="micro-batch 5") as refused:
        is_replay(written(7, "abc"), OURS, 5, "abc")
    assert "Start with the newest one" in refused.value.hint


def test_numbers_of_a_new_checkpoint_begin_at_the_table_s_frontier() -> None:
    table = written(7, "abc", checkpoint=OTHER)
    assert base_of(table, OURS) == 8
    assert not is_replay(table, OURS, 0, "abc")


def test_the_base_stays_as_the_frontier_moves() -> None:
    assert base_of(written(3, "abc", base=8), OURS) == 8


def test_an_unwritten_sink_takes_any_checkpoint() -> None:
    check_checkpoint(progress(), OURS, None)


def test_the_checkpoint_that_wrote_the_table_goes_on_whatever_it_replaced_before() -> None:
    check_checkpoint(written(3, "abc"), OURS, None)
    check_checkpoint(written(3, "abc"), OURS, OTHER)


def test_case_12_another_checkpoint_is_refused_and_told_what_to_say() -> None:
    with pytest.raises(Diverged, match=f"from checkpoint {OTHER}, and this query has {OURS}") as refused:
        check_checkpoint(written(3, "abc", checkpoint=OTHER), OURS, None)
    assert f".replaces_checkpoint({OTHER!r})" in refused.value.hint
    assert "frontier 4" in refused.value.hint


def test_case_12_one_that_replaces_the_last_goes_on() -> None:
    check_checkpoint(written(3, "abc", checkpoint=OTHER), OURS, OTHER)


def test_case_12_one_that_replaces_an_earlier_one_is_refused() -> None:
    table = replace(written(3, "abc", checkpoint=OTHER))
    with pytest.raises(Diverged, match="but sink s was last written from"):
        check_checkpoint(table, OURS, "0a36ffbc-0000-4000-8000-000000000009")
