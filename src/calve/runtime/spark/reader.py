"""How a feed is read: `calve.read_stream(spark)`, and the source by its name.

    calve.read_stream(spark).kafka("host:9092", "orders", envelope="wrapped", tables="CREATE TABLE …")
    calve.read_stream(spark).messages(frame, envelope="debezium", topic="orders")

What comes back is a Feed, for `calve.write_stream`. Nothing is read before that is started.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from calve.config.columns import SourceTable
from calve.config.layout import parse_columns
from calve.envelope.base import Boundaries, Envelope
from calve.envelope.cockroachdb import CockroachDB, CockroachFiles, file_messages
from calve.envelope.debezium import Debezium
from calve.envelope.debezium.boundaries import Transactions
from calve.envelope.known import envelope_of
from calve.envelope.subscription import MaterializeRows, subscription_messages
from calve.model.errors import ConfigError
from calve.runtime.spark.feed import Feed
from calve.runtime.spark.run import OffsetLog
from calve.source.cockroachdb.datasource import register as register_cockroachdb
from calve.source.cockroachdb.infer import infer_tables
from calve.source.cockroachdb.plan import ReadPlan, make_tables
from calve.source.materialize.client import Login, Subscription
from calve.source.materialize.datasource import register as register_materialize
from calve.source.materialize.describe import describe
from calve.store.access import Access

_CREATE = re.compile(r"\s*(--.*\n\s*|/\*.*?\*/\s*)*create\b", re.IGNORECASE)


def read_stream(spark: SparkSession) -> StreamReader:
    """Read the changes of a source, for `calve.write_stream`."""
    return StreamReader(spark)


class StreamReader:
    """The sources that there are."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def kafka(
        self,
        bootstrap_servers: str,
        topics: str | Sequence[str],
        *,
        envelope: str | Envelope,
        tables: object = None,
        options: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Feed:
        """Topics of Kafka. `tables` declares columns: the text of a CREATE TABLE or a column list for one
        topic, or a mapping of topics to such texts. `transaction_topic` is Debezium's: with it no snapshot
        shows half a transaction. `options` are those of Spark's Kafka source."""
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        marks = settings.get("transaction_topic")
        said = {
            "kafka.bootstrap.servers": bootstrap_servers,
            "subscribe": ",".join([*names, *([] if marks is None else [marks])]),
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            # Without it, records of transactions that were aborted are read too.
            "kafka.isolation.level": "read_committed",
            **(options or {}),
        }
        frame = self._spark.readStream.format("kafka").options(**said).load()
        return _feed(kafka_messages(frame), envelope, names, tables, kafka_partitions, settings)

    def cockroachdb(
        self,
        url: str,
        topics: str | Sequence[str] | None = None,
        *,
        tables: object = None,
        storage: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Feed:
        """The files that a CockroachDB changefeed writes to a bucket or a folder: `s3://bucket/feed`. Without
        `topics`, all that are there. `tables` declares columns; what is not declared is guessed from the
        first files, with a warning. `storage` is how the store is reached, as in options.md."""
        names = (topics,) if isinstance(topics, str) else None if topics is None else tuple(topics)
        declared = tables_of(tables, names)
        access = Access.of(storage or {})
        wanted = None if names is None else frozenset(names)
        guessed = infer_tables(ReadPlan(url, make_tables(_plain(declared)), wanted, access))
        known = {**guessed, **declared}
        columns = {one.topic: one.column for one in make_tables(_plain(known))}
        said = {
            "url": url,
            "topics": ",".join(names or ()),
            "tables": json.dumps(
                {topic: {"columns": one[0], "key": one[1]} for topic, one in _plain(known).items()}
            ),
            **(options or {}),
        }
        form = register_cockroachdb(self._spark, access if storage else None)

        def frame(**more: str) -> DataFrame:
            return file_messages(self._spark.readStream.format(form).options(**said, **more).load())

        return Feed(
            frame=frame(),
            all_at_once=None if "files_max" in said else lambda: frame(files_max="0"),
            envelope=lambda topic: CockroachFiles(columns.get(topic), known.get(topic)),
            tables=known,
            topics=names,
            tells=CockroachDB().tells,
            **_settings(settings, names),
        )

    def materialize(
        self,
        uri: str,
        name: str | None = None,
        *,
        query: str | None = None,
        key: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
        topic: str | None = None,
        **settings: Any,
    ) -> Feed:
        """A relation of Materialize, or a query, subscribed to by a PostgreSQL connection:
        `postgresql://user:password@host:6875/materialize`. Its columns are what the server says; `types` says
        what single ones shall be. What follows a micro-batch must still be there when the next one begins:
        RETAIN HISTORY."""
        login = Login(uri)
        table = describe(login, Subscription.of(name, query), types or {}, key)
        called = topic or (name or "subscription").rpartition(".")[2].strip('"')
        said = {
            **({"object": name} if name is not None else {}),
            **({"query": query} if query is not None else {}),
            "topic": called,
            "columns": json.dumps([(column.name, column.type) for column in table.columns]),
        }
        form = register_materialize(self._spark, login)
        frame = self._spark.readStream.format(form).options(**said).load()
        return Feed(
            frame=subscription_messages(frame),
            envelope=lambda _: MaterializeRows(table),
            tables={called: table},
            topics=(called,),
            **_settings(settings, (called,)),
        )

    def messages(
        self,
        frame: DataFrame,
        *,
        envelope: str | Envelope,
        topic: str | None = None,
        tables: object = None,
        **settings: Any,
    ) -> Feed:
        """Any stream of messages: with a column `value`, and `key`, `topic`, `partition` and `offset` where
        it has them. Without topics all messages are of one `topic`."""
        if "value" not in frame.columns:
            raise ConfigError(
                f"a stream of messages has a column 'value', and this one has {', '.join(frame.columns)}",
                hint="Rename it: .withColumnRenamed('…', 'value').",
            )
        if (topic is None) == ("topic" not in frame.columns):
            raise ConfigError(
                "it is not clear of which topic the messages are",
                hint="Give topic='orders' where the stream has no column 'topic', and only there.",
            )
        given = {
            "topic": F.lit(topic),
            "partition": F.lit("0"),
            "offset": F.lit(0).cast("long"),  # a stream has no numbers for its rows
            "key": F.lit(None).cast("binary"),
        }
        for name, column in given.items():
            if name not in frame.columns:
                frame = frame.withColumn(name, column)
        frame = frame.withColumn("value", F.col("value").cast("binary"))
        frame = frame.withColumn("key", F.col("key").cast("binary"))
        frame = frame.withColumn("partition", F.col("partition").cast("string"))
        topics = None if topic is None else (topic,)
        return _feed(frame, envelope, topics, tables, lambda *_: None, settings)


def kafka_messages(frame: DataFrame) -> DataFrame:
    """Messages of Spark's Kafka source. A partition is named with its topic: a feed has several."""
    partition = F.concat(F.col("topic"), F.lit("/"), F.col("partition")).alias("partition")
    headers = ["headers"] if "headers" in frame.columns else []
    return frame.select("topic", partition, "offset", "key", "value", *headers)


def kafka_partitions(log: OffsetLog, topics: Sequence[str]) -> frozenset[str]:
    """All partitions of these topics that Spark reads, by its own offsets."""
    found = set()
    for line in log.sources:
        said = json.loads(line)
        found |= {f"{topic}/{number}" for topic in topics for number in said.get(topic, {})}
    return frozenset(found)


def _feed(
    frame: DataFrame,
    envelope: str | Envelope,
    topics: tuple[str, ...] | None,
    tables: object,
    partitions: Callable[[OffsetLog, Sequence[str]], frozenset[str] | None],
    settings: Mapping[str, Any],
) -> Feed:
    one = envelope_of(envelope) if isinstance(envelope, str) else envelope
    boundaries = None
    if (marks := settings.get("transaction_topic")) is not None:
        one, boundaries = _transactions(one, marks, topics)
    return Feed(
        frame=frame,
        boundaries=boundaries,
        version=getattr(one, "version", lambda _: None),
        envelope=lambda _: one,
        tables=tables_of(tables, topics),
        topics=topics,
        partitions=partitions,
        tells=one.tells,
        **_settings(settings, topics),
    )


def _transactions(
    envelope: Envelope, topic: str, topics: Sequence[str] | None
) -> tuple[Envelope, Boundaries]:
    """Debezium's transaction topic as what says how far the tables are."""
    if not isinstance(envelope, Debezium):
        raise ConfigError(
            "a transaction topic is Debezium's, and the envelope is another",
            hint="Leave transaction_topic out.",
        )
    if topics is None:
        raise ConfigError(
            "with a transaction topic the topics must be named: a transaction is complete when the events of "
            "all tables that are read have come",
            hint="Name them.",
        )
    one = replace(envelope, transactions=True)
    tables = frozenset(".".join(name.split(".")[-2:]) for name in topics)
    return one, Transactions(topic, one, tables)


def _settings(settings: Mapping[str, Any], topics: Sequence[str] | None) -> dict[str, Any]:
    known = {"other_columns", "job_id", "key", "transaction_topic"}
    if unknown := [name for name in settings if name not in known]:
        raise ConfigError(
            f"there is no setting {unknown[0]!r} of a feed", hint=f"There are: {', '.join(sorted(known))}."
        )
    other = settings.get("other_columns", "refuse")
    if other not in ("refuse", "ignore"):
        raise ConfigError(f"other_columns cannot be {other!r}", hint="Say 'refuse' or 'ignore'.")
    return {
        "ignores_columns": other == "ignore",
        "job_id": settings.get("job_id"),
        "keys": keys_of(settings.get("key"), topics),
    }


def keys_of(key: Any, topics: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Keys by topic: of the one topic, or of those that a mapping names."""
    if key is None:
        return {}
    if not isinstance(key, Mapping):
        if topics is None or len(topics) != 1:
            raise ConfigError(
                "a key is given for one table, and the feed may have several topics",
                hint="Give a mapping: key={'orders': ('id',), 'customers': ('id',)}.",
            )
        key = {topics[0]: key}
    return {str(topic): parse_columns(one, "key") for topic, one in key.items()}


def _plain(tables: Mapping[str, SourceTable]) -> dict[str, tuple[list[tuple[str, str]], list[str]]]:
    """Tables as the reader of files takes them."""
    return {
        topic: ([(one.name, one.type) for one in table.columns], list(table.key))
        for topic, table in tables.items()
    }


def tables_of(declared: object, topics: Sequence[str] | None) -> dict[str, SourceTable]:
    """Declared tables by topic."""
    if declared is None:
        return {}
    if isinstance(declared, Mapping):
        return {str(topic): _table(one) for topic, one in declared.items()}
    if topics is None or len(topics) != 1:
        raise ConfigError(
            "columns are declared for one table, and the feed may have several topics",
            hint="Give a mapping: tables={'orders': '…', 'customers': '…'}.",
        )
    return {topics[0]: _table(declared)}


def _table(declared: object) -> SourceTable:
    if isinstance(declared, SourceTable):
        return declared
    if isinstance(declared, str) and _CREATE.match(declared):
        return SourceTable.from_create_table(declared)
    return SourceTable.of(declared)
