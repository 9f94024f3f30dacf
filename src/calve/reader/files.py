"""Files: a Parquet file, batch by batch, with the places of its rows.

A large file may be read in pieces: a piece has the row groups that begin in its span of bytes, so that
pieces that tile a file read each row once. Batches are cut by bytes, so that wide rows do not grow past what
a worker may hold (P9).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from calve.model.errors import StoreError
from calve.reader.columns import Column, Names, Projection
from calve.store import Access, store_for

BATCH_BYTES = 4 * 1024 * 1024
"""Of a batch in memory, about."""
_BATCH_ROWS_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file: its row groups that begin in `[first, end)`."""

    path: str
    first: int = 0
    end: int | None = None
    """`None`: to the end of the file."""
    constants: tuple[tuple[int, pa.Array], ...] = field(default=())
    """By id, values of the file's partition, each as an array of one."""


def read_piece(
    piece: Piece, columns: Sequence[Column], names: Names, access: Access
) -> Iterator[tuple[int, list[pa.Array]]]:
    """The place of the first row of each batch in its file, and the batch's columns. Where no column is
    wanted or stored, rows are counted all the same: each batch has an array to tell how many."""
    with store_for(piece.path, access).open(piece.path) as stream:
        try:
            file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
        except pa.ArrowInvalid as error:
            raise StoreError(
                f"{piece.path} is no Parquet file: {error}",
                hint="It was cut or replaced: restore it, or roll the table back to a snapshot without it.",
            ) from error
        projection = Projection(file.schema_arrow, columns, names, dict(piece.constants))
        for group, place in _groups(file.metadata, piece):
            for rows in _batches(file, group, projection.names):
                yield place, projection.apply(rows)
                place += rows.num_rows


def _groups(metadata: Any, piece: Piece) -> Iterator[tuple[int, int]]:
    """The row groups of a piece, and the place of the first row of each."""
    place = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        begin = _begin(group)
        if begin >= piece.first and (piece.end is None or begin < piece.end):
            yield number, place
        place += group.num_rows


def _begin(group: Any) -> int:
    if not group.num_columns:
        return 0
    column = group.column(0)
    places = [column.data_page_offset]
    if column.dictionary_page_offset is not None:
        places.append(column.dictionary_page_offset)
    return int(min(places))


def _batches(file: Any, group: int, names: list[str]) -> Iterator[pa.RecordBatch]:
    about = file.metadata.row_group(group)
    if not names:
        # Nothing is read: a batch without columns cannot say how many rows it has.
        yield pa.RecordBatch.from_arrays([pa.nulls(about.num_rows)], ["rows"])
        return
    width = max(1, about.total_byte_size // max(1, about.num_rows))
    rows = max(1, min(_BATCH_ROWS_MAX, BATCH_BYTES // width))
    yield from file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False)
