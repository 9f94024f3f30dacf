"""Murmur3 (32 bits, x86) over Arrow columns: the hash of Iceberg's buckets, and of keys that are spilled.

    column ─▶ little-endian 32-bit words ─▶ mix word by word, all rows at once ─▶ finish

Guarantee: the hash of a value is the one of Iceberg's specification, appendix B: integers, dates, times
and timestamps as 8-byte longs, decimals as their minimal unscaled bytes, strings as UTF-8. A null has
no hash. `hash_keys` gives equal hashes to equal keys, nulls included.

Values are padded to whole words with one to four zero bytes, so that a value's last word is always its
tail: murmur's tail of no bytes is a zero word, and mixing a zero in changes nothing. Rows are ordered by
their number of words; those still at work are then a prefix that shrinks, and the cost is the bytes that
are hashed, not rows times the longest value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import iter_unpack

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import BadKey
from calve.writer.int128 import minimal_bytes

ROWS_AT_ONCE = 64 * 1024
"""Columns are hashed in pieces: the padded copy of a piece is all the memory that a hash takes."""

_STRAGGLERS = 16
"""So few rows are finished one by one: a single long value would cost a kernel call per four bytes."""

_U32 = pa.uint32()
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_MASK = 0xFFFFFFFF
_NULL_HASH = 0x9E3779B9


def murmur3(column: pa.Array, seed: int = 0) -> pa.UInt32Array:
    """The hashes of a column's values; null for null."""
    pieces = [
        _hash_piece(column.slice(start, ROWS_AT_ONCE), seed) for start in range(0, len(column), ROWS_AT_ONCE)
    ]
    return pa.concat_arrays(pieces) if pieces else pa.array([], _U32)


def hash_keys(table: pa.Table, columns: Sequence[str], seed: int = 0) -> pa.UInt32Array:
    """One hash for each row over several columns; rows with equal values have equal hashes."""
    combined = pa.repeat(pa.scalar(seed & _MASK, _U32), len(table))
    for name in columns:
        column = table.column(name)
        hashes = [murmur3(_comparable(chunk, name), seed) for chunk in column.chunks]
        hashed = pa.concat_arrays(hashes) if hashes else pa.array([], _U32)
        combined = _mix(combined, pc.fill_null(hashed, pa.scalar(_NULL_HASH, _U32)))
    return _finish(combined, pa.scalar(4 * len(columns), _U32))


def plain(column: pa.Array) -> pa.Array:
    """The values themselves, out of a dictionary or an extension type."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def as_longs(column: pa.Array) -> pa.Int64Array | None:
    """Integers, dates, times and timestamps as Iceberg's physical numbers; None for other types."""
    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.view(pa.int32()).cast(pa.int64())
    if pa.types.is_time64(kind) or pa.types.is_timestamp(kind):
        return column.view(pa.int64())
    return None


def _comparable(column: pa.Array, name: str) -> pa.Array:
    """A key column in a form in which equal values have equal bytes."""
    column = plain(column)
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        raise BadKey(
            f"the key column {name!r} has type {kind}, whose values cannot be compared exactly",
            hint="Use a key of integers, strings, dates, times, decimals, uuids or bytes.",
        )
    return column.cast(pa.int64()) if pa.types.is_boolean(kind) else column


def _hash_piece(column: pa.Array, seed: int) -> pa.UInt32Array:
    column = plain(column)
    longs = as_longs(column)
    if longs is not None:
        hashed = _hash_longs(longs, seed)
    elif pa.types.is_decimal128(column.type):
        hashed = _hash_bytes(minimal_bytes(column), seed)
    else:
        hashed = _hash_bytes(column.cast(pa.large_binary()), seed)
    return pc.if_else(column.is_valid(), hashed, pa.scalar(None, _U32)) if column.null_count else hashed


def _hash_longs(longs: pa.Int64Array, seed: int) -> pa.UInt32Array:
    bits = longs.view(pa.uint64())
    low = pc.bit_wise_and(bits, pa.scalar(_MASK, pa.uint64())).cast(_U32)
    high = pc.shift_right(bits, pa.scalar(32, pa.uint64())).cast(_U32)
    start = pa.repeat(pa.scalar(seed & _MASK, _U32), len(longs))
    return _finish(_mix(_mix(start, low), high), pa.scalar(8, _U32))


def _hash_bytes(values: pa.LargeBinaryArray, seed: int) -> pa.UInt32Array:
    values = pc.fill_null(values, b"")
    lengths = pc.binary_length(values).cast(pa.int64())
    order = pc.sort_indices(lengths, sort_keys=[("", "descending")])
    lengths = lengths.take(order)
    words, first = _words(values, lengths, order)
    blocks = pc.shift_right(lengths, 2)
    done: list[pa.UInt32Array] = []
    active, block = len(order), 0
    state = pa.repeat(pa.scalar(seed & _MASK, _U32), active)
    while active:
        # Sorted by length, descending: the rows that have a further block are a prefix.
        going_on = pc.sum(pc.greater(blocks.slice(0, active), block)).as_py()
        if going_on <= _STRAGGLERS and block < blocks[0].as_py():
            rest = [_hash_one(values[order[row].as_py()].as_py(), seed) for row in range(going_on)]
            done.append(_close(state, words, first, blocks, lengths, going_on, active))
            done.append(pa.array(rest, _U32))
            break
        if going_on < active:
            done.append(_close(state, words, first, blocks, lengths, going_on, active))
        state = _mix(state.slice(0, going_on), words.take(pc.add(first.slice(0, going_on), block)))
        active, block = going_on, block + 1
    return pa.concat_arrays(done[::-1]).take(pc.sort_indices(order))


@cache
def _padding() -> pa.LargeBinaryArray:
    """What a value of so many bytes beyond whole words lacks. Not made on import: ops.py says why."""
    return pa.array([b"\0" * (4 - length) for length in range(4)], pa.large_binary())


def _words(
    values: pa.LargeBinaryArray, lengths: pa.Int64Array, order: pa.UInt64Array
) -> tuple[pa.UInt32Array, pa.Int64Array]:
    """All values as one run of words, in `order`, and where each value's words begin."""
    padding = _padding().take(pc.bit_wise_and(lengths, 3))
    padded = pc.binary_join_element_wise(values.take(order), padding, pa.scalar(b"", pa.large_binary()))
    _, offsets, content = padded.buffers()
    begin = pa.Array.from_buffers(pa.int64(), len(order), [None, offsets], offset=padded.offset)
    words = pa.Array.from_buffers(_U32, content.size // 4, [None, content])
    return words, pc.shift_right(begin, 2)


def _close(
    state: pa.UInt32Array,
    words: pa.UInt32Array,
    first: pa.Int64Array,
    blocks: pa.Int64Array,
    lengths: pa.Int64Array,
    start: int,
    stop: int,
) -> pa.UInt32Array:
    """Mix the tails into the rows `start` to `stop`, which have no further block, and finish them."""
    rows = stop - start
    tails = words.take(pc.add(first.slice(start, rows), blocks.slice(start, rows)))
    mixed = pc.bit_wise_xor(state.slice(start, rows), _scramble(tails))
    return _finish(mixed, lengths.slice(start, rows).cast(_U32))


def _mix(state: pa.UInt32Array, word: pa.UInt32Array) -> pa.UInt32Array:
    mixed = _rotate(pc.bit_wise_xor(state, _scramble(word)), 13)
    return pc.add(pc.multiply(mixed, pa.scalar(5, _U32)), pa.scalar(0xE6546B64, _U32))


def _scramble(word: pa.UInt32Array) -> pa.UInt32Array:
    return pc.multiply(_rotate(pc.multiply(word, pa.scalar(_C1, _U32)), 15), pa.scalar(_C2, _U32))


def _rotate(word: pa.UInt32Array, bits: int) -> pa.UInt32Array:
    left = pc.shift_left(word, pa.scalar(bits, _U32))
    return pc.bit_wise_or(left, pc.shift_right(word, pa.scalar(32 - bits, _U32)))


def _finish(state: pa.UInt32Array, length: pa.UInt32Array | pa.UInt32Scalar) -> pa.UInt32Array:
    state = pc.bit_wise_xor(state, length)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = pc.bit_wise_xor(state, pc.shift_right(state, pa.scalar(shift, _U32)))
        state = pc.multiply(state, pa.scalar(factor, _U32))
    return pc.bit_wise_xor(state, pc.shift_right(state, pa.scalar(16, _U32)))


def _hash_one(value: bytes, seed: int) -> int:
    """The same hash of one long value."""
    state, whole = seed & _MASK, len(value) & ~3
    for (word,) in iter_unpack("<I", value[:whole]):
        state ^= _scramble_one(word)
        state = ((state << 13 | state >> 19) * 5 + 0xE6546B64) & _MASK
    state ^= _scramble_one(int.from_bytes(value[whole:], "little")) ^ len(value) & _MASK
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _scramble_one(word: int) -> int:
    word = word * _C1 & _MASK
    return (word << 15 | word >> 17) * _C2 & _MASK
