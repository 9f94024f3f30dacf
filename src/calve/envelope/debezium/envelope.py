"""Debezium: its change events in JSON, with schemas and without, as changes.

    message ──▶ version ──from_json──▶ m ──▶ columns, OP, POSITION      micro-batches are batches
       │                               └───▶ columns, OP, TIME, ORDER   transactions are (transactions.py)
       └─ a tombstone, a logical message: nothing

Order and replays: `position.py`. Values: `schema.py`, `values.py`. What PostgreSQL did not send: `toast.py`.

Times, where the transaction topic marks them: that of a change is the LSN of the last commit before its
transaction, so that all changes of a transaction have one time, which is below the LSN of its own commit.
Rows of a snapshot and the events before the first commit have no such LSN: they get `floor`, the mark that
was reached before the micro-batch. So a row of a snapshot that comes late is written late, never taken for
a replay: it stands before all changes of its key in their partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from calve.config.columns import SourceTable
from calve.decode.events import Events
from calve.decode.events import Version as PlainVersion
from calve.decode.messages import Kernel
from calve.envelope.base import Sample
from calve.envelope.debezium import learn, position
from calve.envelope.debezium.declared import Declared
from calve.envelope.debezium.keep import NOT_SENT, kept
from calve.envelope.debezium.observe import json_ends, json_events
from calve.envelope.debezium.plain import plain_version
from calve.envelope.debezium.rows import COMMIT, LSN, Rows
from calve.envelope.debezium.schema import Field, from_connect
from calve.envelope.debezium.toast import PLACEHOLDER, Placeholder
from calve.envelope.debezium.values import Values
from calve.envelope.debezium.version import (
    Version,
    has_schema,
    place,
    schema_key,
    split,
    undeclared,
    with_schema,
)
from calve.envelope.messages import errors, let, names_in, once, place_of, shape
from calve.envelope.read import table_plan
from calve.envelope.values import parse
from calve.model.columns import CLOCK, ERROR, MARK, OP, ORDER, PARTITION, POSITION, TIME
from calve.model.errors import ConfigError

_OFFSET_DIGITS = 19
_WORDS = {
    "truncates": ("refuse", "skip"),
    "toast": ("refuse", "keep"),
    "infinity": ("refuse", "null"),
}


@dataclass(frozen=True, slots=True)
class Debezium:
    """The messages of one table."""

    schemas: bool = False
    """Messages bring their schema along: {"schema": …, "payload": …}."""
    transactions: bool = False
    """The transaction topic marks how far the source is; else micro-batches are batches."""
    declared: Declared = field(default_factory=Declared)
    """How values come where messages have no schema."""
    truncates: str = "refuse"
    toast: str = "refuse"
    infinity: str = "refuse"
    """Dates and timestamps that are infinite, or outside the years 1 to 9999."""
    placeholder: str = PLACEHOLDER
    seen: dict[str, dict[bytes, dict[str, Field]]] = field(default_factory=dict, compare=False, repr=False)
    """The schemas of messages, by topic and by what such messages begin with."""

    def __post_init__(self) -> None:
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                raise ConfigError(
                    f"{name} cannot be {getattr(self, name)!r}",
                    hint=f"Say {' or '.join(map(repr, words))}.",
                    about=name,
                )

    @property
    def meaning(self) -> str:
        return "lsn" if self.transactions else "micro-batch"

    @property
    def timed(self) -> bool:
        return self.transactions

    @property
    def units_a_second(self) -> int | None:
        return None

    def tells(self, text: Column) -> Column:
        """Whether the text of a message may show columns."""
        if self.schemas:
            return text.isNotNull()
        return names_in(text, "after").isNotNull()

    def version(self, value: Column) -> Column:
        """A number that tells apart messages with other schemas, each of which is to be sampled."""
        return schema_key(value) if self.schemas else shape(value, "after")

    # ---------------------------------------------------------------- columns

    def learn(self, samples: Sequence[Sample], known: SourceTable | None) -> SourceTable:
        """Columns that messages show, on top of what was declared."""
        if self.schemas:
            return learn.by_schema(samples, known, self._told)
        return learn.from_values(samples, known)

    def _told(self, sample: Sample) -> tuple[Field, list[str]] | None:
        """The row and the key by the schema of a message."""
        assert sample.value is not None
        prefix, schema = split(sample.value, sample.place)
        row = from_connect(schema).field("after")
        if row is None:
            return None
        self.seen.setdefault(sample.topic, {})[prefix] = {one.name: one for one in row.inside}
        key = from_connect(split(sample.key, sample.place)[1]) if sample.key is not None else None
        return row, [one.name for one in key.inside] if key is not None else []

    def kernel(self, topic: str, table: SourceTable, *, checks_names: bool) -> Kernel | None:
        """What reads plain messages of a topic in Arrow: of a key, and without transactions, whose boundaries
        look at all of them. Messages with schemas are read so once theirs was seen."""
        found = self._plain(topic, table)
        checks = checks_names and not self.schemas
        return Events(table_plan(table), found, self.placeholder, checks) if found else None

    def _plain(self, topic: str, table: SourceTable) -> tuple[PlainVersion, ...]:
        """The versions of messages that kernels read."""
        if self.transactions or self.toast == "keep" or not table.key:
            return ()
        if self.schemas or not self.is_text:
            seen = [Version(fields, prefix) for prefix, fields in self.seen.get(topic, {}).items()]
        else:
            seen = [undeclared(table, self.declared)]
        plain = (plain_version(version, table, is_text=self.is_text) for version in seen)
        return tuple(one for one in plain if one is not None)

    # ---------------------------------------------------------------- transactions

    def events(self, messages: DataFrame) -> DataFrame:
        """The events in messages of tables, as `observe.py` counts them."""
        return json_events(messages)

    def ends(self, messages: DataFrame) -> DataFrame:
        """The ENDs in messages of the transaction topic."""
        return json_ends(messages)

    # ---------------------------------------------------------------- changes

    def decode(self, raw: DataFrame, table: SourceTable, *, floor: int = 0) -> DataFrame:
        """The changes in a frame of messages. `floor`: the mark that was reached before them."""
        messages = raw.where(F.col("value").isNotNull())
        rows = self._rows(table, self._versions(messages, table), messages)
        texts = [F.when(one.is_of(F.col("value")), one.body(F.col("value"))) for one in rows.versions]
        before = table.names if self.toast == "keep" or not table.key else table.key
        parsed = [
            parse(once(text), one.message_type(table, rows.values, before)).alias(name)
            for name, one, text in zip(rows.names, rows.versions, texts, strict=True)
        ]
        return self.changes(messages.select("topic", "partition", "offset", "value", *parsed), rows, floor)

    def changes(self, parsed: DataFrame, rows: Rows, floor: int) -> DataFrame:
        """The changes in a frame of parsed messages."""
        # In steps: what is used twice is computed once.
        read = parsed.where(self._says_something(rows)).withColumns(rows.prepared())
        order = self._order(rows, floor)
        read = read.select(
            *("topic", "partition", "offset", "value", *rows.names),
            *(rows.column(name).alias(rows.called(name)) for name in rows.table.names),
            *(column.alias(name) for name, column in order.items()),
        )
        if self.toast == "keep":
            read = kept(read, rows, list(order))
        judged = read.select(
            *(rows.called(name) for name in rows.table.names),
            rows.op().alias(OP),
            *order,
            F.col("partition").alias(PARTITION),
            self._error(rows, F.col(next(iter(order)))).alias(ERROR),
            *("topic", "partition", "offset", "value"),
        )
        bad = F.col(ERROR).isNotNull()
        mark = [F.lit(None).cast("long").alias(MARK)] if self.transactions else []
        return judged.select(
            *(F.col(rows.called(name)).alias(name) for name in rows.table.names),
            F.when(~bad, F.col(OP)).alias(OP),
            *order,
            *mark,
            PARTITION,
            *errors(F.col(ERROR), place_of(judged), self.shown(F.col("value"))),
        )

    def shown(self, value: Column) -> Column:
        """A message for people."""
        return value.cast("string")

    def _rows(self, table: SourceTable, versions: Sequence[Version], raw: DataFrame) -> Rows:
        utc = raw.sparkSession.conf.get("spark.sql.session.timeZone") in ("UTC", "Etc/UTC", "GMT", "Z")
        values = Values(self.is_text, utc, self.infinity == "null")
        return Rows(table, versions, values, Placeholder(self.placeholder, self.is_text))

    @property
    def is_text(self) -> bool:
        return True

    def _versions(self, messages: DataFrame, table: SourceTable) -> list[Version]:
        if not self.schemas:
            return [undeclared(table, self.declared)]
        found = (
            messages.groupBy(schema_key(F.col("value")).alias("key"))
            .agg(F.any_value(F.struct("topic", "partition", "offset", "value")).alias("one"))
            .collect()
        )
        # A message that has none is one more that cannot be read.
        ones = [row["one"] for row in found if has_schema(bytes(row["one"]["value"]))]
        versions = [with_schema(bytes(one["value"]), place(one)) for one in ones]
        return versions or [undeclared(table, self.declared)]

    def _says_something(self, rows: Rows) -> Column:
        skipped = ["m", "t"] if self.truncates == "skip" else ["m"]
        return ~F.coalesce(rows.code.isin(*skipped), F.lit(False))

    def _order(self, rows: Rows, floor: int) -> dict[str, Column]:
        source, transaction, commit, at = rows.source, rows.transaction, F.col(COMMIT), F.col(LSN)
        if not self.transactions:
            at_source = position.position(source, transaction, rows.code, commit, at)
            return {POSITION: at_source, CLOCK: source["ts_ms"]}
        copied = F.greatest(F.coalesce(commit, F.lit(0)), F.lit(floor))
        first = F.when(at < floor, at).otherwise(F.lit(floor))
        time = F.when(rows.code == "r", copied).otherwise(F.coalesce(commit, first))
        number = F.coalesce(transaction["total_order"], F.lit(0)).cast("string")
        offset = F.coalesce(F.col("offset"), F.lit(0)).cast("string")
        order = F.concat(F.lpad(number, 10, "0"), F.lpad(offset, _OFFSET_DIGITS, "0"))
        return {TIME: time.cast("long"), ORDER: order}

    def _error(self, rows: Rows, placed: Column) -> Column:
        keeps = self.toast == "keep"
        reasons = [
            *rows.unread(),
            *rows.strange(self.truncates),
            *([F.col(NOT_SENT)] if keeps else rows.not_sent()),
            *rows.misread(),
            *rows.without_key(),
            F.when(placed.isNull(), F.lit("the message has no position: source.sequence and lsn are null")),
        ]
        # Inside of `let` it is interpreted: as generated code it makes methods that Java does not compile.
        return let(F.lit(0), lambda _: F.coalesce(*reasons))
