"""A feed for tests: changes as a source says them, through an envelope into tables, and what these must show.

    Change, Mark ──Dialect──▶ messages ──file, a micro-batch each──▶ calve.read_stream ──▶ calve.write_stream
        └──────────▶ truth(topic, upper) ──▶ rows ◀── compared ── every snapshot, by an engine not ours

A dialect writes the same changes as one kind of source does. The truth is computed from the changes in plain
Python: it knows neither messages nor frames.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyspark.errors import StreamingQueryException

import calve
from calve.config.columns import SourceTable
from calve.config.types import arrow_type
from calve.runtime.spark.feed import Feed
from tests.support.flow import Log
from tests.support.lake import NAMESPACE, Lake
from tests.support.readers import Reader, differences, read_snapshot, rows_of
from tests.support.truth import snapshots_of_main, summary_of

_FIRST_FILE_S = 1_700_000_000
MESSAGES = "topic string, partition string, offset long, key string, value string"


@dataclass(frozen=True, slots=True)
class Change:
    """A row is what it is from a time on; no row: it is deleted."""

    time: int
    key: Mapping[str, Any]
    row: Mapping[str, Any] | None
    topic: str = "orders"
    partition: int = 0
    order: int = 0
    """Among changes of one time."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A partition says that no change before this time is to come."""

    time: int
    topic: str = "orders"
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Raw:
    """A message as it is."""

    value: str | None
    key: str | None = None
    topic: str = "orders"
    partition: int = 0


Event = Change | Mark | Raw


class Dialect(Protocol):
    """How one kind of source writes."""

    timed: bool

    @property
    def name(self) -> str: ...

    @property
    def envelope(self) -> Any: ...

    def time(self, change: Change) -> int:
        """When it is, as the source counts."""
        ...

    def change(self, change: Change) -> list[tuple[str | None, str | None]]:
        """The messages of a change: keys and values."""
        ...

    def mark(self, time: int) -> list[tuple[str | None, str | None]]: ...


@dataclass(slots=True)
class FeedFlow:
    """One feed into the tables of its topics."""

    spark: Any
    lake: Lake
    folder: Path
    dialect: Dialect
    tables: Mapping[str, SourceTable | str | None]
    """Declared, by topic; `None`: nothing is declared."""
    prefix: str
    """Of the tables' names, so that flows keep apart."""
    partitions: int = 1
    write: Callable[[Any], Any] = lambda writer: writer
    """What else the user says."""
    read: dict[str, Any] = field(default_factory=dict)
    to_tables: dict[str, Any] = field(default_factory=dict)
    topics: tuple[str, ...] | None = None
    """Named, as a feed of Kafka names its topics."""
    columns: str = MESSAGES
    """Of the stream of messages: one may have no offsets."""
    trigger: dict[str, Any] = field(default_factory=lambda: {"availableNow": True})
    sent: list[list[Event]] = field(default_factory=list)
    log: Log = field(default_factory=Log)
    _offset: int = 0

    def put(self, *events: Event) -> None:
        """One more file, which is one more micro-batch."""
        self.sent.append(list(events))
        lines = []
        for event in events:
            for key, value in self._messages(event):
                self._offset += 1
                lines.append(
                    {
                        "topic": event.topic,
                        "partition": f"{event.topic}/{event.partition}",
                        "offset": self._offset,
                        "key": key,
                        "value": value,
                    }
                )
        source = self.folder / "source"
        source.mkdir(parents=True, exist_ok=True)
        path = source / f"{len(self.sent):04d}.json"
        hidden = path.with_name(f".{path.name}")
        hidden.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(hidden, (_FIRST_FILE_S + len(self.sent),) * 2)
        hidden.rename(path)

    def _messages(self, event: Event) -> list[tuple[str | None, str | None]]:
        match event:
            case Change():
                return self.dialect.change(event)
            case Mark(time):
                return self.dialect.mark(time)
        return [(event.key, event.value)]

    def feed(self) -> Feed:
        (self.folder / "source").mkdir(parents=True, exist_ok=True)
        frame = self.spark.readStream.schema(self.columns).option("maxFilesPerTrigger", 1)
        declared = {topic: table for topic, table in self.tables.items() if table is not None}
        feed = calve.read_stream(self.spark).messages(
            frame.json(str(self.folder / "source")),
            envelope=self.dialect.envelope,
            tables=declared or None,
            **self.read,
        )
        if not self.dialect.timed or "partitions" in self.read:
            return feed
        count = self.partitions

        def partitions(_: object, topics: Sequence[str]) -> frozenset[str]:
            return frozenset(f"{topic}/{number}" for topic in topics for number in range(count))

        return _with(feed, partitions=partitions, topics=self.topics)

    def start(self) -> Any:
        writer = calve.write_stream(self.feed()).watch(self.log)
        writer = self.lake_of(self.write(writer))
        return (
            writer.option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(**self.trigger)
            .to_tables(f"{self.lake.name}.{NAMESPACE}.{self.prefix}_{{table}}", **self.to_tables)
        )

    def lake_of(self, writer: Any) -> Any:
        return writer.catalog(
            self.lake.name,
            type="sql",
            uri=f"sqlite:///{self.lake.catalog_file}",
            warehouse=self.lake.warehouse,
        )

    def run(self) -> Any:
        """A query that reads all that is there, and ends."""
        query = self.start()
        query.awaitTermination()
        return query

    def refused(self) -> str:
        """What the query said when it stopped."""
        try:
            self.run()
        except StreamingQueryException as error:
            return str(error)
        raise AssertionError("the query went through")

    # ---------------------------------------------------------------- what must be

    def table(self, topic: str = "orders") -> Any:
        return self.lake.load(self.name(topic))

    def name(self, topic: str = "orders") -> str:
        return f"{self.prefix}_{topic.rpartition('.')[2]}"

    def changes(self, micro_batches: int | None = None) -> Iterable[Change]:
        for events in self.sent[:micro_batches]:
            for event in events:
                if isinstance(event, Change):
                    yield event

    def truth(self, topic: str, upper: int) -> list[dict[str, Any]]:
        """The rows of a table as of an upper: of the source's time, or the number of micro-batches."""
        last: dict[tuple[Any, ...], Change] = {}
        changes = self.changes() if self.dialect.timed else self.changes(upper)
        for change in changes:
            if change.topic != topic or (self.dialect.timed and self.dialect.time(change) >= upper):
                continue
            key = tuple(change.key.values())
            known = last.get(key)
            if known is None or (known.time, known.order) <= (change.time, change.order):
                last[key] = change
        return [dict(change.row) for change in last.values() if change.row is not None]

    def quarantined(self, topic: str = "orders") -> list[dict[str, Any]]:
        """The rows of a table's quarantine."""
        rows: list[dict[str, Any]] = (
            self.lake.load(f"{self.name(topic)}__quarantine").scan().to_arrow().to_pylist()
        )
        return rows

    def check(self, reader: Reader, topic: str = "orders") -> list[dict[str, str]]:
        """Compare every snapshot of a table with the source as of its frontier; their summaries."""
        table = self.table(topic)
        seen = []
        for snapshot in snapshots_of_main(table):
            summary = summary_of(snapshot)
            schema = next(one for one in table.metadata.schemas if one.schema_id == snapshot.schema_id)
            like = pa.schema([(one.name, arrow_type(str(one.field_type))) for one in schema.fields])
            truth = [
                {name: row.get(name) for name in like.names}
                for row in self.truth(topic, int(summary["calve.frontier"]))
            ]
            shown = read_snapshot(reader, self.lake.at(self.name(topic)), snapshot.snapshot_id, like=like)
            wanted = rows_of(pa.Table.from_pylist(truth, schema=like), like)
            assert shown == wanted, f"{summary}\n{differences(shown, wanted)}"
            seen.append(summary)
        return seen


def _with(feed: Feed, **changed: Any) -> Feed:
    from dataclasses import replace

    return replace(feed, **changed)
