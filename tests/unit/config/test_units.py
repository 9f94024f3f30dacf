"""Sizes, durations, truth values and choices as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.config import units
from calve.model.errors import ConfigError

MB = 2**20


@pytest.mark.parametrize(
    "value,size",
    [
        (134217728, 128 * MB),
        ("134217728", 128 * MB),
        ("128MB", 128 * MB),
        ("128MiB", 128 * MB),
        (" 128 mb ", 128 * MB),
        ("64KB", 65536),
        ("1GB", 2**30),
        ("10B", 10),
        (0, 0),
    ],
)
def test_a_size_is_bytes_or_has_a_unit_of_1024(value, size):
    assert units.parse_size(value, "it") == size


@pytest.mark.parametrize("value", ["", "128M B", "1.5GB", "-1", -1, True, 1.0, None, "12TB", "²", "9" * 30])
def test_what_is_no_size_is_refused(value):
    with pytest.raises(ConfigError, match=r"it cannot be") as refused:
        units.parse_size(value, "it")
    assert "128MB" in refused.value.hint


@pytest.mark.parametrize(
    "value,ms",
    [
        ("500ms", 500),
        ("60s", 60_000),
        ("5m", 300_000),
        ("168H", 604_800_000),
        (" 7 d ", 604_800_000),
        ("0s", 0),
    ],
)
def test_a_duration_has_a_unit(value, ms):
    assert units.parse_duration(value, "it") == ms


@pytest.mark.parametrize("value", ["60", 60, "", "s", "1.5s", "-1s", None, "1m30s", "5 years"])
def test_what_has_no_unit_is_no_duration(value):
    with pytest.raises(ConfigError) as refused:
        units.parse_duration(value, "it")
    assert "60s" in refused.value.hint


def test_numbers_are_digits():
    assert units.parse_number(" 100000 ", "it") == units.parse_number(100_000, "it") == 100_000
    for value in ("1e5", "-1", -1, True, 2.0, "", "٣"):
        with pytest.raises(ConfigError):
            units.parse_number(value, "it")


def test_truth_values_are_true_and_false_only():
    assert units.parse_bool("TRUE", "it") is units.parse_bool(True, "it") is True
    assert units.parse_bool("false", "it") is units.parse_bool(False, "it") is False
    for value in ("yes", "1", 1, 0, "on", "", None):
        with pytest.raises(ConfigError):
            units.parse_bool(value, "it")


def test_text_that_is_missing_or_no_text_is_refused_without_showing_it():
    assert units.parse_text("a", "it") == "a"
    with pytest.raises(ConfigError, match="empty"):
        units.parse_text(" ", "it")
    with pytest.raises(ConfigError) as refused:
        units.parse_text([b"canary"], "it")
    assert "canary" not in str(refused.value)


def test_properties_are_text_numbers_or_truth_values():
    assert [units.parse_property(value, "it") for value in ("a", 5, True, False)] == [
        "a",
        "5",
        "true",
        "false",
    ]
    with pytest.raises(ConfigError):
        units.parse_property(None, "it")


def test_lists_and_dictionaries():
    assert units.parse_list("a, b", "it") == "a, b"
    assert units.parse_list(["a"], "it") == ("a",)
    for value in (5, b"a"):
        with pytest.raises(ConfigError):
            units.parse_list(value, "it")
    assert units.parse_dictionary("true", "it") is True
    assert units.parse_dictionary(False, "it") is False
    assert units.parse_dictionary("a, b", "it") == "a, b"


def test_a_choice_is_answered_with_the_nearest_word():
    parse = units.choice_of("append", "changelog", "upsert")
    assert parse(" UPSERT ", "it") == "upsert"
    with pytest.raises(ConfigError) as refused:
        parse("upsrt", "it")
    assert "'upsert'?" in refused.value.hint
    with pytest.raises(ConfigError) as refused:
        parse(7, "it")
    assert "append, changelog or upsert" in refused.value.hint
    assert units.one_of(["iceberg"]) == "iceberg"


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(ConfigError) as refused:
        units.parse_size("x" * 500, "it")
    assert len(refused.value.message) < 120


@given(st.integers(0, 2**40), st.sampled_from(["", "B", "KB", "MiB", "GB"]))
def test_a_size_with_a_unit_is_never_less_than_without(number, unit):
    assert units.parse_size(f"{number}{unit}", "it") >= number
