"""How a feed is read: `calve.read_stream(spark)`, and the source by its name.

    calve.read_stream(spark).kafka("host:9092", "orders", envelope="cockroachdb", tables="CREATE TABLE …")
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

from calve.envelope.base import Boundaries, Envelope
from calve.envelope.cockroachdb import CockroachDB, CockroachFiles, file_messages
from calve.envelope.debezium import Debezium
from calve.envelope.debezium.boundaries import Transactions
from calve.envelope.debezium.observe import in_topic
from calve.envelope.known import SETTINGS, envelope_of
from calve.envelope.subscription import MaterializeRows, subscription_messages
from calve.model.errors import ConfigError
from calve.runtime.spark.declared import keys_of, option_of, plans_of, settings_of, tables_of
from calve.runtime.spark.feed import Feed
from calve.runtime.spark.run import OffsetLog
from calve.source.cockroachdb.datasource import register as register_cockroachdb
from calve.source.cockroachdb.infer import infer_tables
from calve.source.cockroachdb.listing import Offset
from calve.source.cockroachdb.plan import ReadPlan
from calve.source.kafka import TopicIds, check_kept, check_options
from calve.source.materialize.client import Login, Subscription
from calve.source.materialize.datasource import register as register_materialize
from calve.source.materialize.describe import describe
from calve.store.access import Access


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
        shows half a transaction; where topics were renamed, `transaction_tables` says which tables each of
        them has. `options` are those of Spark's Kafka source."""
        names = _names(topics)
        marks = settings.get("transaction_topic")
        said = {
            "kafka.bootstrap.servers": bootstrap_servers,
            "subscribe": ",".join([*names, *([] if marks is None else [marks])]),
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            # Without it, records of transactions that were aborted are read too.
            "kafka.isolation.level": "read_committed",
        }
        ours = {name.lower(): name for name in said}  # Spark minds no case
        said |= {ours.get(name.lower(), name): value for name, value in (options or {}).items()}
        check_options(options or {})
        frame = self._spark.readStream.format("kafka").options(**said).load()
        feed = _feed(kafka_messages(frame), envelope, names, tables, kafka_partitions, settings)
        read = said["subscribe"].split(",")
        feed = replace(
            feed,
            passes_over=False,
            ids=TopicIds(self._spark, said, read),
            bounded=lambda: kafka_messages(self._spark.read.format("kafka").options(**said).load()),
        )
        if isinstance(feed.envelope(names[0]), Debezium) and settings.get("compacted") != "allow":
            feed = replace(feed, check=lambda: check_kept(self._spark, said, names))
        return feed

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
        names = None if topics is None else _names(topics)
        declared = tables_of(tables, names)
        access = Access.of(storage or {})
        wanted = None if names is None else frozenset(names)
        guessed = infer_tables(ReadPlan(url, plans_of(declared), wanted, access))
        keys = keys_of(settings.get("key"), names)
        keyed = {topic: replace(table, key=keys.get(topic, table.key)) for topic, table in guessed.items()}
        known = {**keyed, **declared}
        places = ReadPlan(url, plans_of(known), together=True).structs.places
        said = {
            "url": url,
            "topics": ",".join(names or ()),
            "tables": option_of(known),
            "together": "true",
            **(options or {}),
        }
        form = register_cockroachdb(self._spark, access if storage else None)

        def frame(**more: str) -> DataFrame:
            return file_messages(self._spark.readStream.format(form).options(**said, **more).load())

        return Feed(
            frame=frame(),
            all_at_once=None if "files_max" in said else lambda: frame(files_max="0"),
            envelope=lambda topic: CockroachFiles(places.get(topic), topic),
            tables=known,
            topics=names,
            files_late=_files_late,
            bounded=lambda: file_messages(self._spark.read.format(form).options(**said).load()),
            place=re.sub("//[^/]*@", "//", url.rstrip("/")),
            tells=CockroachDB().tells,
            version=CockroachFiles(None).version,
            **settings_of(settings, names),
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
            place=name or query,
            **settings_of(settings, (called,)),
        )

    def messages(
        self,
        frame: DataFrame,
        *,
        envelope: str | Envelope,
        topic: str | None = None,
        tables: object = None,
        partitions: int | Sequence[str] | None = None,
        **settings: Any,
    ) -> Feed:
        """Any stream of messages: with a column `value`, and `key`, `topic`, `partition` and `offset` where
        it has them. Without topics all messages are of one `topic`. Where messages come in `partitions` that
        say each how far they are, give their names, or how many there are: 4 are '0' to '3'."""
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
            "offset": F.lit(None).cast("long"),
            "key": F.lit(None).cast("binary"),
        }
        for name, column in given.items():
            if name not in frame.columns:
                frame = frame.withColumn(name, column)
        frame = frame.withColumn("value", F.col("value").cast("binary"))
        frame = frame.withColumn("key", F.col("key").cast("binary"))
        frame = frame.withColumn("partition", F.col("partition").cast("string"))
        topics: tuple[str, ...] | None = None if topic is None else (topic,)
        if topics is None and isinstance(tables, Mapping) and "transaction_topic" in settings:
            topics = tuple(map(str, tables))  # all tables that there are: a transaction may have any of them
        names = map(str, range(partitions)) if isinstance(partitions, int) else partitions
        known = None if names is None else frozenset(names)
        return _feed(frame, envelope, topics, tables, lambda *_: known, settings, topic_is_told=topic is None)


def _names(topics: str | Sequence[str]) -> tuple[str, ...]:
    """Topics: several, or a text with commas between."""
    said = topics.split(",") if isinstance(topics, str) else topics
    return tuple(name.strip() for name in said)


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


def _files_late(log: OffsetLog) -> int:
    return sum(Offset.of_json(json.loads(line)).late for line in log.sources)


def _feed(
    frame: DataFrame,
    envelope: str | Envelope,
    topics: tuple[str, ...] | None,
    tables: object,
    partitions: Callable[[OffsetLog, Sequence[str]], frozenset[str] | None],
    settings: Mapping[str, Any],
    *,
    topic_is_told: bool = True,
) -> Feed:
    """`topic_is_told`: by the source itself, and not by whoever reads it."""
    said = {name: value for name, value in settings.items() if name in SETTINGS}
    if said and not isinstance(envelope, str):
        raise ConfigError(
            f"{next(iter(said))} is said beside an envelope that says it itself",
            hint="Give the envelope by its name, or say it there.",
        )
    settings = {name: value for name, value in settings.items() if name not in said}
    one = envelope_of(envelope, said) if isinstance(envelope, str) else envelope
    boundaries = None
    if (marks := settings.get("transaction_topic")) is not None:
        one, boundaries = _transactions(one, marks, topics, settings.get("transaction_tables") or {})
    by_topic = _by_topic(one) if topic_is_told else None
    return Feed(
        frame=frame,
        boundaries=boundaries,
        version=one.version,
        envelope=lambda topic: one if by_topic is None else by_topic(topic),
        tables=tables_of(tables, topics),
        topics=topics,
        partitions=partitions,
        tells=one.tells,
        **settings_of(settings, topics),
    )


def _by_topic(envelope: Envelope) -> Callable[[str], Envelope] | None:
    """Messages of CockroachDB may say of which table they are: of that of their topic, or of another."""
    if not isinstance(envelope, CockroachDB) or envelope.topic is not None:
        return None
    return lambda topic: replace(envelope, topic=topic)


def _transactions(
    envelope: Envelope, topic: str, topics: Sequence[str] | None, named: Mapping[str, Any]
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
            hint="Name them: topics of Kafka, or the tables of messages by their topics, tables={…}.",
        )
    if strange := sorted(set(named) - set(topics)):
        raise ConfigError(
            f"transaction_tables names {strange[0]!r}, which is no topic of the feed",
            hint=f"There are: {', '.join(topics)}.",
        )
    one = replace(envelope, transactions=True)
    tables = {}
    for name in topics:
        said = named.get(name, ".".join(name.split(".")[-2:]))
        tables[name] = frozenset(map(in_topic, (said,) if isinstance(said, str) else said))
    return one, Transactions(topic, one, tables)
