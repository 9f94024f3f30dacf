"""Values of JSON messages as columns of a table: parsed by Spark's `from_json`, some from their text.

    message ──from_json──▶ parsed values, texts ──converted──▶ columns
                 │                              └─ null where one is none of its type ─▶ ERROR with the column
                 └─ a value that does not fit ──▶ the corrupt record ─▶ ERROR with the columns

What Spark has no exact type for comes as text and is converted: uuids, times of day, bytes. Everything else
is parsed as what it is, in one pass over the message.

Guarantee: a value that has no exact place in its column becomes null here, though it was read, and with it
the row becomes an error; in lists, maps and structs, too. What `from_json` itself changes (numbers inside of
JSON, decimals with more digits than their column, numbers beyond all doubles) is read again by `exact.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceColumn
from calve.config.types import Decimal, List, Map, Plain, Struct, Type, parse_type
from calve.envelope.inside import holds
from calve.envelope.types import spark_type

CORRUPT = "__calve_corrupt"
_OPTIONS = {"columnNameOfCorruptRecord": CORRUPT}
_INSTANTS = ("timestamp", "timestamptz")
_TEXTS = ("uuid", "time", "binary")
_INSIDE = (*_TEXTS, "date", *_INSTANTS)
"""Read as text inside of others. By itself a date is read as one, and again where its text is another."""
_FLOATS = (Plain("float"), Plain("double"))
_STAY_TEXT = ("uuid", "time")
"""Inside of lists, maps and structs."""
_DATE_CHARACTERS = 10
_END = 2_147_483_647
_MICROSECONDS_A_DAY = 86_400_000_000
_YEARS = {
    "date": ("0001-01-01", "9999-12-31"),
    "timestamp": ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"),
    "timestamptz": ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
}
_JSON_NULL = '{"__crdb_json_null__":true}'


@dataclass(frozen=True, slots=True)
class Values:
    """How the values of a source are spelt in JSON."""

    bytes_from: Callable[[Column], Column]
    """Bytes from their text."""

    def is_text(self, kind: str) -> bool:
        """Whether values of a type are read as text, and converted."""
        return kind in _TEXTS

    def parsed_type(self, kind: str) -> T.DataType:
        """What `from_json` reads a column as."""
        if self.is_text(kind):
            return T.StringType()
        return spark_type(kind) if kind in _YEARS else _parsed(parse_type(kind))

    def schema(self, columns: Sequence[SourceColumn]) -> T.StructType:
        return T.StructType([T.StructField(one.name, self.parsed_type(one.type)) for one in columns])

    def converted(self, one: SourceColumn, value: Column) -> Column:
        """A column from what `from_json` read it as; null where that is none of its type."""
        kind = one.type
        if self.is_text(kind):
            return self.from_text(kind, value)
        if kind == "string":
            return document(value) if one.is_json else value
        if kind in _YEARS:
            return within_years(value, kind)
        target = parse_type(kind)
        return value if _is_as_read(target) else made(target, value, Inside(self._leaf))

    def from_text(self, kind: str, text: Column) -> Column:
        """A column from its text, as keys have it; null where the text is none of its type."""
        match kind:
            case "uuid":
                digits = F.replace(text, F.lit("-"), F.lit(""))
                return F.when(F.length(digits) == 32, F.unhex(digits))
            case "time":
                return time_of_day(text)
            case "date":
                return date(text)
            case "binary":
                return self.bytes_from(text)
            case "string":
                return text
        match parse_type(kind):
            case Decimal() as target:
                return decimal(text, target)
            case Plain(name) if name in _INSTANTS:
                return instant(text, name)
            case one if is_float(one):
                return real(text, kind)
        return text.try_cast(spark_type(kind))

    def is_converted(self, kind: str) -> bool:
        """Whether a column is read as something else than it is, or again."""
        target = parse_type(kind)
        return self.is_text(kind) or "decimal" in kind or holds(target, is_float) or not _is_as_read(target)

    def _leaf(self, kind: Type, value: Column) -> Column:
        """A value that has none inside, from what was read; null where that is none of its type."""
        match kind:
            case Plain("date"):
                return date(value)
            case Plain("binary"):
                return self.bytes_from(value)
            case Plain(name) if name in _INSTANTS:
                return self.from_text(name, value)
        return value


@dataclass(frozen=True, slots=True)
class Inside:
    """How values inside of lists, maps and structs were read."""

    leaf: Callable[[Type, Column], Column]
    """A value that has none inside, from what was read; null where that is none of its type."""
    name: Callable[[str], str] = str
    """What a field of a struct was called."""
    key: Callable[[Column], Column] | None = None
    """A key of a map, where it is not as it was read."""


def made(kind: Type, value: Column, inside: Inside) -> Column:
    """A value from what was read, null where anything inside of it is none of its type."""

    def lost(kind: Type, one: Column) -> Column:
        return is_lost(one, made(kind, one, inside))

    match kind:
        case List(element):
            whole = ~F.exists(value, lambda one: lost(element, one))
            return F.when(whole, F.transform(value, lambda one: made(element, one, inside)))
        case Map(_, inner):
            whole = ~F.exists(F.map_values(value), lambda one: lost(inner, one))
            pairs = F.transform_values(value, lambda _, one: made(inner, one, inside))
            if (key := inside.key) is not None:
                pairs = F.transform_keys(pairs, lambda name, _: key(name))
            return F.when(whole, pairs)
        case Struct(fields):
            parts = [(kind, name, value.getField(inside.name(name))) for name, kind in fields]
            wrong = reduce(Column.__or__, (lost(kind, one) for kind, _, one in parts))
            columns = [made(kind, one, inside).alias(name) for kind, name, one in parts]
            return F.when(value.isNotNull() & ~wrong, F.struct(*columns))
    return inside.leaf(kind, value)


def document(text: Column) -> Column:
    """A column of JSON: CockroachDB tells a null of JSON from one of SQL, where it is asked to."""
    return F.when(text == _JSON_NULL, "null").otherwise(text)


def is_lost(read: Column, made: Column) -> Column:
    """Whether what was read is none of its type: another text, or digits that would be lost."""
    return read.isNotNull() & made.isNull()


def parse(text: Column, schema: T.StructType) -> Column:
    """A message as this struct; what does not fit it is in the corrupt record, whole."""
    return F.from_json(text, T.StructType([*schema.fields, T.StructField(CORRUPT, T.StringType())]), _OPTIONS)


def _parsed(kind: Type) -> T.DataType:
    match kind:
        case List(element):
            return T.ArrayType(_parsed(element))
        case Map(key, value):
            return T.MapType(spark_type(str(key)), _parsed(value))
        case Struct(fields):
            return T.StructType([T.StructField(name, _parsed(inner)) for name, inner in fields])
        case Plain(name) if name in _INSIDE:
            return T.StringType()
    return spark_type(str(kind))


def _is_as_read(kind: Type) -> bool:
    """Whether a value is what it was read as, whatever it is."""
    match kind:
        case List(element):
            return _is_as_read(element)
        case Map(_, value):
            return _is_as_read(value)
        case Struct(fields):
            return all(_is_as_read(inner) for _, inner in fields)
        case Plain(name):
            return name in _STAY_TEXT or name not in _INSIDE
    return True


def is_float(kind: Type) -> bool:
    return kind in _FLOATS


def infinite(kind: Type, read: Column) -> Column | None:
    """Whether a float is infinite; `None` for others. Numbers that are too large come out so."""
    return F.abs(read) == F.lit(math.inf) if is_float(kind) else None


def real(text: Column, kind: str) -> Column:
    """A float from its text; null for a number that is beyond all of them. `Infinity` is what it is; from
    where it stood without quotes it comes with them."""
    value = F.btrim(text, F.lit('"')).try_cast(spark_type(kind))
    return F.when((F.abs(value) != F.lit(math.inf)) | ~text.rlike("[0-9]"), value)


def decimal(text: Column, target: Decimal) -> Column:
    """A decimal from its text, `1.50` or `4E+2`; null where a digit would be lost."""
    value = text.try_cast(T.DecimalType(target.precision, target.scale))
    # Zeros at the end are no digits, before the point either: 120e-3.
    whole, part = (F.regexp_extract(text, r"^[-+]?([0-9]*)\.?([0-9]*)", group) for group in (1, 2))
    behind = F.length(F.rtrim(F.concat(whole, part), F.lit("0"))) - F.length(whole)
    power = F.coalesce(F.regexp_extract(text, r"[eE]([-+]?[0-9]+)", 1).try_cast("int"), F.lit(0))
    is_zero = ~text.rlike("^[^eE]*[1-9]")
    return F.when(is_zero | (behind - power <= target.scale), value)


def date(text: Column) -> Column:
    """A date of `2026-11-16`; null where the text says more: Spark passes over ` BC`."""
    return within_years(F.when(F.length(text) == _DATE_CHARACTERS, text.try_cast("date")), "date")


def instant(text: Column, kind: str) -> Column:
    """A moment of `2026-11-16T12:34:56.789`; null where the text does not begin with a whole date, and where
    it has a zone that the column has not, which Spark would pass over."""
    fits = is_dated(text)
    if kind == "timestamp":
        fits = fits & ~F.substring(text, _DATE_CHARACTERS + 2, _END).rlike("[-+A-Za-z]")
    return within_years(F.when(fits, text.try_cast(spark_type(kind))), kind)


def is_dated(text: Column) -> Column:
    """Whether a text begins as `2026-11-16` does. Of others Spark reads some, and makes up the rest: the
    first of January for `2026`, today for `12:34`."""
    return (F.substring(text, 5, 1) == "-") & (F.substring(text, 8, 1) == "-")


def within_years(value: Column, kind: str) -> Column:
    """A date or a time of the years 1 to 9999: others have no place in most engines."""
    first, last = (F.lit(text).cast(spark_type(kind)) for text in _YEARS[kind])
    return F.when((value >= first) & (value <= last), value)


def hexadecimal(text: Column) -> Column:
    """Bytes as PostgreSQL and CockroachDB print them: `\\x6869`."""
    is_whole = text.startswith("\\x") & (F.length(text) % 2 == 0)
    return F.when(is_whole, F.unhex(F.substring(text, 3, _END)))


def time_of_day(text: Column) -> Column:
    """Microseconds of the day, of `12:34:56.789`; null where the text is none, and for 24:00, which has no
    place in Iceberg."""
    stamp = F.try_to_timestamp(F.concat(F.lit("1970-01-01T"), text, F.lit("Z")))
    micros = F.unix_micros(stamp)
    return F.when((micros >= 0) & (micros < _MICROSECONDS_A_DAY), micros)
