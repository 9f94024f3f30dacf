"""Decimals as 128-bit integers: their unscaled values in two unsigned halves, without a loop over rows.

Arrow stores a decimal128 as 16 little-endian bytes. Iceberg hashes and truncates the unscaled integer
itself, where decimal arithmetic would round, widen or refuse: so both work on these halves. Slots of
nulls hold whatever the buffer holds; callers mask them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def counting(rows: int) -> pa.Int64Array:
    """0, 1, 2 … rows - 1."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1)


def halves(column: pa.Decimal128Array) -> tuple[pa.UInt64Array, pa.UInt64Array]:
    """The low and the high 64 bits of each unscaled value, two's complement."""
    rows = len(column)
    if rows == 0:
        return pa.array([], pa.uint64()), pa.array([], pa.uint64())
    words = pa.Array.from_buffers(
        pa.uint64(), 2 * rows, [None, column.buffers()[1]], offset=2 * column.offset
    )
    low_at = pc.multiply(counting(rows), 2)
    return words.take(low_at), words.take(pc.add(low_at, 1))


def from_halves(low: pa.UInt64Array, high: pa.UInt64Array, decimal: pa.DataType) -> pa.Decimal128Array:
    """The inverse of `halves`; without nulls, and without a check of the precision."""
    rows = len(low)
    row = counting(2 * rows)
    odd = pc.bit_wise_and(row, 1)
    # Row 2i comes from low[i], row 2i + 1 from high[i], which stands `rows` further in the concatenation.
    interleaved = pc.add(pc.shift_right(row, 1), pc.multiply(odd, rows))
    words = pa.concat_arrays([low, high]).take(interleaved)
    return pa.Array.from_buffers(decimal, rows, [None, words.buffers()[1]])


def minimal_bytes(column: pa.Decimal128Array) -> pa.LargeBinaryArray:
    """The unscaled values as big-endian two's complement with no byte more than needed."""
    if len(column) == 0:
        return pa.array([], pa.large_binary())
    size = _bytes_needed(*halves(column))
    whole = pc.binary_reverse(column.view(pa.binary(16)).cast(pa.large_binary()))
    size_max = pc.max(size).as_py()
    candidates = [pc.binary_slice(whole, 16 - kept, 16) for kept in range(1, size_max + 1)]
    return pc.choose(pc.subtract(size, 1), *candidates)


def _bytes_needed(low: pa.UInt64Array, high: pa.UInt64Array) -> pa.Int64Array:
    """How many bytes a two's-complement value needs: one more for every byte that it does not fit in."""
    negative = pc.greater_equal(high, pa.scalar(1 << 63, pa.uint64()))
    low, high = (pc.if_else(negative, pc.bit_wise_not(half), half) for half in (low, high))
    zero = pa.scalar(0, pa.uint64())
    in_high = pc.not_equal(high, zero)
    needed = pa.repeat(pa.scalar(1, pa.int64()), len(low))
    for size in range(1, 16):
        word, shift = divmod(8 * size - 1, 64)
        above = pc.not_equal(pc.shift_right((low, high)[word], pa.scalar(shift, pa.uint64())), zero)
        too_long = pc.or_(above, in_high) if word == 0 else above
        needed = pc.add(needed, too_long.cast(pa.int64()))
    return needed
