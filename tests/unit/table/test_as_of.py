"""Which snapshot shows a source at a time: against a search over everything, and on real tables."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve import BadTime, ConfigError
from calve.model.progress import Progress, tag_name
from calve.table.as_of import pick, resolve, shown
from calve.table.history import Counts, Kind, SnapshotEntry
from tests.support.sinks import Warehouse
from tests.support.timed import Timed, expire, insert, rewrite, set_ref
from tests.support.truth import rows_of

SINK, OTHER = "a", "b"
WRITER = uuid.UUID(int=1)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


# -- against a search over everything -------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """What happens to main: a commit of a sink, its claim, a foreign snapshot, or the sink is forgotten."""

    what: str
    sink: str = SINK
    by: int = 1


@dataclass(frozen=True)
class Moment:
    """A snapshot of main, and what is true of it: which line of the sink it shows, and how far."""

    entry: SnapshotEntry
    line: int
    frontier: int


STEPS = st.lists(
    st.one_of(
        st.builds(Step, st.just("commit"), st.sampled_from([SINK, SINK, OTHER]), st.integers(1, 4)),
        st.builds(Step, st.just("claim"), st.sampled_from([SINK, OTHER])),
        st.just(Step("foreign")),
        st.just(Step("forget")),
    ),
    max_size=25,
)


def play(steps: list[Step]) -> tuple[list[Moment], bool]:
    """The whole history of main, oldest first; and whether the sink has progress at its end."""
    progresses: dict[str, int | None] = {SINK: None, OTHER: None}
    lowers = {SINK: 0, OTHER: 0}
    line, seen, moments = 0, 0, []
    for number, step in enumerate(steps, start=1):
        if step.what == "forget":
            progresses[SINK] = None  # what its rows show stays
            continue
        kind, progress, sink_id = Kind.FOREIGN, None, None
        if step.what in ("commit", "claim"):
            sink_id, before = step.sink, progresses[step.sink]
            lower = before or 0
            upper = lower + (step.by if step.what == "commit" else 0)
            kind = Kind.COMMIT if step.what == "commit" else Kind.CLAIM
            progresses[sink_id] = upper
            if sink_id == SINK:
                line, seen = line + (before is None), upper
            # A claim says again what the last commit said.
            lowers[sink_id] = lower if upper > lower or not lower else lowers[sink_id]
            progress = Progress(sink_id, upper, lowers[sink_id], 1, WRITER, "epoch")
        entry = SnapshotEntry(
            snapshot_id=number,
            parent_id=number - 1,
            sequence_number=number,
            committed_at=datetime(2026, 1, 1, tzinfo=UTC),
            kind=kind,
            operation="append",
            counts=Counts(),
            on_main=True,
            sink_id=sink_id,
            progress=progress,
        )
        moments.append(Moment(entry, line, seen))
    return moments, progresses[SINK] is not None


@settings(max_examples=500)
@given(STEPS, st.floats(0, 1), st.integers(0, 40))
def test_the_resolution_of_a_time_is_what_a_search_over_all_snapshots_finds(
    steps: list[Step], expired: float, time: int
) -> None:
    """The search knows what was true when each snapshot was made, the resolution only what expiry left."""
    moments, has_progress = play(steps)
    left = moments[int(expired * len(moments)) :]
    is_told = any(one.entry.sink_id == SINK for one in left)
    tip = left[-1].frontier if left and has_progress and not is_told else None
    found, whole = shown([one.entry for one in reversed(left)], SINK, tip)

    line = left[-1].line if left and (is_told or has_progress) else 0
    wanted = [one for one in left if one.line == line > 0 and one.frontier]
    assert [(one.snapshot_id, one.frontier) for one in found] == [
        (one.entry.snapshot_id, one.frontier) for one in reversed(wanted)
    ]
    fits = [one.entry.snapshot_id for one in wanted if one.frontier <= time + 1]
    picked = pick(found, time)
    assert (None if picked is None else picked.snapshot_id) == max(fits, default=None)
    if whole and wanted:
        first = next(one for one in moments if one.line == line and one.frontier)
        assert wanted[0] == first, "nothing of the line is missing"


# -- on real tables -------------------------------------------------------------------------------


def test_each_time_is_shown_by_the_snapshot_whose_batch_ends_behind_it(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    (first,) = sink.put(10)
    second, third = sink.put(20, 35)  # a group commit: a snapshot each
    table = warehouse.load()
    expected = {9: first, 10: first, 18: first, 19: second, 20: second, 33: second, 34: third, 10**30: third}
    assert {time: resolve(table, time).snapshot_id for time in expected} == expected
    for before, after in pairwise([10, 20, 35]):
        assert rows_of(table, resolve(table, after - 2).snapshot_id) == [{"id": 1, "v": f"before {before}"}]
    assert resolve(table, 34).reached
    assert not resolve(table, 35).reached, "the table has not come so far"


def test_what_others_put_on_top_shows_the_same_time(warehouse: Warehouse) -> None:
    """And is taken, because it is what was compacted."""
    sink = Timed(warehouse)
    sink.put(10)
    compacted = rewrite(warehouse)
    (second,) = sink.put(20)
    foreign = insert(warehouse, 7)
    table = warehouse.load()
    assert resolve(table, 9).snapshot_id == compacted
    assert resolve(table, 18).snapshot_id == compacted
    assert resolve(table, 19).snapshot_id == foreign != second


def test_where_expiry_took_a_commit_what_lies_on_it_still_says_its_time(warehouse: Warehouse) -> None:
    """By the lower of the next commit."""
    sink = Timed(warehouse)
    first, second = (sink.put(upper)[0] for upper in (10, 20))
    compacted = rewrite(warehouse)
    sink.put(30)
    expire(warehouse, first, second)
    table = warehouse.load()
    found = resolve(table, 25)
    assert (found.snapshot_id, found.frontier) == (compacted, 20)
    with pytest.raises(BadTime, match=r"18 is before the oldest snapshot that expiry left") as refused:
        resolve(table, 18)
    assert "Times from 19 to 29 are there" in refused.value.hint


def test_where_expiry_took_all_commits_the_tag_says_how_far_main_is(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    sink.put(10)
    (last,) = sink.put(20)
    foreign = insert(warehouse, 7)
    table = warehouse.load()
    others = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id not in (last, foreign)]
    # A claim takes the tag off the commit, which nothing keeps from then on.
    Timed(warehouse)
    expire(warehouse, last, *others)
    found = resolve(warehouse.load(), 20)
    assert (found.snapshot_id, found.frontier) == (foreign, 20)


def test_a_commit_that_a_tag_keeps_is_found_behind_what_expiry_took(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    first, second, _ = (sink.put(upper)[0] for upper in (10, 20, 30))
    set_ref(warehouse, "year-end", first)
    expire(warehouse, second)
    assert resolve(warehouse.load(), 12).snapshot_id == first


def test_a_kept_commit_that_main_does_not_descend_from_is_not_taken(warehouse: Warehouse) -> None:
    """Main and the sink's tag were put back behind it, and the sink went on from there."""
    sink = Timed(warehouse)
    first, second = (sink.put(upper)[0] for upper in (10, 20))
    set_ref(warehouse, "old", second)
    set_ref(warehouse, "main", first, "branch")
    set_ref(warehouse, tag_name("ns.t"), first)
    again = Timed(warehouse)
    third, _ = (again.put(upper)[0] for upper in (25, 30))
    expire(warehouse, first, third)
    with pytest.raises(BadTime, match="21 is before the oldest snapshot that expiry left"):
        resolve(warehouse.load(), 21)


def test_a_commit_that_was_rolled_back_and_is_kept_by_a_tag_is_not_taken(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    first, second = (sink.put(upper)[0] for upper in (10, 20))
    set_ref(warehouse, "old", second)
    set_ref(warehouse, "main", first, "branch")
    table = warehouse.load()
    assert resolve(table, 19).snapshot_id == first
    with pytest.raises(BadTime, match=r"8 is before the first snapshot of sink ns.t in ns.t"):
        resolve(table, 8)


def test_a_time_before_the_first_snapshot_is_refused_with_the_range_that_is_there(
    warehouse: Warehouse,
) -> None:
    sink = Timed(warehouse)
    insert(warehouse, 5)  # a snapshot of main that shows nothing of the sink
    sink.put(10, 20)
    with pytest.raises(BadTime, match=r"^8 is before the first snapshot") as refused:
        resolve(warehouse.load(), 8)
    assert "Times from 9 to 19 are there" in refused.value.hint


def test_a_sink_that_has_committed_nothing_shows_no_time(warehouse: Warehouse) -> None:
    Timed(warehouse)
    with pytest.raises(BadTime, match=r"no snapshot of ns.t shows anything of sink ns.t"):
        resolve(warehouse.load(), 5)


HLC = 1_698_775_840_453_391_000
"""Nanoseconds: 2023-10-31T18:10:40.453391Z."""


@pytest.mark.parametrize(
    "at, number",
    [
        (f"{HLC}.0000000001", 0),  # a resolved timestamp counts itself in
        (f"{HLC}.0000000002", 0),
        (f"{HLC + 10**9}.0000000000", 1),
        (f"{HLC + 10**9 - 1}.9999999999", 0),
        ("2023-10-31T18:10:41.453391Z", 1),
        ("2023-10-31 18:10:41.453390999", 0),
        ("2023-10-31T20:10:42+02:00", 1),
        (str(HLC + 10**9), 1),
        (datetime(2023, 10, 31, 18, 10, 41, 453391, UTC), 1),
    ],
)
def test_times_of_cockroachdb_are_given_as_it_prints_them_or_as_wall_times(
    warehouse: Warehouse, at: str | datetime, number: int
) -> None:
    sink = Timed(warehouse, "hlc")
    resolved = [HLC * 10**10 + 1, (HLC + 10**9) * 10**10]
    snapshots = [sink.put(one + 1)[0] for one in resolved]
    assert resolve(warehouse.load(), at).snapshot_id == snapshots[number]


def test_an_error_of_an_hlc_names_the_range_in_its_own_words(warehouse: Warehouse) -> None:
    Timed(warehouse, "hlc").put(HLC * 10**10 + 1)
    with pytest.raises(BadTime, match=r"2023-10-31 00:00:00 UTC\) is before the first") as refused:
        resolve(warehouse.load(), "2023-10-31")
    assert refused.value.hint.startswith(f"Times from {HLC}.0000000000 (2023-10-31 18:10:40 UTC) to")


@pytest.mark.parametrize("source", ["micro-batch", "epoch", "column n (bigint)"])
def test_a_wall_time_is_refused_where_times_are_no_clock(warehouse: Warehouse, source: str) -> None:
    Timed(warehouse, source).put(10)
    with pytest.raises(BadTime, match="is a wall time; times of this sink are numbers"):
        resolve(warehouse.load(), "2026-11-17T12:00:00Z")


def test_of_two_sinks_the_time_is_that_of_the_one_that_is_named(warehouse: Warehouse) -> None:
    one, two = Timed(warehouse, options={"writer_id": "one"}), Timed(warehouse, options={"writer_id": "two"})
    (first,) = one.put(10)
    (second,) = two.put(500)
    one.put(20)
    table = warehouse.load()
    assert resolve(table, 12, "one").snapshot_id == second, "it shows of the first what that itself shows"
    assert resolve(table, 499, "two").frontier == 500
    with pytest.raises(BadTime, match="15 is before the first snapshot of sink two"):
        resolve(table, 15, "two")
    with pytest.raises(ConfigError, match=r"several sinks write to ns.t: one, two"):
        resolve(table, 12)
    with pytest.raises(ConfigError, match=r"ns.t has no sink 'three'") as refused:
        resolve(table, 12, "three")
    assert refused.value.hint == "There are: one, two."
    assert first != second


def test_with_the_fence_on_main_claims_show_what_the_commit_below_them_does(warehouse: Warehouse) -> None:
    options = {"fence": "main"}
    first = Timed(warehouse, options=options)
    first.put(10)
    second = Timed(warehouse, options=options)  # its claim is a snapshot of main
    claim = warehouse.load().metadata.current_snapshot_id
    (last,) = second.put(20)
    table = warehouse.load()
    assert resolve(table, 9).snapshot_id == claim
    assert resolve(table, 19).snapshot_id == last


def test_a_table_that_no_sink_has_written_says_so(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    sink.put(10)
    with warehouse.catalog() as catalog:
        table = catalog.load_table(("ns", "t"))
        with table.transaction() as change:
            change.remove_properties("calve.sink.ns.t")
        table.manage_snapshots().remove_tag(tag_name("ns.t")).commit()
    with pytest.raises(ConfigError, match=r"no sink of calve has written to ns.t"):
        resolve(warehouse.load(), 9)
