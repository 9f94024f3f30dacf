"""Parquet files: decimals that are text, rows that do not fit, columns beyond the declared ones."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.config.columns import SourceColumn, SourceTable
from calve.decode.tables import make_tables
from calve.decode.texts import json_values
from calve.envelope.base import Sample
from calve.envelope.cockroachdb.files import CockroachFiles
from calve.model.errors import ConfigError, StoreError
from calve.source.cockroachdb.footer import without_decimals
from calve.source.cockroachdb.plan import ReadPlan
from calve.source.cockroachdb.reader import read_file
from tests.support.changefeed.parquet import _written, resolved_parquet

FILE = "202611161200000000000010000000000-3f0c-1-1-00000000-my-topic-1.parquet"
HLC = "1794830400000000001.0000000002"
DECLARED: Any = {"my-topic": ([("id", "long"), ("price", "decimal(10,2)"), ("at", "timestamptz")], ["id"])}


def content(prices: Sequence[str | None], **more: Any) -> bytes:
    count = len(prices)
    columns = {
        "id": pa.array(range(count), pa.int64()),
        "price": pa.array([None if one is None else one.encode() for one in prices], pa.binary()),
        "at": pa.array(["2026-11-16 12:00:00.5+00:00"] * count),
        "__crdb__event_type": pa.array(["c"] * count),
        "__crdb__updated": pa.array([HLC] * count),
        **more,
    }
    return _written({name: array for name, array in columns.items() if array is not None}, ["price"])


def rows(folder: Path, data: bytes, declared: Any = DECLARED) -> list[dict[str, Any]]:
    (folder / FILE).write_bytes(data)
    plan = ReadPlan(folder.as_uri(), make_tables(declared))
    return [row for batch in read_file(FILE, plan) for row in batch.to_pylist()]


def test_decimals_that_are_text_are_read_as_what_they_say(tmp_path):
    found = rows(tmp_path, content(["12.5", "4E+2", None, "-0.01"]))
    prices = [Decimal("12.50"), Decimal("400.00"), None, Decimal("-0.01")]
    assert [row["t0"]["price"] for row in found] == prices
    assert {row["raw"] for row in found} == {None}


def test_a_reader_that_believes_the_footer_cannot_read_it():
    """What the detour through the footer is for."""
    with pytest.raises(pa.ArrowInvalid, match="precision"):
        pq.read_table(io.BytesIO(content(["12.5"])))
    with pytest.raises(pa.ArrowInvalid, match="precision"):
        pq.read_table(io.BytesIO(resolved_parquet(HLC)))


def test_only_decimals_of_byte_arrays_lose_what_they_say():
    table = pa.table(
        {
            "fixed": pa.array([Decimal("1.5")], pa.decimal128(10, 2)),
            "text": ["x"],
            "nested": pa.array([[{"a": 1, "b": b"x"}]]),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
            **{f"column {number}": [number] for number in range(40)},
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    assert without_decimals(sink.getvalue()) == sink.getvalue()


@pytest.mark.parametrize("cut", [1, 5, 30, 200])
def test_a_file_that_is_cut_off_is_refused(tmp_path, cut):
    with pytest.raises(StoreError, match="cannot be read to its end"):
        rows(tmp_path, content(["1"])[:-cut])


@pytest.mark.parametrize("damage", range(0, 60, 7))
def test_a_footer_that_is_damaged_is_an_error_and_not_a_crash(tmp_path, damage):
    data = bytearray(content(["1"]))
    size = int.from_bytes(data[-8:-4], "little")
    data[len(data) - 8 - size + damage] ^= 0xFF
    with suppress(StoreError, ConfigError):
        assert len(rows(tmp_path, bytes(data))) == 1  # a byte that nobody needed


def test_a_value_that_does_not_fit_leaves_its_row_alone_as_text(tmp_path):
    found = rows(tmp_path, content(["1.25"] * 50 + ["NaN"] + ["1.25"] * 50))
    (odd,) = [row for row in found if row["t0"] is None]
    assert (odd["line"], odd["change"], odd["error"]) == (51, "upsert", None)
    assert json.loads(odd["raw"]) == {
        "after": {"id": 50, "price": "NaN", "at": "2026-11-16 12:00:00.5+00:00"}, "key": [50], "updated": HLC,
        "__calve_types": {},
    }  # fmt: skip
    assert [row["line"] for row in found] == list(range(1, 102))


def test_a_double_that_no_float_holds_leaves_its_row_as_text(tmp_path):
    ratios = pa.array([1.5, float("inf"), 1e39])
    declared = {"my-topic": ([*DECLARED["my-topic"][0], ("ratio", "float")], ["id"])}
    found = rows(tmp_path, content(["1.50"] * 3, ratio=ratios), declared)
    assert [row["t0"] and row["t0"]["ratio"] for row in found] == [1.5, float("inf"), None]
    assert json.loads(found[2]["raw"])["after"]["ratio"] == 1e39


def test_rows_with_more_columns_than_declared_come_as_text(tmp_path):
    words = ['say "hi"', "back\\slash", "tab\tand\x01", None]
    more = {"word": pa.array(words), "data": pa.array([b"\x00\xff", b"", None, b"a"])}
    events = {"__crdb__event_type": pa.array(["c", "u", "u", "d"])}
    found = rows(tmp_path, content(["1.50"] * 4, **more, **events))
    assert [row["change"] for row in found] == ["upsert"] * 3 + ["delete"]
    texts = [json.loads(row["raw"], parse_float=Decimal) for row in found]
    assert [text["after"] and text["after"]["word"] for text in texts] == words
    assert texts[0]["after"]["data"] == "\\x00ff"
    assert texts[0]["after"]["price"] == Decimal("1.50")
    assert (texts[3]["after"], texts[3]["key"]) == (None, [3])


def test_a_new_column_of_nulls_alone_is_of_the_type_that_the_file_knows(tmp_path):
    kinds = {
        "n": pa.int64(), "i": pa.int32(), "ok": pa.bool_(), "f": pa.float64(), "ns": pa.list_(pa.int64()),
        "word": pa.string(), "data": pa.binary(),
    }  # fmt: skip
    found = rows(tmp_path, content(["1"], **{name: pa.nulls(1, kind) for name, kind in kinds.items()}))
    known = SourceTable.of("id long primary key, price decimal(10,2), at timestamptz")
    sample = Sample("my-topic", "feed", 1, None, found[0]["raw"].encode())
    table = CockroachFiles(None).learn([sample], known)
    wanted = {"n": "long", "i": "int", "ok": "boolean", "f": "double", "ns": "list<long>"}
    assert {name: table.column(name).type for name in kinds} == {**wanted, "word": "string", "data": "string"}
    assert table.guessed == ("word", "data")
    guess = replace(known, columns=(*known.columns, SourceColumn("n", "string")), guessed=("n",))
    assert CockroachFiles(None).learn([sample], guess).column("n").type == "string"


def test_a_bad_time_and_an_unknown_event_are_errors_of_their_rows(tmp_path):
    times, events = pa.array([HLC, "soon", None, HLC]), pa.array(["c", "c", "c", "x"])
    found = rows(tmp_path, content(["1"] * 4, __crdb__updated=times, __crdb__event_type=events))
    assert [bool(row["error"]) for row in found] == [False, True, True, True]
    assert [bool(row["raw"]) for row in found] == [False, True, True, True]
    assert "soon" in found[1]["error"]


def test_a_changefeed_without_times_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="__crdb__updated") as refused:
        rows(tmp_path, content(["1"], __crdb__updated=None))
    assert "WITH updated" in refused.value.hint


def test_a_topic_that_was_not_declared_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="was not declared"):
        rows(tmp_path, content(["1"]), {})


def test_values_are_written_as_json():
    cases: list[tuple[list[Any], pa.DataType]] = [
        ([1, None, -5], pa.int64()), ([True, None], pa.bool_()),
        ([0.5, float("inf"), -float("inf")], pa.float64()),
        (["a", "\x00\x1f\n", "ünï"], pa.string()), ([[1, None], None], pa.list_(pa.int64())),
    ]  # fmt: skip
    for values, kind in cases:
        found = [json.loads(text) for text in json_values(pa.array(values, kind)).to_pylist()]
        named = {float("inf"): "Infinity", -float("inf"): "-Infinity"}
        assert found == [named.get(one, one) if isinstance(one, float) else one for one in values]
