"""A store that says "slow down", and one that loses its answers: a front before moto, by a list of faults."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from calve.model.errors import StoreError
from calve.store import Access, store_for
from tests.support.servers.moto import BUCKET, KEY, REGION, SECRET, Moto
from tests.support.servers.vending import _Front, _serving

pytestmark = pytest.mark.servers

PART = 5 * 1024 * 1024
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@contextmanager
def faulty(moto: Moto, faults: Iterator[str]) -> Iterator[tuple[str, list[str]]]:
    """A store that treats each write as the next fault says: `well`, `slow` or `lost`."""
    seen: list[str] = []

    class Handler(_Front):
        target = moto.s3_uri

        def answer(self) -> None:
            fault = next(faults, "well") if self.command in ("PUT", "POST") else "well"
            seen.append(f"{fault} {self.command}")
            if fault == "slow":
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.reply(503, {"Content-Type": "application/xml"}, SLOW_DOWN)
                return
            answer = self.forward()
            if fault == "lost":
                self.close_connection = True  # applied, and nobody is told
                return
            self.reply(*answer)

    with _serving(Handler) as uri:
        yield uri, seen


def access(uri: str, **more: str) -> Access:
    settings = {
        "s3.endpoint": uri,
        "s3.region": REGION,
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.multipart.part-size-bytes": str(PART),
    }
    return Access.of(settings | more)


@pytest.mark.parametrize("size", [10, 2 * PART + 1], ids=["small", "in parts"])
@pytest.mark.parametrize("fault", ["slow", "lost"])
def test_case_32_and_33_a_write_is_sent_again_until_it_is_taken(moto: Moto, size: int, fault: str) -> None:
    """503 SlowDown, and answers that are lost: names are unique, so that twice is as good as once."""
    data = os.urandom(size)
    place = f"s3://{BUCKET}/{uuid.uuid4()}"
    with faulty(moto, iter([fault, fault, "well", fault])) as (uri, seen):
        store = store_for(place, access(uri))
        with store.create(place) as file:
            file.write(data)
        assert [one for one in seen if one.startswith(fault)]
        assert store.open(place).read() == data


def test_case_32_a_store_that_never_takes_it_is_given_up(moto: Moto) -> None:
    """A bounded number of times, then an error that says what the store said."""
    place = f"s3://{BUCKET}/{uuid.uuid4()}"
    with faulty(moto, iter(["slow"] * 1000)) as (uri, seen):
        store = store_for(place, access(uri, **{"store.retries": "3"}))
        with pytest.raises(StoreError, match="503"), store.create(place) as file:
            file.write(b"content")
        assert len(seen) == 4
    assert not store_for(place, access(moto.s3_uri)).exists(place)
