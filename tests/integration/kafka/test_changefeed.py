"""Feeds on a real Kafka broker: partitions, transactions, compaction, a restart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import calve
from calve import ConfigError
from calve.model.errors import Diverged
from tests.support.dialects.cockroachdb import Cockroach, upper
from tests.support.dialects.debezium import Postgres
from tests.support.feeds import Change, Mark
from tests.support.kafka_feeds import KafkaFlow
from tests.support.servers.kafka import Kafka, Record
from tests.support.truth import snapshots_of_main, summary_of

pytestmark = [pytest.mark.spark, pytest.mark.servers]

ORDERS = "id long primary key, name string not null, amount decimal(10,2)"


def put(time: int, id: int, name: str, partition: int = 0) -> Change:
    return Change(time, {"id": id}, {"id": id, "name": name, "amount": None}, partition=partition)


def marks(time: int, *partitions: int) -> tuple[Mark, ...]:
    return tuple(Mark(time, partition=partition) for partition in partitions or (0,))


def frontiers(it: KafkaFlow) -> list[int]:
    return [int(summary_of(one)["calve.frontier"]) for one in snapshots_of_main(it.table())]


@pytest.fixture
def flow(spark, lake, kafka, tmp_path: Path, table_name: str) -> Callable[..., KafkaFlow]:
    def make(**topic: Any) -> KafkaFlow:
        prefix = table_name[-40:].strip("_")
        it = KafkaFlow(
            spark, lake, tmp_path, Cockroach(key_in_value=False), {"orders": ORDERS}, prefix, kafka=kafka
        )
        kafka.create(it.topic("orders"), **topic)
        return it

    return make


def test_a_partition_that_is_added_holds_the_frontier_until_it_has_spoken(flow, kafka, duckdb) -> None:
    it = flow(partitions=2)
    it.put(put(10, 1, "a"), put(11, 2, "b", 1), *marks(20, 0, 1))
    it.run()
    assert frontiers(it) == [upper(19)]
    kafka.add_partitions(it.topic("orders"), 3)
    it.put(put(21, 3, "c"), *marks(30, 0, 1))
    it.run()
    assert frontiers(it) == [upper(19)], "the third may still have changes before 30"
    it.put(put(22, 4, "d", 2), *marks(30, 2))
    it.run()
    assert frontiers(it) == [upper(19), upper(29)]
    it.check(duckdb)


def test_a_topic_that_is_left_out_is_refused_before_spark_takes_it_for_deleted(flow, kafka, duckdb) -> None:
    it = flow()
    kafka.create(it.topic("others"))
    it.tables = {"orders": ORDERS, "others": ORDERS}
    it.topics = ("orders", "others")
    both = [Mark(20), replace(put(10, 2, "b"), topic="others"), Mark(20, topic="others")]
    it.put(put(10, 1, "a"), *both)
    it.run()
    it.put(put(21, 3, "c"), *marks(30), Mark(30, topic="others"))
    it.tables, it.topics = {"orders": ORDERS}, ("orders",)
    with pytest.raises(Diverged, match="others' was read by this checkpoint, and now it is not named"):
        it.start()
    it.tables, it.topics = {"orders": ORDERS, "others": ORDERS}, ("orders", "others")
    it.run()
    assert frontiers(it) == [upper(19), upper(29)]
    it.check(duckdb)


def test_topics_may_stand_in_one_text_and_options_in_any_case(spark, kafka) -> None:
    reader = calve.read_stream(spark)
    feed = reader.kafka(kafka.bootstrap, "a, b", envelope="cockroachdb")
    assert feed.topics == ("a", "b")
    for options, why in (
        ({"FailOnDataLoss": "false"}, "with FailOnDataLoss=false"),
        ({"startingoffsets": "latest"}, "with startingoffsets=latest"),
        ({"kafka.isolation.level": "read_uncommitted"}, "that were aborted would be read"),
        ({"subscribePattern": "a.*"}, "the option subscribePattern names them again"),
    ):
        with pytest.raises(ConfigError, match=why):
            reader.kafka(kafka.bootstrap, "a", envelope="cockroachdb", options=options)


def test_records_of_an_aborted_transaction_are_not_read(flow, kafka, duckdb) -> None:
    it = flow()
    with kafka.transaction() as transaction:
        for record in it.records(put(10, 1, "a")):
            transaction.send(it.topic("orders"), record)
    with kafka.transaction(commit=False) as transaction:
        for record in it.records(put(11, 2, "never")):
            transaction.send(it.topic("orders"), record)
    it.put(*marks(20))
    it.sent.append([put(10, 1, "a")])
    it.run()
    assert len(it.check(duckdb)) == 1
    assert it.log.seen[-1].rows + it.log.seen[0].rows <= 2


def test_a_compacted_topic_has_gaps_and_the_last_change_of_each_key(
    spark, lake, kafka: Kafka, tmp_path: Path, table_name: str, duckdb
) -> None:
    """Debezium's: resolved timestamps have no key, and a compacted topic takes none of them. A delete may be
    compacted away, so the user must say that none will be."""
    prefix = table_name[-40:].strip("_")
    it = KafkaFlow(spark, lake, tmp_path, Postgres(), {"orders": ORDERS}, prefix, kafka=kafka)
    topic = it.topic("orders")
    soon: dict[str, Any] = {"segment_ms": "50", "max_compaction_lag_ms": "50"}
    kafka.create(topic, cleanup_policy="compact", min_cleanable_dirty_ratio="0.001", **soon)
    it.put(*(put(at, at % 3, f"at {at}") for at in range(1, 31)))
    with pytest.raises(ConfigError, match=r"is compacted .* the row would stay"):
        it.run()
    it.read["compacted"] = "allow"
    it.run()
    it.put(*(put(at, at % 3, f"at {at}") for at in range(31, 61)))
    sent = len(kafka.records(topic))
    _until_compacted(kafka, topic, sent)
    last = put(70, 9, "last")
    kafka.produce(topic, it.records(last))
    it.sent[-1].append(last)  # one micro-batch
    it.run()
    it.check(duckdb)


def _until_compacted(kafka: Kafka, topic: str, sent: int) -> None:
    """The broker rolls a segment when the next record comes, and cleans those that are rolled: nothing tells
    when. The records that are looked for are not written by it."""
    deadline = time.monotonic() + 60
    while sum(record.value is not None for record in kafka.records(topic)) == sent:
        assert time.monotonic() < deadline, "the broker does not compact"
        kafka.produce(topic, [Record(b"{}", None)])  # a tombstone of nobody


@pytest.mark.parametrize("how", [Kafka.stop, pytest.param(Kafka.kill, marks=pytest.mark.nightly)])
def test_a_broker_that_restarts_is_waited_for_and_nothing_is_lost_or_doubled(
    how, flow, kafka: Kafka, duckdb
) -> None:
    it = flow()
    it.put(put(10, 1, "a"), *marks(20))
    reached = {upper(19): threading.Event(), upper(29): threading.Event()}
    seen = it.log.on_progress

    def on_progress(progress: Any) -> None:
        seen(progress)
        if progress.frontier in reached:
            reached[progress.frontier].set()

    it.log.on_progress = on_progress
    it.trigger = {"processingTime": "200 milliseconds"}
    query = it.start()
    try:
        assert reached[upper(19)].wait(60), query.exception()
        how(kafka)
        kafka.start()
        it.put(put(21, 2, "b"), *marks(30))
        assert reached[upper(29)].wait(60), query.exception()
    finally:
        query.stop()
    it.check(duckdb)
    assert frontiers(it) == [upper(19), upper(29)]
