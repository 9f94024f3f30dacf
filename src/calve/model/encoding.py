"""Encoding: numbers, texts and maps in Avro's binary form, as Iceberg's manifests hold them.

A manifest entry is mostly five maps of small integers, which a general encoder walks value by value. They
have one fixed shape and are joined here as bytes, once for a file: by the worker that closed it, so that a
coordinator only puts entries together, and merging a manifest copies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def zigzag(value: int) -> bytes:
    """An Avro int or long."""
    value = value << 1 if value >= 0 else ((-value) << 1) - 1
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    if value < 0x10000000:
        low, high = value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80
        return bytes((value & 0x7F | 0x80, low, high, value >> 21))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


SMALL = tuple(zigzag(value) for value in range(4096))
"""Encoded small numbers: field ids, lengths and counts are mostly these."""


def _pairs(numbers: Mapping[int, int]) -> bytes:
    """The pairs of an Avro map from small numbers to numbers, neither negative, without its head and end.

    Bytes are put into one list as numbers: an object a number, joined afterwards, takes twice as long.
    """
    encoded: list[int] = []
    for key, value in numbers.items():
        if key >= 0x40:
            encoded += zigzag(key)
        else:
            encoded.append(key << 1)
        if value < 0x40:
            encoded.append(value << 1)
        elif value < 0x2000:
            encoded += (value << 1 & 0x7F | 0x80, value >> 6)
        elif value < 0x100000:
            encoded += (value << 1 & 0x7F | 0x80, value >> 6 & 0x7F | 0x80, value >> 13)
        elif value < 0x8000000:
            low, high = value << 1 & 0x7F | 0x80, value >> 13 & 0x7F | 0x80
            encoded += (low, value >> 6 & 0x7F | 0x80, high, value >> 20)
        else:
            encoded += zigzag(value)
    return bytes(encoded)


def sized(value: bytes) -> bytes:
    """An Avro bytes or string: its length, then itself."""
    length = len(value)
    return (SMALL[length] if length < len(SMALL) else zigzag(length)) + value


NULL, SOME = SMALL[0], SMALL[1]
"""The two branches of an optional value."""


def optional_long(value: int | None) -> bytes:
    return NULL if value is None else SOME + zigzag(value)


def counts(numbers: Mapping[int, int]) -> bytes:
    if not numbers:
        return NULL
    distinct = set(numbers.values())
    if len(distinct) == 1 and max(numbers) < len(SMALL):
        # All columns of a file have its rows, and most have no null: such a number is encoded once.
        encoded = zigzag(distinct.pop())
        pairs = encoded.join([SMALL[key] for key in numbers]) + encoded
    else:
        pairs = _pairs(numbers)
    return b"".join((SOME, zigzag(len(numbers)), pairs, NULL))


def bounds(values: Mapping[int, bytes]) -> bytes:
    if not values:
        return NULL
    small, size = SMALL, len(SMALL)
    pairs: list[bytes] = [SOME, zigzag(len(values))]
    for key, bound in values.items():
        length = len(bound)
        if key < size and length < size:
            pairs += (small[key], small[length], bound)
        else:
            pairs += (zigzag(key), sized(bound))
    pairs.append(NULL)
    return b"".join(pairs)


def longs(values: Sequence[int]) -> bytes:
    if not values:
        return NULL
    return b"".join((SOME, zigzag(len(values)), *map(zigzag, values), NULL))
