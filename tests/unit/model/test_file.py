"""FileClosed: a message that reads back as what was sent, or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.batch import Batch
from calve.model.errors import BadMessage
from calve.model.file import ColumnMetrics, FileClosed, FileKind
from calve.model.time import TIME_MAX

IDS = st.integers(1, 2**31 - 1)
COUNTS = st.dictionaries(IDS, st.integers(0, 2**62), max_size=3)
BOUNDS = st.dictionaries(IDS, st.binary(max_size=8), max_size=3)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.uuids(),
)


@st.composite
def messages(draw: st.DrawFn) -> FileClosed:
    lower, upper = sorted(draw(st.lists(st.integers(0, TIME_MAX), min_size=2, max_size=2, unique=True)))
    kind = draw(st.sampled_from(FileKind))
    return FileClosed(
        batch=Batch(lower, upper),
        worker=draw(st.text(max_size=5)),
        path=draw(st.text(min_size=1)),
        kind=kind,
        schema_id=draw(st.integers(0, 9)),
        spec_id=draw(st.integers(0, 9)),
        partition=tuple(draw(st.lists(VALUES, max_size=3))),
        record_count=draw(st.integers(1, 2**62)),
        file_bytes=draw(st.integers(1, 2**62)),
        metrics=ColumnMetrics(
            draw(COUNTS), draw(COUNTS), draw(COUNTS), draw(COUNTS), draw(BOUNDS), draw(BOUNDS)
        ),
        split_offsets=tuple(draw(st.lists(st.integers(0, 2**62), max_size=3))),
        equality_ids=tuple(draw(st.lists(IDS, min_size=1, max_size=3)))
        if kind is FileKind.EQUALITY_DELETE
        else (),
        sort_order_id=draw(st.none() | st.integers(0, 9)),
    )


def message(**changes: Any) -> FileClosed:
    plain = FileClosed(
        batch=Batch(0, 1),
        worker="w0",
        path="file:///t/data/a.parquet",
        kind=FileKind.DATA,
        schema_id=0,
        spec_id=0,
        partition=(),
        record_count=1,
        file_bytes=10,
    )
    return replace(plain, **changes)


@given(messages())
def test_a_message_reads_back_as_it_was_sent(sent: FileClosed) -> None:
    """Cases 57 and 61: values with slashes, newlines, percent signs, unicode; JSON with a version."""
    read = FileClosed.from_json(sent.to_json())
    assert read == sent
    assert read.digest == sent.digest
    assert [type(value) for value in read.partition] == [type(value) for value in sent.partition]


@given(messages(), st.data())
def test_a_message_that_was_changed_anywhere_is_found_out(sent: FileClosed, data: st.DataObject) -> None:
    text = sent.to_json()
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(min_codepoint=32, max_codepoint=126).filter(lambda c: c != text[at]))
    changed = text[:at] + other + text[at + 1 :]
    try:
        read = FileClosed.from_json(changed)
    except BadMessage:
        return
    # JSON has more than one spelling of a text: what still reads must be the same message.
    assert read == sent


@pytest.mark.parametrize("number", ["1E1000000000", "-1e999", "NaN", "Infinity"])
def test_a_number_that_is_none_in_json_is_found_out(number: str) -> None:
    with pytest.raises(BadMessage, match="not JSON"):
        FileClosed.from_json(f'{{"version": 1, "record_count": {number}}}')


@given(messages(), st.data())
def test_a_message_that_was_cut_is_found_out(sent: FileClosed, data: st.DataObject) -> None:
    text = sent.to_json()
    with pytest.raises(BadMessage, match="not JSON"):
        FileClosed.from_json(text[: data.draw(st.integers(0, len(text) - 1))])


@given(messages(), messages())
def test_digests_are_equal_only_for_equal_messages(one: FileClosed, other: FileClosed) -> None:
    assert (one.digest == other.digest) == (one.to_json() == other.to_json())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0])
def test_floats_that_json_lacks_survive(value: float) -> None:
    (read,) = FileClosed.from_json(message(partition=(value,)).to_json()).partition
    assert isinstance(read, float)
    assert math.copysign(1, read) == math.copysign(1, value)
    assert read == value or (math.isnan(read) and math.isnan(value))


def test_a_decimal_keeps_its_scale() -> None:
    (read,) = FileClosed.from_json(message(partition=(Decimal("1.50"),)).to_json()).partition
    assert str(read) == "1.50"


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_refused_before_anything_else_is_read(version: object) -> None:
    body = json.loads(message().to_json()) | {"version": version}
    with pytest.raises(BadMessage, match="version"):
        FileClosed.from_json(json.dumps(body))


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", "", "{", "\ufeff{}"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(BadMessage):
        FileClosed.from_json(text)


@pytest.mark.parametrize("content", [b"\x80\x04\x95", pickle.dumps({"version": 1}), b"\xff\xfe"])
def test_case_61_a_pickle_is_not_a_message(content: bytes) -> None:
    with pytest.raises(BadMessage):
        FileClosed.from_json(content)


@pytest.mark.parametrize(
    "field", ["lower", "path", "kind", "partition", "metrics", "record_count", "equality_ids"]
)
def test_a_message_that_lacks_a_field_is_refused_though_its_hash_is_right(field: str) -> None:
    body = json.loads(message().to_json())
    del body[field]
    with pytest.raises(BadMessage, match="lacks a field"):
        FileClosed.from_json(_signed(body))


@pytest.mark.parametrize(
    "field, value",
    [
        ("kind", "position-delete"),
        ("partition", [{"float": "x"}]),
        ("partition", [{"money": "1"}]),
        ("partition", [[1]]),
        ("partition", [1.5]),
        ("partition", [{}]),
        ("partition", [{"decimal": "x"}]),
        ("partition", [{"bytes": "%"}]),
        ("lower", "x"),
        ("metrics", {}),
    ],
)
def test_a_field_of_a_wrong_type_is_refused_though_its_hash_is_right(field: str, value: object) -> None:
    body = json.loads(message().to_json()) | {field: value}
    with pytest.raises(BadMessage):
        FileClosed.from_json(_signed(body))


def _signed(body: dict[str, Any]) -> str:
    body.pop("sha256", None)
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return json.dumps(body | {"sha256": hashlib.sha256(canonical.encode()).hexdigest()})


@pytest.mark.parametrize("rows, size", [(0, 10), (1, 0), (-1, 10)])
def test_an_empty_file_is_not_reported(rows: int, size: int) -> None:
    with pytest.raises(BadMessage, match="is reported with"):
        message(record_count=rows, file_bytes=size)


def test_equality_deletes_and_only_they_name_columns() -> None:
    with pytest.raises(BadMessage, match="equality ids"):
        message(kind=FileKind.EQUALITY_DELETE)
    with pytest.raises(BadMessage, match="equality ids"):
        message(equality_ids=(1,))


def test_the_same_message_has_one_text() -> None:
    """Dictionaries in another order are the same message, so its hash must be too."""
    one = message(metrics=ColumnMetrics(value_counts={1: 1, 2: 2}), partition=(uuid.UUID(int=1),))
    other = message(metrics=ColumnMetrics(value_counts={2: 2, 1: 1}), partition=(uuid.UUID(int=1),))
    assert one.to_json() == other.to_json()
