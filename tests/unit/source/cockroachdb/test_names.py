"""What names of a changefeed's files say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.errors import BadMessage, ConfigError
from calve.model.time import parse_hlc
from calve.source.cockroachdb.names import KINDS, DataFile, ResolvedFile, format_ts, parse_name, parse_ts

TS = "202611161200000000000010000000002"

topics = st.text(
    st.characters(codec="utf-8", exclude_characters="/\x00", categories=("L", "N", "P")), min_size=1
)


@given(
    topics,
    st.integers(0, 2**40),
    st.sampled_from(KINDS),
    st.sampled_from(["", "2026-11-16/", "2026-11-16/12/"]),
)
def test_a_name_is_read_from_both_ends_whatever_the_topic(topic, schema, kind, folder):
    path = f"{folder}{TS}-3f0c2d1e-12-345-0000002a-{topic}-{schema:x}{kind}"
    assert parse_name(path) == DataFile(path, topic, schema, kind)


@given(st.integers(0, 4 * 10**18), st.integers(0, 2**31 - 1))
def test_a_timestamp_is_the_hlc_that_rows_have(wall, logical):
    time = parse_hlc(f"{wall}.{logical:010d}")
    assert parse_ts(format_ts(time), "x") == time
    path = f"2026-11-16/{format_ts(time)}.RESOLVED"
    assert parse_name(path) == ResolvedFile(path, time)


def test_the_length_of_a_timestamp_is_not_taken_for_granted():
    assert parse_ts("202611161200000000000013", "x") == parse_ts("202611161200000000000010000000003", "x")
    path = "202611161200000000000013-s-1-1-00000000-t-1.ndjson"
    assert parse_name(path) == DataFile(path, "t", 1, ".ndjson")


def test_a_resolved_file_sorts_behind_the_data_files_of_its_moment():
    assert f"{TS}-3f0c-1-1-00000000-t-1.ndjson" < f"{TS}.RESOLVED"


@pytest.mark.parametrize(
    "name",
    ["_SUCCESS", "x/.part-1.crc", "2026-11-16", "20261116.json", ".RESOLVING", "calve/metadata/v1.json"],
)
def test_what_is_no_file_of_a_changefeed_is_none(name):
    assert parse_name(name) is None


@pytest.mark.parametrize(
    "name",
    [f"{TS}-only-half.ndjson", f"{TS}-s-1-1-00000000-t-1.avro", f"{TS}-s-1-1-00000000--.ndjson", f"{TS}x"],
)
def test_a_name_that_begins_as_one_and_is_none_is_refused(name):
    with pytest.raises(BadMessage, match="named as no file"):
        parse_name(name)


@pytest.mark.parametrize("name", ["now.RESOLVED", "20261316120000000000000.RESOLVED", "2026-11-16/.RESOLVED"])
def test_a_resolved_file_without_a_timestamp_is_refused(name):
    with pytest.raises(BadMessage, match="no timestamp"):
        parse_name(name)


def test_csv_is_refused_with_what_to_do():
    with pytest.raises(ConfigError, match="CSV") as refused:
        parse_name(f"{TS}-s-1-1-00000000-t-1.csv.gz")
    assert "format = json" in refused.value.hint
