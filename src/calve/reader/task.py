"""Tasks: files of a table as rows, deleted places as rows or as marks. It is what Spark calls in its workers.

    number of a bundle ─▶ its pieces ─▶ columns by id ─▶ less deleted places ─▶ record batches

A plan is sent to workers with the task, and never kept: it carries how the store is reached (P10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.reuse import settle
from calve.model.columns import RESERVED
from calve.reader.columns import Column, Names
from calve.reader.files import Piece, read_piece
from calve.reader.marks import marks
from calve.reader.places import ROWS_MAX, Places, places_of, read_places
from calve.store import Access


@dataclass(frozen=True, slots=True)
class RowsOf:
    """A piece of a file, the places in it that are deleted, and what each of its rows is tagged with."""

    piece: Piece
    places: tuple[Places, ...] = ()
    tags: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """Bundles of pieces; a task reads one."""

    columns: tuple[Column, ...]
    tags: tuple[str, ...]
    """The names of the columns that tags go to."""
    names: Names
    access: Access
    bundles: tuple[tuple[RowsOf, ...], ...]

    @property
    def schema(self) -> pa.Schema:
        # By ids: PySpark does not quote names that it hands to Arrow.
        fields = [pa.field(f"{RESERVED}{column.id}", column.field.type) for column in self.columns]
        return pa.schema([*fields, *(pa.field(tag, pa.int64()) for tag in self.tags)])


@dataclass(frozen=True, slots=True)
class PlacesPlan:
    """Bundles of files with deleted places; a task reads one."""

    files: tuple[str, ...]
    """The data files that are asked about, each with a number: its place here."""
    bundles: tuple[tuple[tuple[Places, int | None], ...], ...]
    """A vector goes with the number of its file."""
    access: Access
    name: str
    """Of the column that places go to."""


@dataclass(frozen=True, slots=True)
class MarksPlan:
    """Files with deleted places; one task reads them all."""

    files: tuple[tuple[str, int], ...]
    """The data files that are asked about, and how many rows each has."""
    deletes: tuple[tuple[Places, int | None], ...]
    """A vector goes with the number of its file."""
    access: Access
    name: str
    """Of the column that marks go to: for each file a list."""


def rows_task(plan: RowsPlan, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of the files of a bundle."""
    pa.set_cpu_count(1)  # the engine runs a task a core
    schema = plan.schema
    for number in _numbers(record_batches):
        for one in plan.bundles[number]:
            yield from _rows(plan, one, schema)
    settle()


def _rows(plan: RowsPlan, one: RowsOf, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    gone = places_of(one.piece.path, one.places, plan.access) if one.places else None
    for place, columns in read_piece(one.piece, plan.columns, plan.names, plan.access):
        rows = len(columns[0]) if columns else 0
        tags = [pa.nulls(rows, pa.int64()).fill_null(tag) for tag in one.tags]
        batch = pa.RecordBatch.from_arrays([*columns, *tags], schema=schema)
        if gone is not None:
            batch = _without(batch, place, gone)
        if batch.num_rows:
            yield batch


def _without(batch: pa.RecordBatch, place: int, gone: pa.Array) -> pa.RecordBatch:
    end = place + batch.num_rows
    near = gone.filter(pc.and_(pc.greater_equal(gone, place), pc.less(gone, end)))
    if not len(near):
        return batch
    places = pa.array(range(place, end), pa.int64())
    return batch.filter(pc.invert(pc.is_in(places, value_set=near)))


def places_task(plan: PlacesPlan, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Deleted places of a bundle, each with its file as one number: that of the file times `ROWS_MAX`, and
    the place in it."""
    pa.set_cpu_count(1)
    for number in _numbers(record_batches):
        for told in _told(plan.files, plan.bundles[number], plan.access):
            yield pa.RecordBatch.from_arrays([told], [plan.name])
    settle()


def marks_task(plan: MarksPlan, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row for each number that comes: of every file, in their order, the marks of its deleted places."""
    pa.set_cpu_count(1)
    for _ in _numbers(record_batches):
        told = _told([path for path, _ in plan.files], plan.deletes, plan.access)
        gone = pa.concat_arrays([pa.array([], pa.int64()), *told])
        gone = gone.take(pc.sort_indices(gone))
        marked = [marks(gone, number * ROWS_MAX, rows) for number, (_, rows) in enumerate(plan.files)]
        ends = accumulate(map(len, marked), initial=0)
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.concat_arrays(marked))
        row = pa.ListArray.from_arrays(pa.array([0, len(lists)], pa.int32()), lists)
        yield pa.RecordBatch.from_arrays([row], [plan.name])
    settle()


def _told(
    files: Sequence[str], deletes: Iterable[tuple[Places, int | None]], access: Access
) -> Iterator[pa.Array]:
    for places, of in deletes:
        mine: Sequence[str] = files if of is None else (files[of],)
        for which, where in read_places(places, mine, access):
            numbers = pc.add(which.cast(pa.int64()), pa.scalar(of or 0, pa.int64()))
            if len(where):
                yield pc.add(pc.multiply(numbers, pa.scalar(ROWS_MAX, pa.int64())), where)


def _numbers(record_batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for rows in record_batches:
        yield from rows.column(0).to_pylist()
