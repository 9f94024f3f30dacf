"""CockroachDB's changefeeds as messages: wrapped, enriched and bare.

    wrapped    {"after": {…} | null, "key": […], "updated": "<HLC>"}            {"resolved": "<HLC>"}
    enriched   {"after": {…} | null, "op": "c", "source": {"ts_hlc": "<HLC>"}}  the same
               with schemas: all of it below "payload"
    bare       {…, "__crdb__": {"updated": "<HLC>"}}                            {"__crdb__": {"resolved": …}}

A time is an HLC as an integer of 29 digits: wall nanoseconds, then ten digits of the logical part. A resolved
time is inclusive at the source: no change at or before it is to come. Here bounds are exclusive, so the mark
is one more.

The key of a delete stands in the value or in the message's key: positional in wrapped and bare, by name in
enriched. A bare delete is its key and nulls: it is told from an upsert by a column that cannot be null, and
without such a column bare is refused. So are `row` and `key_only`, which do not say enough for an upsert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceColumn, SourceTable
from calve.envelope.base import Sample
from calve.envelope.cockroachdb.learn import learn
from calve.envelope.messages import errors, let, once, place_of, placed_by
from calve.envelope.values import CORRUPT, Values, hexadecimal, parse, unfit
from calve.model.columns import ERROR, MARK, OP, PARTITION, RESERVED, TIME
from calve.model.errors import ConfigError, SchemaMismatch

VALUES = Values(bytes_from=hexadecimal)
_HLC = T.DecimalType(38, 0)
_LOGICAL_DIGITS = 10
_CRDB = "__crdb__"
_COLUMN = RESERVED + "column_"
_TEXT = T.StringType()
_KEY_HINT = (
    "CREATE CHANGEFEED … WITH key_in_value, updated, resolved; on Kafka the message's key serves as well."
)


class Kind(StrEnum):
    """How a changefeed wraps its rows (its option `envelope`)."""

    WRAPPED = "wrapped"
    ENRICHED = "enriched"
    BARE = "bare"

    @classmethod
    def of(cls, word: str) -> Kind:
        """The envelope by its name."""
        if word in ("row", "key_only"):
            raise ConfigError(
                f"the envelope {word!r} does not say enough: it has no time, and "
                + ("a delete is an empty message" if word == "row" else "no row"),
                hint="CREATE CHANGEFEED … WITH envelope = 'wrapped', updated, resolved.",
            )
        if word not in set(cls):
            raise ConfigError(
                f"{word!r} is no envelope of a changefeed", hint=f"There are: {', '.join(cls)}."
            )
        return cls(word)


def hlc(text: Column) -> Column:
    """An HLC as an integer; null where the text is none."""
    dot = F.instr(text, ".")
    whole = (dot > 1) & (F.length(text) - dot == _LOGICAL_DIGITS)
    return F.when(whole, F.replace(text, F.lit("."), F.lit("")).try_cast(_HLC))


@dataclass(frozen=True, slots=True)
class CockroachDB:
    """The messages of one table of a changefeed."""

    kind: Kind = Kind.WRAPPED
    payload: bool = False
    """Enriched with schemas: everything is below `payload`."""
    topic: str | None = None
    """What messages call their table, where they say it (`topic_in_value`)."""

    meaning = "hlc"
    timed = True
    units_a_second = 10**19

    def tells(self, text: Column) -> Column:
        """Whether the text of a message may show columns."""
        if self.kind is Kind.BARE:
            return ~text.contains('"resolved"')
        return text.contains('"after"') & ~text.rlike('"after": *null')

    def learn(self, samples: Sequence[Sample], known: SourceTable | None) -> SourceTable:
        """Columns that messages show, on top of what is known."""
        match self.kind:
            case Kind.WRAPPED:
                return learn(samples, known, ("after",), None)
            case Kind.BARE:
                return learn(samples, known, (), _CRDB)
        return learn(samples, known, ("payload", "after") if self.payload else ("after",), None)

    def decode(self, raw: DataFrame, table: SourceTable) -> DataFrame:
        """The changes and marks in a frame of messages."""
        if not table.key:
            raise SchemaMismatch(
                "the table at the source has no key: nothing says which row a delete means",
                hint="Name its primary key, or paste its CREATE TABLE, which has it.",
            )
        if self.kind is Kind.BARE:
            _required(table)
        told = raw.select(
            *placed_by(raw),
            F.col("key").cast("string").alias("key"),
            F.col("value").cast("string").alias("value"),
            parse(once(F.col("value").cast("string")), self._schema(table)).alias("m"),
        )
        said = _Said(self, table)
        # In steps: what is used twice is computed once. Until all is said, columns have our names: a table
        # may have a column called `value` or `updated`, too.
        read = told.select(
            *(said.column(one).alias(f"{_COLUMN}{at}") for at, one in enumerate(table.columns)),
            said.op().alias(OP),
            hlc(said.updated).alias(TIME),
            (hlc(said.resolved) + 1).cast(_HLC).alias(MARK),
            F.col("partition").alias(PARTITION),
            said.error().alias(ERROR),
            said.updated.alias("updated"),
            said.resolved.alias("resolved"),
            *placed_by(raw),
            "value",
        )
        read = read.withColumn(ERROR, F.coalesce(F.col(ERROR), *said.wrong_times()))
        bad = F.col(ERROR).isNotNull()
        return read.select(
            *(F.col(f"{_COLUMN}{at}").alias(name) for at, name in enumerate(table.names)),
            F.when(~bad & F.col(MARK).isNull(), F.col(OP)).alias(OP),
            TIME,
            F.when(~bad, F.col(MARK)).alias(MARK),
            PARTITION,
            *errors(F.col(ERROR), place_of(read), F.col("value")),
        )

    def _schema(self, table: SourceTable) -> T.StructType:
        row = VALUES.schema(table.columns)
        meta = [T.StructField(name, _TEXT) for name in ("updated", "resolved", "topic")]
        keys = T.StructField("key", T.ArrayType(_TEXT))
        match self.kind:
            case Kind.WRAPPED:
                return T.StructType([T.StructField("after", row), *meta, keys])
            case Kind.BARE:
                return T.StructType([*row.fields, T.StructField(_CRDB, T.StructType([*meta, keys]))])
        source = T.StructType([T.StructField("ts_hlc", _TEXT), T.StructField("table_name", _TEXT)])
        named = T.StructType([T.StructField(name, _TEXT) for name in table.key])
        body = [
            T.StructField("after", row),
            T.StructField("op", _TEXT),
            T.StructField("source", source),
            T.StructField("resolved", _TEXT),
            T.StructField("key", named),
        ]
        if not self.payload:
            return T.StructType(body)
        return T.StructType([T.StructField("payload", T.StructType(body)), T.StructField("resolved", _TEXT)])


class _Said:
    """What a parsed message says, as Spark expressions over `m`, `key` and `value`."""

    def __init__(self, envelope: CockroachDB, table: SourceTable) -> None:
        self._kind, self._table, self._topic = envelope.kind, table, envelope.topic
        message = F.col("m")
        self._path: tuple[str, ...] = ()
        self._positions: Column | None = None
        match envelope.kind:
            case Kind.WRAPPED:
                self._path, self._row = ("after",), message["after"]
                self._has_row = self._row.isNotNull()
                self.updated, self.resolved, self._named = (
                    message[name] for name in ("updated", "resolved", "topic")
                )
                keys = F.coalesce(message["key"], self._positional())
            case Kind.BARE:
                self._row = message
                self._has_row = self._row[_required(table)].isNotNull()
                about = message[_CRDB]
                self.updated, self.resolved, self._named = (
                    about[name] for name in ("updated", "resolved", "topic")
                )
                keys = F.coalesce(about["key"], self._positional())
            case _:
                body = message["payload"] if envelope.payload else message
                self._path = ("payload", "after") if envelope.payload else ("after",)
                self._row = body["after"]
                self._has_row = self._row.isNotNull()
                self.updated = body["source"]["ts_hlc"]
                self.resolved = (
                    F.coalesce(message["resolved"], body["resolved"])
                    if envelope.payload
                    else message["resolved"]
                )
                self._named = F.lit(None).cast("string")
                named = self._by_name()
                self._keys = {
                    name: F.coalesce(body["key"][name], named[name], named["payload"][name])
                    for name in table.key
                }
                return
        self._keys = {name: F.get(keys, F.lit(number)) for number, name in enumerate(table.key)}
        self._positions = F.size(keys)

    def column(self, one: SourceColumn) -> Column:
        """A data column: of the row, or of the key where there is no row."""
        value = VALUES.converted(one.type, self._row[one.name])
        if one.name not in self._keys:
            return value
        of_key = VALUES.from_text(one.type, self._keys[one.name])
        if self._kind is Kind.BARE:
            return F.when(self._row[one.name].isNotNull(), value).otherwise(of_key)
        return F.when(self._has_row, value).otherwise(of_key)

    def op(self) -> Column:
        return F.when(self._has_row, "upsert").otherwise("delete")

    def error(self) -> Column:
        """What is wrong with the message but for its times; null where nothing is."""
        unread = F.col("m").isNull() | F.col("m")[CORRUPT].isNotNull()
        is_mark, is_delete = self.resolved.isNotNull(), ~self._has_row
        columns = self._table.columns
        reasons = [
            F.when(F.col("value").isNull(), "the message is empty"),
            F.when(unread, unfit(F.col("value"), self._path, VALUES, columns)),
            F.when(~is_mark & is_delete, self._misread_key()),
            F.when(self._has_row, VALUES.misread(self._table, lambda name: self._row[name])),
        ]
        if self._topic is not None:
            other = F.concat(F.lit("the message is of another table: "), self._named)
            reasons.append(F.when(self._named != self._topic, other))
        return let(F.lit(0), lambda _: F.coalesce(*reasons))

    def wrong_times(self) -> list[Column]:
        """What is wrong with the times, where they are read: TIME and MARK, and their texts."""
        said, resolved = F.col("updated"), F.col("resolved")
        is_mark = resolved.isNotNull()
        return [
            F.when(
                is_mark & F.col(MARK).isNull(),
                F.concat(F.lit("the resolved time "), resolved, F.lit(" is no HLC")),
            ),
            F.when(~is_mark & said.isNull(), F.lit(self._no_time)),
            F.when(~is_mark & F.col(TIME).isNull(), F.concat(F.lit("the time "), said, F.lit(" is no HLC"))),
        ]

    @property
    def _no_time(self) -> str:
        if self._kind is Kind.ENRICHED:
            return "there is no source.ts_hlc: the changefeed needs enriched_properties = 'source'"
        return "there is no `updated`: the changefeed needs the options updated and resolved"

    def _misread_key(self) -> Column:
        reasons = []
        if self._positions is not None:
            # All columns of the primary index stand there, also those that a table does not show: a shard, a
            # region. By position alone a value would go to the wrong column.
            declared = ", ".join(self._table.key)
            told = F.format_string(
                f"the key has %d values, and the columns of the declared one are: {declared}. Is the table "
                "sharded by hash, or regional by row?",
                self._positions,
            )
            other = (self._positions >= 0) & (self._positions != len(self._table.key))
            reasons.append(F.when(other, told))
        for name, text in self._keys.items():
            kind = self._table.column(name).type
            given = F.coalesce(text, self._row[name].cast("string")) if self._kind is Kind.BARE else text
            reasons += [
                F.when(given.isNull(), f"a delete without its key: {name!r} is missing. {_KEY_HINT}"),
                F.when(
                    text.isNotNull() & VALUES.from_text(kind, text).isNull(),
                    F.concat(F.lit(f"the key {name!r}: "), text, F.lit(f" is no {kind}")),
                ),
            ]
        return F.coalesce(*reasons)

    def _positional(self) -> Column:
        return F.from_json(F.col("key"), T.ArrayType(_TEXT))

    def _by_name(self) -> Column:
        named = T.StructType([T.StructField(name, _TEXT) for name in self._table.key])
        return F.from_json(F.col("key"), T.StructType([*named.fields, T.StructField("payload", named)]))


def _required(table: SourceTable) -> str:
    """A column that is null in deletes alone."""
    for one in table.columns:
        if one.required and one.name not in table.key:
            return one.name
    raise SchemaMismatch(
        "a bare delete is its key and nulls, and the table has no other column that is never null: a delete "
        "cannot be told from a row of nulls",
        hint="Use envelope = 'wrapped', or declare a column outside the key as NOT NULL.",
    )
