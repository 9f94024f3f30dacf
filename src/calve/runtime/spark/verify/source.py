"""Source: the rows of a source as of a time, by all that it has now.

    a feed: all messages ──decode──▶ changes ──fold──▶ rows ──view──▶ what the table should be
    rows as they are ─────────────────────────fold──▶ rows ──view──▶ what the table should be

Only what is bounded can be read as a whole: files, and topics up to where they are now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from calve.config.columns import SourceTable
from calve.config.layout import parse_columns
from calve.config.sink import Mode
from calve.config.stream import StreamConfig
from calve.config.types.arrow import arrow_type
from calve.envelope.base import Sample
from calve.envelope.debezium import Debezium
from calve.model.columns import ERROR
from calve.model.errors import ConfigError, SchemaMismatch
from calve.runtime.spark.feed import Feed
from calve.runtime.spark.job.job import Prepared
from calve.runtime.spark.job.sources import rows_of
from calve.runtime.spark.samples import samples_of
from calve.runtime.spark.topics import carried
from calve.runtime.spark.verify.state import folded, last_of
from calve.runtime.spark.view import as_text
from calve.sql.source import Rows

_OP = "_op"


def expected(prepared: Prepared, topic: str | None, config: StreamConfig, upper: int | None) -> DataFrame:
    """What a table of a sink should hold: the source's rows before a time, as its view shows them."""
    feed = prepared.feed
    if feed is None:
        assert isinstance(prepared.source, Rows)
        return _rows_of_rows(prepared, prepared.source, config, upper)
    return _shown(prepared, _rows_of_feed(feed, topic or "", upper))


def spark_columns(prepared: Prepared, topic: str | None) -> T.StructType:
    """The columns of a source, before its view, as Spark has them and readers of tables show them."""
    feed = prepared.feed
    if feed is None:
        assert isinstance(prepared.source, Rows)
        return rows_of(prepared.spark, prepared.source, bounded=True).schema
    table = feed.tables[topic or ""]
    kinds = [
        T.StringType() if one.type == "uuid" else from_arrow_type(arrow_type(one.type, carried=True), True)
        for one in table.columns
    ]
    return T.StructType(
        [T.StructField(one.name, kind) for one, kind in zip(table.columns, kinds, strict=True)]
    )


def _rows_of_feed(feed: Feed, topic: str, upper: int | None) -> DataFrame:
    if feed.bounded is None:
        raise ConfigError(
            "this source cannot be read as a whole: it is a subscription",
            hint="Compare two snapshots of the table, or the table with one that was written from a copy.",
        )
    messages = feed.bounded()
    messages = messages.where(F.col("topic").isNull() | (F.col("topic") == topic))
    envelope = feed.envelope(topic)
    if isinstance(envelope, Debezium):
        # Which transactions are complete is asked of a stream; here all events are there.
        envelope = replace(envelope, transactions=False)
    table = feed.tables.get(topic) or _learnt(feed, topic, messages)
    if not table.key:
        raise ConfigError(
            f"topic {topic!r} has no key, and rows without one cannot be compared with their changes",
            hint="Declare it: KEY (id).",
        )
    changes = envelope.decode(messages, table)
    if bad := changes.where(F.col(ERROR).isNotNull()).select(ERROR).first():
        raise SchemaMismatch(
            f"the source has messages that cannot be read, such as: {bad[0]}",
            hint="Those are in quarantine, or stop the sink: mend them at the source first.",
        )
    timed = upper if envelope.timed else None
    return as_text(folded(changes, table.key, timed), carried(table))


def _learnt(feed: Feed, topic: str, messages: DataFrame) -> SourceTable:
    found: Sequence[Sample] = samples_of(messages, feed).get(topic, ())
    table = feed.envelope(topic).learn(found, None)
    key = feed.keys.get(topic, table.key)
    return SourceTable(table.columns, key, table.guessed, table.before_key)


def _rows_of_rows(prepared: Prepared, source: Rows, config: StreamConfig, upper: int | None) -> DataFrame:
    rows = rows_of(prepared.spark, source, bounded=True)
    if config.sink.mode is Mode.APPEND:
        return _before(_shown(prepared, rows), config.time_column, upper)
    op = config.sink.op_column if config.sink.op_column in rows.columns else None
    order = parse_columns(str(prepared.asked.options.get("sequence.by", "")), "SEQUENCE BY")
    # A sink names columns of its view. Rows that the filter leaves out count as changes, so they are put in
    # order before the view, by the names of the source.
    order = _of_source(prepared, rows, order)
    key = source.declared.key or _of_source(prepared, rows, config.sink.key)
    if config.time_column is not None:
        (time,) = _of_source(prepared, rows, (config.time_column,))
        rows = _before(rows, time, upper)
    kept = [name for name in rows.columns if name != op]
    return _shown(prepared, last_of(rows, key, order, op, kept))


def _shown(prepared: Prepared, rows: DataFrame) -> DataFrame:
    return rows if prepared.view is None else prepared.view.over_rows(rows)


def _before(rows: DataFrame, time: str | None, upper: int | None) -> DataFrame:
    if time is None or upper is None:
        return rows
    column = F.col(time)
    is_clock = isinstance(rows.schema[time].dataType, T.TimestampType | T.TimestampNTZType)
    return rows.where((F.unix_micros(column.cast("timestamp")) if is_clock else column) < upper)


def _of_source(prepared: Prepared, rows: DataFrame, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of the source that columns of its view are."""
    if prepared.view is None:
        return tuple(columns)
    changes = rows if _OP in rows.columns else rows.withColumn(_OP, F.lit("upsert"))
    origins = prepared.view.over_changes(changes, _OP).origins
    if made := [name for name in columns if name not in origins]:
        raise ConfigError(
            f"the view {prepared.view.name!r} makes {', '.join(made)} of other columns: the rows of its "
            "source cannot be put in that order",
            hint="Let the view show the column as it is, under its own name or another, for SEQUENCE BY.",
        )
    return tuple(origins[name] for name in columns)
