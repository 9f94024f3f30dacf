"""Explain: a person sees which value does not fit, whatever is around it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from calve.model.columns import UNFIT
from calve.writer.explain import explained

SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("total", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("open", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("note", pa.string()),
    ]
)
GOOD = {"id": 1, "total": 1.5, "at": "2026-11-16T00:00:00Z", "open": True, "tags": ["a"], "note": {"any": 1}}


@pytest.mark.parametrize(
    "name, value",
    [
        ("id", "x"),
        ("id", 2**31),
        ("total", "dear"),
        ("total", 123456789.5),
        ("at", "now"),
        ("open", 1),
        ("tags", "a"),
    ],
)
def test_the_value_that_does_not_fit_is_named(name: str, value: object) -> None:
    for message in (GOOD | {name: value}, {"payload": {"after": GOOD | {name: value}, "id": 7}}):
        told = explained(json.dumps(message), SCHEMA)
        assert told.startswith(f"a value does not fit: {name!r} is {json.dumps(value)}, and the column is ")
        assert ";" not in told, "and no other"


@pytest.mark.parametrize("message", [None, "", "{", "[1]", "17"])
def test_what_is_no_object_is_told(message: str | None) -> None:
    assert explained(message, SCHEMA) == "the message is no JSON object"


def test_where_nothing_is_found_nothing_is_made_up() -> None:
    assert explained(json.dumps(GOOD), SCHEMA) == UNFIT
    assert explained(json.dumps(dict.fromkeys(GOOD)), SCHEMA) == UNFIT
    assert explained("{}", SCHEMA) == UNFIT
