"""The broker of the tests, and what Spark's own connector makes of it."""

from __future__ import annotations

import pytest

from tests.support.servers.kafka import Kafka, Record

pytestmark = [pytest.mark.servers]


def test_what_is_committed_is_read_and_what_was_aborted_is_not(kafka: Kafka) -> None:
    kafka.create("ledger", partitions=2)
    kafka.produce("ledger", [Record(b"1", b"plain", 0, [("h", b"x")]), Record(None, None, 1)])
    with kafka.transaction() as transaction:
        transaction.send("ledger", Record(b"2", b"committed", 0))
    with kafka.transaction(commit=False) as transaction:
        transaction.send("ledger", Record(b"3", b"aborted", 0))

    read = kafka.records("ledger")
    assert [(record.partition, record.key, record.value) for record in read] == [
        (0, b"1", b"plain"),
        (0, b"2", b"committed"),
        (1, None, None),
    ]
    assert read[0].headers == [("h", b"x")]
    assert b"aborted" in [record.value for record in kafka.records("ledger", committed=False)]


@pytest.mark.nightly  # a feed goes through it every day (test_changefeed.py)
def test_a_broker_that_was_stopped_or_killed_has_its_records_and_partitions(kafka: Kafka) -> None:
    kafka.create("kept")
    kafka.produce("kept", [Record(b"1", b"before")])
    kafka.add_partitions("kept", 3)

    kafka.restart()
    kafka.produce("kept", [Record(b"2", b"between", partition=2)])
    kafka.kill()
    kafka.start()

    assert [record.value for record in kafka.records("kept")] == [b"before", b"between"]
    assert kafka.topics()["kept"] == 3


@pytest.mark.nightly  # all but the headers, feeds read every day
@pytest.mark.spark
def test_spark_reads_the_topic_with_its_headers(spark, kafka: Kafka) -> None:
    kafka.create("seen", partitions=2)
    kafka.produce("seen", [Record(b"1", b"a", 0), Record(b"2", None, 1, [("h", b"x")])])

    read = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", "seen")
        .option("includeHeaders", "true")
        .load()
        .select("partition", "offset", "key", "value", "headers.key")
        .collect()
    )

    assert sorted(map(tuple, read)) == [
        (0, 0, b"1", b"a", None),
        (1, 0, b"2", None, ["h"]),
    ]
