"""Pipelines of SQL over a real Kafka broker: a changefeed's topic, plain rows, and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calve.model.errors import BrokerError
from calve.runtime.spark.verify.door import verify_sink
from tests.support.pipelines import Pipeline
from tests.support.servers.kafka import Record

pytestmark = [pytest.mark.spark, pytest.mark.servers]


def hlc(seconds: int) -> str:
    return f"{1_794_787_200 + seconds}000000000.0000000000"


def change(seconds: int, id: int, status: str | None) -> Record:
    after = None if status is None else {"id": id, "status": status}
    value = {"after": after, "key": [id], "updated": hlc(seconds)}
    return Record(json.dumps([id]).encode(), json.dumps(value).encode())


def resolved(seconds: int) -> Record:
    return Record(None, json.dumps({"resolved": hlc(seconds)}).encode())


@pytest.fixture
def pipeline(spark, lake, tmp_path: Path, table_name: str) -> Pipeline:
    return Pipeline(spark, lake, tmp_path, table_name[-50:].strip("_"))


def test_a_changefeed_on_kafka_is_written_through_a_view_and_equals_its_source(
    pipeline, kafka, duckdb
) -> None:
    topic = pipeline.table
    kafka.create(topic)
    text = f"""CREATE CONNECTION k TO KAFKA (BROKER '{kafka.bootstrap}');
        CREATE SOURCE orders (id long, status string)
            FROM COCKROACHDB CHANGEFEED (CONNECTION = k, TOPIC = '{topic}') KEY (id);
        CREATE VIEW paid AS SELECT id FROM orders WHERE status = 'paid';
        CREATE SINK s FROM paid INTO IT;"""
    kafka.produce(topic, [change(1, 1, "paid"), change(2, 2, "new"), change(3, 3, "paid"), resolved(5)])
    assert pipeline.run(text)["s"].snapshots == 1
    assert pipeline.rows(duckdb) == [(1,), (3,)]
    kafka.produce(topic, [change(6, 1, "sent"), change(7, 2, "paid"), change(8, 3, None), resolved(10)])
    pipeline.run(text)
    assert pipeline.rows(duckdb) == [(2,)]
    (found,) = verify_sink(pipeline.job(text).prepare("s"))
    assert found.equal


def test_plain_rows_on_kafka_are_rows_and_what_is_none_stops_with_its_place(pipeline, kafka, duckdb) -> None:
    topic = pipeline.table
    kafka.create(topic)
    text = f"""CREATE SOURCE r (id long, v string)
            FROM KAFKA TOPIC (BROKER = '{kafka.bootstrap}', TOPIC = '{topic}') ENVELOPE NONE;
        CREATE SINK s FROM r INTO IT;"""
    kafka.produce(topic, [row({"id": 1, "v": "a"}), row({"id": 2})])
    pipeline.run(text)
    assert pipeline.rows(duckdb) == [(1, "a"), (2, None)]
    kafka.produce(topic, [Record(None, b'{"id": "x"')])
    with pytest.raises(
        Exception, match=f"topic {topic}, partition 0, offset 2: the message is no JSON object"
    ):
        pipeline.run(text)
    assert len(pipeline.rows(duckdb)) == 2


def row(values: dict[str, Any]) -> Record:
    return Record(None, json.dumps(values).encode())


def test_a_topic_that_is_not_there_is_named(pipeline, kafka) -> None:
    text = f"""CREATE CONNECTION k TO KAFKA (BROKER '{kafka.bootstrap}');
        CREATE SOURCE d (id long) FROM DEBEZIUM (CONNECTION = k, TOPIC = 'no-such-topic') KEY (id);
        CREATE SINK s FROM d INTO IT;"""
    with pytest.raises(BrokerError, match="no topic 'no-such-topic'"):
        pipeline.job(text).prepare("s").start(once=True)
