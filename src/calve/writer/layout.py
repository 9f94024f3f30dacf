"""Layout: rows cut by partition and sorted inside, so that a worker has one file open at a time.

    table ─▶ partition columns ─▶ one code a row ─▶ order by code, then sort order ─▶ runs

Guarantee: every row comes out once, in the run of its partition, and each partition has one run. Nulls
of a field are one partition, and so are NaNs, whatever their bits; -0.0 and 0.0 are two, as in Iceberg,
which orders them. Inside a run rows follow the plan's sort order, and keep their order where it says
nothing.

Rows move once: an order is computed over codes, and a run is taken when it is asked for. Rows that
already lie in runs are sliced without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.file import PartitionValue
from calve.model.layout import PartitionField, SortField, TransformKind
from calve.writer.murmur import plain
from calve.writer.plan import WritePlan
from calve.writer.transform import apply_transform, partition_value

Run = tuple[tuple[PartitionValue, ...], pa.Table]


def split_by_partition(plan: WritePlan, table: pa.Table) -> Iterator[Run]:
    """The rows of each partition, sorted. A table of keys alone is sorted by what it has of the order."""
    if table.num_rows == 0:
        return
    values = [_partition_column(field, table) for field in plan.partition]
    codes = _codes(values)
    order = _order(codes, plan.sort, table)
    if order is None and codes is None:
        yield tuple(partition_value(column[0]) for column in values), table
        return
    if order is not None:
        table = table.combine_chunks()
        codes = None if codes is None else codes.take(order)
    for start, rows in _runs(codes, table.num_rows):
        taken = None if order is None else order.slice(start, rows)
        first = start if taken is None else taken[0].as_py()
        run = table.slice(start, rows) if taken is None else table.take(taken)
        yield tuple(partition_value(column[first]) for column in values), run


def _partition_column(field: PartitionField, table: pa.Table) -> pa.ChunkedArray:
    if field.transform.kind is TransformKind.VOID and field.column not in table.column_names:
        # Void is null whatever the column holds: deletes need not carry one that is no part of the key.
        return pa.chunked_array([pa.nulls(table.num_rows)])
    return apply_transform(field.transform, table.column(field.column))


def in_order(sort: tuple[SortField, ...], before: pa.Table, after: pa.Table) -> bool:
    """Whether the last row of a table may be followed by the first row of another."""
    if not sort:
        return True
    seam = pa.concat_tables([before.slice(before.num_rows - 1), after.slice(0, 1)])
    order = _order(None, sort, seam)
    return order is None or order[0].as_py() == 0


def _codes(values: list[pa.ChunkedArray]) -> pa.Int64Array | None:
    """A number for each row, equal for rows of one partition; None where there is but one."""
    codes: pa.Int64Array | None = None
    partitions = 1
    for column in values:
        encoded = _encode(_groupable(_whole(column)))
        fresh, count = encoded.indices.cast(pa.int64()), len(encoded.dictionary)
        if count == 1:
            continue
        if codes is None:
            codes, partitions = fresh, count
            continue
        # Codes are renumbered after each field: their product then never passes rows squared.
        joint = _encode(pc.add(pc.multiply(codes, count), fresh))
        codes, partitions = joint.indices.cast(pa.int64()), len(joint.dictionary)
    return None if partitions == 1 else codes


def _encode(column: pa.Array) -> pa.DictionaryArray:
    return pc.dictionary_encode(column, null_encoding="encode")


def _order(
    codes: pa.Int64Array | None, sort: tuple[SortField, ...], table: pa.Table
) -> pa.UInt64Array | None:
    """The order of rows by code and sort order; None where they stand so already."""
    present = [field for field in sort if field.column in table.column_names]
    if not present:
        return None if codes is None or _ascending(codes) else pc.sort_indices(codes)
    names, columns = ([], []) if codes is None else ([("code", "ascending")], [codes])
    for number, field in enumerate(present):
        column = _orderable(_whole(table.column(field.column)))
        if column.null_count:
            # A key of its own for nulls: Arrow would place them for all columns alike.
            names.append((f"null{number}", "descending" if field.nulls_first else "ascending"))
            columns.append(column.is_null().cast(pa.int8()))
        names.append((f"key{number}", "descending" if field.descending else "ascending"))
        columns.append(column)
    keys = pa.Table.from_arrays(columns, names=[name for name, _ in names])
    order = pc.sort_indices(keys, sort_keys=names)
    return None if _ascending(order) else order


def _ascending(column: pa.Array) -> bool:
    return bool(
        pc.all(pc.less_equal(column.slice(0, len(column) - 1), column.slice(1))).as_py() in (True, None)
    )


def _runs(codes: pa.Int64Array | None, rows: int) -> Iterator[tuple[int, int]]:
    """Where runs of equal codes begin, and how many rows each has."""
    starts = [0]
    if codes is not None:
        changes = pc.not_equal(codes.slice(1), codes.slice(0, rows - 1))
        starts += [index + 1 for index in pc.indices_nonzero(changes).to_pylist()]
    for start, stop in zip(starts, [*starts[1:], rows], strict=True):
        yield start, stop - start


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _groupable(column: pa.Array) -> pa.Array:
    """A column whose equal values, and only they, are one partition value."""
    return _float_bits(column) if pa.types.is_floating(column.type) else _plain(column)


def _orderable(column: pa.Array) -> pa.Array:
    """A column that Arrow sorts as Iceberg orders: NaN above all numbers, -0.0 below 0.0."""
    if not pa.types.is_floating(column.type):
        return _plain(column)
    bits = _float_bits(column)
    greatest = pa.scalar(2**31 - 1 if pa.types.is_int32(bits.type) else 2**63 - 1, bits.type)
    # Negative floats order by their bits in reverse; all but the sign is turned around.
    return pc.if_else(pc.less(bits, pa.scalar(0, bits.type)), pc.bit_wise_xor(bits, greatest), bits)


def _float_bits(column: pa.Array) -> pa.Array:
    nan = pa.scalar(float("nan"), column.type)
    bits = pa.int32() if pa.types.is_float32(column.type) else pa.int64()
    return pc.if_else(pc.is_nan(column), nan, column).view(bits)


def _plain(column: pa.Array) -> pa.Array:
    column = plain(column)
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(column.type) else column
