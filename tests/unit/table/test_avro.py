"""Avro containers of ready-made records: every reader takes them, and reading gives the same bytes back."""

from __future__ import annotations

import io
from typing import cast

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.encoding import SMALL, sized, zigzag
from calve.table.avro import AvroSchema, container, raw_records, without_logical_types

LONG: AvroSchema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}


def parsed(schema: AvroSchema) -> AvroSchema:
    return cast(AvroSchema, fastavro.parse_schema(schema))


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_number_is_encoded_as_avro_does(number: int) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", number)
    assert zigzag(number) == stream.getvalue()


def test_small_numbers_are_the_same_as_their_encoding() -> None:
    assert [zigzag(number) for number in range(len(SMALL))] == list(SMALL)
    assert len(SMALL) >= 1000


@given(st.binary(max_size=300) | st.just(b"x" * 20_000))
def test_bytes_carry_their_length(value: bytes) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "bytes", value)
    assert sized(value) == stream.getvalue()


@pytest.mark.parametrize(
    "compression, codec", [("gzip", "deflate"), ("uncompressed", "null"), ("zstd", "deflate")]
)
@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_a_container_is_read_by_others_and_its_records_come_back_as_they_were(
    compression: str, codec: str, count: int
) -> None:
    records = [zigzag(number) for number in range(count)]
    content = container(parsed(LONG), {"who": "calve"}, compression, records)
    reader = fastavro.reader(io.BytesIO(content))
    assert reader.codec == codec
    assert reader.metadata["who"] == "calve"
    assert list(reader) == [{"n": number} for number in range(count)]
    schema, raw = raw_records(content)
    assert schema["name"] == "r"
    assert list(raw) == [({"n": number}, zigzag(number)) for number in range(count)]


def test_records_are_read_physically_where_python_has_no_such_date() -> None:
    """A timestamp beyond year 9999 is a number like any other."""
    kind = {"type": "long", "logicalType": "timestamp-micros"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "t", "type": ["null", kind]}]}
    far = 2**62
    content = container(parsed(schema), {}, "gzip", [zigzag(1) + zigzag(far)])
    _, records = raw_records(content)
    assert [record for record, _ in records] == [{"t": far}]
    assert without_logical_types(schema) == {
        "type": "record",
        "name": "r",
        "fields": [{"name": "t", "type": ["null", {"type": "long"}]}],
    }
