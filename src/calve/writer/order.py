"""Order: a sort order on Arrow rows, as Iceberg orders values.

    rows ─▶ sort keys, one or two a field ─▶ the order of rows · the place of a bound among them

Guarantee: nulls stand where the field says, NaN above all numbers, -0.0 below 0.0; rows that the order does
not tell apart keep the order in which they came. A field whose column is not there says nothing: a table of
keys is sorted by what it has of the order.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.layout import SortField
from calve.writer.murmur import plain

Sort = tuple[SortField, ...]


@dataclass(frozen=True, slots=True)
class _Key:
    """A column that Arrow sorts as its field says."""

    values: pa.Array
    descending: bool


def order_of(sort: Sort, rows: pa.Table) -> pa.UInt64Array | None:
    """The numbers of the rows in their order; None where they stand so already."""
    keys = _keys(sort, rows) if rows.num_rows > 1 else []
    if not keys or (len(keys) == 1 and not keys[0].descending and is_ascending(keys[0].values)):
        return None
    names = [(str(place), "descending" if key.descending else "ascending") for place, key in enumerate(keys)]
    columns = pa.Table.from_arrays([key.values for key in keys], names=[name for name, _ in names])
    order = pc.sort_indices(columns, sort_keys=names)
    return None if is_ascending(order) else order


def in_order(sort: Sort, before: pa.Table, after: pa.Table) -> bool:
    """Whether the last row of a table may be followed by the first row of another."""
    if not sort:
        return True
    order = order_of(sort, pa.concat_tables([before.slice(before.num_rows - 1), after.slice(0, 1)]))
    return order is None


def rows_until(sort: Sort, rows: pa.Table, bound: pa.Table, *, ties: bool) -> int:
    """How many of the rows, which stand in order, come before a row, or with it where `ties` says so."""
    # Keys of both at once: whether a column has a key for nulls hangs on all that is compared.
    keys = _keys(sort, pa.concat_tables([rows, bound]))
    beyond = pa.repeat(pa.scalar(not ties), rows.num_rows)
    for key in reversed(keys):
        values, limit = key.values.slice(0, rows.num_rows), key.values[rows.num_rows]
        passes = pc.less(values, limit) if key.descending else pc.greater(values, limit)
        equal = pc.equal(values, limit) if limit.is_valid else values.is_null()
        beyond = pc.or_(pc.fill_null(passes, False), pc.and_(pc.fill_null(equal, False), beyond))
    return rows.num_rows - (pc.sum(beyond).as_py() or 0)


def taken(rows: pa.Table, order: pa.Array) -> pa.Table:
    """Rows in an order: a column after the other, as each is in memory twice meanwhile."""
    return pa.Table.from_arrays([whole(column).take(order) for column in rows.columns], schema=rows.schema)


def is_ascending(column: pa.Array) -> bool:
    """Whether no value is greater than the next."""
    rises = pc.all(pc.less_equal(column.slice(0, len(column) - 1), column.slice(1)))
    return rises.as_py() in (True, None)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def float_bits(column: pa.Array) -> pa.Array:
    """Floats as integers that are equal where the floats are: all NaNs are one, the two zeros are two."""
    nan = pa.scalar(float("nan"), column.type)
    bits = pa.int32() if pa.types.is_float32(column.type) else pa.int64()
    return pc.if_else(pc.is_nan(column), nan, column).view(bits)


def comparable(column: pa.Array) -> pa.Array:
    """The values themselves, in a type that Arrow compares."""
    column = plain(column)
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(column.type) else column


def _keys(sort: Sort, rows: pa.Table) -> list[_Key]:
    keys: list[_Key] = []
    for field in sort:
        if field.column not in rows.column_names:
            continue
        column = _orderable(whole(rows.column(field.column)))
        if column.null_count:
            # A key of its own for nulls: Arrow would place them for all columns alike.
            keys.append(_Key(column.is_null().cast(pa.int8()), field.nulls_first))
        keys.append(_Key(column, field.descending))
    return keys


def _orderable(column: pa.Array) -> pa.Array:
    """A column that Arrow sorts as Iceberg orders."""
    if not pa.types.is_floating(column.type):
        return comparable(column)
    bits = float_bits(column)
    greatest = pa.scalar(2**31 - 1 if pa.types.is_int32(bits.type) else 2**63 - 1, bits.type)
    # Negative floats order by their bits in reverse; all but the sign is turned around.
    return pc.if_else(pc.less(bits, pa.scalar(0, bits.type)), pc.bit_wise_xor(bits, greatest), bits)
