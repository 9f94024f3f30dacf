"""Avro containers: fastavro's header and reader, and a block writer for records that are bytes already.

Manifest entries come encoded (`model/encoding.py`); this module puts them into a container that every Avro
reader takes.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import fastavro

from calve.model.encoding import zigzag

AvroSchema = dict[str, Any]

_BLOCK_BYTES = 128 * 1024
_DEFLATE_LEVEL = 1
_SYNC_BYTES = 16


def container(
    schema: AvroSchema, metadata: Mapping[str, str], compression: str, records: Iterable[bytes]
) -> bytes:
    """An Avro file of records that are encoded already, with the table's compression.

    A codec that Avro readers need not have (zstd, snappy) is written as deflate: every reader has it.
    """
    codec = "null" if compression == "uncompressed" else "deflate"
    head = io.BytesIO()
    fastavro.writer(head, schema, [], codec=codec, metadata=dict(metadata))
    header = head.getvalue()
    sync = header[-_SYNC_BYTES:]
    parts = [header]
    for count, block in _deflated(_blocks(records)) if codec == "deflate" else _blocks(records):
        parts += (zigzag(count), zigzag(len(block)), block, sync)
    return b"".join(parts)


def _deflated(blocks: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The blocks compressed. Where there are several, a thread compresses one while the next is encoded:
    zlib leaves the interpreter to others meanwhile."""
    first, second = next(blocks, None), next(blocks, None)
    if first is None:
        return
    if second is None:
        yield first[0], _deflate(first[1])
        return
    with ThreadPoolExecutor(1, "calve-deflate") as thread:
        under_way = [
            (count, thread.submit(_deflate, block)) for count, block in chain((first, second), blocks)
        ]
        yield from ((count, block.result()) for count, block in under_way)


def _deflate(block: bytes) -> bytes:
    compressor = zlib.compressobj(_DEFLATE_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(block) + compressor.flush()


def _blocks(records: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    pending: list[bytes] = []
    size = 0
    for record in records:
        pending.append(record)
        size += len(record)
        if size >= _BLOCK_BYTES:
            yield len(pending), b"".join(pending)
            pending, size = [], 0
    if pending:
        yield len(pending), b"".join(pending)


def raw_records(content: bytes) -> tuple[AvroSchema, Iterator[tuple[dict[str, Any], bytes]]]:
    """The writer's schema of a container, and each record decoded and as the bytes that it was.

    Logical types stay what they are physically: a timestamp is its microseconds, also beyond year 9999.
    """
    blocks = fastavro.block_reader(io.BytesIO(content))
    schema: AvroSchema = blocks.writer_schema  # type: ignore[assignment]
    plain = fastavro.parse_schema(without_logical_types(schema))
    return schema, _raw(blocks, plain)


def records_without(
    content: bytes, record: str, fields: frozenset[str]
) -> tuple[AvroSchema, Iterator[dict[str, Any]]]:
    """The writer's schema of a container, and its records without some fields of the inner record of a name.
    They are passed over: counts and bounds of a hundred columns take longer than all else of a manifest."""
    blocks = fastavro.block_reader(io.BytesIO(content))
    schema: AvroSchema = blocks.writer_schema  # type: ignore[assignment]
    plain = without_logical_types(schema)
    wanted = {**plain, "fields": [dict(one) for one in plain["fields"]]}
    for one in wanted["fields"]:
        if one["name"] == record:
            inner = [field for field in one["type"]["fields"] if field["name"] not in fields]
            one["type"] = {**one["type"], "fields": inner}
    return schema, _slim(blocks, fastavro.parse_schema(plain), fastavro.parse_schema(wanted))


def _slim(blocks: Any, plain: Any, wanted: Any) -> Iterator[dict[str, Any]]:
    for block in blocks:
        stream = io.BytesIO(_bytes_of(block))
        for _ in range(block.num_records):
            yield fastavro.schemaless_reader(stream, plain, wanted)  # type: ignore[misc]


def _bytes_of(block: Any) -> bytes:
    content: bytes = block.bytes_.getvalue() if hasattr(block.bytes_, "getvalue") else block.bytes_.read()
    return content


def _raw(blocks: Any, plain: Any) -> Iterator[tuple[dict[str, Any], bytes]]:
    for block in blocks:
        data = _bytes_of(block)
        stream = io.BytesIO(data)
        start = 0
        for _ in range(block.num_records):
            record = fastavro.schemaless_reader(stream, plain, None)
            end = stream.tell()
            yield record, data[start:end]  # type: ignore[misc]
            start = end


def without_logical_types(schema: Any) -> Any:
    match schema:
        case dict():
            return {
                key: without_logical_types(value)
                for key, value in schema.items()
                if key != "logicalType" and not key.startswith("__")
            }
        case list():
            return [without_logical_types(part) for part in schema]
    return schema
