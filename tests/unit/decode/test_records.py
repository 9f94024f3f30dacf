"""Records: a value of Avro that its column does not hold is left, never cut to fit."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from calve.config.columns import SourceTable
from calve.envelope.base import Sample
from calve.envelope.debezium import RegisteredDebezium, Registry
from tests.support.kernels import alone

ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": "long"},
        {"name": "f", "type": "double"},
    ],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [{"name": "connector", "type": "string"}, {"name": "sequence", "type": "string"}],
}
SCHEMA = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
    ],
}
TABLE = SourceTable.of("id long primary key, n int, f float")


def message(n: int, f: float = 1.5) -> bytes:
    out = io.BytesIO()
    source = {"connector": "postgresql", "sequence": '["100","101"]'}
    body = {"before": None, "after": {"id": 1, "n": n, "f": f}, "source": source, "op": "c"}
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(SCHEMA))), body)
    return b"\0\0\0\0\7" + out.getvalue()


def read(value: bytes) -> dict[str, Any] | None:
    envelope = RegisteredDebezium(registry=Registry("http://127.0.0.1:9", _known={7: SCHEMA}))
    envelope.learn([Sample("t", "t/0", 0, None, message(1))], TABLE)
    return alone(envelope, TABLE, None, value)


@pytest.mark.parametrize("n", [0, -1, 2**31 - 1, -(2**31)])
def test_a_number_that_fits_its_column_is_read(n: int) -> None:
    found = read(message(n))
    assert found is not None
    assert (found["id"], found["n"], found["f"]) == (1, n, 1.5)


@pytest.mark.parametrize("n", [2**31, -(2**31) - 1, 2**40 + 7, 2**63 - 1])
def test_a_number_that_its_column_does_not_hold_is_left(n: int) -> None:
    assert read(message(n)) is None


def test_a_fraction_that_its_column_makes_infinite_is_left() -> None:
    assert read(message(1, 1e300)) is None
