"""Bounds: values in Iceberg's single-value binary form, and cut as Iceberg cuts long ones.

Guarantee: a lower bound is never greater than the value, an upper bound never less. A cut lower bound
is a prefix; a cut upper bound is a prefix whose last code point (or byte) that can grow has grown by
one. Where none can grow there is no upper bound: None, never a wrong one.
"""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from typing import TypeVar

import pyarrow as pa

from calve.model.file import PartitionValue

_SURROGATES_FIRST, _SURROGATES_LAST = 0xD800, 0xDFFF
_CODE_POINT_MAX = 0x10FFFF

_T = TypeVar("_T", str, bytes)


def encode_bound(value: PartitionValue, arrow_type: pa.DataType) -> bytes:
    """A physical value in its binary form: a date is its days, a time or timestamp its microseconds."""
    match value:
        case bool():
            return b"\x01" if value else b"\x00"
        case int():
            return struct.pack("<i" if arrow_type.bit_width == 32 else "<q", value)
        case float():
            return struct.pack("<f" if arrow_type.bit_width == 32 else "<d", value)
        case str():
            return value.encode()
        case bytes():
            return value
        case uuid.UUID():
            return value.bytes
        case Decimal():
            return encode_unscaled(_unscaled(value, arrow_type.scale))
        case None:
            raise TypeError("a null has no bound")


def encode_unscaled(unscaled: int) -> bytes:
    """A decimal's unscaled value: big-endian two's complement, no byte more than needed."""
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def truncate_lower(value: _T, length: int) -> _T:
    """A bound at or below the value, of at most `length` code points or bytes."""
    return value[:length]


def truncate_upper(value: _T, length: int) -> _T | None:
    """A bound at or above the value, of at most `length` code points or bytes; None if there is none."""
    if len(value) <= length:
        return value
    if isinstance(value, str):
        return _next_text(value[:length])
    return _next_bytes(value[:length])


def _next_text(prefix: str) -> str | None:
    """The least text of at most this length that is greater than all that begin with the prefix."""
    for end in range(len(prefix) - 1, -1, -1):
        code_point = ord(prefix[end]) + 1
        if _SURROGATES_FIRST <= code_point <= _SURROGATES_LAST:
            code_point = _SURROGATES_LAST + 1  # surrogates are no characters: UTF-8 cannot hold them
        if code_point <= _CODE_POINT_MAX:
            return prefix[:end] + chr(code_point)
    return None


def _next_bytes(prefix: bytes) -> bytes | None:
    """The least bytes of at most this length that are greater than all that begin with the prefix."""
    grown = prefix.rstrip(b"\xff")
    return grown[:-1] + bytes([grown[-1] + 1]) if grown else None


def _unscaled(value: Decimal, scale: int) -> int:
    """The integer that stands for a decimal of this scale, without a context that could round it."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent + scale < 0:
        raise ValueError(f"{value} is not a decimal of scale {scale}")
    magnitude = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -magnitude if sign else magnitude
