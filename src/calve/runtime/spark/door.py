"""The door: how a stream or a frame is written, in the manner of Spark's own `writeStream`.

    calve.write_stream(changes)                       calve.write(frame)
        .mode("upsert").key("id").sequence_by("lsn")      .version(20261115)
        .option("checkpointLocation", "…")                .mode("append")
        .to_table("lake.sales.orders")                    .to_table("lake.sales.orders")
          ─▶ StreamingQuery                                 ─▶ EpochResult

Guarantee: a call that is wrong fails in `to_table` at the latest, before a query starts, a table is made or a
sink is claimed. Spark's own spellings are answered with ours. A builder shows nothing of what it was told
(P10).

Not here: what the words mean together (said.py, config), what can be refused (checks.py), the work itself
(pipeline.py, bounded.py).
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from calve.config.stream import FrontierKind
from calve.model.errors import ConfigError
from calve.model.time import check_time
from calve.runtime.result import EpochResult
from calve.runtime.spark.bounded import write_bounded
from calve.runtime.spark.builder import Builder
from calve.runtime.spark.checks import check_frame, checkpoint_of, trigger_of
from calve.runtime.spark.feed import Feed
from calve.runtime.spark.frame import Clockwork
from calve.runtime.spark.pipeline import Pipeline
from calve.runtime.spark.planning import Planned
from calve.runtime.spark.progress import SinkListener, register
from calve.runtime.spark.said import FrontierSaid, bad_rows
from calve.runtime.spark.stops import keep_failures, quiet
from calve.table.catalogs import open_catalog

_log = logging.getLogger("calve.spark")

_ONLY_STREAMS = "It is of streams: calve.write_stream(…)."


def write_stream(stream: DataFrame | Feed) -> StreamWriter:
    """Write a stream of changes, of plain rows, or a feed of messages, into tables: exactly once."""
    if isinstance(stream, Feed):
        from calve.runtime.spark.feed_writer import FeedWriter  # it is a StreamWriter

        check_frame(stream.frame, streaming=True)
        return FeedWriter(stream)
    return StreamWriter(check_frame(stream, streaming=True))


def write(frame: DataFrame) -> BoundedWriter:
    """Write a bounded frame into a table as one batch; under a version, once however often it is written."""
    return BoundedWriter(check_frame(frame, streaming=False))


class StreamWriter(Builder):
    """A stream that is to be written. `to_table` starts the query."""

    _NAME = "write_stream"
    _ELSEWHERE: ClassVar[Mapping[str, str]] = {
        "version": "Batches of a stream have times of their own. It is of bounded frames: calve.write(…)."
    }

    def __init__(self, frame: DataFrame) -> None:
        super().__init__(frame)
        self._listeners: list[SinkListener] = []
        self._trigger: dict[str, Any] = {}
        self._query_name: str | None = None

    def frontier(
        self,
        *,
        maximum: bool = False,
        watermark: bool = False,
        mark: str | None = None,
        delay: str | int | None = None,
        partition: str | None = None,
        partitions: int | None = None,
    ) -> Self:
        """How far the stream has come in its own time, which is the first column of `sequence_by`: by the
        greatest time so far less a delay, by Spark's watermark, or by rows that say it in a column."""
        kinds = {
            FrontierKind.MAXIMUM: maximum,
            FrontierKind.WATERMARK: watermark,
            FrontierKind.MARK: mark is not None,
        }
        chosen = [kind for kind, said in kinds.items() if said]
        if len(chosen) != 1:
            raise ConfigError(
                f"a stream has one frontier, and {' and '.join(chosen) or 'none'} was given",
                hint="Take one of maximum=True with a delay, watermark=True, mark='column'.",
            )
        if delay is not None and not maximum:
            raise ConfigError(
                f"a delay has no effect on a frontier by {chosen[0]}",
                hint="A watermark has its delay in withWatermark, and a mark is a promise.",
            )
        if isinstance(delay, int) and delay < 0:
            raise ConfigError(
                f"the delay is {delay}, and would put the frontier before what has come",
                hint="Give 0 or more: how far behind the greatest time a change may still come.",
            )
        self._said.frontier = FrontierSaid(chosen[0], delay or 0, mark, partition, partitions)
        return self

    def commit_interval(self, interval: str | int) -> Self:
        """Batches end at multiples of it in the stream's own time: `1 minute`, or a number in its units."""
        self._said.commit_interval = interval
        return self

    def until(self, time: str) -> Self:
        """A batch ends with this time of the source, and nothing is committed beyond it. Then the query
        stands still until somebody stops it; the next start goes on from there. Where the micro-batch is the
        batch it has no effect: one is not cut."""
        self._said.until = time
        return self

    def on_bad_row(self, action: str, rows_max: int | None = None) -> Self:
        """`fail`: the query stops at a row that does not fit. `quarantine`: the row goes to a table beside
        the target, up to `rows_max` of them a micro-batch."""
        self._said.on_bad_row = bad_rows(action, rows_max)
        return self

    def replaces_checkpoint(self, checkpoint_id: str) -> Self:
        """This checkpoint goes on for a lost one, whose id the refused query names."""
        self._said.replaces_checkpoint = checkpoint_id
        return self

    def trigger(
        self,
        *,
        processingTime: str | None = None,
        availableNow: bool | None = None,
        once: bool | None = None,
        continuous: str | None = None,
        realTime: str | None = None,
    ) -> Self:
        """When a micro-batch begins, in Spark's own words."""
        self._trigger = trigger_of(
            processingTime=processingTime,
            availableNow=availableNow,
            once=once,
            continuous=continuous,
            realTime=realTime,
        )
        return self

    def query_name(self, name: str) -> Self:
        """The name of the query."""
        if not str(name).strip():
            raise ConfigError("the query's name is no text", hint="Give text, such as 'orders'.")
        self._query_name = name
        return self

    def watch(self, *listeners: SinkListener) -> Self:
        """Tell these of every micro-batch."""
        for listener in listeners:
            if not isinstance(listener, SinkListener):
                raise ConfigError(
                    f"a {type(listener).__name__} is no listener", hint="Derive it from calve.SinkListener."
                )
        self._listeners += listeners
        return self

    def to_table(self, table: str) -> StreamingQuery:
        """Start the query. The table is created with the first rows, if it is not there."""
        asked = self._asked(table)
        catalog = open_catalog(asked.config.sink.catalog)
        try:
            self._prepare(asked, catalog)
            pipeline = Pipeline(asked.config, asked.incoming, catalog, watchers=self._listeners)
            assert asked.config.checkpoint is not None
            query = self._start(asked.config.checkpoint, pipeline)
        except BaseException:
            catalog.close()
            raise
        weakref.finalize(pipeline, catalog.close)  # Spark lets go of it some time after the query's end
        register(query.id, lambda: [pipeline.reporter])
        _log.info("query %s writes %s", query.id, asked.config)
        return query

    def planned(self, table: str) -> list[Planned]:
        """The tables that `to_table` would write. Nothing is opened, created or started."""
        asked = self._asked(table)
        lake = self._said.lake(table, dict(self._frame.sparkSession.conf.getAll))
        config = asked.config
        times = config.source if config.time_column is None else Clockwork(config, self._frame.schema).meaning
        return [Planned(lake, config, asked.arrival.rows.schema, times)]

    def _checkpoint(self, session: Mapping[str, str]) -> str | None:
        return checkpoint_of(self._said.checkpoint, self._query_name, session)

    def _start(self, checkpoint: str, process: Callable[[DataFrame, int], None]) -> StreamingQuery:
        failures: list[Exception] = []
        called = quiet(process, failures.append)
        writer = self._frame.writeStream.foreachBatch(called).option("checkpointLocation", checkpoint)
        if self._trigger:
            try:
                writer = writer.trigger(**self._trigger)
            except IllegalArgumentException as error:
                said = ", ".join(f"{name}={value!r}" for name, value in self._trigger.items())
                raise ConfigError(
                    f"Spark does not take the trigger {said}: {str(error).splitlines()[0]}",
                    hint="Give a number and a unit, such as processingTime='30 seconds'.",
                ) from error
        if self._query_name is not None:
            writer = writer.queryName(self._query_name)
        query = writer.start()
        keep_failures(query, failures)
        return query


class BoundedWriter(Builder):
    """A bounded frame that is to be written. `to_table` writes it."""

    _NAME = "write"
    _ELSEWHERE: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("commit_interval", "frontier", "query_name", "replaces_checkpoint", "trigger", "until", "watch"),
        _ONLY_STREAMS,
    ) | {"on_bad_row": "A bounded write stops at a row that does not fit, and has written nothing."}

    def __init__(self, frame: DataFrame) -> None:
        super().__init__(frame)
        self._version: int | None = None

    def version(self, version: int) -> Self:
        """A number that grows: a version at or below the last one in the table is skipped."""
        self._version = check_time(version, "version")
        return self

    def to_table(self, table: str) -> EpochResult:
        """Write the frame as one batch, all of it or nothing."""
        asked = self._asked(table)
        catalog = open_catalog(asked.config.sink.catalog)
        try:
            self._prepare(asked, catalog)
            return write_bounded(asked.config, asked.incoming, catalog, self._frame, self._version)
        finally:
            catalog.close()

    def _checkpoint(self, session: Mapping[str, str]) -> str | None:  # noqa: ARG002 (it has none)
        if self._said.checkpoint is not None:
            raise ConfigError(
                "a bounded write has no checkpoint",
                hint="Leave checkpointLocation out: the version tells whether the frame was written.",
            )
        return None
