"""Reader: one file of a changefeed to record batches. In executors, with pyarrow alone.

    bytes ──▶ (unpacked, as a stream) ──▶ lines │ Parquet ──▶ rows ──▶ record batches of the plan's columns
    RESOLVED ──▶ a mark

Guarantee: a file is read whole, or not at all. One that is cut off or damaged raises, and the micro-batch
fails with it: nothing of it is committed as if it were the file. A row that is bad is a row with an error
(P8).

Not here: which files (`listing`), what a line is (`lines`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from calve.model.errors import BadMessage, BadTime, FileMissing, StoreError
from calve.model.time import format_hlc, parse_hlc
from calve.source.cockroachdb.blocks import blocks
from calve.source.cockroachdb.lines import LineReader, Rows
from calve.source.cockroachdb.names import DataFile, ResolvedFile, parse_name
from calve.source.cockroachdb.parquet import ParquetReader
from calve.source.cockroachdb.plan import ReadPlan
from calve.store import store_for

_PACKED = {".ndjson.gz": "gzip", ".ndjson.zst": "zstd"}
_RESOLVED_BYTES_MAX = 64 * 1024
_PUT_BACK = (
    "Put it back as the changefeed wrote it, and start again; where it is lost, create the changefeed anew "
    "from the last RESOLVED file before it (WITH cursor)."
)


def read_file(path: str, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """The rows of a file, or the mark that a RESOLVED file is."""
    file = parse_name(path)
    if isinstance(file, ResolvedFile):
        yield _mark(file, plan)
    elif file is not None and (plan.topics is None or file.topic in plan.topics):
        for rows in _rows(file, plan):
            yield _batch(file, rows, plan)


def _rows(file: DataFile, plan: ReadPlan) -> Iterator[Rows]:
    table = plan.table(file.topic)
    try:
        with opened(file, plan) as stream:
            if file.kind == ".parquet":
                yield from ParquetReader(file, table).rows(stream)
                return
            reader = LineReader(file.topic, table)
            block = None
            for block in blocks(stream, plan.block_bytes, file.path):
                yield from reader.rows(block)
            if block is None:
                raise OSError("it is empty, and a changefeed writes no file without a row")
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            f"the file {plan.location(file.path)} cannot be read to its end: {error}",
            hint=f"It is cut off or damaged, so that nothing of its micro-batch was taken. {_PUT_BACK}",
        ) from error


@contextmanager
def opened(file: DataFile, plan: ReadPlan) -> Iterator[pa.NativeFile]:
    """A file's content, unpacked as it is read."""
    location = plan.location(file.path)
    with _open(location, plan) as stream:
        packing = _PACKED.get(file.kind)
        yield stream if packing is None else pa.CompressedInputStream(stream, packing)


def _open(location: str, plan: ReadPlan) -> pa.NativeFile:
    try:
        return store_for(location, plan.access).open(location)
    except FileMissing as error:
        raise FileMissing(
            error.message,
            hint="It was listed and was deleted since, before its micro-batch was committed: files must stay "
            f"until then, whatever cleans the bucket. {_PUT_BACK}",
        ) from error


def _mark(file: ResolvedFile, plan: ReadPlan) -> pa.RecordBatch:
    """A resolved timestamp includes its own moment; a mark does not."""
    location = plan.location(file.path)
    with _open(location, plan) as stream:
        content = stream.read(_RESOLVED_BYTES_MAX)
    if not content.startswith(b"PAR1"):  # in Parquet it is a decimal of a width that nobody reads
        _check_resolved(file, content, location)
    columns = {field.name: pa.nulls(1, field.type) for field in plan.schema}
    columns["file"] = pa.array([file.path])
    columns["mark"] = pa.array([file.time + 1], columns["mark"].type)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=plan.schema)


def _check_resolved(file: ResolvedFile, content: bytes, location: str) -> None:
    try:
        said = json.loads(content)
        said = said.get("__crdb__", said)["resolved"]
        agrees = parse_hlc(said) == file.time
    except (ValueError, KeyError, TypeError, AttributeError, BadTime):
        agrees, said = False, content[:100].decode("utf-8", "replace")
    if not agrees:
        raise BadMessage(
            f"the file {location} says {said!r}, and its name {format_hlc(file.time)}",
            hint="It is cut off, damaged or not the changefeed's. Put it back as it was written.",
        )


def _batch(file: DataFile, rows: Rows, plan: ReadPlan) -> pa.RecordBatch:
    count = len(rows.line)
    common = [
        pa.repeat(pa.scalar(file.topic), count),
        pa.repeat(pa.scalar(file.path), count),
        rows.line,
        rows.change,
        rows.at,
        pa.nulls(count, plan.schema.field("mark").type),
        rows.error,
        rows.raw,
    ]
    return pa.RecordBatch.from_arrays(
        [*common, *plan.structs.put(file.topic, rows.values, count)], schema=plan.schema
    )
