"""Debezium in Avro with a real registry, Apicurio's: it hangs, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from calve.envelope.debezium import RegisteredDebezium
from calve.envelope.debezium import Registry as SchemaRegistry
from tests.support.bank import Bank, check_end, check_snapshots, run
from tests.support.lake import Lake
from tests.support.postgres import postgres
from tests.support.servers.debezium import Debezium
from tests.support.servers.kafka import Kafka
from tests.support.servers.registry import Registry

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        yield server


@pytest.fixture
def bank(kafka: Kafka, registry: Registry) -> Iterator[Bank]:
    with postgres(wal_level="logical") as uri, Debezium(kafka.bootstrap, avro=True) as debezium:
        yield Bank("avro", uri, kafka, debezium, **registry.converters())


def test_schemas_come_from_the_registry_and_one_that_hangs_stops_the_feed_and_loses_nothing(
    spark, lake: Lake, duckdb, bank: Bank, registry: Registry, tmp_path: Path
) -> None:
    def go_on(url: str = registry.url) -> None:
        envelope = RegisteredDebezium(registry=SchemaRegistry(url, timeout_s=1))
        run(spark, lake, bank, tmp_path, "avro", envelope=envelope, transaction_topic="avro.transaction")

    bank.work(3)
    bank.arrive()
    go_on()
    before = check_snapshots(lake, duckdb, "avro")
    check_end(lake, duckdb, "avro", bank)

    with bank.connection() as connection:
        # Of rows that are there Debezium says nothing again, so that the default is for those that come.
        connection.execute("alter table avro.ledger add column memo text")
        connection.execute("alter table avro.ledger alter column memo set default 'new'")
    bank.work(2)
    bank.arrive()
    registry.pause()
    told = _refused(go_on)
    assert "the schema registry http://127.0.0.1" in told
    assert "is out of reach" in told
    assert "topic avro." in told
    assert "offset" in told
    assert "Start the query again when the registry is there" in told
    assert check_snapshots(lake, duckdb, "avro") == before

    registry.go_on()
    assert "has no schema" in _refused(lambda: go_on(registry.url.replace("ccompat/v7", "ccompat/v7/no")))
    go_on()
    assert check_snapshots(lake, duckdb, "avro") > before
    check_end(lake, duckdb, "avro", bank)


def _refused(act: Any) -> str:
    with pytest.raises(StreamingQueryException) as raised:
        act()
    return str(raised.value)
