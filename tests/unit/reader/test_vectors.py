"""Deletion vectors: the places that another implementation of the bitmap wrote, or an error."""

from __future__ import annotations

import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from calve.model.errors import StoreError
from calve.reader.vectors import deleted_places

MAGIC = bytes.fromhex("d1d33964")


def blob(places: BitMap64) -> bytes:
    body = MAGIC + places.serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


spans = st.tuples(st.integers(0, 2**33), st.integers(1, 70_000), st.integers(1, 50)).map(
    lambda one: range(one[0], one[0] + one[1] * one[2], one[2])
)


@given(
    spans=st.lists(spans, max_size=4), single=st.sets(st.integers(0, 2**40), max_size=50), runs=st.booleans()
)
def test_places_come_back_as_they_were_deleted(spans, single, runs):
    places = BitMap64(single)
    for span in spans:
        places |= BitMap64(span)
    if runs:
        places.run_optimize()
    assert deleted_places(blob(places), "v").to_pylist() == list(places)


def test_every_kind_of_container_is_read():
    places = (
        BitMap64([1, 5, 65_535]) | BitMap64(range(65_536, 131_072, 3)) | BitMap64(range(200_000, 250_000))
    )
    places |= BitMap64([2**32 + 7]) | BitMap64(range(2**35, 2**35 + 10))
    places.run_optimize()
    assert deleted_places(blob(places), "v").to_pylist() == list(places)
    assert deleted_places(blob(BitMap64()), "v").to_pylist() == []


@given(st.data())
def test_a_vector_that_lost_or_changed_a_byte_is_refused(drawn):
    good = blob(BitMap64(range(0, 9000, 2)) | BitMap64([100_000]))
    place = drawn.draw(st.integers(0, len(good) - 1))
    changed = bytearray(good)
    changed[place] ^= drawn.draw(st.integers(1, 255))
    for bad in (bytes(changed), good[:place]):
        with pytest.raises(StoreError, match="v is no deletion vector"):
            deleted_places(bad, "v")


@given(st.binary(max_size=200))
def test_a_vector_of_any_bytes_is_read_or_refused(body):
    """A checksum can be right of something that is no bitmap."""
    whole = MAGIC + body
    said = len(whole).to_bytes(4, "big") + whole + zlib.crc32(whole).to_bytes(4, "big")
    with suppress(StoreError):
        deleted_places(said, "v")
