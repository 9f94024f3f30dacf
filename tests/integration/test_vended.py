"""Credentials that a catalog vends and that run out: in a sink, in the middle of an upload, in an executor.

Real parts: Iceberg's REST server and moto. Before them stand a catalog that vends keys which live for a few
seconds and a store that lets no other key through (tests/support/servers/vending.py).
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from calve import AccessDenied, IcebergSink, SinkConfig, StoreError
from calve.store import Access, store_for
from calve.store.access import Refresh
from calve.table.catalogs import open_catalog
from calve.table.fileio import access_of
from tests.support.servers.iceberg_rest import IcebergRest
from tests.support.servers.moto import BUCKET, KEY, REGION, SECRET, Moto
from tests.support.servers.vending import Keys, Seen, gate, vending_catalog
from tests.support.sinks import commit
from tests.support.truth import ordered, rows_of

pytestmark = pytest.mark.servers

PART = 5 * 1024 * 1024
LIFE_SECONDS = 4.0
ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})


@dataclass
class Scene:
    keys: Keys
    store: Seen
    catalog: Seen

    def options(self, **more: str) -> dict[str, object]:
        return {
            "namespace": "ns",
            "table.name": f"t{uuid.uuid4().hex[:8]}",
            "write.mode": "append",
            "catalog.type": "rest",
            "catalog.uri": self.catalog.uri,
            "storage.s3.multipart.part-size-bytes": str(PART),
            **more,
        }


@pytest.fixture(scope="module")
def servers(moto: Moto) -> Iterator[IcebergRest]:
    with IcebergRest.on_s3(f"s3://{BUCKET}/lake", moto.s3_uri, KEY, SECRET, REGION) as server:
        yield server


@pytest.fixture(params=[True, False], ids=["an endpoint for keys", "no endpoint for keys"])
def scene(request: pytest.FixtureRequest, servers: IcebergRest, moto: Moto) -> Iterator[Scene]:
    keys = Keys(LIFE_SECONDS)
    with (
        gate(moto.s3_uri, keys) as store,
        vending_catalog(servers.uri, keys, store.uri, endpoint=request.param) as catalog,
    ):
        yield Scene(keys, store, catalog)


def test_case_37_a_sink_outlives_the_credentials_of_its_tables(scene: Scene) -> None:
    config = SinkConfig.from_options(scene.options())
    with IcebergSink(config) as sink:
        for epoch in range(3):
            commit(sink, epoch, ROWS)
            scene.keys.wait_for_death(len(scene.keys.born) - 1)
    assert scene.store.refused == [], "no request went out under a dead key"
    assert len({*scene.store.keys}) >= 3
    table = open_catalog(config.catalog).load_table(config.identifier)
    assert rows_of(table) == ordered(ROWS.to_pylist() * 3)


def _access(scene: Scene) -> tuple[Access, str]:
    config = SinkConfig.from_options(scene.options())
    with IcebergSink(config) as sink:
        commit(sink, 0, ROWS)
    table = open_catalog(config.catalog).load_table(config.identifier)
    return access_of(table.io), f"{table.location()}/data/{uuid.uuid4()}"


def test_case_37_an_upload_goes_on_under_new_credentials(scene: Scene) -> None:
    access, location = _access(scene)
    before = len(scene.keys.born)
    store = store_for(location, access)
    content = bytes(range(256)) * (PART // 256)
    with store.create(location) as file:
        file.write(content + b"1")
        scene.keys.wait_for_death(before - 1)
        file.write(content + b"2")
    used = {key for key in scene.store.keys if key.startswith("vended")}
    assert {f"vended-{before - 1}"} < used, "the upload began with the old key and ended with a new one"
    assert scene.store.refused == []
    assert store.open(location).read() == content + b"1" + content + b"2"


_EXECUTOR = """
import pickle, sys
from pathlib import Path
assert not any(name.startswith("pyiceberg") for name in sys.modules)
from calve.store import store_for
access, location, wait, content = pickle.loads(Path(sys.argv[1]).read_bytes())
with store_for(location, access).create(location) as file:
    file.write(content)
    print("begun", flush=True)
    sys.stdin.readline()
    file.write(content)
"""


def test_case_37_an_executor_renews_them_too(scene: Scene, tmp_path: Path) -> None:
    """What a task is sent is enough: neither PyIceberg nor the driver is there."""
    access, location = _access(scene)
    before = len(scene.keys.born)
    sent = tmp_path / "task"
    sent.write_bytes(pickle.dumps((access, location, None, b"x" * (PART + 1))))
    process = subprocess.Popen(
        [sys.executable, "-c", _EXECUTOR, str(sent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        scene.keys.wait_for_death(before - 1)
        process.stdin.write("\n")
    assert process.returncode == 0
    assert scene.store.refused == []
    assert store_for(location, access).size(location) == 2 * (PART + 1)


def test_p10_credentials_show_in_nothing(scene: Scene) -> None:
    access, location = _access(scene)
    assert "canary" not in f"{access!r} {access} {access.refresh!r}"
    lost = Access.of(
        {**dict(access.settings), "s3.session-token-expires-at-ms": "1"},
        Refresh("http://127.0.0.1:1/credentials", lambda: {"Authorization": "Bearer canary"}),
    )
    with pytest.raises((StoreError, AccessDenied)) as caught:
        store_for(location, lost).size(location)
    assert "gave no new ones" in caught.value.message
    assert "canary" not in str(caught.value)
