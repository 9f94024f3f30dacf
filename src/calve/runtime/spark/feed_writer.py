"""How a feed is written: like any stream, but that the source says what a change is.

    calve.write_stream(feed)                          one topic, or several
        .option("checkpointLocation", "…")
        .to_table("lake.sales.orders")                .to_tables("lake.sales.{table}")

The mode is upsert unless told otherwise, the key is the source's, and times, ops and marks are the
envelope's: there is nothing to say about them. Every table has a sink of its own, with a progress of its own.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pyspark.sql.streaming import StreamingQuery

from calve.config.columns import SourceTable
from calve.config.names import check_table
from calve.config.sink import Mode
from calve.config.stream import FrontierKind, StreamConfig
from calve.config.url import show_name
from calve.envelope.base import Envelope
from calve.model.columns import MARK, OP, ORDER, PARTITION, POSITION, TIME
from calve.model.errors import BadKey, ConfigError, about
from calve.runtime.spark.columns import arrow_schema
from calve.runtime.spark.door import StreamWriter
from calve.runtime.spark.feed import Feed, FeedRun
from calve.runtime.spark.files import CheckpointFiles
from calve.runtime.spark.frame import Clockwork
from calve.runtime.spark.intervals import parse_interval
from calve.runtime.spark.labels import labels_of
from calve.runtime.spark.lakes import TABLE as _TABLE
from calve.runtime.spark.lakes import TOPIC as _TOPIC
from calve.runtime.spark.lakes import Lake, table_of
from calve.runtime.spark.pipeline import Pipeline
from calve.runtime.spark.planning import Planned
from calve.runtime.spark.progress import register
from calve.runtime.spark.run import arrival_of
from calve.runtime.spark.said import FrontierSaid
from calve.runtime.spark.ship import ship
from calve.runtime.spark.topics import check_id, check_named, check_place
from calve.runtime.spark.view import Seen
from calve.table.catalogs import open_catalog

_log = logging.getLogger("calve.spark")

_ENVELOPES = "The envelope of the source says it."


class FeedWriter(StreamWriter):
    """A feed that is to be written. `to_table` or `to_tables` starts the query."""

    _ELSEWHERE: ClassVar[Mapping[str, str]] = StreamWriter._ELSEWHERE

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed.frame)
        self._feed = feed

    def op(self, column: str) -> Any:  # noqa: ARG002 (refused)
        raise ConfigError("a feed has no op column to name", hint=_ENVELOPES)

    def sequence_by(self, *columns: str) -> Any:  # noqa: ARG002 (refused)
        raise ConfigError("a feed has its own order", hint=_ENVELOPES)

    def frontier(self, **_: Any) -> Any:
        raise ConfigError("a feed has its own frontier", hint=_ENVELOPES)

    def to_table(self, table: str) -> StreamingQuery:
        """Start the query of a feed that has one topic."""
        if self._feed.topics is None or len(self._feed.topics) != 1:
            raise ConfigError(
                f"{self._feed!r} may have several tables, and .to_table() names one",
                hint="Name the topic when the feed is made, or say .to_tables('lake.sales.{table}').",
            )
        return self._to({self._feed.topics[0]: table}, table, joins=True)

    def to_tables(
        self, pattern: str, *, names: Mapping[str, str] | None = None, new_tables: bool = True
    ) -> StreamingQuery:
        """Start the query of a feed with several topics. In `pattern`, `{topic}` stands for a topic, and
        `{table}` for the last part of its name: `lake.sales.{table}`. `names` are tables of topics that the
        pattern does not fit. `new_tables`: topics that come later get tables."""
        if _TABLE not in pattern and _TOPIC not in pattern:
            raise ConfigError(
                f"the pattern {show_name(pattern)!r} would put all topics into one table",
                hint=f"Write {_with_table(pattern)} for a table named like the last part of a topic.",
                about="table",
            )
        return self._to(dict(names or {}), pattern, joins=new_tables)

    def planned(self, table: str) -> list[Planned]:
        """The tables that `to_table` or `to_tables` would write, as far as they are known."""
        topics = self._feed.topics
        is_pattern = _TABLE in table or _TOPIC in table
        names = {} if is_pattern or topics is None else {topics[0]: table}
        self._said.take_url(table)
        self._check_said()
        found = {}
        for topic, config, seen in self._declared(names, table):
            schema = seen.frame.schema
            clockwork = None if config.time_column is None else Clockwork(config, schema)
            rows = arrival_of(config, arrow_schema(schema), clockwork).rows
            meaning = self._feed.envelope(topic).meaning
            found[topic] = Planned(self._lake(topic, names, table), config, rows.schema, meaning, topic)
        for topic in topics or ():
            if topic not in found:
                found[topic] = Planned(self._lake(topic, names, table), topic=topic)
        return list(found.values())

    def _lake(self, topic: str, names: Mapping[str, str], pattern: str) -> Lake:
        session = dict(self._frame.sparkSession.conf.getAll)
        return self._said.lake(_name(topic, names, pattern), session)

    def _to(self, names: Mapping[str, str], pattern: str, *, joins: bool) -> StreamingQuery:
        if self._trigger.get("availableNow") and self._feed.all_at_once is not None:
            self._frame = self._feed.all_at_once()
        session = dict(self._frame.sparkSession.conf.getAll)
        checkpoint = self._checkpoint(session)
        assert checkpoint is not None
        self._said.take_url(pattern)
        self._check_said()
        # What can be refused before the first message: topics, the catalog, options, names that are known.
        # Also that the checkpoint is of this source: when Spark has asked that, its own log says so.
        self._check_checkpoint(CheckpointFiles(self._frame.sparkSession, checkpoint))
        self._feed.check()
        lake = self._said.lake(_name(self._first_topic, names, pattern), session)
        catalog = open_catalog(lake.catalog)
        taken: dict[tuple[str, ...], str] = {}

        def take(topic: str) -> None:
            """A table is of one topic, however its name is written."""
            lake = self._said.lake(_name(topic, names, pattern), session)
            table = (*lake.namespace, lake.table)
            other = taken.setdefault(table, topic)
            if other != topic:
                raise ConfigError(
                    f"the topics {other!r} and {topic!r} would both be written to {'.'.join(table)}",
                    hint=f"Use {_TOPIC} in the pattern, or name their tables: "
                    f"names={{{topic!r}: 'lake.sales.other'}}.",
                    about="table",
                )

        for topic in {**self._feed.tables, **dict.fromkeys(self._feed.topics or ())}:
            take(topic)
        list(self._declared(names, pattern))

        def make(topic: str, envelope: Envelope, table: SourceTable, seen: Seen) -> Pipeline:
            take(topic)
            config = self._config(topic, envelope, table, seen, names, pattern)
            pipeline = Pipeline(
                config,
                arrow_schema(seen.frame.schema),
                catalog,
                watchers=self._listeners,
                source=envelope.meaning if envelope.timed else None,
                labels=labels_of(envelope, config.sink, self._feed.job_id),
                folder=config.sink.sink_id,
            )
            _log.info("topic %s is written to %s", topic, config)
            return pipeline

        evolves = str(self._said.all().get("schema.evolution", "false")).lower() == "true"
        run = FeedRun(self._feed, checkpoint, make, evolves=evolves, joins=joins)
        try:
            ship(self._frame.sparkSession)
            query = self._start(checkpoint, run)
        except BaseException:
            catalog.close()
            raise
        weakref.finalize(run, catalog.close)
        register(query.id, lambda: [pipeline.reporter for pipeline in run.pipelines])
        return query

    def _check_view(self, seen: Seen, key: tuple[str, ...]) -> None:
        if seen.filters and not key and "equality.delete.columns" not in self._said.all():
            raise BadKey(
                "the view filters rows, and its source has no key: what fails the filter could not be told "
                "from what never passed it",
                hint="Name the key of the source, or leave the filter out.",
            )

    def _declared(self, names: Mapping[str, str], pattern: str) -> Iterator[tuple[str, StreamConfig, Seen]]:
        """What is asked of the tables whose columns are known before a message."""
        # An envelope may look at the messages, and a stream cannot be looked at.
        nothing = self._frame.sparkSession.createDataFrame([], self._feed.frame.schema)
        for topic, table in self._feed.tables.items():
            envelope = self._feed.envelope(topic)
            seen = self._feed.seen(envelope.decode(nothing, table), table)
            yield topic, self._config(topic, envelope, table, seen, names, pattern), seen

    def _check_checkpoint(self, files: CheckpointFiles) -> None:
        feed = self._feed
        for name, number in feed.ids().items():
            check_id(files, name, number)
        if feed.place is not None:
            check_place(files, feed.place)
        if not feed.passes_over and feed.topics is not None:
            check_named(files, (*feed.topics, *(() if feed.boundaries is None else (feed.boundaries.topic,))))

    @property
    def _first_topic(self) -> str:
        """The one whose table says where the catalog is."""
        return next(iter(self._feed.topics or self._feed.tables), "topic")

    def _check_said(self) -> None:
        mode = str(self._said.all().get("write.mode", Mode.UPSERT)).lower()
        if mode == Mode.APPEND:
            raise ConfigError(
                "a feed has updates and deletes, and append mode would write them as rows",
                hint="Say .mode('upsert') for the source's state, or .mode('changelog') for its changes.",
                about="mode",
            )

    def _config(
        self,
        topic: str,
        envelope: Envelope,
        table: SourceTable,
        seen: Seen,
        names: Mapping[str, str],
        pattern: str,
    ) -> StreamConfig:
        """What is asked of one table."""
        session = dict(self._frame.sparkSession.conf.getAll)
        lake = self._said.lake(_name(topic, names, pattern), session)
        check_table(lake.table)
        first = self._said.lake(_name(self._first_topic, names, pattern), session)
        if lake.catalog != first.catalog:
            raise ConfigError(
                f"topic {topic!r} would be written to another catalog than {self._first_topic!r}",
                hint="The tables of a feed are committed together, in one catalog. Give a table in another a "
                "feed of its own, with a checkpoint of its own.",
            )
        said = self._said.copy()
        said.take_url(_name(topic, names, pattern))
        said.by_method.setdefault("write.mode", str(said.by_option.pop("write.mode", Mode.UPSERT)))
        key = table.key if self._feed.view is None else seen.key(table.key, self._feed.view.name)
        self._check_view(seen, key)
        if "equality.delete.columns" not in said.all():
            if not key and said.by_method["write.mode"] == Mode.UPSERT:
                raise BadKey(
                    f"topic {topic!r} has no key: nothing says which row a change is of",
                    hint="Name it by .key('id'), or declare it with the columns; without one there is "
                    ".mode('changelog').",
                )
            if key:
                said.by_method["equality.delete.columns"] = key
        said.by_method["op.column"] = OP
        order = (TIME, ORDER) if envelope.timed else (POSITION, ORDER)
        has_key = "equality.delete.columns" in said.all()
        if has_key or envelope.timed:
            columns = [name for name in order if name in seen.frame.columns]
            said.by_method["sequence.by"] = tuple(columns if has_key else columns[:1])
        if envelope.timed:
            said.frontier = FrontierSaid(FrontierKind.MARK, mark=MARK, partition=PARTITION)
            if isinstance(said.commit_interval, str):
                with about("commit_interval"):
                    said.commit_interval = _units(said.commit_interval, envelope)
        incoming = arrow_schema(seen.frame.schema)
        config = said.config(lake, self._checkpoint(session), incoming)
        return config.model_copy(update={"carried": seen.carried})


def _name(topic: str, names: Mapping[str, str], pattern: str) -> str:
    """The table of a topic."""
    return names[topic] if topic in names else table_of(topic, pattern)


def _with_table(pattern: str) -> str:
    """The form of a pattern that lacks it."""
    return f"iceberg://…/namespace/{_TABLE}?…" if "://" in pattern else f"{pattern.rstrip('.')}.{_TABLE}"


def _units(interval: str, envelope: Envelope) -> int:
    """An interval in the units of a source's times."""
    if interval.strip().isdecimal() and envelope.units_a_second is None:
        return int(interval)  # SQL has texts alone
    if envelope.units_a_second is None:
        raise ConfigError(
            f"commit_interval is {interval!r}, but times of this source ({envelope.meaning}) are no clock",
            hint="Give a number in its units, or leave it out.",
        )
    return parse_interval(interval, "commit_interval") * envelope.units_a_second // 1_000_000
