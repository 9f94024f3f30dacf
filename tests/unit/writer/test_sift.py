"""Sift: every row is either read or taken, once, in its order; and the search costs little (P8)."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.errors import BadRow, SchemaMismatch
from calve.model.file import FileClosed
from calve.writer.sift import Misfits, describe, sift


class Basket:
    """Takes all rows, and remembers why."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, str]] = []

    @property
    def rows(self) -> int:
        return len(self.taken)

    def take(self, rows: pa.Table, why: BadRow) -> None:
        self.taken += [(row["n"], why.message) for row in rows.to_pylist()]

    def close(self) -> list[FileClosed]:
        return []


class Reader:
    """Refuses rows of which it is told to, with their place, and counts how often it is asked."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad
        self.asked = 0

    def __call__(self, rows: pa.Table, start: int) -> pa.Table:
        self.asked += 1
        for place, number in enumerate(rows["n"].to_pylist()):
            if number in self.bad:
                raise BadRow(f"row {start + place}", hint="Mend it.")
        return rows


def numbers(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64())})


@given(st.integers(0, 300), st.sets(st.integers(0, 299)))
def test_p8_every_row_is_read_or_taken_once_and_both_stay_in_order(count: int, bad: set[int]) -> None:
    basket, read = Basket(), Reader(bad)
    kept = [number for table in sift(numbers(count), read, basket) for number in table["n"].to_pylist()]
    present = sorted(number for number in bad if number < count)
    assert kept == [number for number in range(count) if number not in bad]
    assert basket.taken == [(number, f"row {number}") for number in present]


@given(st.integers(1, 4096), st.data())
def test_the_search_costs_a_few_reads_for_each_bad_row(count: int, data) -> None:
    bad = data.draw(st.sets(st.integers(0, count - 1), max_size=5))
    read = Reader(bad)
    list(sift(numbers(count), read, Basket()))
    assert read.asked <= 1 + 2 * len(bad) * (math.ceil(math.log2(count)) + 1)


def test_rows_that_all_fit_are_read_at_once() -> None:
    read = Reader(set())
    (whole,) = sift(numbers(1000), read, Basket())
    assert (read.asked, whole.num_rows) == (1, 1000)


def test_no_rows_are_no_table() -> None:
    assert list(sift(numbers(0), Reader(set()), Basket())) == []


def test_what_is_no_matter_of_one_row_is_not_searched_for() -> None:
    def read(rows: pa.Table, start: int) -> pa.Table:
        raise SchemaMismatch("no such column", hint="Add it.")

    with pytest.raises(SchemaMismatch):
        list(sift(numbers(8), read, Basket()))


def test_without_a_quarantine_the_first_bad_row_ends_it_and_is_shown() -> None:
    with pytest.raises(BadRow, match=r"row 5 \(n = 5\)") as refused:
        list(sift(numbers(9), Reader({5, 7}), Misfits()))
    assert refused.value.hint == "Mend it."


def test_rows_before_the_bad_one_are_handed_on_first() -> None:
    handed: list[int] = []

    def hand_on() -> None:
        for table in sift(numbers(9), Reader({5}), Misfits()):
            handed.extend(table["n"].to_pylist())

    with pytest.raises(BadRow):
        hand_on()
    assert handed == [0, 1, 2, 3, 4]


def test_a_row_is_shown_by_its_first_columns_cut_to_what_a_log_can_bear() -> None:
    wide = pa.table({f"c{number}": ["x" * 500] for number in range(20)})
    text = describe(wide)
    assert text.startswith("c0 = xxx")
    assert text.endswith("…")
    assert "c7" in text
    assert "c8" not in text
    assert len(text) < 1000
