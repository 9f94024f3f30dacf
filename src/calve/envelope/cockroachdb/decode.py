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
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceColumn, SourceTable
from calve.envelope.base import Sample
from calve.envelope.cockroachdb.learn import learn
from calve.envelope.exact import (
    TEXTS,
    UNREADABLE,
    Exact,
    marked,
    marked_name,
    marked_type,
    plain,
)
from calve.envelope.messages import errors, once, place_of, placed_by, shape
from calve.envelope.values import CORRUPT, Values, hexadecimal, is_lost, parse
from calve.model.columns import ERROR, MARK, OP, PARTITION, RESERVED, TIME, UNFIT
from calve.model.errors import ConfigError, SchemaMismatch

VALUES = Values(bytes_from=hexadecimal)
_HLC = T.DecimalType(38, 0)
_LOGICAL_DIGITS = 10
_CRDB = "__crdb__"
_TEXT = T.StringType()
_DELETE = r'^\s*\{\s*("payload"\s*:\s*\{\s*)?"after"\s*:\s*null'
"""At the beginning, where a changefeed writes it: a value of JSON may hold the same words."""
_UNREAD, _UNMARKED, _HAS_ROW, _HAS_TIME, _IS_MARK, _IS_DELETE, _POSITIONS, _OTHER = (
    RESERVED + name
    for name in ("unread", "unmarked", "has_row", "has_time", "is_mark", "is_delete", "positions", "other")
)
_NULL_AFTER = r'[{,]\s*"after"\s*:\s*null\s*[,}]'
_NO_AFTER = "there is no `after`, not even a null: others than the wrapped and enriched envelopes do not say "
_NO_AFTER += "whether a row was deleted"
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
    whole = (dot > 1) & (F.length(text) - dot == _LOGICAL_DIGITS) & F.left(text, F.lit(1)).between("0", "9")
    return F.when(whole, F.replace(text, F.lit("."), F.lit("")).try_cast(_HLC))


@dataclass(frozen=True, slots=True)
class CockroachDB:
    """The messages of one table of a changefeed."""

    kind: Kind = Kind.WRAPPED
    payload: bool = False
    """Enriched with schemas: everything is below `payload`."""
    topic: str | None = None
    """What messages call their table, where they say it: wrapped and bare ones with `topic_in_value`,
    enriched ones by `source.table_name`, which a topic's name ends with."""

    meaning = "hlc"
    timed = True
    units_a_second = 10**19

    def tells(self, text: Column) -> Column:
        """Whether the text of a message may show columns."""
        if self.kind is Kind.BARE:
            return ~text.contains('"resolved"')
        return text.contains('"after"') & ~text.rlike(_DELETE)

    def version(self, value: Column) -> Column:
        """A number that tells apart messages with other columns."""
        return shape(value)

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
        told = said.exact.read_again(told, said.needs_care(), self._schema(said.read_again), said.text)
        # In steps: what is used twice is computed once, and what is wrong is asked last, of what was made.
        # Until then columns have our names: a table may have a column called `value` or `updated`, too.
        read = told.select(
            *(said.value(one).alias(said.name(one)) for one in table.columns),
            *said.told(),
            said.op().alias(OP),
            hlc(said.updated).alias(TIME),
            (hlc(said.resolved) + 1).cast(_HLC).alias(MARK),
            F.col("partition").alias(PARTITION),
            *placed_by(raw),
            "value",
        ).withColumn(ERROR, said.error())
        good = F.col(ERROR).isNull()
        return read.select(
            *(F.col(said.name(one)).alias(one.name) for one in table.columns),
            F.when(good & F.col(MARK).isNull(), F.col(OP)).alias(OP),
            TIME,
            F.when(good, F.col(MARK)).alias(MARK),
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
        self.exact = Exact.of(VALUES, table.columns)
        message, texts = F.col("m"), F.col(TEXTS)["of"]
        self._positions: Column | None = None
        self._path: tuple[str, ...]
        match envelope.kind:
            case Kind.WRAPPED:
                self._row, self._path = message["after"], ("after",)
                self._has_row = self._row.isNotNull()
                self.updated, self.resolved, self._named = (
                    message[name] for name in ("updated", "resolved", "topic")
                )
                self._by_position(message["key"], texts[marked_name("key")])
            case Kind.BARE:
                self._row, self._path = message, ()
                self._has_row = self._row[_required(table)].isNotNull()
                about = message[_CRDB]
                self.updated, self.resolved, self._named = (
                    about[name] for name in ("updated", "resolved", "topic")
                )
                self._by_position(about["key"], texts[marked_name(_CRDB)][marked_name("key")])
            case _:
                body = message["payload"] if envelope.payload else message
                again = texts[marked_name("payload")] if envelope.payload else texts
                self._row = body["after"]
                self._path = ("payload", "after") if envelope.payload else ("after",)
                self._has_row = self._row.isNotNull()
                self.updated = body["source"]["ts_hlc"]
                self.resolved = (
                    F.coalesce(message["resolved"], body["resolved"])
                    if envelope.payload
                    else message["resolved"]
                )
                self._named = body["source"]["table_name"]
                self._by_name(body["key"], again[marked_name("key")])

    def text(self, texts: Column, name: str) -> Column:
        """A column in what was read again."""
        return reduce(Column.getField, map(marked_name, (*self._path, name)), texts)

    @property
    def read_again(self) -> SourceTable:
        """The columns of messages that are read again, and the key."""
        wanted = [one for one in self._table.columns if one in self.exact.columns or one.name in self._keys]
        return SourceTable(tuple(wanted), self._table.key)

    @property
    def _has_decimal_key(self) -> bool:
        return any(_is_decimal(self._table.column(name)) for name in self._table.key)

    def needs_care(self) -> Column:
        """Whether a message is read again. Numbers of keys are always changed."""
        needed = self.exact.is_needed(F.col("value"), self._row.getField, str)
        return needed | ~self._has_row if self._has_decimal_key else needed

    def name(self, one: SourceColumn, what: str = "column") -> str:
        """What a column is called until all is said."""
        return f"{RESERVED}{what}_{self._table.names.index(one.name)}"

    def value(self, one: SourceColumn) -> Column:
        """A data column: of the row, or of the key where there is no row."""
        value = VALUES.converted(one.type, self._row[one.name])
        value = self.exact.chosen(one, value)
        if one.name not in self._keys:
            return value
        of_key = VALUES.from_text(one.type, self._keys[one.name])
        if self._kind is Kind.BARE:
            return F.when(self._row[one.name].isNotNull(), value).otherwise(of_key)
        return F.when(self._has_row, value).otherwise(of_key)

    def told(self) -> list[Column]:
        """What is needed of a message to say what is wrong with it, beside what was made of it."""
        found = [
            (F.col("m").isNull() | F.col("m")[CORRUPT].isNotNull()).alias(_UNREAD),
            (F.col(TEXTS).isNotNull() & F.col(TEXTS)["of"].isNull()).alias(_UNMARKED),
            self._has_row.alias(_HAS_ROW),
            self.updated.isNotNull().alias(_HAS_TIME),
            self.resolved.isNotNull().alias(_IS_MARK),
        ]
        if self._positions is not None:
            found.append(F.when(~self._has_row, self._positions).alias(_POSITIONS))
        if self._topic is not None:
            is_mine = self._named == self._topic
            if self._kind is Kind.ENRICHED:
                is_mine = F.endswith(F.lit(self._topic), self._named)
            found.append((~is_mine).alias(_OTHER))
        if self._kind is not Kind.BARE:
            found.append(F.when(~self._has_row, F.col("value").rlike(_NULL_AFTER)).alias(_IS_DELETE))
        return [*found, *(self._row[one.name].alias(self.name(one, "read")) for one in self._converted)]

    @property
    def _converted(self) -> list[SourceColumn]:
        """Columns that are read as something else than they are."""
        return [one for one in self._table.columns if VALUES.is_converted(one.type)]

    def op(self) -> Column:
        return F.when(self._has_row, "upsert").otherwise("delete")

    def error(self) -> Column:
        """What is wrong with the message; null where nothing is. The texts are the same for all messages: the
        message itself stands beside them."""
        is_mark, has_row = F.col(_IS_MARK), F.col(_HAS_ROW)
        reasons = [
            F.when(F.col("value").isNull(), "the message is empty"),
            F.when(F.col(_UNREAD), UNFIT),
            F.when(F.col(_UNMARKED), UNREADABLE),
            F.when(is_mark & F.col(MARK).isNull(), "the resolved time is no HLC"),
            F.when(~is_mark & ~F.col(_HAS_TIME), self._no_time),
            F.when(~is_mark & F.col(TIME).isNull(), "the time is no HLC"),
            *([] if self._kind is Kind.BARE else [F.when(~is_mark & ~F.col(_IS_DELETE), _NO_AFTER)]),
            F.when(~is_mark & ~has_row, self._misread_key()),
            F.when(has_row, F.coalesce(*self._misread(), *self._without_key())),
        ]
        if self._topic is not None:
            # Before what it lacks: another table has other columns.
            reasons.insert(2, F.when(F.col(_OTHER), "the message is of another table"))
        return F.coalesce(*reasons)

    def _misread(self) -> list[Column]:
        return [
            F.when(
                is_lost(F.col(self.name(one, "read")), F.col(self.name(one))),
                f"column {one.name!r} is no {one.type}",
            )
            for one in self._converted
        ]

    def _without_key(self) -> list[Column]:
        return [
            F.when(F.col(self.name(self._table.column(name))).isNull(), f"the key is null: {name!r}")
            for name in self._table.key
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
            size, declared = F.col(_POSITIONS), ", ".join(self._table.key)
            reasons.append(
                F.when(
                    (size >= 0) & (size != self._table.before_key + len(self._table.key)),
                    f"the key has more values, or fewer, than the declared one has columns: {declared}. If "
                    "the table is sharded by hash, or regional by row, its CREATE TABLE says so: declare it "
                    "by that",
                )
            )
        for name in self._keys:
            one = self._table.column(name)
            missing = f"a delete without its key: {name!r} is missing, or is no {one.type}. {_KEY_HINT}"
            reasons.append(F.when(F.col(self.name(one)).isNull(), missing))
        return F.coalesce(*reasons)

    # ---------------------------------------------------------------- keys, as texts

    def _by_position(self, keys: Column, texts: Column) -> None:
        kind = T.ArrayType(_TEXT)
        keys = F.coalesce(keys, F.from_json(F.col("key"), kind))
        exact = F.coalesce(texts, F.from_json(marked(F.col("key")), kind))
        self._positions = F.size(keys)
        self._keys = {
            name: plain(F.get(exact, F.lit(number)))
            if _is_decimal(self._table.column(name))
            else F.get(keys, F.lit(number))
            for number, name in enumerate(self._table.key, self._table.before_key)
        }

    def _by_name(self, keys: Column, texts: Column) -> None:
        key = T.StructType([T.StructField(name, _TEXT) for name in self._table.key])
        kind = T.StructType([*key.fields, T.StructField("payload", key)])
        named = F.from_json(F.col("key"), kind)
        exact = F.from_json(marked(F.col("key")), marked_type(kind))
        self._keys = {}
        for name in self._table.key:
            called = marked_name(name)
            if _is_decimal(self._table.column(name)):
                found = texts[called], exact[called], exact[marked_name("payload")][called]
                self._keys[name] = plain(F.coalesce(*found))
            else:
                self._keys[name] = F.coalesce(keys[name], named[name], named["payload"][name])


def _is_decimal(one: SourceColumn) -> bool:
    return one.type.startswith("decimal")


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
