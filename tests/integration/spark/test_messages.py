"""Streams of messages that are not Kafka's: without offsets or partitions, with topics of other names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import calve
from calve import ConfigError
from calve.config.columns import SourceColumn, SourceTable
from tests.support.dialects.cockroachdb import Cockroach, upper
from tests.support.dialects.debezium import Postgres
from tests.support.feeds import Change, Event, FeedFlow, Mark, Raw
from tests.support.lake import NAMESPACE
from tests.support.readers import Reader, read_snapshot
from tests.support.truth import snapshots_of_main, summary_of

pytestmark = pytest.mark.spark

SMALL = "id long primary key, name string"
NO_OFFSETS = "topic string, key string, value string"


@pytest.fixture
def flow(spark, lake, tmp_path: Path, table_name: str) -> Callable[..., FeedFlow]:
    def make(dialect: Any, tables: dict[str, str | None], **settings: Any) -> FeedFlow:
        return FeedFlow(spark, lake, tmp_path, dialect, tables, table_name[-40:].strip("_"), **settings)

    return make


def shown(it: FeedFlow, reader: Reader, topic: str = "orders", *more: pa.Field) -> list[tuple[Any, ...]]:
    """The rows of a table, by an engine that is not ours."""
    last = snapshots_of_main(it.table(topic))[-1].snapshot_id
    like = pa.schema([("id", pa.int64()), ("name", pa.string()), *more])
    return sorted(read_snapshot(reader, it.lake.at(it.name(topic)), last, like=like))


def frontiers(it: FeedFlow, topic: str = "orders") -> list[int]:
    return [int(summary_of(one)["calve.frontier"]) for one in snapshots_of_main(it.table(topic))]


def event(id: int, name: str | None, lsn: int, *, commit: Any = None, number: Any = 0, **said: Any) -> Raw:
    """An event of PostgreSQL. `number`: in its transaction, whose id is the LSN before it."""
    source = {
        "connector": "postgresql",
        "snapshot": said.get("snapshot", "false"),
        "sequence": json.dumps([None if commit is None else str(commit), str(lsn)]),
        "schema": "public",
        "table": said.get("table", "orders"),
        "lsn": lsn,
        "ts_ms": said.get("ts_ms"),
    }
    body = {
        "before": None,
        "after": {"id": id, "name": name},
        "source": source,
        "op": said.get("op", "c"),
        "transaction": {"id": f"{commit}:{lsn}", "total_order": number} if number else None,
    }
    topic = said.get("topic", "orders")
    return Raw(json.dumps(body, separators=(",", ":")), json.dumps({"id": id}), topic=topic)


def end(commit: int, at: int, **events: int) -> Raw:
    counts = [{"data_collection": name.replace("__", "."), "event_count": n} for name, n in events.items()]
    body = {"status": "END", "id": f"{commit}:{at}", "data_collections": counts, "ts_ms": at}
    return Raw(json.dumps(body), topic="shop.transaction")


def test_rows_that_share_a_position_are_all_written_where_nothing_tells_them_apart(flow, duckdb) -> None:
    """A snapshot of the source, and then a COPY: each in two micro-batches."""
    it = flow(Postgres(), {"orders": SMALL}, columns=NO_OFFSETS)
    it.put(*(event(id, "copied", 50, op="r", snapshot="true") for id in (1, 2)))
    it.put(*(event(id, "copied", 50, op="r", snapshot="true") for id in (3, 4)))
    it.put(*(event(id, "loaded", 200, commit=100) for id in (5, 6)))
    it.put(*(event(id, "loaded", 200, commit=100) for id in (7, 8)), event(1, "old", 50, op="r"))
    it.put(event(5, "newer", 300, commit=250), event(6, "a replay", 190, commit=100))
    it.run()
    assert [id for id, _ in shown(it, duckdb)] == [1, 2, 3, 4, 5, 6, 7, 8]
    names = dict(shown(it, duckdb))
    assert (names[1], names[5], names[6]) == ("copied", "newer", "loaded")


def test_a_column_that_one_message_of_many_has_is_learnt(flow, duckdb) -> None:
    it = flow(Cockroach(), {"orders": SMALL}, write=lambda writer: writer.schema_evolution())
    some: list[Event] = [Change(10, {"id": id}, {"id": id, "name": "a"}) for id in range(40)]
    some.insert(20, Change(11, {"id": 99}, {"id": 99, "name": "b", "total": 7}))
    # A value of JSON may look like a delete.
    looks = json.loads(it.dialect.change(Change(11, {"id": 98}, {"id": 98}))[0][1])
    looks["after"] |= {"name": {"after": None}, "size": 3}
    some.insert(10, Raw(json.dumps(looks)))
    it.put(*some, Mark(20))
    it.run()
    rows = {
        row[0]: row[1:] for row in shown(it, duckdb, "orders", ("total", pa.int64()), ("size", pa.int64()))
    }
    assert rows[99] == ("b", 7, None)
    assert rows[98][2] == 3
    assert len(rows) == 42


def test_messages_are_looked_at_where_pyspark_has_other_types_for_them(spark, flow, duckdb) -> None:
    """4.0 has a bytearray for what is binary; later ones have it where a session is told so."""
    spark.conf.set("spark.sql.execution.pyspark.binaryAsBytes", "false")
    try:
        it = flow(Postgres(), {"orders": None})
        it.put(event(1, "a", 100, commit=50))
        it.run()
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.binaryAsBytes")
    assert shown(it, duckdb) == [(1, "a")]


def test_a_column_that_is_null_in_most_messages_is_learnt(flow, duckdb) -> None:
    it = flow(Postgres(), {"orders": None})
    it.put(*(event(id, None if id != 25 else "kept", 100 + id, commit=50) for id in range(40)))
    it.run()
    assert dict(shown(it, duckdb))[25] == "kept"


def test_deletes_of_a_table_that_is_sharded_find_their_rows(flow, duckdb) -> None:
    text = (
        "CREATE TABLE orders (id INT8, name STRING, PRIMARY KEY (id ASC) USING HASH WITH (bucket_count=16))"
    )
    it = flow(Cockroach(), {"orders": text})
    rows = [
        Change(time, {"shard": 7, "id": 1}, row) for time, row in ((10, {"id": 1, "name": "a"}), (12, None))
    ]
    it.put(rows[0], Change(10, {"shard": 3, "id": 2}, {"id": 2, "name": "b"}), Mark(11), rows[1], Mark(20))
    it.run()
    assert shown(it, duckdb) == [(2, "b")]


def test_partitions_of_a_stream_hold_until_each_of_them_has_spoken(flow, duckdb) -> None:
    it = flow(Cockroach(), {"orders": SMALL}, read={"partitions": ["orders/0", "orders/1"]})
    it.put(Change(10, {"id": 1}, {"id": 1, "name": "a"}), Mark(20))
    it.run()
    assert frontiers(it) == []
    it.put(Change(12, {"id": 2}, {"id": 2, "name": "b"}, partition=1), Mark(15, partition=1))
    it.run()
    assert frontiers(it) == [upper(14)]
    assert shown(it, duckdb) == [(1, "a"), (2, "b")]


@pytest.mark.nightly  # kafka/test_debezium.py shows it by day, of topics with common names
def test_a_transaction_is_whole_whatever_its_topics_are_called(flow, duckdb) -> None:
    """A topic that was renamed, and a table whose name is no topic's."""
    renamed, other = "orders", "shop.public.Order_Items"
    said = {"transaction_topic": "shop.transaction", "transaction_tables": {renamed: "public.orders"}}
    it = flow(Postgres(), dict.fromkeys((renamed, other), SMALL), columns=NO_OFFSETS, read=said)
    of: list[dict[str, Any]] = [
        {"commit": 100, "topic": renamed, "table": "orders"},
        {"commit": 100, "topic": other, "table": "Order Items"},
    ]
    it.put(
        *(event(1, "a", 200 + number, number=number, **half) for number, half in enumerate(of, start=1)),
        end(100, 250, **{"public__orders": 2, "public__Order Items": 2}),
    )
    it.run()
    for topic in (renamed, other):
        assert frontiers(it, topic) == []
    for number, half in enumerate(of, start=3):
        it.put(event(2, "b", 200 + number, number=number, **half))
    it.run()
    for topic in (renamed, other):
        assert frontiers(it, topic) == [250]
        assert shown(it, duckdb, topic) == [(1, "a"), (2, "b")]


def test_events_of_tables_that_no_topic_names_are_refused(flow) -> None:
    it = flow(Postgres(), {"orders": SMALL}, read={"transaction_topic": "shop.transaction"})
    it.put(event(1, "a", 200, commit=100, number=1), end(100, 250, public__orders=1))
    said = it.refused()
    assert "events of the table public.orders" in said
    assert "transaction_tables={'orders': 'public.orders'}" in said


def test_a_message_that_cannot_be_read_is_told_of_beside_transactions_too(flow, duckdb) -> None:
    topic = "shop.public.orders"
    it = flow(Postgres(), {topic: SMALL}, read={"transaction_topic": "shop.transaction"})
    whole = event(1, "a", 200, commit=100, number=1, topic=topic)
    it.put(whole, Raw("half a li", topic=topic), end(100, 250, public__orders=1))
    assert "the message is no JSON object" in it.refused()
    it.write = lambda writer: writer.on_bad_row("quarantine")
    it.run()
    assert shown(it, duckdb, topic) == [(1, "a")]
    assert len(it.quarantined(topic)) == 1


def test_transactions_without_an_lsn_are_refused(flow) -> None:
    topic = "shop.public.orders"
    it = flow(Postgres(), {topic: SMALL}, read={"transaction_topic": "shop.transaction"})
    it.put(event(1, "a", 200, commit=100, number=1, topic=topic))
    it.put(Raw(json.dumps({"status": "END", "id": "gtid", "ts_ms": 1}), topic="shop.transaction"))
    assert "the end of 'gtid', which has no LSN" in it.refused()


def test_what_is_no_change_of_its_table_is_refused(flow) -> None:
    it = flow(Cockroach(), {"orders": SMALL}, write=lambda writer: writer.on_bad_row("quarantine"))
    wrong: dict[str, dict[str, Any]] = {
        "there is no `after`, not even a null": {"after": ...},
        "the message is of another table": {"topic": "people"},
        "the key has more values, or fewer": {"key": [1, 2], "after": None},
    }
    right = json.loads(it.dialect.change(Change(11, {"id": 1}, {"id": 1, "name": "a"}))[0][1])
    some = [
        {name: value for name, value in {**right, **one}.items() if value is not ...}
        for one in wrong.values()
    ]
    it.put(*(Raw(json.dumps(one)) for one in some), Mark(20))
    it.run()
    told = [row["reason"] for row in it.quarantined()]
    assert len(told) == len(wrong)
    for offset, why in enumerate(wrong, start=1):
        assert any(f"topic orders, partition orders/0, offset {offset}: {why}" in one for one in told)


def test_what_is_said_of_debezium_reaches_its_envelope(spark) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("cast(value as string) value")
    said = {
        "toast": "keep",
        "truncates": "skip",
        "infinity": "null",
        "decimals": "string",
        "times": "connect",
    }
    feed = calve.read_stream(spark).messages(frame, envelope="debezium", topic="orders", **said)
    envelope = feed.envelope("orders")
    assert (envelope.toast, envelope.truncates, envelope.infinity) == ("keep", "skip", "null")
    assert (envelope.declared.decimals, envelope.declared.times) == ("string", "connect")
    avro = {"envelope": "debezium-avro", "topic": "orders", "registry": "http://127.0.0.1:9"}
    assert (
        calve.read_stream(spark).messages(frame, **avro).envelope("orders").registry.url == avro["registry"]
    )
    for wrong, why in (
        ({"envelope": "debezium-avro"}, "nothing says where its registry is"),
        ({"envelope": "debezium", "registry": "http://127.0.0.1:9"}, "a registry is for messages in Avro"),
        ({"envelope": "cockroachdb", "toast": "keep"}, "toast is a setting of Debezium's messages"),
        ({"envelope": "debezium", "toasts": "keep"}, "there is no setting 'toasts'"),
        ({"envelope": "debezium", "toast": "guess"}, "toast cannot be 'guess'"),
    ):
        with pytest.raises(ConfigError, match=why):
            calve.read_stream(spark).messages(frame, topic="orders", **wrong)


def test_two_topics_of_one_table_are_refused_before_anything_is_read(spark, flow) -> None:
    it = flow(Cockroach(), {"a.orders": SMALL, "b.orders": SMALL})
    with pytest.raises(ConfigError, match=r"the topics 'a\.orders' and 'b\.orders' would both be written to"):
        it.start()
    for other in (
        f"{it.lake.name}.{NAMESPACE}.{it.prefix}_orders",
        f"`{it.lake.name}`.{NAMESPACE}.`{it.prefix}_orders`",
    ):
        it.to_tables = {"names": {"b.orders": other}}
        with pytest.raises(ConfigError, match=rf"both be written to {NAMESPACE}\.{it.prefix}_orders"):
            it.start()
    it.to_tables = {"names": {"b.orders": f"{it.lake.name}.other.{it.prefix}_orders"}}
    it.run()


def test_rows_of_a_snapshot_of_another_server_are_not_taken_for_what_was_read(flow, duckdb) -> None:
    it = flow(Postgres(), {"orders": SMALL})
    it.put(event(1, "a", 50, op="r", snapshot="last"), event(2, "b", 200, commit=100))
    it.run()
    it.put(event(2, "b", 200, commit=100), event(3, "c", 300, commit=250))
    it.run()
    assert shown(it, duckdb) == [(1, "a"), (2, "b"), (3, "c")]
    it.put(event(4, "d", 20, op="r", snapshot="last"))
    assert "1 events have positions that were passed, and are no replays" in it.refused()


def test_events_of_another_server_are_not_taken_for_replays(flow, duckdb) -> None:
    """Positions begin again, and the clock goes on."""
    it = flow(Postgres(), {"orders": SMALL})
    it.put(event(1, "a", 150, commit=100, ts_ms=1_000), event(2, "b", 200, commit=150, ts_ms=900))
    it.run()
    it.put(event(1, "a", 150, commit=100, ts_ms=1_000), event(3, "c", 300, commit=250, ts_ms=None))
    it.run()
    assert shown(it, duckdb) == [(1, "a"), (2, "b"), (3, "c")]
    it.put(event(4, "d", 50, commit=40, ts_ms=1_001))
    assert "The connector reads another server" in it.refused()


def test_a_topic_that_shows_no_columns_is_named(flow) -> None:
    it = flow(Cockroach(), {"orders": None}, topics=("orders",))
    it.put(Mark(20))
    assert "topic 'orders': no message shows the columns of the table" in it.refused()


def test_a_column_may_have_any_name(flow, duckdb) -> None:
    columns = (
        SourceColumn("id", "long", True),
        SourceColumn("name", "string"),
        SourceColumn("a.b`c d", "long"),
    )
    it = flow(Cockroach(), {"orders": SourceTable(columns, ("id",))})
    it.put(Change(10, {"id": 1}, {"id": 1, "name": "a", "a.b`c d": 7}), Mark(20))
    it.run()
    assert len(it.check(duckdb)) == 1


def test_a_checkpoint_is_of_its_tables(flow) -> None:
    it = flow(Cockroach(), {"orders": SMALL})
    it.put(Change(10, {"id": 1}, {"id": 1, "name": "a"}), Mark(20))
    it.run()
    it.prefix += "_2"
    it.put(Change(21, {"id": 2}, {"id": 2, "name": "b"}), Mark(30))
    assert "that table would begin in the middle" in it.refused()


def test_a_bad_message_without_an_offset_says_its_topic(flow) -> None:
    it = flow(Cockroach(), {"orders": SMALL}, columns="topic string, value string", read={"partitions": 1})
    it.put(Raw("half a li"), Mark(20))
    assert "topic orders, partition 0: the message is no JSON object" in it.refused()
