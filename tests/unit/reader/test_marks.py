"""Deleted places as a bit a row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.reader.marks import BITS, marks
from calve.reader.places import ROWS_MAX, Places
from calve.reader.task import MarksPlan, marks_task
from calve.store import NO_ACCESS
from tests.unit.reader.test_files import numbers, positions

FIRST = 3 * ROWS_MAX


def marked(words: pa.Array) -> list[int]:
    bits = ((number, word % 2**BITS) for number, word in enumerate(words.to_pylist()))
    return [number * BITS + bit for number, word in bits for bit in range(BITS) if word >> bit & 1]


@given(
    rows=st.one_of(st.integers(0, 200), st.integers(65_500, 65_600), st.integers(131_000, 140_000)),
    places=st.lists(st.lists(st.integers(0, 140_000), max_size=5), max_size=3),
)
def test_a_row_is_marked_if_its_place_is_deleted_whatever_the_order(rows: int, places: list[list[int]]):
    told = sorted(FIRST + one for found in places for one in found)
    words = marks(pa.array([0, *told, 2 * FIRST], pa.int64()), FIRST, rows)
    known = -(-rows // BITS) * BITS
    assert len(words) == known // BITS
    assert marked(words) == sorted({one for found in places for one in found if one < known})


@pytest.mark.parametrize("place", [0, 63, 64, 65_535, 65_536, 99_999])
def test_marks_stand_where_their_rows_do(place: int):
    assert marked(marks(pa.array([place], pa.int64()), 0, 100_000)) == [place]


def test_a_task_marks_each_file_that_it_was_asked_about(tmp_path: Path):
    from pyroaring import BitMap64

    from tests.unit.reader.test_vectors import blob

    content = blob(BitMap64([1, 2]))
    (tmp_path / "v.puffin").write_bytes(content)
    vector = Places((tmp_path / "v.puffin").as_uri(), (0, len(content)))
    some = positions(tmp_path / "p.parquet", [("c", 7), ("x", 1), ("a", 3), ("c", 64)])
    others = positions(tmp_path / "q.parquet", [("a", 3), ("a", 0)])
    plan = MarksPlan(
        (("a", 10), ("b", 10), ("c", 70)), ((some, None), (vector, 1), (others, None)), NO_ACCESS, "marks"
    )
    (row,) = pa.Table.from_batches(list(marks_task(plan, numbers(1))))["marks"]
    assert [marked(words) for words in (one.values for one in row)] == [[0, 3], [1, 2], [7, 64]]
