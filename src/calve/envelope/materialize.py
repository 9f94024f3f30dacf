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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceColumn, SourceTable
from calve.config.infer import infer, warn_of_guesses
from calve.config.merge import merge
from calve.envelope.base import Sample
from calve.envelope.messages import errors, place_of, placed_by, quoted
from calve.envelope.types import spark_type
from calve.envelope.values import CORRUPT, Values, hexadecimal, parse, unfit
from calve.model.columns import ERROR, MARK, OP, ORDER, PARTITION, TIME
from calve.model.errors import SchemaMismatch

TIMESTAMP, PROGRESSED, DIFF, STATE = "mz_timestamp", "mz_progressed", "mz_diff", "mz_state"
BEFORE, AFTER = "before_", "after_"
_META = (TIMESTAMP, PROGRESSED, DIFF, STATE)
_TEXT = T.StringType()
_LONG = T.LongType()
_INSTANTS = ("timestamp", "timestamptz")


class Kind(StrEnum):
    """The envelope of a SUBSCRIBE."""

    DIFF = "diff"
    UPSERT = "upsert"
    DEBEZIUM = "debezium"


@dataclass(frozen=True, slots=True)
class _Values(Values):
    """Times may be milliseconds since 1970, as Materialize's own JSON has them."""

    def is_text(self, kind: str) -> bool:
        return kind in _INSTANTS or Values.is_text(self, kind)

    def from_text(self, kind: str, text: Column) -> Column:
        if kind not in _INSTANTS:
            return Values.from_text(self, kind, text)
        instant = F.timestamp_millis(text.try_cast(_LONG))
        if kind == "timestamp":
            instant = F.convert_timezone(None, F.lit("UTC"), instant.cast(T.TimestampNTZType()))
        return F.when(text.rlike(r"^-?\d+$"), instant).otherwise(text.try_cast(spark_type(kind)))


def _bytes(text: Column) -> Column:
    """`\\x6869`, or the numbers of the bytes: `[104,105]`."""
    digits = F.transform(
        F.from_json(text, T.ArrayType(T.ShortType())), lambda one: F.lpad(F.hex(one), 2, "0")
    )
    return F.when(text.startswith("["), F.unhex(F.array_join(digits, ""))).otherwise(hexadecimal(text))


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
        return ~text.rlike(rf'"{PROGRESSED}"\s*:\s*true')

    def learn(self, samples: Sequence[Sample], known: SourceTable | None) -> SourceTable:
        """Columns that messages show, on top of what is known."""
        found = known
        for sample in samples:
            row = _row(sample)
            if row is not None:
                found = merge(found, self._shown(row), sample.place)
        if found is None:
            raise SchemaMismatch(
                f"{_where(samples)}: no message shows the columns of the table, and nobody declared them",
                hint="Name them: tables='id long primary key, …'.",
            )
        if found.guessed and (known is None or found.guessed != known.guessed):
            warn_of_guesses(found, _where(samples))
        return found

    def _shown(self, row: Mapping[str, object]) -> SourceTable:
        # A null guesses text: a column that is left out would lose the values of all other messages.
        values = {name: "" if value is None else value for name, value in row.items()}
        if self.kind is not Kind.DEBEZIUM:
            return infer([values])
        key = [name for name in values if not name.startswith((BEFORE, AFTER))]
        after = {name.removeprefix(AFTER): value for name, value in values.items() if name.startswith(AFTER)}
        return infer([{**{name: values[name] for name in key}, **after}], key)

    def decode(self, raw: DataFrame, table: SourceTable) -> DataFrame:
        """The changes and marks in a frame of messages."""
        if self.kind is not Kind.DIFF and not table.key:
            raise SchemaMismatch(
                f"ENVELOPE {self.kind.upper()} has a key, and nobody declared which columns it is",
                hint="Name them: tables='id long primary key, …'.",
            )
        value = F.col("value").cast("string")
        told = raw.where(F.col("value").isNotNull()).withColumns(
            {"value": value, "m": parse(value, self._schema(table))}
        )
        said = _Said(self.kind, table)
        kept = [*placed_by(raw), "value"]
        # In steps: what is used twice is computed once.
        read = told.select(
            *(said.column(one).alias(one.name) for one in table.columns),
            said.op().alias(OP),
            F.when(~said.is_mark, said.time).alias(TIME),
            F.when(said.is_mark, said.time).alias(MARK),
            F.col("partition").alias(PARTITION),
            said.error().alias(ERROR),
            *kept,
        )
        bad, is_change = F.col(ERROR).isNotNull(), F.col(MARK).isNull()
        order = [F.when(F.col(OP) > 0, 1).otherwise(0).cast(_LONG).alias(ORDER)]
        return read.select(
            *(F.col(quoted(name)) for name in table.names),
            F.when(~bad & is_change, F.col(OP)).alias(OP),
            TIME,
            *(order if self.kind is Kind.DIFF else ()),
            F.when(~bad, F.col(MARK)).alias(MARK),
            PARTITION,
            *errors(F.col(ERROR), place_of(raw), F.col("value")),
        )

    def _schema(self, table: SourceTable) -> T.StructType:
        word = T.StructField(DIFF if self.kind is Kind.DIFF else STATE, _TEXT)
        meta = [T.StructField(TIMESTAMP, _TEXT), T.StructField(PROGRESSED, T.BooleanType()), word]
        return T.StructType([*meta, *VALUES.schema(self._spelt(table)).fields])

    def _spelt(self, table: SourceTable) -> list[SourceColumn]:
        """The columns under the names that they have in messages."""
        return [SourceColumn(spelt(self.kind, one.name, table), one.type) for one in table.columns]


def spelt(kind: Kind, name: str, table: SourceTable) -> str:
    """The name of a column in messages."""
    return AFTER + name if kind is Kind.DEBEZIUM and name not in table.key else name


class _Said:
    """What a parsed message says, as Spark expressions over `m` and `value`."""

    def __init__(self, kind: Kind, table: SourceTable) -> None:
        self._kind, self._table = kind, table
        self._message = F.col("m")
        self._written = self._message[TIMESTAMP]
        self.time = self._written.try_cast(_LONG)
        self.is_mark = F.coalesce(self._message[PROGRESSED], F.lit(False))
        self._word = self._message[DIFF if kind is Kind.DIFF else STATE]

    def column(self, one: SourceColumn) -> Column:
        return VALUES.converted(one.type, self._message[spelt(self._kind, one.name, self._table)])

    def op(self) -> Column:
        """A weight, or a word of ours."""
        return self._word.try_cast(_LONG) if self._kind is Kind.DIFF else self._word

    def error(self) -> Column:
        """What is wrong with the message; null where nothing is."""
        unread = self._message.isNull() | self._message[CORRUPT].isNotNull()
        columns = [
            SourceColumn(spelt(self._kind, one.name, self._table), one.type) for one in self._table.columns
        ]
        names = {one.name: spelt(self._kind, one.name, self._table) for one in self._table.columns}
        return F.coalesce(
            F.when(unread, unfit(F.col("value"), (), VALUES, columns)),
            F.when(self._written.isNull(), f"there is no {TIMESTAMP}"),
            F.when(self.time.isNull() | (self.time < 0), self._none_of(TIMESTAMP, self._written)),
            F.when(~self.is_mark, self._wrong_word()),
            F.when(~self.is_mark, VALUES.misread(self._table, lambda name: self._message[names[name]])),
        )

    def _wrong_word(self) -> Column:
        if self._kind is Kind.DIFF:
            diff = self.op()
            return F.when(self._word.isNull(), f"there is no {DIFF}").when(
                diff.isNull() | (diff == 0), self._none_of(DIFF, self._word)
            )
        known = ("insert", "upsert", "delete") if self._kind is Kind.DEBEZIUM else ("upsert", "delete")
        return (
            F.when(self._word.isNull(), f"there is no {STATE}")
            .when(self._word == "key_violation", "Materialize has several rows under this key")
            .when(~self._word.isin(*known), self._none_of(STATE, self._word))
        )

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
