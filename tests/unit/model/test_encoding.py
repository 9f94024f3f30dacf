"""The quick ways through Avro's numbers and blocks give the same bytes as the plain ones."""

from __future__ import annotations

import io
from typing import Any

import fastavro
from hypothesis import given
from hypothesis import strategies as st

from calve.model.encoding import SMALL, _pairs, bounds, counts, zigzag
from calve.table.avro import container

LONGS = fastavro.parse_schema({"type": "record", "name": "one", "fields": [{"name": "n", "type": "long"}]})
edges = st.sampled_from([2**bits + step for bits in range(6, 63, 7) for step in (-1, 0, 1)])
numbers = st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 10_000), edges)
field_ids = st.one_of(st.integers(1, 200), st.integers(4_000, 9_000), st.just(2_147_483_646))


def avro_long(value: int) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, LONGS, {"n": value})
    return stream.getvalue()


def avro_map(pairs: list[bytes]) -> bytes:
    """The second branch of a union with null: a map of one block."""
    return b"".join([avro_long(1), avro_long(len(pairs)), *pairs, avro_long(0)])


@given(st.one_of(numbers, numbers.map(lambda number: -number)))
def test_a_number_is_encoded_as_avro_has_it(value):
    assert zigzag(value) == avro_long(value)


def test_the_table_of_small_numbers_holds_what_avro_has():
    assert all(encoded == avro_long(value) for value, encoded in enumerate(SMALL))


@given(st.dictionaries(field_ids, numbers))
def test_pairs_of_numbers_are_encoded_as_each_number_by_itself(pairs):
    assert _pairs(pairs) == b"".join(avro_long(key) + avro_long(value) for key, value in pairs.items())


@given(st.dictionaries(field_ids, st.one_of(numbers, st.just(7)), min_size=1))
def test_a_map_of_counts_is_the_same_whether_its_counts_are_equal_or_not(pairs):
    expected = [avro_long(key) + avro_long(value) for key, value in pairs.items()]
    assert counts(pairs) == avro_map(expected)


@given(st.dictionaries(field_ids, st.one_of(st.binary(max_size=20), st.just(b"x" * 5_000)), min_size=1))
def test_a_map_of_bounds_holds_each_with_its_length(pairs):
    expected = [avro_long(key) + avro_long(len(bound)) + bound for key, bound in pairs.items()]
    assert bounds(pairs) == avro_map(expected)


def test_many_blocks_are_compressed_at_once_and_stay_in_their_order():
    fields = [{"name": "n", "type": "long"}, {"name": "t", "type": "bytes"}]
    schema: Any = fastavro.parse_schema({"type": "record", "name": "two", "fields": fields})
    values = range(0, 2**40, 2**28)
    filling = b"ice" * 400
    records = (zigzag(value) + zigzag(len(filling)) + filling for value in values)
    file = container(schema, {"kind": "test"}, "gzip", records)
    rows: Any = fastavro.reader(io.BytesIO(file))
    assert [row["n"] for row in rows] == list(values)
