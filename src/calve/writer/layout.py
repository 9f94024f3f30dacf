"""Layout: which partition a row is in, as a number, so that rows of a partition can be brought together.

    rows ─▶ partition columns ─▶ one number a row ─▶ (sorted elsewhere) ─▶ runs of one number

Guarantee: rows have one number exactly where they are of one partition, over all tables that were numbered
here. Nulls of a field are one partition, and so are NaNs, whatever their bits; -0.0 and 0.0 are two, as in
Iceberg, which orders them.

A number is a column to sort by like any other: whatever the types of the partition fields, an order by
partition is an order by one integer. Numbers are given when a partition is first seen; what is kept of each
is less than the report of its file.

Not here: how rows come into that order (arrange.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import BadName
from calve.model.file import PartitionValue
from calve.model.layout import PartitionField, SortField, TransformKind
from calve.writer.order import Sort, comparable, float_bits, whole
from calve.writer.transform import apply_transform, partition_value

NUMBER_COLUMN = "__calve_partition"
"""The column of numbered rows that holds their partition's number. Never written to a file."""

Values = tuple[PartitionValue, ...]


class Partitions:
    """The partitions of a batch, each with a number."""

    def __init__(self, fields: tuple[PartitionField, ...]) -> None:
        self._fields = fields
        self._values: list[Values] = []
        self._numbers: dict[tuple[object, ...], int] = {}

    def __getitem__(self, number: int) -> Values:
        """The values of a partition; none where the table has no partitions."""
        return self._values[number] if self._fields else ()

    def before(self, sort: Sort) -> Sort:
        """The order of numbered rows: by partition first."""
        return (SortField(NUMBER_COLUMN), *sort) if self._fields else sort

    def number(self, rows: pa.Table) -> pa.Table:
        """Rows with the numbers of their partitions; as they are where the table has none."""
        if not self._fields:
            return rows
        if NUMBER_COLUMN in rows.column_names:
            raise BadName(
                f"the column name {NUMBER_COLUMN!r} is the sink's own",
                hint="Rename the column.",
                about="source",
            )
        columns = [_partition_column(field, rows) for field in self._fields]
        codes = _codes(columns)
        known = pa.array([self._number_of(columns, row) for row in _first_rows(codes)], pa.int32())
        return rows.append_column(pa.field(NUMBER_COLUMN, pa.int32(), nullable=False), known.take(codes))

    def cut(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Numbered rows as runs of one number, without a copy; the numbers are not in the runs."""
        if not self._fields:
            yield 0, rows
            return
        numbers = whole(rows.column(NUMBER_COLUMN))
        rows = rows.drop_columns([NUMBER_COLUMN])
        starts = [0, *(place + 1 for place in _changes(numbers))]
        for start, stop in zip(starts, [*starts[1:], len(numbers)], strict=True):
            yield numbers[start].as_py(), rows.slice(start, stop - start)

    def _number_of(self, columns: list[pa.Array], row: int) -> int:
        values = tuple(partition_value(column[row]) for column in columns)
        identity = tuple(value.hex() if isinstance(value, float) else value for value in values)
        number = self._numbers.setdefault(identity, len(self._values))
        if number == len(self._values):
            self._values.append(values)
        return number


def _partition_column(field: PartitionField, rows: pa.Table) -> pa.Array:
    if field.transform.kind is TransformKind.VOID and field.column not in rows.column_names:
        # Void is null whatever the column holds: deletes need not carry one that is no part of the key.
        return pa.nulls(rows.num_rows)
    # As one array: rows that come from many spills are in very many chunks.
    return apply_transform(field.transform, whole(rows.column(field.column)))


def _codes(columns: list[pa.Array]) -> pa.Array:
    """A number for each row, equal for rows of one partition: 0, 1, 2, … in order of first appearance."""
    codes: pa.Array | None = None
    for column in columns:
        encoded = _encode(_groupable(column))
        if codes is None:
            codes = encoded.indices
            continue
        # Codes are renumbered after each field: their product then never passes rows squared.
        pairs = pc.multiply(codes.cast(pa.int64()), pa.scalar(len(encoded.dictionary), pa.int64()))
        codes = _encode(pc.add(pairs, encoded.indices.cast(pa.int64()))).indices
    assert codes is not None, "a table without partition fields has no codes"
    return codes


def _encode(column: pa.Array) -> pa.DictionaryArray:
    return pc.dictionary_encode(column, null_encoding="encode")


def _first_rows(codes: pa.Array) -> list[int]:
    """By code, the row where it stands first: codes appear in their order."""
    if len(codes) == 0:
        return []
    return [0, *(place + 1 for place in _changes(pc.cumulative_max(codes)))]


def _changes(column: pa.Array) -> list[int]:
    """The places whose next value is another one."""
    changes: list[int] = pc.indices_nonzero(
        pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
    ).to_pylist()
    return changes


def _groupable(column: pa.Array) -> pa.Array:
    """A column whose equal values, and only they, are one partition value."""
    return float_bits(column) if pa.types.is_floating(column.type) else comparable(column)
