"""Progress: what a summary says reads back, and what cannot be read stops the sink (P6)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calve.model.errors import BadName, BadTime, Diverged
from calve.model.progress import Progress, check_sink_id, claimed_property, default_sink_id, tag_name
from calve.model.time import TIME_MAX

TIMES = st.integers(0, TIME_MAX)
SINK_IDS = st.from_regex(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,20}[A-Za-z0-9_])?", fullmatch=True)
PROGRESS = st.builds(
    Progress,
    sink_id=SINK_IDS,
    frontier=TIMES,
    lower=TIMES,
    generation=st.integers(1, 2**40),
    writer=st.uuids(),
    source=st.sampled_from(["epoch", "hlc"]),
    batch_id=st.none() | st.uuids(),
    committed=st.none() | st.integers(1, 2**63 - 1),
    positions=st.dictionaries(st.text(), st.integers() | st.text(), max_size=3),
)


@given(PROGRESS)
def test_progress_reads_back_from_the_summary_that_it_wrote(progress: Progress) -> None:
    assert Progress.from_summary(progress.to_summary()) == progress


@given(PROGRESS, st.dictionaries(st.text(), st.text()))
def test_other_keys_of_a_summary_do_not_matter(progress: Progress, others: dict[str, str]) -> None:
    assume(not any(key.startswith("calve.") for key in others))
    assert Progress.from_summary(others | progress.to_summary()) == progress


@given(PROGRESS)
def test_a_summary_is_text_under_our_own_prefix(progress: Progress) -> None:
    assert all(
        key.startswith("calve.") and isinstance(value, str) for key, value in progress.to_summary().items()
    )


def some_progress(**changes: Any) -> Progress:
    fields: dict[str, Any] = {
        "sink_id": "s",
        "frontier": 2,
        "lower": 1,
        "generation": 1,
        "writer": uuid.UUID(int=1),
        "source": "epoch",
    }
    return Progress(**fields | changes)


@pytest.mark.parametrize("key", ["sink-id", "frontier", "lower", "generation", "writer", "source"])
def test_a_summary_that_lacks_a_key_stops_the_sink(key: str) -> None:
    summary = some_progress().to_summary()
    del summary[f"calve.{key}"]
    with pytest.raises(Diverged, match="cannot be read"):
        Progress.from_summary(summary)


@pytest.mark.parametrize(
    "key, value",
    [
        ("frontier", "x"),
        ("generation", ""),
        ("writer", "me"),
        ("committed", "1.5"),
        ("batch-id", "1"),
        ("positions", "{"),
    ],
)
def test_a_summary_with_a_value_that_is_none_stops_the_sink(key: str, value: str) -> None:
    with pytest.raises(Diverged, match="cannot be read"):
        Progress.from_summary(some_progress().to_summary() | {f"calve.{key}": value})


def test_progress_with_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(BadTime):
        some_progress(frontier=-1)
    with pytest.raises(BadTime):
        some_progress(lower=TIME_MAX + 1)


@pytest.mark.parametrize(
    "sink_id",
    ["", ".", "..", "a..b", ".a", "-a", "a.", "a/b", "a b", "a\n", "../../evil", "*", "ä", "a" * 129],
)
def test_case_56_a_sink_id_that_could_leave_its_place_is_refused(sink_id: str) -> None:
    with pytest.raises(BadName, match="cannot be a sink's id"):
        check_sink_id(sink_id)


@given(st.lists(st.text() | st.text("-._ aé/"), min_size=1, max_size=3), st.text() | st.text("-._ aé/"))
def test_every_table_has_a_default_id_that_is_one(namespace: list[str], table: str) -> None:
    assert check_sink_id(default_sink_id(tuple(namespace), table))


@given(st.lists(st.lists(st.text("a.é/", min_size=1), min_size=2, max_size=3), min_size=2, max_size=2))
def test_tables_with_different_names_have_different_default_ids(names: list[list[str]]) -> None:
    one, other = (".".join(name) for name in names)
    same = default_sink_id(tuple(names[0][:-1]), names[0][-1]) == default_sink_id(
        tuple(names[1][:-1]), names[1][-1]
    )
    assert same == (one == other)


def test_the_default_id_of_a_plain_name_is_the_name() -> None:
    assert default_sink_id(("sales",), "orders") == "sales.orders"


def test_the_tag_and_the_mark_name_their_sink() -> None:
    assert tag_name("sales.orders") == "calve-sales.orders"
    assert "sales.orders" in claimed_property("sales.orders")
