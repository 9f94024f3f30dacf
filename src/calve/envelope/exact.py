"""Exact: what `from_json` would change, read again from its own text. Only in messages that may hold such.

    {"after": {"j": {"p": 1.10}, "d": 1.005}}
       │ marked: texts and numbers are texts, a mark (^) behind the one and before the other
       ▼
    {"after^": {"j^": {"p^": "^1.10"}, "d^": "^1.005"}} ──from_json, all as text──▶ without marks ──▶ columns

`from_json` copies the numbers inside of JSON that is kept as text, and those of keys, by way of doubles (its
exact way, spark.sql.json.enableExactStringParsing, is for files alone). It rounds a decimal to the digits of
its type, of which there are 38 at most. A number that no double holds becomes infinite. And a text that is
JSON looks like the JSON itself.

Guarantee: a number is the one that the message holds, digit by digit, or an error of the row. Whether a
message is read again is decided by signs that every such value has: a number that went through a double has a
point, or is infinite; a decimal that was rounded is spelt with more digits behind its point than its column
has, or with a negative power. A float is infinite. A date that Spark reads from the beginning of a text is
spelt longer, and a moment of which it makes up a part does not begin with a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceColumn
from calve.config.types import Decimal, Plain, Type, parse_type
from calve.envelope.inside import has, holds
from calve.envelope.messages import let, once
from calve.envelope.values import Inside, Values, document, infinite, is_float, made
from calve.model.columns import RESERVED

MARK = "\ufdd0"
"""Unicode keeps it for use inside of programs: a message that holds it is refused where it is read again."""

# All quantifiers are possessive, which Java runs as loops: others end its stack in a long message. \G: a
# match begins where the last one ended, so that no number inside of a text is met.
_TOKEN = r'\G([^"0-9-]*+)(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"|(-?[0-9][-+0-9.eE]*+))'
_MARKED = f'$1"$2{MARK}$3"'
_MARKS = rf'"{MARK}([-+0-9.eE]++)"|{MARK}'
_THROUGH_DOUBLE = r'^(?s:-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?$|"-?Infinity"$|[{\[].*?(?:[0-9]\.[0-9]|"-?Infinity"))'
_INSTANTS = (Plain("timestamp"), Plain("timestamptz"))
_END = 2_147_483_647
TEXTS, FOUND = RESERVED + "texts", RESERVED + "found"
UNREADABLE = "the message holds U+FDD0, which is for use inside of programs, beside numbers that need care"


def marked(text: Column) -> Column:
    """JSON with marks; null where there is a mark in it already, also one that is escaped."""
    taken = text.contains(MARK) | F.lower(text).contains(r"\ufdd0")
    return F.when(~taken, F.regexp_replace(text, _TOKEN, _MARKED))


def marked_name(name: str) -> str:
    """What a field is called in JSON with marks."""
    return name + MARK


def marked_type(kind: T.DataType) -> T.DataType:
    """The same, where all that has nothing inside is text, and names have their mark."""
    match kind:
        case T.StructType():
            return T.StructType(
                [T.StructField(marked_name(one.name), marked_type(one.dataType)) for one in kind]
            )
        case T.ArrayType():
            return T.ArrayType(marked_type(kind.elementType))
        case T.MapType():
            return T.MapType(T.StringType(), marked_type(kind.valueType))
    return T.StringType()


def plain(text: Column) -> Column:
    """A value without its marks: a text without quotes, everything else as JSON."""
    rest = F.regexp_replace(text, _MARKS, "$1")
    return F.when(text.endswith(MARK), _text(text)).when(text.startswith(MARK), _number(text)).otherwise(rest)


def as_json(text: Column) -> Column:
    """A value without its marks, as JSON: a text has quotes."""
    quoted = let(F.to_json(F.array(_text(text))), lambda one: F.substring(one, F.lit(2), F.length(one) - 2))
    return F.when(text.endswith(MARK), quoted).otherwise(plain(text))


def _text(text: Column) -> Column:
    return F.substring(text, F.lit(1), F.length(text) - 1)


def _number(text: Column) -> Column:
    return F.substring(text, 2, _END)


@dataclass(frozen=True, slots=True)
class Exact:
    """The columns of a table that are read again, from messages that need it."""

    values: Values
    columns: Sequence[SourceColumn]

    @classmethod
    def of(cls, values: Values, columns: Sequence[SourceColumn]) -> Exact:
        return cls(values, [one for one in columns if _changes(one) and not values.is_text(one.type)])

    def is_needed(self, message: Column, read: Callable[[str], Column], name: Callable[[str], str]) -> Column:
        """Whether a message is read again, by its text and what was read of it."""
        signs = [self._sign(one, name(one.name), message, read(one.name)) for one in self.columns]
        return F.coalesce(reduce(Column.__or__, signs, F.lit(False)), F.lit(False))

    def read_again(
        self, frame: DataFrame, needed: Column, schema: T.StructType, text: Callable[[Column, str], Column]
    ) -> DataFrame:
        """With a struct of columns from the texts of messages (`value`) that need it; `text` finds them."""
        kind = marked_type(schema)
        texts = F.struct(F.from_json(marked(F.col("value")), kind).alias("of"))
        frame = frame.withColumn(TEXTS, once(F.when(needed, texts)))
        if not self.columns:
            return frame

        def found(texts: Column) -> Column:
            return F.struct(*(self._value(one, text(texts, one.name)) for one in self.columns))

        # Not to be compiled: it is long, and rarely needed.
        return frame.withColumn(FOUND, once(F.when(F.col(TEXTS).isNotNull(), let(F.col(TEXTS)["of"], found))))

    def chosen(self, one: SourceColumn, read: Column) -> Column:
        """A column as it was read first, or again."""
        if one not in self.columns:
            return read
        found = F.col(FOUND)[f"c{self.columns.index(one)}"]
        return F.when(F.col(TEXTS).isNotNull(), found).otherwise(read)

    def _value(self, one: SourceColumn, text: Column) -> Column:
        """A column from what was read of a message with marks."""
        if one.is_json:
            value = document(as_json(text))
        else:
            value = made(parse_type(one.type), text, Inside(self._leaf, marked_name, plain))
        return value.alias(f"c{self.columns.index(one)}")

    def _leaf(self, kind: Type, text: Column) -> Column:
        # Inside of others a uuid and a time stay text; by themselves they are not read again.
        if kind in (Plain("uuid"), Plain("time")):
            return plain(text)
        return self.values.from_text(str(kind), plain(text))

    def _sign(self, one: SourceColumn, name: str, message: Column, read: Column) -> Column:
        kind = parse_type(one.type)
        if kind == Plain("string"):
            sign = has(kind, read, _is_changed)
            return sign | _spelt(name, '"', message, read) if one.is_json else sign
        if kind == Plain("date"):
            return _spelt(name, '"(?![0-9-]{10}")', message, read)
        if kind in _INSTANTS:
            return _spelt(name, '"(?![0-9]{4}-[0-9]{2}-[0-9]{2})', message, read)
        if isinstance(kind, Decimal):
            long = rf"[0-9]*\.[0-9]{{{kind.scale + 1}}}|[0-9.]+[eE]-"
            return _spelt(name, f'"?[-+]?(?:{long})', message, read)
        if holds(kind, lambda inner: isinstance(inner, Decimal)):
            return read.isNotNull()
        return has(kind, read, _is_changed)


def _spelt(name: str, pattern: str, message: Column, read: Column) -> Column:
    """Whether the value of a column is spelt like this. That a value of the same name stands elsewhere in the
    message does no harm. Java finds a pattern that begins with a text by that text, in no time."""
    if not re.fullmatch("[A-Za-z0-9_]+", name):
        return read.isNotNull()  # the name may be written in several ways
    return message.rlike(rf'"{name}"\s*:\s*{pattern}')


def _is_changed(kind: Type, read: Column) -> Column | None:
    """Whether a number went through a double: one inside of JSON, or one that is larger than all of them."""
    if kind != Plain("string"):
        return infinite(kind, read)
    # First what costs little: digits and quotes sort before the colon.
    may_be_json = (read < ":") | read.startswith("{") | read.startswith("[")
    return may_be_json & (read.contains(".") | read.contains("Infinity")) & read.rlike(_THROUGH_DOUBLE)


def _changes(one: SourceColumn) -> bool:
    """Whether a value of a column may not be what was read of it."""
    kind = parse_type(one.type)
    return kind in (Plain("date"), *_INSTANTS) or holds(
        kind, lambda inner: isinstance(inner, Decimal) or inner == Plain("string") or is_float(inner)
    )
