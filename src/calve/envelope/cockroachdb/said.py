"""What a message of a changefeed says, as Spark expressions: its columns, its key, and what is wrong with it.

    m, key, value ──▶ value, op, told ──selected──▶ error: over the columns that were made, in fixed texts

What is asked of several times has a column of its own, and what is wrong is asked last. The message itself
stands beside the text about it.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceColumn, SourceTable
from calve.envelope.cockroachdb.kinds import Kind
from calve.envelope.exact import TEXTS, UNREADABLE, Exact, marked, marked_name, marked_type, plain
from calve.envelope.messages import refuse_names
from calve.envelope.values import CORRUPT, Values, hexadecimal, is_lost
from calve.model.columns import MARK, RESERVED, TIME, UNFIT
from calve.model.errors import SchemaMismatch

VALUES = Values(bytes_from=hexadecimal)
CRDB = "__crdb__"
_TEXT = T.StringType()
_UNREAD, _UNMARKED, _HAS_ROW, _HAS_TIME, _IS_MARK, _IS_DELETE, _POSITIONS, _OTHER = (
    RESERVED + name
    for name in ("unread", "unmarked", "has_row", "has_time", "is_mark", "is_delete", "positions", "other")
)
NULL_AFTER = r'[{,]\s*"after"\s*:\s*null\s*[,}]'
_NO_AFTER = (
    "there is no `after`, not even a null: others than the wrapped and enriched envelopes do not say whether "
    "a row was deleted"
)
_KEY_HINT = (
    "CREATE CHANGEFEED … WITH key_in_value, updated, resolved; on Kafka the message's key serves as well."
)


class Said:
    """What a parsed message says, as Spark expressions over `m`, `key` and `value`."""

    def __init__(self, kind: Kind, table: SourceTable, *, payload: bool, topic: str | None) -> None:
        self._kind, self._table, self._topic = kind, table, topic
        self.exact = Exact.of(VALUES, table.columns)
        message, texts = F.col("m"), F.col(TEXTS)["of"]
        self._positions: Column | None = None
        self._path: tuple[str, ...]
        match kind:
            case Kind.WRAPPED:
                self._row, self._path = message["after"], ("after",)
                self._has_row = self._row.isNotNull()
                self.updated, self.resolved, self._named = (
                    message[name] for name in ("updated", "resolved", "topic")
                )
                self._by_position(message["key"], texts[marked_name("key")])
            case Kind.BARE:
                self._row, self._path = message, ()
                self._has_row = self._row[required(table)].isNotNull()
                about = message[CRDB]
                self.updated, self.resolved, self._named = (
                    about[name] for name in ("updated", "resolved", "topic")
                )
                self._by_position(about["key"], texts[marked_name(CRDB)][marked_name("key")])
            case _:
                body = message["payload"] if payload else message
                again = texts[marked_name("payload")] if payload else texts
                self._row = body["after"]
                self._path = ("payload", "after") if payload else ("after",)
                self._has_row = self._row.isNotNull()
                self.updated = body["source"]["ts_hlc"]
                self.resolved = (
                    F.coalesce(message["resolved"], body["resolved"]) if payload else message["resolved"]
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
    def _has_changed_key(self) -> bool:
        return any(_is_changed(self._table.column(name)) for name in self._table.key)

    def needs_care(self) -> Column:
        """Whether a message is read again. Numbers of keys are always changed."""
        needed = self.exact.is_needed(F.col("value"), self._row.getField, str)
        return needed | ~self._has_row if self._has_changed_key else needed

    def name(self, one: SourceColumn, what: str = "column") -> str:
        """What a column is called until all is said."""
        return f"{RESERVED}{what}_{self._table.names.index(one.name)}"

    def value(self, one: SourceColumn) -> Column:
        """A data column: of the row, or of the key where there is no row."""
        value = VALUES.converted(one, self._row[one.name])
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
            found.append(F.when(~self._has_row, F.col("value").rlike(NULL_AFTER)).alias(_IS_DELETE))
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
            if _is_changed(self._table.column(name))
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
            if _is_changed(self._table.column(name)):
                found = texts[called], exact[called], exact[marked_name("payload")][called]
                self._keys[name] = plain(F.coalesce(*found))
            else:
                self._keys[name] = F.coalesce(keys[name], named[name], named["payload"][name])


def _is_changed(one: SourceColumn) -> bool:
    """Whether a number of a key may not be what was read of it."""
    return one.type.startswith("decimal") or one.type in ("float", "double")


def required(table: SourceTable) -> str:
    """A column that is null in deletes alone."""
    refuse_names(table.names, (CRDB,))
    for one in table.columns:
        if one.required and one.name not in table.key:
            return one.name
    raise SchemaMismatch(
        "a bare delete is its key and nulls, and the table has no other column that is never null: a delete "
        "cannot be told from a row of nulls",
        hint="Use envelope = 'wrapped', or declare a column outside the key as NOT NULL.",
    )
