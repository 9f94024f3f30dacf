"""Cuts: a micro-batch that ends after one of its steps. Python workers import it: it needs pyarrow alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_TASKS = 2
_ARROW_BYTES = 4 * 1024 * 1024
_ROW_GROUP_BYTES = 16 * 1024 * 1024

Cut = Callable[[Any, Path], None]
"""What is done with the frame of a micro-batch; files go to the folder."""


def _nothing(frame: Any, _: Path) -> None:
    """No action would be no micro-batch with rows: only the first row is asked for."""
    frame.limit(1).collect()


def _scanned(frame: Any, _: Path) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _shuffled(frame: Any, folder: Path) -> None:
    _scanned(frame.repartition(_TASKS, "id"), folder)


def _transferred(frame: Any, _: Path) -> None:
    _tuned(frame).mapInArrow(_drop, "rows long").collect()


def _encoded(frame: Any, folder: Path) -> None:
    _tuned(frame).mapInArrow(partial(_write, str(folder)), "rows long").collect()
    for file in folder.iterdir():
        file.unlink()


def _tuned(frame: Any) -> Any:
    """Record batches as calve asks for them."""
    frame.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "0")
    frame.sparkSession.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(_ARROW_BYTES))
    return frame


def _by_key(cut: Cut) -> Cut:
    return lambda frame, folder: cut(frame.repartition(_TASKS, "id"), folder)


APPEND: dict[str, Cut] = {
    "a micro-batch of nothing": _nothing,
    "scan": _scanned,
    "to Arrow and Python": _transferred,
    "Parquet and zstd": _encoded,
}

UPSERT: dict[str, Cut] = {
    "a micro-batch of nothing": _nothing,
    "scan": _scanned,
    "shuffle by key": _shuffled,
    "to Arrow and Python": _by_key(_transferred),
    "Parquet and zstd": _by_key(_encoded),
}


def _drop(record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(record_batch.num_rows for record_batch in record_batches)
    yield pa.record_batch({"rows": pa.array([rows], pa.int64())})


def _write(folder: str, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One Parquet file with row groups of 16 MB, as pyarrow writes it: no fsync, no bounds, no checks."""
    pa.set_cpu_count(1)
    writer: pq.ParquetWriter | None = None
    held: list[pa.RecordBatch] = []
    rows = 0
    for record_batch in record_batches:
        if writer is None:
            path = f"{folder}/{uuid.uuid4()}.parquet"
            writer = pq.ParquetWriter(
                path, record_batch.schema, version="2.6", compression="zstd", compression_level=3
            )
        held.append(record_batch)
        rows += record_batch.num_rows
        if sum(one.nbytes for one in held) >= _ROW_GROUP_BYTES:
            writer.write_table(pa.Table.from_batches(held))
            held = []
    if writer is not None:
        if held:
            writer.write_table(pa.Table.from_batches(held))
        writer.close()
    yield pa.record_batch({"rows": pa.array([rows], pa.int64())})
