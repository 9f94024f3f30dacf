"""One suite over every store: local disk, S3, Azure, Google.

What a server gets wrong stands in tests/support/servers/README.md, and is marked here.
"""

from __future__ import annotations

import os
import time

import obstore
import pyarrow as pa
import pytest

from calve import CalveError, IcebergSink, SinkConfig
from calve.model.errors import AccessDenied, FileMissing, StoreError
from calve.store.base import Store, abandon
from calve.store.objects import PART_BYTES
from calve.table.catalogs import open_catalog
from tests.support.places import ALL, LOGGED, OBJECT_STORES, WRONG, Place
from tests.support.sinks import commit
from tests.support.truth import ordered, rows_of, snapshots_of_main

SOON_S = 10
SIZES = {"empty": 0, "one byte": 1, "a part": PART_BYTES, "parts": 2 * PART_BYTES + 7}
NAMES = [
    "a b c",
    "100%",
    "a%20b",
    "größe/数据/मात्रा",
    "day=2026-01-01/k=x%2Fy",
    "a+b",
    "(a), [b] & {c} ~ 'd' @ $e!",
    "n" * 200,
]
on_every_store = pytest.mark.parametrize("place", ALL, indirect=True)
on_object_stores = pytest.mark.parametrize("place", OBJECT_STORES, indirect=True)


def write(place: Place, name: str, data: bytes) -> str:
    location = place.at(name)
    with place.store.create(location) as stream:
        stream.write(data)
    return location


def read(place: Place, location: str) -> bytes:
    with place.store.open(location) as stream:
        return bytes(stream.read())


@on_every_store
@pytest.mark.parametrize("size", SIZES)
def test_what_was_written_is_read_back(place: Place, size: str) -> None:
    data = os.urandom(SIZES[size])
    location = place.at("data.bin")
    with place.store.create(location) as stream:
        for start in range(0, len(data), 3_000_001):
            stream.write(data[start : start + 3_000_001])
        assert stream.tell() == len(data)
    assert place.store.exists(location)
    assert place.store.size(location) == len(data)
    assert read(place, location) == data
    with place.store.open(location) as stream:
        assert stream.size() == len(data)
        stream.seek(max(0, len(data) - 100))
        assert bytes(stream.read()) == data[-100:]


@on_every_store
def test_names_are_taken_literally(place: Place) -> None:
    locations = [write(place, name, name.encode()) for name in NAMES]
    assert [read(place, location).decode() for location in locations] == NAMES
    write(place, "day=1/a b", b"space")
    assert not place.store.exists(place.at("day=1/a%20b"))
    assert not place.store.exists(place.at("day%3D1/a b"))


@on_every_store
def test_a_file_that_was_deleted_is_gone(place: Place) -> None:
    location = write(place, "a b%20c", b"data")
    other = write(place, "a b%20c.2", b"data")
    place.store.delete(location)
    assert not place.store.exists(location)
    assert place.store.exists(other)


@on_every_store
@pytest.mark.parametrize("act", ["open", "size"])
def test_a_file_that_is_missing_is_told_with_its_place(place: Place, act: str) -> None:
    location = place.at("missing.parquet")
    assert not place.store.exists(location)
    with pytest.raises(FileMissing, match=r"missing\.parquet") as caught:
        getattr(place.store, act)(location)
    assert caught.value.hint


@on_object_stores
@pytest.mark.parametrize("size", ["one byte", "parts"])
def test_an_upload_that_was_let_go_of_is_no_object(place: Place, size: str) -> None:
    """Case 34."""
    location = place.at("let-go.bin")
    stream = place.store.create(location)
    stream.write(os.urandom(SIZES[size]))
    abandon(stream)
    assert not place.store.exists(location)


@on_object_stores
@pytest.mark.parametrize("size", ["one byte", "parts"])
def test_a_bucket_that_is_missing_is_an_error_with_the_next_step(place: Place, size: str) -> None:
    location = place.elsewhere("no-such-bucket")
    with pytest.raises(StoreError, match="no-such-bucket") as caught:
        with place.store_at(location).create(location) as stream:
            stream.write(os.urandom(SIZES[size]))
    assert "bucket" in caught.value.hint
    made = [request for request in place.server.requests() if request.rstrip("/") == "PUT /no-such-bucket"]
    assert not made


@on_object_stores
@pytest.mark.parametrize("act", ["read", "write", "write parts"])
def test_a_wrong_secret_is_denied_and_not_shown(place: Place, act: str) -> None:
    """P10."""
    location = write(place, "x", b"data")
    store = place.store_at(location, place.wrong_settings())
    started = time.monotonic()
    with pytest.raises(AccessDenied) as caught:
        attempt(store, location, act)
    assert time.monotonic() - started < SOON_S
    assert caught.value.hint
    assert_secret_is_not_told(caught.value, WRONG)


def attempt(store: Store, location: str, act: str) -> None:
    if act == "read":
        store.open(location).close()
    else:
        with store.create(location) as stream:
            stream.write(os.urandom(SIZES["parts" if act == "write parts" else "one byte"]))


def assert_secret_is_not_told(error: BaseException | None, secret: str) -> None:
    while error is not None:
        assert secret not in f"{error!r} {error}"
        error = error.__cause__ or error.__context__


# -- a sink that writes there ----------------------------------------------------------------------


def sink_on(place: Place, tmp_path: os.PathLike[str]) -> SinkConfig:
    return SinkConfig.from_options(
        {
            "catalog.type": "sql",
            "catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
            "namespace": "ns",
            "table.name": "t",
            "write.mode": "upsert",
            "equality.delete.columns": "id",
            "partition.spec": "v",
            **place.options(),
        }
    )


def run_a_sink(config: SinkConfig) -> None:
    for epoch in range(2):
        with IcebergSink(config) as sink:
            commit(sink, epoch, pa.table({"id": [1, 2 + epoch], "v": [f"a b%/{epoch}", "ü=1"]}))


@on_every_store
def test_a_sink_commits_and_goes_on(place: Place, tmp_path: os.PathLike[str]) -> None:
    config = sink_on(place, tmp_path)
    run_a_sink(config)
    catalog = open_catalog(config.catalog)
    table = catalog.load_table(("ns", "t"))
    assert len(snapshots_of_main(table)) == 2
    assert rows_of(table) == ordered([{"id": 1, "v": "a b%/1"}, {"id": 2, "v": "ü=1"}, {"id": 3, "v": "ü=1"}])
    assert table.location().startswith(place.folder)
    catalog.close()


@pytest.mark.parametrize("place", LOGGED, indirect=True)
def test_p7_a_sink_sends_no_request_that_lists(place: Place, tmp_path: os.PathLike[str]) -> None:
    run_a_sink(sink_on(place, tmp_path))
    assert any("/warehouse/ns/t/data/" in request for request in place.server.requests())
    try:
        obstore.list_with_delimiter(place.store.client, "seen-by-the-log")  # type: ignore[attr-defined]
    except (CalveError, obstore.exceptions.BaseError):
        pass  # one that cannot list logs the request all the same
    # Logged a moment after it was answered; what was sent before it is logged by then as well.
    deadline = time.monotonic() + SOON_S
    while not (lists := [request for request in place.server.requests() if place.server.lists(request)]):
        assert time.monotonic() < deadline, "a list is not seen in the log"
        time.sleep(0.02)
    assert [request for request in lists if "seen-by-the-log" not in request] == []
