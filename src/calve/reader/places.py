"""Places: the deleted rows of data files, by their place, wherever that is written.

A deletion vector is of one data file. A Parquet file with positions may be of many: a path and a place a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from calve.reader.vectors import deleted_places
from calve.store import Access, store_for

PATH, PLACE = "file_path", "pos"
ROWS_MAX = 2**40
"""Of a file: a place in one of several files is told as one number, its file's times this."""
_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Places:
    """A file that holds deleted places."""

    path: str
    blob: tuple[int, int] | None = None
    """Of a deletion vector: where in the file, and how long. `None`: a Parquet file with positions."""


def read_places(places: Places, files: Sequence[str], access: Access) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The deleted places of some data files: which of them, and where in it. A vector does not say of which
    file it is: it is given with that one alone."""
    with store_for(places.path, access).open(places.path) as stream:
        if places.blob is not None:
            offset, size = places.blob
            stream.seek(offset)
            found = deleted_places(stream.read(size), f"{places.path} at {offset}")
            yield pa.nulls(len(found), pa.int32()).fill_null(0), found
            return
        known = pa.array(files, pa.string())
        for rows in pq.ParquetFile(stream).iter_batches(
            _BATCH_ROWS, columns=[PATH, PLACE], use_threads=False
        ):
            which = pc.index_in(rows.column(PATH).cast(pa.string()), value_set=known)
            mine = pc.is_valid(which)
            yield which.filter(mine), rows.column(PLACE).filter(mine).cast(pa.int64())


def places_of(file: str, deletes: Sequence[Places], access: Access) -> pa.Array:
    """All deleted places of one data file."""
    found = [places for one in deletes for _, places in read_places(one, [file], access)]
    return pa.concat_arrays([pa.array([], pa.int64()), *found])
