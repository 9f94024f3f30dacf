"""Vectors: the places of deleted rows, from the bitmap of a deletion vector.

    blob in a Puffin file: length · magic · 64-bit Roaring bitmap, portable form · CRC-32

Guarantee: a vector whose length, mark or checksum is wrong is refused: rows that were deleted must not come
back because bytes were lost.

Why not a library: executors have pyarrow and nothing else. Its kernels read the three kinds of containers as
they lie: an array is 16-bit numbers, a bitmap is a column of truth values, and a run is a span of a bitmap.
"""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import StoreError

_MAGIC = bytes.fromhex("d1d33964")
_NO_RUNS, _RUNS = 12346, 12347
_ARRAY_MAX = 4096
_BITS = 65_536
_OFFSETS_FROM = 4
"""From so many containers on, a bitmap with runs tells where each begins, too."""


def deleted_places(blob: bytes, where: str) -> pa.Array:
    """The places, in ascending order."""
    try:
        return _bitmaps(_body(blob, where))
    except (struct.error, IndexError, ValueError, pa.ArrowInvalid) as error:
        raise _broken(where, str(error)) from error


def _body(blob: bytes, where: str) -> bytes:
    if len(blob) < 12 or blob[4:8] != _MAGIC:
        raise _broken(where, "it does not begin as one")
    length = int.from_bytes(blob[:4], "big")
    if length != len(blob) - 8:
        raise _broken(where, f"it says that it has {length} bytes, and has {len(blob) - 8}")
    if zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
        raise _broken(where, "its checksum is wrong")
    return blob[8:-4]


def _bitmaps(body: bytes) -> pa.Array:
    (count,) = struct.unpack_from("<q", body, 0)
    found, place = [pa.array([], pa.int64())], 8
    for _ in range(count):
        (high,) = struct.unpack_from("<I", body, place)
        places, place = _bitmap(body, place + 4, high << 32)
        found += places
    if place != len(body):
        raise ValueError(f"{len(body) - place} bytes are left")
    return pa.concat_arrays(found)


def _bitmap(body: bytes, place: int, base: int) -> tuple[list[pa.Array], int]:
    """The places of one 32-bit bitmap, and where it ends."""
    (cookie,) = struct.unpack_from("<I", body, place)
    place += 4
    runs = 0
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        size = (count + 7) // 8
        runs = int.from_bytes(body[place : place + size], "little")
        place += size
    elif cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", body, place)
        place += 4
    else:
        raise ValueError(f"{cookie} is no kind of bitmap")
    heads = struct.unpack_from(f"<{2 * count}H", body, place)
    place += 4 * count
    if cookie == _NO_RUNS or count >= _OFFSETS_FROM:
        place += 4 * count  # containers follow one another: where each begins is known
    found = []
    for number in range(count):
        key, size = heads[2 * number], heads[2 * number + 1] + 1
        low, place = _container(body, place, size, runs=bool(runs >> number & 1))
        if len(low) != size:
            raise ValueError(f"a container says that it has {size} places, and has {len(low)}")
        found.append(pc.add(low, pa.scalar(base + (key << 16), pa.int64())))
    return found, place


def _container(body: bytes, place: int, size: int, *, runs: bool) -> tuple[pa.Array, int]:
    if runs:
        (count,) = struct.unpack_from("<H", body, place)
        pairs = struct.unpack_from(f"<{2 * count}H", body, place + 2)
        bits = 0
        for start, more in zip(pairs[::2], pairs[1::2], strict=True):
            bits |= ((1 << (more + 1)) - 1) << start
        return _ones(bits.to_bytes(_BITS // 8, "little")), place + 2 + 4 * count
    end = place + (2 * size if size <= _ARRAY_MAX else _BITS // 8)
    content = body[place:end]
    if len(content) != end - place:
        raise ValueError("it ends in the middle")
    if size > _ARRAY_MAX:
        return _ones(content), end
    return pa.Array.from_buffers(pa.uint16(), size, [None, pa.py_buffer(content)]).cast(pa.int64()), end


def _ones(bitmap: bytes) -> pa.Array:
    bits = pa.Array.from_buffers(pa.bool_(), _BITS, [None, pa.py_buffer(bitmap)])
    return pc.indices_nonzero(bits).cast(pa.int64())


def _broken(where: str, reason: str) -> StoreError:
    return StoreError(
        f"{where} is no deletion vector: {reason}",
        hint="The file was cut or replaced. Restore it, or roll the table back to a snapshot before it: "
        "without it, deleted rows would come back.",
    )
