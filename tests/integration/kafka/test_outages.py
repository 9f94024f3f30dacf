"""What a feed needs is away for a while: a registry, a topic, the broker. The feed waits, or stops and says
why; when it is back, nothing is lost, and nothing is there twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from calve import BrokerError
from calve.envelope.debezium import registry
from calve.model.errors import Overcompacted
from calve.source import kafka as source
from tests.support.dialects.avro import PostgresAvro, schemas
from tests.support.dialects.cockroachdb import Cockroach, upper
from tests.support.feeds import Change, Mark
from tests.support.kafka_feeds import KafkaFlow
from tests.support.servers.kafka import Kafka
from tests.support.truth import snapshots_of_main, summary_of

pytestmark = [pytest.mark.spark, pytest.mark.servers]

ORDERS = "id long primary key, name string not null, amount decimal(10,2)"


def put(time: int, id: int, name: str, topic: str = "orders") -> Change:
    return Change(time, {"id": id}, {"id": id, "name": name, "amount": None}, topic=topic)


def frontiers(it: KafkaFlow, topic: str = "orders") -> list[int]:
    return [int(summary_of(one)["calve.frontier"]) for one in snapshots_of_main(it.table(topic))]


def reaching(it: KafkaFlow, frontier: int) -> threading.Event:
    """Set when all tables have reached a frontier, as their listener is told. Before the feed starts."""
    reached = threading.Event()
    seen = it.log.on_progress

    def on_progress(progress: Any) -> None:
        seen(progress)
        if len({one.table for one in it.log.seen if one.frontier == frontier}) == len(it.topics):
            reached.set()

    it.log.on_progress = on_progress  # type: ignore[method-assign]
    return reached


@pytest.fixture
def flow(spark, lake, kafka, tmp_path: Path, table_name: str) -> Callable[..., KafkaFlow]:
    def make(*topics: str, **said: Any) -> KafkaFlow:
        names = topics or ("orders",)
        said = {"dialect": Cockroach(key_in_value=False), "tables": dict.fromkeys(names, ORDERS), **said}
        prefix = table_name[-40:].strip("_")
        it = KafkaFlow(spark, lake, tmp_path, prefix=prefix, kafka=kafka, topics=names, **said)
        for name in names:
            kafka.create(it.topic(name))
        return it

    return make


def test_a_topic_that_vanished_or_was_made_anew_is_named_and_nothing_is_passed_over(
    flow, kafka: Kafka, duckdb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 53."""
    opened, clients = source._opened, []

    def counted(*said: Any) -> Any:
        clients.append(said)
        return opened(*said)

    monkeypatch.setattr(source, "_opened", counted)
    it = flow("orders", "people", trigger={"processingTime": "200 milliseconds"})
    topic = it.topic("people")
    it.put(put(10, 1, "a"), put(11, 2, "b", "people"), Mark(20), Mark(20, "people"))
    reached = reaching(it, upper(19))
    query = it.start()
    try:
        assert reached.wait(60), query.exception()
        assert len(clients) == 1, "one for all micro-batches"
        kafka.delete(topic)
        # Spark's own words, which do not say which one.
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(60)
    finally:
        query.stop()

    it.put(put(21, 3, "c"), Mark(30))
    with pytest.raises(BrokerError, match=f"has no topic '{topic}'") as refused:
        it.start()
    assert "Create it" in refused.value.hint

    # Without a record, and with more than there were: by their offsets Spark would go on behind the first.
    kafka.create(topic)
    more = put(22, 4, "d", "people"), put(23, 5, "e", "people"), Mark(30, "people"), Mark(31, "people")
    for records in ((), more):
        it.put(*records)
        with pytest.raises(Overcompacted, match=f"topic '{topic}' was deleted and made anew") as anew:
            it.start()
        assert "go on with a new checkpoint" in anew.value.hint
    for name in ("orders", "people"):
        assert frontiers(it, name) == [upper(19)]
        it.check(duckdb, name)


@pytest.mark.nightly
def test_a_broker_that_is_down_when_a_feed_starts_is_named_and_the_feed_goes_on_when_it_is_back(
    flow, kafka: Kafka, duckdb
) -> None:
    quick = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}
    it = flow(read={"options": quick})
    it.put(put(10, 1, "a"), Mark(20))
    it.run()
    it.put(put(21, 2, "b"), Mark(30))
    kafka.stop()
    try:
        with pytest.raises(BrokerError, match=f"{kafka.bootstrap} does not say") as refused:
            it.start()
        assert "when the broker is there" in refused.value.hint
    finally:
        kafka.start()
    it.run()
    assert frontiers(it) == [upper(19), upper(29)]
    it.check(duckdb)


def test_a_registry_that_is_down_stops_the_feed_with_the_place_and_nothing_is_lost(
    flow, duckdb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_PAUSE_S", 0)
    with schemas() as known:
        declared = {"orders": "id long primary key, name string not null"}
        it = flow(
            dialect=PostgresAvro(known), tables=declared, write=lambda writer: writer.schema_evolution()
        )
        it.put(Change(10, {"id": 1}, {"id": 1, "name": "a"}))
        it.run()
        known.is_up = False
        it.put(Change(20, {"id": 1}, {"id": 1, "name": "b", "note": "new"}), Change(21, {"id": 2}, None))
        told = it.refused()
        assert f"topic {it.topic('orders')}, partition {it.topic('orders')}/0, offset 1: " in told
        assert f"the schema registry {known.url} is out of reach" in told
        assert "Start the query again when the registry is there" in told
        assert len(it.check(duckdb)) == 1
        known.is_up = True
        it.run()
    assert len(it.check(duckdb)) == 2
    assert it.table().schema().column_names == ["id", "name", "note"]
