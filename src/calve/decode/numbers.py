"""Numbers and bytes in texts, by kernels: base64, hexadecimal digits, unscaled decimals."""

from __future__ import annotations

import base64
import binascii
from array import array

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.texts import hexed

_WIDTH = 16
"""Bytes of a decimal, and hexadecimal digits of a number."""
_LEAST = "8" + "0" * 31


def unbase64(texts: pa.Array) -> pa.Array:
    """Bytes from base64. All texts lie one behind the other in memory and are read in one go: four characters
    are three bytes, wherever they stand, and what a `=` stands for is cut off again."""
    texts = pa.concat_arrays([texts])
    validity, offsets, data = texts.buffers()
    at = pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, offsets], offset=texts.offset)
    first, last = at[0].as_py(), at[-1].as_py()
    text = b"" if data is None else data.slice(first, last - first).to_pybytes()
    ends = [pc.fill_null(pc.cast(pc.ends_with(texts, sign), pa.int32()), 0) for sign in ("=", "==")]
    missing = pc.add(*ends)
    lengths = pc.fill_null(pc.binary_length(texts), 0)
    if pc.any(pc.not_equal(pc.bit_wise_and(lengths, pa.scalar(3, lengths.type)), 0)).as_py():
        raise pa.ArrowInvalid("base64 comes in fours")
    if text.count(b"=") != (pc.sum(missing).as_py() or 0):
        raise pa.ArrowInvalid("a = in the middle of base64")
    try:
        found = base64.b64decode(text.replace(b"=", b"A"), validate=True)
    except binascii.Error as error:
        raise pa.ArrowInvalid("not base64") from error
    starts = pc.cast(pc.multiply(pc.divide(pc.subtract(at, first), 4), 3), pa.int32())
    if texts.null_count and texts.offset:
        validity = pc.is_valid(texts).buffers()[1]
    buffers = [validity if texts.null_count else None, starts.buffers()[1], pa.py_buffer(found)]
    whole = pa.Array.from_buffers(pa.binary(), len(texts), buffers)
    for number in (1, 2):
        cut = pc.equal(missing, number)
        if pc.any(cut).as_py():
            whole = pc.if_else(cut, pc.binary_slice(whole, 0, -number), whole)
    return whole


def unscaled(numbers: pa.Array, scale: int) -> pa.Array:
    """Decimals from the bytes of their unscaled numbers: big-endian, two's complement."""
    lengths = pc.binary_length(numbers)
    if pc.any(pc.or_(pc.equal(lengths, 0), pc.greater(lengths, _WIDTH))).as_py():
        raise pa.ArrowInvalid("an unscaled number has 1 to 16 bytes")
    digits = hexed(pc.fill_null(numbers, b"\0"))
    wide = pc.ascii_lpad(digits, 2 * _WIDTH, "0")
    negative = pc.greater_equal(digits, "8")
    if pc.any(negative).as_py():
        wide = pc.if_else(negative, pc.ascii_lpad(digits, 2 * _WIDTH, "f"), wide)
    if pc.any(pc.equal(wide, _LEAST)).as_py():
        raise pa.ArrowInvalid("a number of which Arrow does not see that it is too long")
    _, _, data = pa.concat_arrays([wide]).buffers()
    halves = array("Q", b"" if data is None else bytes.fromhex(data.to_pybytes()[: 32 * len(wide)].decode()))
    halves.byteswap()
    halves[0::2], halves[1::2] = halves[1::2], halves[0::2]
    validity = pc.is_valid(numbers).buffers()[1] if numbers.null_count else None
    kind = pa.decimal128(38, scale)
    found = pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(halves)])
    found.validate(full=True)
    return found


def digits(numbers: pa.Array) -> pa.Array:
    """Numbers of 64 bits, none below zero, as 16 hexadecimal digits: texts that sort as the numbers do."""
    plain = pa.concat_arrays([pc.fill_null(numbers, 0)])
    swapped = array("q", plain.buffers()[1].slice(plain.offset * 8, len(plain) * 8).to_pybytes())
    swapped.byteswap()
    data = pa.py_buffer(swapped.tobytes().hex().upper().encode())
    texts = pa.Array.from_buffers(pa.binary(_WIDTH), len(plain), [None, data])
    texts = pc.cast(pc.cast(texts, pa.binary()), pa.string())
    if not numbers.null_count:
        return texts
    return pc.if_else(pc.is_valid(numbers), texts, pa.scalar(None, pa.string()))
