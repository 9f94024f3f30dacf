"""Merge: runs that are sorted become one order, stable, whatever is in them and however many there are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calve.model.layout import SortField
from calve.writer import merge
from calve.writer.merge import merged, sorted_pieces, write_run
from calve.writer.spill import Part, SpillFolder

SORT = (SortField("k"),)
SCHEMA = pa.schema([("k", pa.int64()), ("run", pa.int64()), ("row", pa.int64()), ("text", pa.string())])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[SpillFolder]:
    spill = SpillFolder(tmp_path)
    yield spill
    spill.remove()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_CHUNK_BYTES_MIN", 1_000)


def run_of(folder: SpillFolder, number: int, keys: list[int], text: str = "", bytes_max: int = 1) -> Part:
    rows = pa.table(
        {"k": keys, "run": [number] * len(keys), "row": range(len(keys)), "text": [text] * len(keys)},
        schema=SCHEMA,
    )
    return write_run(sorted_pieces(SORT, rows), SCHEMA, folder, bytes_max)


def rows_of(tables: Iterator[pa.Table]) -> list[tuple[int, int, int]]:
    return [(row["k"], row["run"], row["row"]) for table in tables for row in table.to_pylist()]


@pytest.mark.usefixtures("small_chunks")
@given(
    runs=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=60), min_size=1, max_size=9),
    bytes_max=st.sampled_from([1, 2_000, 100_000]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_rows_come_out_in_order_and_equal_ones_in_the_order_of_their_runs(
    folder: SpillFolder, runs: list[list[int]], bytes_max: int
) -> None:
    parts = [run_of(folder, number, keys, bytes_max=bytes_max) for number, keys in enumerate(runs)]
    expected = sorted((key, number, row) for number, keys in enumerate(runs) for row, key in enumerate(keys))
    assert rows_of(merged(SORT, parts, folder, bytes_max)) == expected
    assert list(folder.path.iterdir()) == [], "the files of runs go as they are read"


@pytest.mark.usefixtures("small_chunks")
def test_runs_that_do_not_overlap_are_read_one_after_the_other_without_a_copy(folder: SpillFolder) -> None:
    parts = [run_of(folder, number, list(range(number * 100, number * 100 + 100))) for number in range(5)]
    tables = list(merged(SORT, parts, folder, 1 << 30))
    assert [key for table in tables for key in table["k"].to_pylist()] == list(range(500))


@pytest.mark.usefixtures("small_chunks")
def test_p9_what_comes_out_at_a_time_is_no_more_than_memory_may_hold(folder: SpillFolder) -> None:
    chooser = random.Random(3)
    keys = [[chooser.randrange(1000) for _ in range(2000)] for _ in range(20)]
    parts = [run_of(folder, number, one, text="x" * 50) for number, one in enumerate(keys)]
    bytes_max = 100_000
    sizes = [table.nbytes for table in merged(SORT, parts, folder, bytes_max)]
    assert max(sizes) <= bytes_max
    assert len(sizes) < 4 * sum(sizes) / bytes_max, "and not much less, or merging would be slow"


@pytest.mark.usefixtures("small_chunks")
def test_more_runs_than_can_be_open_are_merged_in_steps_and_no_more_than_must_be(
    folder: SpillFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "_FAN_IN", 4)
    joined: list[int] = []
    real = merge._merge

    def counting(sort: tuple[SortField, ...], runs: list[Part], bytes_max: int) -> Iterator[pa.Table]:
        joined.append(len(runs))
        return real(sort, runs, bytes_max)

    monkeypatch.setattr(merge, "_merge", counting)
    for count, expected in ((4, [4]), (5, [2, 4]), (10, [4, 4, 4]), (17, [4, 4, 4, 4, 2, 4])):
        joined.clear()
        parts = [run_of(folder, number, list(range(number, 200, 7))) for number in range(count)]
        found = rows_of(merged(SORT, parts, folder, 1 << 30))
        assert found == sorted(found)
        assert len(found) == sum(len(range(number, 200, 7)) for number in range(count))
        assert joined == expected


def test_p9_runs_of_huge_rows_are_merged_two_at_a_time(folder: SpillFolder) -> None:
    """A chunk is one row at least: twenty of them at once would be twenty huge rows in memory."""
    parts = [run_of(folder, number, [number, 50 + number], text="x" * 300_000) for number in range(20)]
    before = pa.total_allocated_bytes()
    most = 0
    found = []
    for table in merged(SORT, parts, folder, 1_000_000):
        most = max(most, pa.total_allocated_bytes() - before)
        found += table["k"].to_pylist()
        del table
    assert found == sorted([*range(20), *range(50, 70)])
    assert most < 10 * 300_000
