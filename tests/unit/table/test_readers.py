"""Readers: the answer for a table is the worst over what it holds, and agrees with what the tests see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.table.readers import READERS, Answer, Feature, Reader, Reads, answer, answers, features
from tests.support.variants import VARIANTS

BY_NAME = {reader.name: reader for reader in READERS}
SUBSETS = st.frozensets(st.sampled_from(Feature))


def test_a_table_of_plain_data_files_is_read_right_by_every_reader():
    held = features(upsert=False, global_deletes=True, null_keys=True)
    assert held == frozenset()
    assert {said.reads for _, said in answers(held)} == {Reads.RIGHT}


@pytest.mark.parametrize(
    "table, held",
    [
        ({}, {Feature.EQUALITY_DELETES}),
        ({"global_deletes": True}, {Feature.EQUALITY_DELETES, Feature.GLOBAL_DELETES}),
        ({"null_keys": True}, {Feature.EQUALITY_DELETES, Feature.NULL_KEYS}),
        ({"vectors": True}, {Feature.VECTORS}),
        # A vector names rows by their place: how far deletes reach, and what a key holds, matters no more.
        ({"vectors": True, "global_deletes": True, "null_keys": True}, {Feature.VECTORS}),
    ],
)
def test_an_upsert_table_holds_what_its_layout_and_keys_ask_for(table, held):
    assert features(upsert=True, **table) == held


@pytest.mark.parametrize(
    "name, table, reads, word",
    [
        ("DuckDB", {}, Reads.RIGHT, ""),
        ("DuckDB", {"global_deletes": True}, Reads.RIGHT, ""),
        ("DuckDB", {"null_keys": True}, Reads.WRONG, "loses rows"),
        ("Flink", {"global_deletes": True}, Reads.SETTING, "use-flip27-source=false"),
        ("chDB", {"global_deletes": True}, Reads.WRONG, "says nothing"),
        ("Trino", {"global_deletes": True, "null_keys": True}, Reads.RIGHT, ""),
        ("Trino", {"vectors": True}, Reads.REFUSES, ""),
        ("PyIceberg", {}, Reads.REFUSES, ""),
        ("PyIceberg", {"vectors": True}, Reads.RIGHT, ""),
    ],
)
def test_a_reader_is_told_with_what_it_does(name, table, reads, word):
    said = answer(BY_NAME[name], features(upsert=True, **table))
    assert said.reads is reads
    assert word in said.note
    assert bool(word) == bool(said.note)


def test_notes_of_two_features_that_are_wrong_are_both_told_once():
    held = features(upsert=True, global_deletes=True, null_keys=True)
    assert answer(BY_NAME["chDB"], held).note == "ignores them, and says nothing; loses rows"
    twice = Reader("r", "1", dict.fromkeys(Feature, Answer(Reads.WRONG, "loses rows")))
    assert answer(twice, held).note == "loses rows"


def test_a_note_of_a_feature_that_is_not_the_worst_is_left_out():
    odd = {
        **dict.fromkeys(Feature, Answer(Reads.SETTING, "set this")),
        Feature.NULL_KEYS: Answer(Reads.WRONG),
    }
    assert answer(Reader("r", "1", odd), set(Feature)) == Answer(Reads.WRONG)


@given(st.sampled_from(READERS), SUBSETS, SUBSETS)
def test_a_table_that_holds_more_is_never_read_better(reader, held, more):
    assert answer(reader, held).reads.badness <= answer(reader, held | more).reads.badness


def test_every_reader_has_an_answer_for_every_feature_and_a_name_of_its_own():
    assert len({reader.name for reader in READERS}) == len(READERS)
    for reader in READERS:
        assert set(reader.answers) == set(Feature), reader.name


def test_the_answers_agree_with_what_the_tests_of_each_day_see():
    """A reader is left out of a test of keys with nulls where it is said to be wrong about them, and nowhere
    else."""
    every_day = {reader.name.lower(): reader for reader in READERS if reader.every_day}
    assert set(every_day) == {"spark", "sail", "duckdb"}
    null_keys = [variant for variant in VARIANTS if variant.options.get("null.keys") == "allow"]
    assert null_keys
    for variant in null_keys:
        for name, reader in every_day.items():
            is_right = answer(reader, features(upsert=True, null_keys=True)).reads is Reads.RIGHT
            assert is_right == (name not in variant.blind), f"{variant.name}: {reader}"
