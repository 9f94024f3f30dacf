"""Feed: one stream of messages that carries the changes of one or several tables.

    messages ─▶ by topic ─▶ samples ─▶ learn the columns ─▶ decode ─▶ a pipeline a table ─▶ process, in step

Decoding happens in every micro-batch: columns may change while a stream runs, and a message may bring its own
schema. What was learnt of a topic is kept beside the checkpoint, so that a start without declared columns
goes on with those that the table has, and so that a table of which nothing comes at the moment is not
forgotten: its rows may wait for the frontier.

One frontier counts for all tables of a feed, the least over all partitions of all of its topics: so all of
them are committed up to the same time. A table that cannot go on stops the feed, with its name, before any
table has anything of the micro-batch (process.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from calve.config.columns import SourceTable
from calve.config.infer import warn_of_guesses
from calve.decode.messages import Kernel
from calve.decode.structs import Place
from calve.envelope.base import Boundaries, Envelope, Sample
from calve.envelope.read import decode, read
from calve.model.columns import OP
from calve.model.errors import Diverged, SchemaMismatch
from calve.runtime.spark.files import CheckpointFiles
from calve.runtime.spark.pipeline import Part, Pipeline
from calve.runtime.spark.process import Arrived, own_marks, process
from calve.runtime.spark.run import OffsetLog
from calve.runtime.spark.samples import samples_of
from calve.runtime.spark.states import States, keep_state, read_state
from calve.runtime.spark.topics import (
    Kept,
    carried,
    check_selected,
    check_sink,
    keep_id,
    keep_topic,
    read_topics,
)
from calve.runtime.spark.view import Seen, View
from calve.runtime.spark.work import Heard

_log = logging.getLogger("calve.feed")


@dataclass(frozen=True, slots=True)
class Feed:
    """A stream of messages, and how they are read. `calve.write_stream` takes it."""

    frame: DataFrame
    """Messages: topic, partition, offset, key, value; a message without a topic is for all tables."""
    envelope: Callable[[str], Envelope]
    """How the messages of a topic are read."""
    tables: Mapping[str, SourceTable] = field(default_factory=dict)
    """Columns and keys that were declared, by topic."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of topics whose columns were not declared."""
    topics: tuple[str, ...] | None = None
    """The topics that are written; `None`: all that come."""
    partitions: Callable[[OffsetLog, Sequence[str]], frozenset[str] | None] = lambda *_: None
    """All partitions of these topics, by what Spark says of its offsets; `None`: there is one."""
    files_late: Callable[[OffsetLog], int] = lambda _: 0
    """Files so far that appeared where the source had been read already, by Spark's offsets."""
    tells: Callable[[Column], Column] = Column.isNotNull
    """Whether the text of a message may show columns of its table; cheap, and wrong at times."""
    version: Callable[[Column], Column] = lambda _: F.lit(0)
    """A number that tells apart messages with other columns."""
    boundaries: Boundaries | None = None
    """What says how far the tables are, where that is a topic of its own."""
    passes_over: bool = True
    """What is not of these topics is gone once it was read: a topic that is named later begins in the middle.
    Of Kafka it is not: a topic is read from its own beginning."""
    ignores_columns: bool = False
    """Columns of messages that were not declared are left out, because the user said so."""
    all_at_once: Callable[[], DataFrame] | None = None
    """The same messages, for a run that reads what there is and ends: Spark asks a source of ours only once
    what there is, and a limit of a micro-batch would be the limit of the run."""
    job_id: str | None = None
    """Of a changefeed, for the summaries of snapshots."""
    check: Callable[[], None] = lambda: None
    """What is looked at before the query starts."""
    place: str | None = None
    """What a checkpoint is of, where offsets mean nothing elsewhere: a folder, a relation; no login in it."""
    ids: Callable[[], Mapping[str, str]] = dict
    """What tells a topic from another one that came into its place, where the source knows that."""
    bounded: Callable[[], DataFrame] | None = None
    """All messages that the source has now, for who compares; `None` where they cannot be read as a whole."""
    view: View | None = None
    """A query over the changes of the feed's table."""

    def seen(self, changes: DataFrame, table: SourceTable) -> Seen:
        """Changes of a table as the view shows them."""
        if self.view is None:
            return Seen(changes, {name: name for name in table.names}, carried(table))
        return self.view.over_changes(changes, OP, carried(table))

    def __repr__(self) -> str:
        return f"<a feed of {'all topics' if self.topics is None else ', '.join(self.topics)}>"


@dataclass(slots=True)
class _Topic:
    """A topic and the table that it is written to."""

    name: str
    envelope: Envelope
    table: SourceTable
    pipeline: Pipeline
    version: int
    changes: StructType
    """The columns of its changes."""


Make = Callable[[str, Envelope, SourceTable, Seen], Pipeline]
"""The pipeline of a topic, whose changes are seen so."""


class FeedRun:
    """The micro-batches of a feed. Spark calls it, one after the other."""

    def __init__(self, feed: Feed, checkpoint: str, make: Make, *, evolves: bool, joins: bool) -> None:
        """`evolves`: new columns go to the tables. `joins`: new topics get tables."""
        self._feed = feed
        self._checkpoint = checkpoint
        self._make = make
        self._evolves = evolves
        self._joins = joins
        self._topics: dict[str, _Topic] | None = None
        self._files: CheckpointFiles | None = None
        self._ids: dict[str, str] = {}
        self._read: Mapping[str, Place] = {}

    @property
    def pipelines(self) -> list[Pipeline]:
        return [topic.pipeline for topic in (self._topics or {}).values()]

    def __call__(self, frame: DataFrame, micro_batch: int) -> None:
        """One micro-batch, into all tables or none."""
        self._check_ids(frame)
        topics = self._known(frame)
        messages, self._read = read(frame, self._kernels(topics))
        messages = messages.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            samples = samples_of(messages, self._feed)
            for name, found in sorted(samples.items()):
                if name in topics:
                    self._learn(topics[name], found, messages)
                else:
                    topics[name] = self._join(name, found, messages, micro_batch)
            states = self._states(messages, micro_batch)
            tables = [
                self._arrived(topic, messages, states, quiet=topic.name not in samples)
                for _, topic in sorted(topics.items())
            ]
            if tables:
                # A topic that is read and has not spoken yet holds the frontier, too.
                names = self._feed.topics or tuple(sorted(topics))
                process(tables, micro_batch, lambda parts: self._heard(parts, names, states))
        finally:
            messages.unpersist()

    def _kernels(self, topics: Mapping[str, _Topic]) -> dict[str, Kernel]:
        """What reads plain messages of tables whose columns are known. Boundaries look at all messages."""
        if self._feed.boundaries is not None:
            return {}
        known = {name: table for name, table in self._feed.tables.items() if not table.guessed}
        known |= {name: topic.table for name, topic in topics.items()}
        if self._feed.topics is not None:
            known = {name: table for name, table in known.items() if name in self._feed.topics}
        checks = not self._feed.ignores_columns
        found = {
            name: self._feed.envelope(name).kernel(name, table, checks_names=checks)
            for name, table in known.items()
        }
        return {name: kernel for name, kernel in found.items() if kernel is not None}

    def _arrived(self, topic: _Topic, messages: DataFrame, states: States | None, *, quiet: bool) -> Arrived:
        """What is there for a table. To decode for one that gets nothing costs as much as a hundred rows."""
        if not quiet or not topic.envelope.timed or self._feed.boundaries is not None:
            return Arrived(topic.pipeline, self._decoded(topic, messages, states))
        nothing = messages.sparkSession.createDataFrame([], topic.changes)
        return Arrived(topic.pipeline, nothing, lambda: self._decoded(topic, messages, states))

    def _decoded(self, topic: _Topic, messages: DataFrame, states: States | None) -> DataFrame:
        mine = _of(topic.name, messages)
        if states is None or self._feed.boundaries is None:
            changes = decode(mine, topic.envelope, topic.table, self._read.get(topic.name))
        else:
            changes = self._feed.boundaries.decode(mine, topic.table, states.before)
        return self._feed.seen(changes, topic.table).frame

    def _states(self, messages: DataFrame, micro_batch: int) -> States | None:
        """What the boundaries are before and after a micro-batch, where they are a topic of their own."""
        if self._feed.boundaries is None:
            return None
        assert self._files is not None
        before = read_state(self._files, micro_batch - 1) if micro_batch else {}
        after = self._feed.boundaries.advance(messages, before)
        keep_state(self._files, micro_batch, after)
        return States(before, after)

    def _heard(self, parts: Sequence[Part], topics: Sequence[str], states: States | None) -> Heard:
        """What the source says of how far it is, over all tables: also what it said before to tables that are
        older than others."""
        if states is not None and self._feed.boundaries is not None:
            name, mark = self._feed.boundaries.topic, self._feed.boundaries.mark(states.after)
            return Heard({name: mark}, {name: frozenset({mark})}, frozenset({name}))
        said = own_marks(parts)
        before: dict[str, int] = {}
        for part in parts:
            for name, time in (part.before.marks if part.before is not None else {}).items():
                before[name] = max(time, before.get(name, 0))
        _warn_of_marks(said.resolved, before)
        marks = {name: max(said.marks.get(name, 0), before.get(name, 0)) for name in {**before, **said.marks}}
        log = parts[0].log
        return replace(
            said,
            marks=marks,
            partitions=self._feed.partitions(log, topics),
            files_late=self._feed.files_late(log),
        )

    # ---------------------------------------------------------------- topics

    def _check_ids(self, frame: DataFrame) -> None:
        """In every micro-batch: a topic may be made anew between two of them."""
        self._files = self._files or CheckpointFiles(frame.sparkSession, self._checkpoint)
        for name, number in self._feed.ids().items():
            if self._ids.get(name) != number:
                keep_id(self._files, name, number)
                self._ids[name] = number

    def _known(self, frame: DataFrame) -> dict[str, _Topic]:
        """The topics that have tables, as this run and those before it found them."""
        if self._topics is None:
            assert self._files is not None
            kept = read_topics(self._files)
            if self._feed.passes_over:
                check_selected(self._files, self._feed.topics)
            topics = {}
            # Without a message: an envelope may look at them, and they are not read yet.
            nothing = frame.sparkSession.createDataFrame([], frame.schema)
            for name, one in kept.items():
                if self._feed.topics is not None and name not in self._feed.topics:
                    _log.warning("topic %s is not read any more: its table stays as it is", name)
                    continue
                table = _together(self._feed.tables.get(name), one.table)
                topics[name] = self._topic(name, table, one.version, nothing)
                check_sink(name, one, topics[name].pipeline.sink_id)
            self._topics = topics
        return self._topics

    def _join(self, name: str, found: Sequence[Sample], messages: DataFrame, micro_batch: int) -> _Topic:
        """A topic that has no table yet."""
        declared = self._feed.tables.get(name)
        said = declared is not None and not declared.guessed
        if micro_batch and not self._joins and not said:
            raise Diverged(
                f"the feed has a topic {name!r} that it did not have before, and new tables are not allowed",
                hint="Allow them (new_tables=True), or name the topics that are to be written.",
            )
        if declared is None and not found:
            raise SchemaMismatch(
                f"topic {name!r}: no message shows the columns of the table, and nobody declared them",
                hint="Paste its CREATE TABLE, or name its columns: "
                f"tables={{{name!r}: 'id long primary key, …'}}. Or name the topics that are to be read.",
            )
        table = self._feed.envelope(name).learn(found, declared)
        if declared is not None:
            table = self._allowed(name, declared, table)
        elif name in self._feed.keys:
            table = replace(table, key=self._feed.keys[name])
        warn_of_guesses(table, f"topic {name}")
        topic = self._topic(name, table, 0, messages)
        self._keep(topic)
        return topic

    def _topic(self, name: str, table: SourceTable, version: int, messages: DataFrame) -> _Topic:
        envelope = self._feed.envelope(name)
        seen = self._feed.seen(envelope.decode(_of(name, messages), table), table)
        pipeline = self._make(name, envelope, table, seen)
        return _Topic(name, envelope, table, pipeline, version, seen.frame.schema)

    def _learn(self, topic: _Topic, found: Sequence[Sample], messages: DataFrame) -> None:
        """Take note of columns that a topic has since now."""
        table = self._allowed(topic.name, topic.table, topic.envelope.learn(found, topic.table))
        if table == topic.table:
            return
        _log.warning("topic %s has other columns since now: %s", topic.name, _difference(topic.table, table))
        new = tuple(column for column in table.guessed if column not in topic.table.guessed)
        warn_of_guesses(replace(table, guessed=new), f"topic {topic.name}")
        topic.table = table
        topic.version += 1
        seen = self._feed.seen(topic.envelope.decode(_of(topic.name, messages), table), table)
        topic.changes = seen.frame.schema
        topic.pipeline.change_columns(topic.changes, seen.carried)
        self._keep(topic)

    def _allowed(self, name: str, known: SourceTable, shown: SourceTable) -> SourceTable:
        """What is written of a topic whose messages show more than is known."""
        if shown == known or self._evolves:
            return shown
        if self._feed.ignores_columns:
            return known
        raise SchemaMismatch(
            f"messages of topic {name!r} have other columns than are known: {_difference(known, shown)}",
            hint="Let the table follow (.schema_evolution()), declare the columns, or leave out those that "
            "were not declared (other_columns='ignore').",
        )

    def _keep(self, topic: _Topic) -> None:
        assert self._files is not None
        keep_topic(self._files, topic.name, Kept(topic.version, topic.table, topic.pipeline.sink_id))


def _warn_of_marks(said: Mapping[str, frozenset[int]], before: Mapping[str, int]) -> None:
    """What was promised counts on: it may come again, and what is between was told to be complete."""
    for name, times in said.items():
        if (least := min(times, default=0)) < before.get(name, 0):
            _log.warning(
                "partition %s says that the source is complete up to %s, and had said %s: messages that come "
                "again, or a second feed into the topic. Changes before the later one count as duplicates",
                name,
                least,
                before[name],
            )


def _of(name: str, messages: DataFrame) -> DataFrame:
    """The messages of a topic, and those that are for all. Others may have schemas that are not a table's."""
    return messages.where(F.col("topic").isNull() | (F.col("topic") == name))


def _together(declared: SourceTable | None, kept: SourceTable) -> SourceTable:
    """What was declared now, on top of what an earlier run knew."""
    if declared is None:
        return kept
    others = tuple(column for column in kept.columns if column.name not in declared.names)
    # A guess may come out otherwise when the first files are others.
    said = tuple(
        kept.column(column.name) if column.name in declared.guessed and column.name in kept.names else column
        for column in declared.columns
    )
    return replace(declared, columns=(*said, *others), key=declared.key or kept.key)


def _difference(known: SourceTable, shown: SourceTable) -> str:
    texts = {column.name: column.type for column in known.columns}
    changed = [
        f"{column.name} {column.type}" + (f", which was {texts[column.name]}" if column.name in texts else "")
        for column in shown.columns
        if texts.get(column.name) != column.type
    ]
    return "; ".join(changed) or "the key"
