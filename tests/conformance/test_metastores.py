"""Glue and the Hive metastore: what the suite over all catalogs does not ask, on real servers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError
from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import LockState
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError

from calve import CatalogError, Fenced, IcebergSink, SinkConfig, doctor
from calve.model.errors import BadName
from calve.table.catalogs import glue, hive, hive_client, open_catalog
from tests.support.servers.hive import Hive
from tests.support.servers.ministack import LOGIN, Ministack
from tests.support.servers.seaweedfs import BUCKET, KEY, SECRET, SeaweedFS
from tests.support.sinks import commit
from tests.support.truth import ordered, rows_of, snapshots_of_main

pytestmark = pytest.mark.servers

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
MORE = pa.table({"id": [2, 3], "v": ["B", "c"]})
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@dataclass(frozen=True)
class Place:
    """One database of its own on a server."""

    server: Hive | Ministack
    warehouse: Path
    namespace: str

    def config(self, **options: object) -> SinkConfig:
        common = {
            "namespace": self.namespace,
            "table.name": "t",
            "write.mode": "upsert",
            "equality.delete.columns": "id",
        }
        return SinkConfig.from_options({**common, **self.server.options(self.warehouse), **options})

    def sink(self, **options: object) -> IcebergSink:
        return IcebergSink(self.config(**options))

    def catalog(self, **options: object) -> Catalog:
        return open_catalog(self.config(**options).catalog)

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self.catalog().load_table((self.namespace, "t")))


@pytest.fixture(params=["metastore", "ministack"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.getfixturevalue(request.param), tmp_path, f"ns_{uuid4().hex[:8]}")


@pytest.fixture
def at_hive(metastore: Hive, tmp_path: Path) -> Place:
    return Place(metastore, tmp_path, f"ns_{uuid4().hex[:8]}")


@pytest.fixture
def at_glue(ministack: Ministack, tmp_path: Path) -> Place:
    return Place(ministack, tmp_path, f"ns_{uuid4().hex[:8]}")


# -- both


def test_a_sink_commits_keeps_its_tag_resumes_and_fences(place: Place) -> None:
    old = place.sink(**{"schema.evolution": "true"})
    old.open()
    commit(old, 0, ROWS)
    with place.sink(**{"schema.evolution": "true"}) as sink:
        assert sink.frontier() == 1
        commit(sink, 1, MORE.append_column("extra", pa.array([None, "x"])))
        old.begin_epoch(1)
        old.write_batch(ROWS)
        with pytest.raises(Fenced):
            old.commit_epoch(1)
    table = place.catalog().load_table((place.namespace, "t"))
    assert any(name.startswith("calve-") for name in table.metadata.refs)
    assert rows_of(table) == ordered(
        [
            {"id": 1, "v": "a", "extra": None},
            {"id": 2, "v": "B", "extra": None},
            {"id": 3, "v": "c", "extra": "x"},
        ]
    )


def test_the_doctor_finds_it_well(place: Place) -> None:
    diagnosis = doctor(place.config().catalog)
    assert diagnosis.ok, str(diagnosis)


def test_a_nested_namespace_is_refused_before_anything_is_created(place: Place) -> None:
    nested = Place(place.server, place.warehouse, f"{place.namespace}.deep")
    with pytest.raises(BadName, match="no namespaces inside others"):
        nested.sink().open()
    assert not place.catalog().namespace_exists(place.namespace)


def test_a_second_table_stands_beside_the_first(place: Place) -> None:
    for name in ("t", "u"):
        with place.sink(**{"table.name": name}) as sink:
            commit(sink, 0, ROWS)
        location = place.catalog().load_table((place.namespace, name)).location()
        assert location == f"file://{place.warehouse}/{place.namespace}/{name}"


def test_of_many_that_create_at_once_one_wins_and_all_have_its_table(place: Place) -> None:
    def create(namespace: str, start: threading.Barrier) -> str:
        catalog = place.catalog()
        start.wait()
        try:
            catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            pass
        try:
            catalog.create_table((namespace, "t"), SCHEMA)
        except TableAlreadyExistsError:
            pass
        return str(catalog.load_table((namespace, "t")).metadata.table_uuid)

    with ThreadPoolExecutor(6) as pool:
        for turn in range(2):
            start = threading.Barrier(6)
            made = [pool.submit(create, f"{place.namespace}_{turn}", start) for _ in range(6)]
            assert len({future.result(60) for future in made}) == 1


def test_threads_share_a_catalog(place: Place) -> None:
    with place.sink() as sink:
        commit(sink, 0, ROWS)
    catalog = place.catalog()
    start = threading.Barrier(6)

    def look() -> int:
        start.wait()
        names = [catalog.load_table((place.namespace, "t")).name() for _ in range(20)]
        return names.count((place.namespace, "t"))

    with ThreadPoolExecutor(6) as pool:
        looks = [pool.submit(look) for _ in range(6)]
        assert [future.result(60) for future in looks] == [20] * 6


def test_a_table_with_a_long_name_is_written(place: Place) -> None:
    with place.sink(**{"table.name": "t" * 120}) as sink:
        commit(sink, 0, ROWS)
    table = place.catalog().load_table((place.namespace, "t" * 120))
    assert rows_of(table) == ordered(ROWS.to_pylist())


# -- the Hive metastore


def lock(place: Place) -> int:
    """A lock of a process that is killed before it gives it back."""
    catalog = place.catalog()
    assert isinstance(catalog, hive.Hive)
    with catalog._client as client:
        taken = client.lock(catalog._create_lock_request(place.namespace, "t"))
    assert taken.state == LockState.ACQUIRED
    return int(taken.lockid)


def test_the_lock_of_a_killed_process_is_waited_for_until_it_expires(
    at_hive: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with at_hive.sink() as sink:
        commit(sink, 0, ROWS)
        left = lock(at_hive)
        commit(sink, 1, MORE)
    assert len(at_hive.rows()) == 3
    assert not caplog.records or f"lock {left}" in caplog.text


def test_a_lock_that_stays_is_an_error_that_names_its_owner(at_hive: Place) -> None:
    with at_hive.sink(**{"catalog.prop.hive.lock-wait": "0.5"}) as sink:
        commit(sink, 0, ROWS)
        left = lock(at_hive)
        sink.begin_epoch(1)
        sink.write_batch(MORE)
        with pytest.raises(
            CatalogError, match=rf"is locked in the Hive metastore, by \S+ on .*\(lock {left}\)"
        ):
            sink.commit_epoch(1)


def alter_anyway(self: Any, dbname: str, tbl_name: str, new_tbl: Any, context: Any) -> None:
    context.properties = {k: v for k, v in context.properties.items() if not k.startswith("expected_")}
    self.send_alter_table_with_environment_context(dbname, tbl_name, new_tbl, context)
    self.recv_alter_table_with_environment_context()


@pytest.mark.parametrize("asks_for_its_lock", [True, False], ids=["heartbeat", "compare-and-swap"])
def test_a_commit_whose_lock_expired_does_not_overwrite_another(
    at_hive: Place, monkeypatch: pytest.MonkeyPatch, asks_for_its_lock: bool
) -> None:
    """Case 9: stopped between the look at the table and the commit, while another run goes on."""
    with at_hive.sink() as sink:
        commit(sink, 0, ROWS)
    with at_hive.sink() as stopped:
        stopped.begin_epoch(1)
        stopped.write_batch(MORE)
        others = []

        def stop(self: hive.Hive, *args: Any, **kwargs: Any) -> None:
            monkeypatch.undo()
            if asks_for_its_lock:  # of a metastore that is too old to compare
                monkeypatch.setattr(Client, "alter_table_with_environment_context", alter_anyway)
            else:
                monkeypatch.setattr(hive_client._Client, "_check_lock", lambda self, lock: None)
            with at_hive.sink() as other:  # waits until the lock of the stopped one expires
                others.append(commit(other, 1, pa.table({"id": [9], "v": ["other"]})))
            self._write_metadata(*args, **kwargs)

        monkeypatch.setattr(hive.Hive, "_write_metadata", stop)
        with pytest.raises(Fenced):
            stopped.commit_epoch(1)
    assert len(others) == 1
    assert at_hive.rows() == ordered([*ROWS.to_pylist(), {"id": 9, "v": "other"}])


@pytest.mark.parametrize(
    "when", [pytest.param("before the request", marks=pytest.mark.nightly), "after the answer"]
)
def test_a_metastore_that_is_killed_in_a_commit_and_comes_back_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It comes back with the lock of the commit that it forgot, and that lock has to expire first."""
    with Hive(lock_timeout_s=3) as server:
        place = Place(server, tmp_path, "ns")
        alter = hive_client._Client.alter_table_with_environment_context

        def kill(self: Any, *args: Any, **kwargs: Any) -> None:
            monkeypatch.undo()
            if when == "after the answer":
                alter(self, *args, **kwargs)
            server.kill()
            server.start()
            alter(self, *args, **kwargs)  # the connection is gone

        with place.sink() as sink:
            commit(sink, 0, ROWS)
            sink.begin_epoch(1)
            sink.write_batch(MORE)
            monkeypatch.setattr(hive_client._Client, "alter_table_with_environment_context", kill)
            sink.commit_epoch(1)
        table = place.catalog().load_table(("ns", "t"))
        assert rows_of(table) == ordered([{"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 3, "v": "c"}])
        assert len(snapshots_of_main(table)) == 2


def test_a_metastore_that_is_down_is_passed_over_for_the_next(at_hive: Place) -> None:
    uris = f"thrift://127.0.0.1:9,{at_hive.server.uri}"
    with at_hive.sink(**{"catalog.uri": uris}) as sink:
        commit(sink, 0, ROWS)
    assert at_hive.rows() == ordered(ROWS.to_pylist())


@pytest.mark.parametrize("name", ["größe", "a-b", "t" * 200])
def test_a_name_that_the_metastore_refuses_is_refused_by_name(at_hive: Place, name: str) -> None:
    with pytest.raises(BadName), at_hive.sink(**{"table.name": name}) as sink:
        commit(sink, 0, ROWS)


# -- Glue


def test_a_unicode_name_goes_through_glue(at_glue: Place) -> None:
    with at_glue.sink(**{"table.name": "größe"}) as sink:
        commit(sink, 0, ROWS)
    table = at_glue.catalog().load_table((at_glue.namespace, "größe"))
    assert rows_of(table) == ordered(ROWS.to_pylist())


def test_tables_of_glue_stand_in_a_bucket(at_glue: Place, seaweedfs: SeaweedFS) -> None:
    in_bucket = {
        "warehouse": f"s3://{BUCKET}/glue",
        "storage.s3.endpoint": seaweedfs.s3_uri,
        "storage.s3.region": "us-east-1",
        "storage.s3.access-key-id": KEY,
        "storage.s3.secret-access-key": SECRET,
        "storage.s3.path-style-access": "true",
    }
    with at_glue.sink(**in_bucket) as sink:
        commit(sink, 0, ROWS)
    with at_glue.sink(**in_bucket) as sink:
        assert sink.frontier() == 1
        commit(sink, 1, MORE)
    table = at_glue.catalog(**in_bucket).load_table((at_glue.namespace, "t"))
    assert table.location().startswith(f"s3://{BUCKET}/glue/")
    assert len(rows_of(table)) == 3


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionClosedError(endpoint_url="x"),
        ReadTimeoutError(endpoint_url="x"),
        ClientError({"Error": {"Code": "ConcurrentModificationException"}}, "UpdateTable"),
        ClientError({"Error": {"Code": "InternalServiceException"}}, "UpdateTable"),
        ClientError({"Error": {"Code": "ThrottlingException"}}, "UpdateTable"),
        ClientError({"Error": {"Code": "ExpiredTokenException"}}, "UpdateTable"),
    ],
    ids=["closed", "timeout", "conflict", "server error", "throttled", "expired"],
)
def test_a_commit_that_glue_made_and_answered_wrongly_is_not_made_again(
    at_glue: Place, monkeypatch: pytest.MonkeyPatch, answer: Exception
) -> None:
    """Cases 16, 18 to 22 with Glue: the request was applied; its answer says something else or is lost."""
    answers = [answer]

    def lose(**_: Any) -> None:
        if answers:
            raise answers.pop()

    def client(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        made.meta.events.register("after-call.glue.UpdateTable", lose)
        return made

    with at_glue.sink() as sink:
        commit(sink, 0, ROWS)
    make = glue._client
    monkeypatch.setattr(glue, "_client", client)
    with at_glue.sink() as sink:
        assert not answers, "the claim met it"
        answers.append(answer)
        commit(sink, 1, MORE)
    assert not answers
    table = at_glue.catalog().load_table((at_glue.namespace, "t"))
    assert len(snapshots_of_main(table)) == 2
    assert rows_of(table) == ordered([{"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 3, "v": "c"}])


def test_glue_is_reached_by_an_assumed_role(at_glue: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", at_glue.server.uri)
    role = {"catalog.prop.client.role-arn": "arn:aws:iam::000000000000:role/writer"}
    with at_glue.sink(**role) as sink:
        commit(sink, 0, ROWS)
    assert at_glue.rows() == ordered(ROWS.to_pylist())


@pytest.mark.xfail(reason="ministack takes any login (tests/support/servers/README.md)")
def test_a_wrong_secret_is_refused_when_glue_is_opened(at_glue: Place) -> None:
    wrong = {f"catalog.prop.{name}": "wrong" for name in LOGIN}
    with pytest.raises(CatalogError, match="does not accept"):
        at_glue.catalog(**wrong)


@pytest.mark.xfail(reason="ministack keeps capitals (tests/support/servers/README.md)")
def test_glue_folds_names_to_small_letters(at_glue: Place) -> None:
    catalog = at_glue.catalog()
    catalog.create_namespace(at_glue.namespace.upper())
    assert catalog.namespace_exists(at_glue.namespace)
