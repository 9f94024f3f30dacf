"""Marks: the deleted places of a file as a bit a row.

A reader of rows asks a bit in a few steps, and needs no join. Bits stand as Arrow has truth values: the first
row is the lowest bit of the first byte. That is also a row of 64-bit numbers, the lowest first.
"""

from __future__ import annotations

from bisect import bisect_left

import pyarrow as pa
import pyarrow.compute as pc

BITS = 64
"""Of a number."""
_STEP = 65_536


def marks(gone: pa.Array, first: int, rows: int) -> pa.Array:
    """Numbers with a bit for each of so many rows, and some more to the end of the last number. `gone`:
    deleted rows by their numbers, in ascending order, some perhaps twice; `first`: that of the file's first
    row."""
    known = -(-rows // BITS) * BITS
    counted = pa.array(range(min(_STEP, known)), pa.int64())
    found = [pa.array([], pa.int64())]
    for start in range(0, known, _STEP):
        end = min(start + _STEP, known)
        low, high = (bisect_left(gone, first + one, key=_value) for one in (start, end))
        here = pc.subtract(gone.slice(low, high - low), pa.scalar(first + start, pa.int64()))
        bits = pc.is_in(counted.slice(0, end - start), value_set=here)
        found.append(pa.Array.from_buffers(pa.int64(), (end - start) // BITS, [None, bits.buffers()[1]]))
    return pa.concat_arrays(found)


def _value(place: pa.Scalar) -> int:
    return place.as_py()
