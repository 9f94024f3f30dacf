"""Job: a sink of a pipeline, with its source and its view, ready to be started or looked at.

    definitions ──sink──▶ SinkAsked ─┐
               ──source─▶ stream ────┼──▶ Prepared ──start──▶ StreamingQuery
               ──views──▶ View ──────┘        └──tables──▶ what it would write

The words of SQL become the calls that a person would write in Python, and nothing else: one way to do it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from calve.config.sink import Mode
from calve.config.stream import BadRows
from calve.config.units import nearest
from calve.model.columns import OP, RESERVED
from calve.model.errors import About, BadKey, BadStatement, ConfigError, about
from calve.runtime.spark.door import StreamWriter, write_stream
from calve.runtime.spark.feed import Feed
from calve.runtime.spark.feed_writer import FeedWriter
from calve.runtime.spark.intervals import parse_interval
from calve.runtime.spark.job.below import find_below
from calve.runtime.spark.job.sources import open_source
from calve.runtime.spark.lakes import is_pattern
from calve.runtime.spark.planning import Planned
from calve.runtime.spark.progress import SinkListener
from calve.runtime.spark.view import View
from calve.sql.defined import Definitions, Sink
from calve.sql.pointed import at_statement, of_statement
from calve.sql.sink import SinkAsked, sink_of
from calve.sql.source import Rows, Source, Subscribed, source_of
from calve.sql.tree import Create, CreateSink, CreateSource

TRIGGER = "5 seconds"
"""How often a source is asked for more, where nothing is said."""
_OP = "_op"
_MATERIALIZE = {"changelog.op.column": "_mz_diff", "changelog.time.column": "_mz_timestamp"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A sink that can be started."""

    statement: Sink
    asked: SinkAsked
    source: Source
    view: View | None
    writer: StreamWriter
    spark: SparkSession
    feed: Feed | None = None
    """`None`: its source has plain rows."""
    read: tuple[Create, ...] = ()
    """The statements below it: an error may be of one of them."""

    def start(
        self, *, once: bool = False, until: str | None = None, watch: tuple[SinkListener, ...] = ()
    ) -> StreamingQuery:
        """Start its query. `once`: it ends when what is there now is written. `until`: nothing is committed
        beyond this time of its source."""
        if until is not None:
            self.writer.until(until)
        if once:
            self.writer.trigger(availableNow=True)
        else:
            self.writer.trigger(processingTime=_trigger(self.asked.trigger))
        self.writer.query_name(self.asked.name).watch(*watch)
        with of_statement(self.statement, *self.read):
            if self.is_pattern and isinstance(self.writer, FeedWriter):
                return self.writer.to_tables(self.asked.table)
            return self.writer.to_table(self.asked.table)

    @property
    def source_key(self) -> tuple[str, ...]:
        """The key that the source declares."""
        declared = getattr(self.source, "declared", None)
        return () if declared is None else declared.key

    @property
    def is_pattern(self) -> bool:
        """Whether the sink writes a table for each topic."""
        return is_pattern(self.asked.table)

    def tables(self) -> list[Planned]:
        """The tables that it would write, as far as they are known before the first message."""
        with of_statement(self.statement, *self.read):
            return self.writer.planned(self.asked.table)


@dataclass(frozen=True, slots=True)
class Job:
    """The sinks of a pipeline."""

    definitions: Definitions
    spark: SparkSession

    def prepare(self, name: str) -> Prepared:
        """A sink, put together. Nothing is created or written."""
        statement = self.definitions.sink(name)
        asked = sink_of(statement, self.definitions)
        below = find_below(self.spark, self.definitions, asked.source)
        base, view = below.source, below.view
        source = source_of(base, self.definitions)
        read = (*below.statements, *self._connections(statement))
        with of_statement(statement, *read):
            _trigger(asked.trigger)
            with at_statement(base):
                stream = open_source(self.spark, source)
            if isinstance(stream, Feed):
                feed = stream if view is None else _seen_by(stream, view)
                writer = self._of_feed(asked, source, feed)
            else:
                assert isinstance(source, Rows)
                feed, writer = None, self._of_rows(asked, source, view, stream)
            return Prepared(statement, asked, source, view, writer, self.spark, feed, read)

    def columns_of_view(self, name: str) -> list[tuple[str, str, str]]:
        """The columns of a view: name, type, and the column of the source that it is as it is, if any."""
        below = find_below(self.spark, self.definitions, name)
        base, view = below.source, below.view
        assert view is not None
        with at_statement(base):
            stream = open_source(self.spark, source_of(base, self.definitions))
        with at_statement(below.views[-1], *below.statements):
            return self._columns(base, view, stream)

    def _columns(
        self, base: CreateSource, view: View, stream: Feed | DataFrame
    ) -> list[tuple[str, str, str]]:
        if isinstance(stream, Feed):
            topic, table = next(iter(stream.tables.items()), (None, None))
            if topic is None or table is None:
                raise ConfigError(
                    f"the source {base.name!r} declares no columns: its messages show them",
                    hint=f"Name them: CREATE SOURCE {base.name} (id long, …) FROM …",
                )
            nothing = self.spark.createDataFrame([], stream.frame.schema)
            changes, op = stream.envelope(topic).decode(nothing, table), OP
            seen = view.over_changes(changes, op)
        else:
            op = _OP
            rows = stream if op in stream.columns else stream.withColumn(op, F.lit("upsert"))
            seen = view.over_changes(rows, op)
        fields = [
            field for field in seen.frame.schema if field.name != op and not field.name.startswith(RESERVED)
        ]
        return [
            (field.name, field.dataType.simpleString(), seen.origins.get(field.name, "")) for field in fields
        ]

    def _connections(self, statement: Sink) -> tuple[Create, ...]:
        """The connections that a sink names: what they say are options of the sink."""
        named = (statement.catalog, statement.aws) if isinstance(statement, CreateSink) else ()
        return tuple(self.definitions.connections[name] for name in named if name is not None)

    def _of_feed(self, asked: SinkAsked, source: Source, feed: Feed) -> StreamWriter:
        if asked.frontier is not None or asked.frontier_delay is not None:
            raise ConfigError(
                "a feed has its own frontier",
                hint="Leave FRONTIER out.",
                about="frontier delay" if asked.frontier is None else "frontier",
            )
        options = dict(asked.options)
        if options.get("write.mode") == Mode.APPEND and _is_materialize(source):
            # Materialize's own word for it: every change is a row, with its diff and its time.
            options |= {"write.mode": str(Mode.CHANGELOG), **_MATERIALIZE}
        return self._said(write_stream(feed), asked, options)

    def _of_rows(self, asked: SinkAsked, source: Rows, view: View | None, rows: DataFrame) -> StreamWriter:
        options = dict(asked.options)
        key = asked.key or options.get("equality.delete.columns") or source.declared.key
        mode = asked.mode or str(Mode.UPSERT if key else Mode.APPEND)
        options["write.mode"] = mode
        if mode == Mode.UPSERT and not key:
            raise BadKey(
                "it is to replace rows (MODE UPSERT), and nothing says which columns tell them apart",
                hint=f"Write KEY (id) behind the source {source.name}, or MODE APPEND to add rows alone.",
                about="mode",
            )
        if asked.commit_interval is not None and asked.frontier is None:
            raise ConfigError(
                "COMMIT INTERVAL counts in the source's own time, and this source tells none",
                hint="Say which column is the time: WITH (SEQUENCE BY = '…', FRONTIER = 'maximum', FRONTIER "
                "DELAY = '1m', …). Or leave it out: then each micro-batch is a snapshot, and TRIGGER "
                "INTERVAL says how often one comes.",
                about="commit interval",
            )
        if mode == Mode.APPEND:
            rows = rows if view is None else view.over_rows(rows)
        else:
            op = str(options.get("op.column", _OP))
            if view is not None:
                if op not in rows.columns:
                    rows = rows.withColumn(op, F.lit("upsert"))
                    options["op.column"] = op
                seen = view.over_changes(rows, op)
                rows = seen.frame
                if asked.key is None and source.declared.key:
                    key = seen.key(source.declared.key, view.name)
                elif source.declared.key:
                    self._check_key(asked, seen.key(source.declared.key, view.name))
            if key:
                options["equality.delete.columns"] = key
        return self._said(write_stream(rows), asked, options)

    def _check_key(self, asked: SinkAsked, key: tuple[str, ...]) -> None:
        if asked.key is not None and set(asked.key) != set(key):
            raise BadKey(
                f"its KEY is {', '.join(asked.key)}, and that of its source {', '.join(key)}",
                hint="A change says which row of the source it is of, by the source's key: leave KEY out.",
            )

    def _said(self, writer: StreamWriter, asked: SinkAsked, options: dict[str, object]) -> StreamWriter:
        """The writer, told all that the statement says."""
        for name, value in options.items():
            writer.option(name, value)
        with about("checkpoint"):
            writer.option("checkpointLocation", asked.checkpoint)
        if asked.commit_interval is not None:
            writer.commit_interval(asked.commit_interval)
        if asked.bad_rows is not None:
            _check_bad_rows(asked.bad_rows)
            writer.on_bad_row(asked.bad_rows, asked.bad_rows_max)
        elif asked.bad_rows_max is not None:
            raise ConfigError(
                "BAD ROWS MAX has no effect",
                hint="Say BAD ROWS = 'quarantine' too.",
                about="bad rows max",
            )
        if asked.frontier is not None:
            if asked.frontier.lower() != "maximum":
                raise ConfigError(
                    f"FRONTIER is {asked.frontier!r}",
                    hint="In SQL it is 'maximum': the greatest time so far, less FRONTIER DELAY.",
                    about="frontier",
                )
            writer.frontier(maximum=True, delay=asked.frontier_delay)
        if asked.tasks is not None:
            writer.tasks(asked.tasks)
        if asked.replaces_checkpoint is not None:
            writer.replaces_checkpoint(asked.replaces_checkpoint)
        return writer


def _seen_by(feed: Feed, view: View) -> Feed:
    if feed.topics is None or len(feed.topics) != 1:
        raise BadStatement(
            f"the view {view.name!r} is over a source that may have several topics",
            hint="Name one in its source: TOPIC = 'orders'.",
            about=About("query", view.name),
        )
    return replace(feed, view=view)


def _is_materialize(source: Source) -> bool:
    envelope = getattr(source, "envelope", "")
    return isinstance(source, Subscribed) or str(envelope).startswith("materialize")


def _check_bad_rows(word: str) -> None:
    choices = [str(one) for one in BadRows]
    if word.strip().lower() not in choices:
        near = nearest(word.lower(), choices)
        raise ConfigError(
            f"BAD ROWS cannot be {word!r}",
            hint=(f"Did you mean {near!r}? " if near else "")
            + "It is 'fail', which stops the sink, or 'quarantine', which puts them aside.",
            about="bad rows",
        )


def _trigger(interval: str | None) -> str:
    if interval is None:
        return TRIGGER
    with about("trigger interval"):
        return f"{parse_interval(interval, 'TRIGGER INTERVAL') // 1000} milliseconds"
