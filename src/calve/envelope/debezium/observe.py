"""What a micro-batch shows of transactions, counted by Spark (`transactions.py` says what follows from it).

    data messages ──tail: source, transaction──▶ events ──▶ counts by transaction, table, partition ─┐
    transaction topic ──▶ ENDs ──────────────────────────────────────────────────────────────────────┼─▶ Seen
    the state before ────────────────────────────────────────────────────────────────────────────────┘

Of events no row reaches the driver, but counts of transactions. Where a micro-batch has more than COLLECTED
of them, those that are complete in it are settled in Spark, and what reaches the driver is open.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.envelope.debezium import position
from calve.envelope.debezium.transactions import OPEN_MAX, Arrived, Ended, Seen, State
from calve.model.errors import BadMessage, ConfigError

COLLECTED = 10_000
_STRANGE = "[^a-zA-Z0-9._-]"
_SOURCE = '"source":{'
_TEXT, _LONG = T.StringType(), T.LongType()
TAIL = T.StructType(
    [
        T.StructField("source", position.SOURCE),
        T.StructField("transaction", position.TRANSACTION),
        T.StructField("op", _TEXT),
    ]
)
_COUNTS = T.ArrayType(
    T.StructType([T.StructField("data_collection", _TEXT), T.StructField("event_count", _LONG)])
)
END = T.StructType(
    [
        T.StructField("status", _TEXT),
        T.StructField("id", _TEXT),
        T.StructField("ts_ms", _LONG),
        T.StructField("data_collections", _COUNTS),
    ]
)


def json_events(messages: DataFrame) -> DataFrame:
    """The events in data messages: transaction, table, partition, number, time, and the LSN of a snapshot
    whose last row this is."""
    text = F.col("value").cast("string")
    # Debezium writes the row first: what is asked for here stands behind it, and the row is not parsed.
    tail = F.concat(F.lit("{" + _SOURCE), F.substring_index(text, _SOURCE, -1))
    told = F.from_json(F.when(F.contains(text, F.lit(_SOURCE)), tail).otherwise(text), _with_payload(TAIL))
    parsed = messages.where(F.col("value").isNotNull()).select("partition", told.alias("m"))
    return events(parsed.select("partition", _said(TAIL).alias("m")))


def _with_payload(kind: T.StructType) -> T.StructType:
    """What messages are parsed as that may have a schema beside what they say."""
    return T.StructType([*kind.fields, T.StructField("payload", kind)])


def _said(kind: T.StructType) -> Column:
    message = F.col("m")
    here = F.struct(*(message[name].alias(name) for name in kind.names))
    return F.when(message["payload"].isNotNull(), message["payload"]).otherwise(here)


def events(parsed: DataFrame) -> DataFrame:
    """The same of messages that were parsed."""
    source, transaction = F.col("m")["source"], F.col("m")["transaction"]
    at = position.lsn(source)
    copied = F.when((F.col("m")["op"] == "r") & (source["snapshot"] == "last"), at)
    return parsed.select(
        F.substring_index(transaction["id"], ":", 1).alias("transaction"),
        position.collection(source).alias("table"),
        "partition",
        transaction["total_order"].alias("number"),
        F.coalesce(position.commit_lsn(source), at).alias("time"),
        copied.alias("copied"),
    )


def json_ends(messages: DataFrame) -> DataFrame:
    """The ENDs in messages of the transaction topic: transaction, at, told_at, counts."""
    told = F.from_json(F.col("value").cast("string"), _with_payload(END))
    parsed = messages.where(F.col("value").isNotNull()).select(told.alias("m"))
    return ends(parsed.select(_said(END).alias("m")))


def ends(parsed: DataFrame) -> DataFrame:
    message = F.col("m")
    return parsed.where(message["status"] == "END").select(
        F.substring_index(message["id"], ":", 1).alias("transaction"),
        F.substring_index(message["id"], ":", -1).try_cast("long").alias("at"),
        message["id"].alias("id"),
        message["ts_ms"].alias("told_at"),
        message["data_collections"].alias("counts"),
    )


@dataclass(frozen=True, slots=True)
class Observer:
    """What is looked at in every micro-batch."""

    tables: Collection[str]
    """Those that are read, as ENDs name them: `schema.table`; but for letters that no topic's name has."""
    collected: int = COLLECTED

    def seen(self, all_events: DataFrame, all_ends: DataFrame, state: State) -> Seen:
        """What a micro-batch shows."""
        said = all_ends.dropDuplicates(["transaction", "at"])
        counted = self._counted(all_events, state)
        ended = said.limit(self.collected + 1).collect()
        counts = counted.limit(self.collected + 1).collect()
        if max(len(ended), len(counts)) > self.collected:
            _check_ends(said.where(F.col("at").isNull()).limit(1).collect())
            strange = ~F.col("table").isin(*self.tables) | (
                F.col("transaction").isNotNull() & F.col("time").isNull()
            )
            self._check_events(counted.where(strange).limit(1).collect())
            return self._settled(said, counted, state)
        _check_ends(ended)
        self._check_events(counts)
        new = sorted((row for row in ended if row["at"] > state.reached), key=lambda row: row["at"])
        before = [state.reached, *(row["at"] for row in new)]
        old = [row for row in ended if row["at"] <= state.reached and row["told_at"] > state.told_at]
        return Seen(
            arrived=[_arrived(row) for row in counts if row["transaction"] is not None],
            ended=[self._ended(row, last) for row, last in zip(new, before, strict=False)],
            reached=before[-1],
            told_at=max((row["told_at"] for row in new), default=0),
            went_back=f"{old[0]['transaction']}:{old[0]['at']}" if old else None,
            copied=max((row["copied"] or 0 for row in counts), default=0),
        )

    def _counted(self, all_events: DataFrame, state: State) -> DataFrame:
        """Events beyond those that were counted before, by transaction, table and partition."""
        # A message that cannot be read is no event: it is told of where messages are decoded.
        mine = all_events.where(F.col("table").isNotNull())
        mine = mine.withColumn("table", F.regexp_replace("table", _STRANGE, "_"))
        if last := state.last_of():
            known = mine.sparkSession.createDataFrame(
                [(*name, number) for name, number in last.items()],
                "transaction string, partition string, last long",
            )
            mine = mine.join(F.broadcast(known), ["transaction", "partition"], "left")
            mine = mine.where(F.col("last").isNull() | (F.col("number") > F.col("last"))).drop("last")
        return mine.groupBy("transaction", "table", "partition").agg(
            F.count_distinct("number").alias("events"),
            F.max("number").alias("last"),
            F.min("time").alias("time"),
            F.max("copied").alias("copied"),
        )

    def _check_events(self, counts: Sequence[Any]) -> None:
        """Whoever counts too few events takes half a transaction for all of it."""
        for row in counts:
            if row["table"] not in self.tables:
                raise ConfigError(
                    f"partition {row['partition']} has events of the table {row['table']}, and its "
                    f"transactions are counted by the names of topics: {', '.join(sorted(self.tables))}",
                    hint="Topics were renamed on their way. Say which tables each of them has, "
                    "transaction_tables={'orders': 'public.orders'}, and begin with a new checkpoint.",
                )
            if row["transaction"] is not None and row["time"] is None:
                raise ConfigError(
                    f"partition {row['partition']}: the events of transaction {row['transaction']} have no "
                    "LSN: transactions of another source than PostgreSQL are not known",
                    hint="Leave transaction_topic out: micro-batches are batches then.",
                )

    def _settled(self, said: DataFrame, counted: DataFrame, state: State) -> Seen:
        """The same, without the transactions that are complete in this micro-batch."""
        old = F.col("at") <= state.reached
        back = F.when(old & (F.col("told_at") > state.told_at), F.concat_ws(":", "transaction", "at"))
        told = said.agg(F.max("at"), F.max(F.when(~old, F.col("told_at"))), F.max(back)).first()
        assert told is not None
        reached = max(told[0] or 0, state.reached)
        before = F.coalesce(F.lag("at").over(Window.orderBy("at")), F.lit(state.reached))
        new = said.where(~old).withColumn("before", before)
        waits = self._waits(new, counted, state)
        ended = new.join(waits, "transaction", "left_semi").limit(OPEN_MAX + 1).collect()
        flag = waits.withColumn("waits", F.lit(True))
        kept = F.col("waits").isNotNull() | (F.col("time") >= reached) | _is_in("transaction", state.open)
        rows = counted.where(F.col("transaction").isNotNull()).join(flag, "transaction", "left").where(kept)
        copied = counted.agg(F.max("copied")).first()
        return Seen(
            arrived=[_arrived(row) for row in rows.limit(OPEN_MAX + 1).collect()],
            ended=[self._ended(row, row["before"]) for row in ended],
            reached=reached,
            told_at=told[1] or 0,
            went_back=told[2],
            copied=(copied[0] if copied is not None else None) or 0,
        )

    def _waits(self, new: DataFrame, counted: DataFrame, state: State) -> DataFrame:
        """The transactions whose END came and that are not complete by this micro-batch alone."""
        wanted = new.select("transaction", F.explode("counts").alias("one"))
        table = F.regexp_replace(F.col("one")["data_collection"], _STRANGE, "_")
        wants = F.col("one")["event_count"]
        wanted = wanted.select("transaction", table.alias("table"), wants.alias("wants"))
        wanted = wanted.where(F.col("table").isin(*self.tables))
        got = counted.groupBy("transaction", "table").agg(F.sum("events").alias("got"))
        short = F.coalesce(F.col("got"), F.lit(0)) < F.col("wants")
        joined = wanted.join(got, ["transaction", "table"], "left")
        return joined.where(short | _is_in("transaction", state.open)).select("transaction").distinct()

    def _ended(self, row: Any, before: int) -> Ended:
        counts = {in_topic(one["data_collection"]): one["event_count"] for one in row["counts"] or ()}
        mine = {table: events for table, events in counts.items() if table in self.tables}
        return Ended(row["transaction"], row["at"], before, mine)


def in_topic(name: str) -> str:
    """The name of a table as it stands in its topic's: Debezium replaces what Kafka does not take."""
    return re.sub(_STRANGE, "_", name)


def _check_ends(rows: Sequence[Any]) -> None:
    for row in rows:
        if row["at"] is None:
            raise BadMessage(
                f"the transaction topic tells the end of {row['id']!r}, which has no LSN",
                hint="Transactions are known of PostgreSQL, whose ids are <number>:<LSN>. Leave "
                "transaction_topic out: micro-batches are batches then.",
            )


def _arrived(row: Any) -> Arrived:
    return Arrived(*(row[name] for name in ("transaction", "table", "partition", "events", "last", "time")))


def _is_in(column: str, names: Collection[str]) -> Column:
    return F.col(column).isin(*names) if names else F.lit(False)
