"""Values of JSON messages as columns of a table: parsed by Spark's `from_json`, some from their text.

    message ──from_json──▶ parsed values, texts ──converted──▶ columns
                 │                              └─ a text that is none of its type ─▶ ERROR with the column
                 └─ a value that does not fit ──▶ the corrupt record ─▶ ERROR with the columns

What Spark has no exact type for comes as text and is converted: uuids, times of day, bytes. Everything else
is parsed as what it is, in one pass over the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceColumn
from calve.envelope.types import spark_type

CORRUPT = "__calve_corrupt"
_OPTIONS = {"columnNameOfCorruptRecord": CORRUPT}
_TEXTS = ("uuid", "time", "binary")
_MORE_DIGITS, _DECIMAL_DIGITS_MAX = 4, 38
_MICROSECONDS_A_DAY = 86_400_000_000
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
        if kind == "list<binary>":
            return T.ArrayType(T.StringType())
        read = spark_type(kind)
        # With more digits than the column has: what would be rounded is seen.
        return _wide(read) if isinstance(read, T.DecimalType) else read

    def schema(self, columns: Sequence[SourceColumn]) -> T.StructType:
        return T.StructType([T.StructField(one.name, self.parsed_type(one.type)) for one in columns])

    def converted(self, kind: str, value: Column) -> Column:
        """A column from what `from_json` read it as; null where a text is none of its type."""
        if self.is_text(kind):
            return self.from_text(kind, value)
        if kind.startswith("decimal"):
            return value.cast(spark_type(kind))
        match kind:
            case "list<binary>":
                return F.transform(value, self.bytes_from)
            case "string":
                # How CockroachDB tells a null of JSON from one of SQL, where it is asked to.
                return F.when(value == _JSON_NULL, "null").otherwise(value)
        return value

    def from_text(self, kind: str, text: Column) -> Column:
        """A column from its text, as keys have it; null where the text is none of its type."""
        match kind:
            case "uuid":
                digits = F.replace(text, F.lit("-"), F.lit(""))
                return F.when(F.length(digits) == 32, F.unhex(digits))
            case "time":
                return time_of_day(text)
            case "binary":
                return self.bytes_from(text)
            case "string":
                return text
        return text.try_cast(spark_type(kind))

    def is_converted(self, kind: str) -> bool:
        """Whether a column is read as something else than it is."""
        return self.is_text(kind) or kind.startswith("decimal")

    def differs(self, kind: str, read: Column, made: Column) -> Column:
        """Whether what was read is none of its type: another text, or digits that would be lost."""
        return read != made if kind.startswith("decimal") else read.isNotNull() & made.isNull()


def parse(text: Column, schema: T.StructType) -> Column:
    """A message as this struct; what does not fit it is in the corrupt record, whole."""
    return F.from_json(text, T.StructType([*schema.fields, T.StructField(CORRUPT, T.StringType())]), _OPTIONS)


def _wide(kind: T.DecimalType) -> T.DecimalType:
    more = min(_MORE_DIGITS, _DECIMAL_DIGITS_MAX - kind.precision)
    return T.DecimalType(kind.precision + more, kind.scale + more)


def hexadecimal(text: Column) -> Column:
    """Bytes as PostgreSQL and CockroachDB print them: `\\x6869`."""
    return F.when(text.startswith("\\x"), F.unhex(F.substring(text, 3, 2_147_483_647)))


def time_of_day(text: Column) -> Column:
    """Microseconds of the day, of `12:34:56.789`; null where the text is none, and for 24:00, which has no
    place in Iceberg."""
    stamp = F.try_to_timestamp(F.concat(F.lit("1970-01-01T"), text, F.lit("Z")))
    micros = F.unix_micros(stamp)
    return F.when((micros >= 0) & (micros < _MICROSECONDS_A_DAY), micros)
