"""A login that loses its rights while a sink runs: it stops with what is missing, and goes on with them.

Cases 26 and 27, on real servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from calve import AccessDenied, IcebergSink, SinkConfig
from tests.faults.backends import ReferenceServer, SeaweedServer
from tests.faults.checker import Checker, Told
from tests.faults.proxy import Proxy
from tests.faults.rounds import NAMESPACE, Server
from tests.faults.runs import HastyClock
from tests.faults.schedule import Scripted
from tests.faults.source import Source
from tests.support.servers.iceberg_rest import IcebergRest
from tests.support.servers.process import ask
from tests.support.servers.seaweedfs import BUCKET, SECRET, SeaweedFS

pytestmark = [pytest.mark.servers, pytest.mark.timeout(180)]

EPOCHS = 8


class Story:
    """One sink that writes epoch after epoch."""

    def __init__(self, sink: IcebergSink, source: Source) -> None:
        self.sink = sink
        self.source = source
        self.told = Told()
        self.next = 0

    def begin(self) -> None:
        self.sink.begin_epoch(self.next)
        rows = self.source.rows(self.next)
        assert rows is not None
        self.sink.write_batch(rows)

    def commit(self) -> None:
        result = self.sink.commit_epoch(self.next)
        assert result.snapshot_id is not None
        self.told.acknowledged.append((self.next, result.snapshot_id))
        self.next += 1

    def go_on(self, epochs: int) -> None:
        for _ in range(epochs):
            self.begin()
            self.commit()


@contextmanager
def story(server: Server, uri: str, table: str) -> Iterator[Story]:
    """A sink, and after it the checks of its table."""
    options = {
        "namespace": NAMESPACE,
        "table.name": table,
        "write.mode": "upsert",
        "equality.delete.columns": "id",
        **server.options(uri, "only", 5_000),
    }
    source = Source("rights", EPOCHS, keyed=True, empty=0)
    with IcebergSink(SinkConfig.from_options(options), clock=HastyClock()) as sink:
        told = Story(sink, source)
        yield told
    assert told.next == EPOCHS
    catalog = server.direct()
    checker = Checker(catalog.load_table((NAMESPACE, table)), source, f"{NAMESPACE}.{table}")
    checker.check(told.told)
    assert checker.claims == 1, "the sink went on, and was not started again"
    catalog.close()


@pytest.mark.parametrize("status", [401, 403])
def test_a_login_that_the_catalog_denies_stops_the_sink_and_nothing_is_lost(
    status: int, iceberg_rest: IcebergRest, table_name: str
) -> None:
    """Cases 26 and 27."""
    server = ReferenceServer(iceberg_rest)
    with (
        Proxy(server.uri, Scripted(), timeout_ms=5_000) as proxy,
        story(server, proxy.uri, table_name) as told,
    ):
        told.go_on(3)
        told.begin()
        proxy.revoked = status
        for _ in range(2):
            with pytest.raises(AccessDenied) as denied:
                told.commit()
            assert "rights" in denied.value.hint
            assert "its-secret" not in str(denied.value)
        proxy.revoked = None
        told.commit()
        told.go_on(EPOCHS - 4)


class ChangingSecret(SeaweedFS):
    """SeaweedFS whose user may get another secret."""

    secret = SECRET

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "AWS_SECRET_ACCESS_KEY": self.secret}

    def answers(self) -> bool:
        return super().answers() if self.secret == SECRET else ask(f"{self.s3_uri}/{BUCKET}").status == 403

    def change_secret(self, secret: str) -> None:
        self.stop()
        self.secret = secret
        self.start()


def test_a_secret_that_is_changed_stops_the_sink_until_the_old_one_is_good_again(table_name: str) -> None:
    """Of the catalog and of the store: it is one login in SeaweedFS. Case 27."""
    with ChangingSecret() as server:
        backend = SeaweedServer(server)
        with story(backend, backend.uri, table_name) as told:
            told.go_on(3)
            told.begin()
            server.change_secret("another-secret-of-the-tests")
            for _ in range(2):
                with pytest.raises(AccessDenied) as denied:
                    told.commit()
                assert SECRET not in str(denied.value)
            server.change_secret(SECRET)
            told.commit()
            told.go_on(EPOCHS - 4)
