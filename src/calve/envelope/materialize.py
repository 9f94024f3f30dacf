"""Materialize's SUBSCRIBE as JSON messages: a row each, its columns beside those of SUBSCRIBE.

    diff       {"mz_timestamp": 7, "mz_progressed": false, "mz_diff": 1, "id": 1, "v": "a"}
    upsert     {"mz_timestamp": 7, "mz_progressed": false, "mz_state": "upsert", "id": 1, "v": "a"}
    debezium   {"mz_timestamp": 7, "mz_progressed": false, "mz_state": "insert", "id": 1,
                "before_v": null, "after_v": "a"}
    all        {"mz_timestamp": 9, "mz_progressed": true}           a mark: nothing before 9 is to come

Times are Materialize's, milliseconds as it runs by default, as numbers or as text. Progress is exclusive, as
bounds are here. A diff is a weight: so many copies of the row came (+) or went (-). Its op is that number,
which a changelog keeps under the name `_mz_diff`. An update is a -1 and a +1 at one time: under a key the +1
decides. `key_violation` is Materialize's word for two rows under a key, and an error here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceColumn, SourceTable
from calve.config.infer import infer, warn_of_guesses
from calve.config.merge import merge
from calve.decode.messages import Kernel
from calve.decode.subscription import DIFF, PROGRESSED, STATE, TIMESTAMP, Subscription
from calve.envelope.base import Sample
from calve.envelope.debezium.times import without_zone
from calve.envelope.exact import TEXTS, UNREADABLE, Exact, marked_name
from calve.envelope.messages import errors, let, place_of, placed_by, refuse_names, shape
from calve.envelope.read import table_plan
from calve.envelope.values import (
    CORRUPT,
    Values,
    hexadecimal,
    instant,
    is_dated,
    is_lost,
    parse,
    within_years,
)
from calve.model.columns import ERROR, MARK, OP, ORDER, PARTITION, RESERVED, TIME, UNFIT
from calve.model.errors import SchemaMismatch

BEFORE, AFTER = "before_", "after_"
_META = (TIMESTAMP, PROGRESSED, DIFF, STATE)
_TEXT = T.StringType()
_LONG = T.LongType()
_INSTANTS = ("timestamp", "timestamptz")
_IS_MARK = RESERVED + "is_mark"
_UNMARKED = RESERVED + "unmarked"


class Kind(StrEnum):
    """The envelope of a SUBSCRIBE."""

    DIFF = "diff"
    UPSERT = "upsert"
    DEBEZIUM = "debezium"


_STATES = {Kind.DIFF: (), Kind.UPSERT: ("upsert", "delete"), Kind.DEBEZIUM: ("insert", "upsert", "delete")}


@dataclass(frozen=True, slots=True)
class _Values(Values):
    """Times may be milliseconds since 1970, as Materialize's own JSON has them."""

    def is_text(self, kind: str) -> bool:
        return kind in _INSTANTS or Values.is_text(self, kind)

    def from_text(self, kind: str, text: Column) -> Column:
        if kind not in _INSTANTS:
            return Values.from_text(self, kind, text)
        millis = text.try_cast(_LONG)
        moment = F.timestamp_micros(F.try_multiply(millis, F.lit(1000)))
        if kind == "timestamp":
            moment = without_zone(F.try_multiply(millis, F.lit(1000)), utc=False)
        # Looked at before it is cast: one that fails costs an exception, and a number may look like a year.
        return F.when(is_dated(text), instant(text, kind)).otherwise(within_years(moment, kind))


def _bytes(text: Column) -> Column:
    """`\\x6869`, or the numbers of the bytes: `[104,105]`."""
    numbers = let(F.from_json(text, T.ArrayType(T.ShortType())), _octets)
    return F.when(text.startswith("["), numbers).otherwise(hexadecimal(text))


def _octets(numbers: Column) -> Column:
    digits = F.transform(numbers, lambda one: F.lpad(F.hex(one), 2, "0"))
    whole = F.forall(numbers, lambda one: F.coalesce(one.between(0, 255), F.lit(False)))
    return F.when(whole, F.unhex(F.array_join(digits, "")))


VALUES = _Values(bytes_from=_bytes)


@dataclass(frozen=True, slots=True)
class Materialize:
    """The messages of one subscription."""

    kind: Kind = Kind.DIFF

    meaning = "mz_timestamp"
    timed = True
    units_a_second = 1_000

    def tells(self, text: Column) -> Column:
        """Whether the text of a message may show columns."""
        return F.coalesce(F.get_json_object(text, f"$.{PROGRESSED}") != "true", F.lit(True))

    def version(self, value: Column) -> Column:
        """A number that tells apart messages with other columns."""
        return shape(value)

    def learn(self, samples: Sequence[Sample], known: SourceTable | None) -> SourceTable:
        """Columns that messages show, on top of what is known."""
        rows = [(sample, row) for sample in samples if (row := _row(sample)) is not None]
        found = known
        if rows:
            found = merge(known, self._shown([row for _, row in rows]), rows[0][0].place)
        if found is None:
            raise SchemaMismatch(
                f"{_where(samples)}: no message shows the columns of the table, and nobody declared them",
                hint="Name them: tables='id long primary key, …'.",
            )
        if found.guessed and (known is None or found.guessed != known.guessed):
            warn_of_guesses(found, _where(samples))
        return found

    def _shown(self, rows: list[dict[str, object]]) -> SourceTable:
        if self.kind is not Kind.DEBEZIUM:
            return infer(rows)
        key = [name for name in rows[0] if not name.startswith((BEFORE, AFTER))]
        return infer(
            [
                {
                    name.removeprefix(AFTER): value
                    for name, value in row.items()
                    if not name.startswith(BEFORE)
                }
                for row in rows
            ],
            key,
        )

    def kernel(self, topic: str, table: SourceTable, *, checks_names: bool) -> Kernel | None:  # noqa: ARG002
        """What reads plain messages in Arrow."""
        refuse_names(self._names(table), _META)
        plan = table_plan(table)
        if plan.json is None or (self.kind is not Kind.DIFF and not table.key):
            return None
        before = (
            frozenset(BEFORE + name for name in table.names) if self.kind is Kind.DEBEZIUM else frozenset()
        )
        return Subscription(plan, self._names(table), _STATES[self.kind], before, checks_names)

    def decode(self, raw: DataFrame, table: SourceTable) -> DataFrame:
        """The changes and marks in a frame of messages."""
        refuse_names(self._names(table), _META)
        if self.kind is not Kind.DIFF and not table.key:
            raise SchemaMismatch(
                f"ENVELOPE {self.kind.upper()} has a key, and nobody declared which columns it is",
                hint="Name them: tables='id long primary key, …'.",
            )
        value = F.col("value").cast("string")
        told = raw.where(F.col("value").isNotNull()).select(
            *placed_by(raw), value.alias("value"), parse(value, self._schema(table)).alias("m")
        )
        said = _Said(self.kind, table)
        told = said.exact.read_again(told, said.needs_care(), self._schema(table), said.text)
        # In steps, so that what is used twice is computed once; columns under names that no column has. What
        # is wrong with a corrupt message is asked last, because that cannot be compiled with the rest.
        read = told.select(
            *(said.value(one).alias(said.name(one)) for one in table.columns),
            *said.texts(),
            said.op().alias(OP),
            said.time().alias(TIME),
            said.is_mark().alias(_IS_MARK),
            "value",
            *placed_by(raw),
        ).withColumn(ERROR, said.error())
        is_good, is_mark = F.col(ERROR).isNull(), F.col(_IS_MARK)
        order = [F.when(F.col(OP) > 0, 1).otherwise(0).cast(_LONG).alias(ORDER)]
        return read.select(
            *(F.col(said.name(one)).alias(one.name) for one in table.columns),
            F.when(is_good & ~is_mark, F.col(OP)).alias(OP),
            F.when(~is_mark, F.col(TIME)).alias(TIME),
            *(order if self.kind is Kind.DIFF else ()),
            F.when(is_good & is_mark, F.col(TIME)).alias(MARK),
            F.col("partition").alias(PARTITION),
            *errors(F.col(ERROR), place_of(raw), F.col("value")),
        )

    def _schema(self, table: SourceTable) -> T.StructType:
        word = T.StructField(DIFF if self.kind is Kind.DIFF else STATE, _TEXT)
        meta = [T.StructField(TIMESTAMP, _TEXT), T.StructField(PROGRESSED, T.BooleanType()), word]
        return T.StructType([*meta, *VALUES.schema(self._spelt(table)).fields])

    def _names(self, table: SourceTable) -> tuple[str, ...]:
        """The names that columns have in messages."""
        return tuple(spelt(self.kind, name, table) for name in table.names)

    def _spelt(self, table: SourceTable) -> list[SourceColumn]:
        """The columns under those names."""
        names = self._names(table)
        return [replace(one, name=name) for one, name in zip(table.columns, names, strict=True)]


def spelt(kind: Kind, name: str, table: SourceTable) -> str:
    """The name of a column in messages."""
    return AFTER + name if kind is Kind.DEBEZIUM and name not in table.key else name


class _Said:
    """What a parsed message says, as Spark expressions: over `m` first, then over what was made of it."""

    def __init__(self, kind: Kind, table: SourceTable) -> None:
        self._kind, self._table = kind, table
        self._message = F.col("m")
        self.exact = Exact.of(VALUES, table.columns)
        self._word = DIFF if kind is Kind.DIFF else STATE

    def name(self, one: SourceColumn, what: str = "column") -> str:
        """What a column is called until all is said."""
        return f"{RESERVED}{what}_{self._table.names.index(one.name)}"

    def texts(self) -> list[Column]:
        """What is needed of a message to say what is wrong with it, beside what was made of it."""
        unread = self._message.isNull() | self._message[CORRUPT].isNotNull()
        found = [unread.alias(CORRUPT), *(self._message[one].alias(RESERVED + one) for one in self._meta)]
        found.append((F.col(TEXTS).isNotNull() & F.col(TEXTS)["of"].isNull()).alias(_UNMARKED))
        found += [self._parsed(one.name).alias(self.name(one, "text")) for one in self._converted]
        return found

    @property
    def _meta(self) -> tuple[str, str]:
        return TIMESTAMP, self._word

    @property
    def _converted(self) -> list[SourceColumn]:
        """Columns that are read as something else than they are."""
        return [one for one in self._table.columns if VALUES.is_converted(one.type)]

    def _spelt(self, name: str) -> str:
        return spelt(self._kind, name, self._table)

    def _parsed(self, name: str) -> Column:
        return self._message[self._spelt(name)]

    def needs_care(self) -> Column:
        """Whether a message is read again."""
        return self.exact.is_needed(F.col("value"), self._parsed, self._spelt)

    def text(self, texts: Column, name: str) -> Column:
        """A column in what was read again."""
        return texts[marked_name(self._spelt(name))]

    def value(self, one: SourceColumn) -> Column:
        return self.exact.chosen(one, VALUES.converted(one, self._parsed(one.name)))

    def op(self) -> Column:
        """A weight, or a word of ours."""
        word = self._message[self._word]
        return word.try_cast(_LONG) if self._kind is Kind.DIFF else word

    def time(self) -> Column:
        return self._message[TIMESTAMP].try_cast(_LONG)

    def is_mark(self) -> Column:
        return F.coalesce(self._message[PROGRESSED], F.lit(False))

    def error(self) -> Column:
        """What is wrong with the message; null where nothing is. Over the columns that were made of it."""
        written, time = F.col(RESERVED + TIMESTAMP), F.col(TIME)
        return F.coalesce(
            F.when(F.col(CORRUPT), UNFIT),
            F.when(F.col(_UNMARKED), UNREADABLE),
            F.when(written.isNull(), f"there is no {TIMESTAMP}"),
            F.when(time.isNull() | (time < 0), self._none_of(TIMESTAMP, written)),
            F.when(~F.col(_IS_MARK), F.coalesce(self._wrong_word(), *self._misread())),
        )

    def _wrong_word(self) -> Column:
        word, op = F.col(RESERVED + self._word), F.col(OP)
        if self._kind is Kind.DIFF:
            wrong = op.isNull() | (op == 0)
            return F.when(word.isNull(), f"there is no {DIFF}").when(wrong, self._none_of(DIFF, word))
        known = _STATES[self._kind]
        return (
            F.when(word.isNull(), f"there is no {STATE}")
            .when(word == "key_violation", "Materialize has several rows under this key")
            .when(~word.isin(*known), self._none_of(STATE, word))
        )

    def _misread(self) -> list[Column]:
        """Values that were read as another type, and are none of their own."""
        found = []
        for one in self._converted:
            parsed, value = F.col(self.name(one, "text")), F.col(self.name(one))
            what = F.concat(F.lit(": "), parsed) if VALUES.is_text(one.type) else F.lit("")
            said = F.concat(F.lit(f"column {one.name!r}"), what, F.lit(f" is no {one.type}"))
            found.append(F.when(is_lost(parsed, value), said))
        return found

    @staticmethod
    def _none_of(name: str, text: Column) -> Column:
        return F.concat(F.left(text, F.lit(80)), F.lit(f" is no {name}"))


def _row(sample: Sample) -> dict[str, object] | None:
    """The columns of a message that is a row; what is no JSON is found when it is decoded."""
    try:
        message = json.loads(sample.value or b"null")
    except ValueError:
        return None
    if not isinstance(message, dict) or message.get(PROGRESSED) is True:
        return None
    return {name: value for name, value in message.items() if name not in _META} or None


def _where(samples: Sequence[Sample]) -> str:
    return f"topic {samples[0].topic}" if samples else "the feed"
