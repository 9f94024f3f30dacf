"""A type as a Spark frame carries it.

    uuid   binary: 16 bytes        inside of lists, maps and structs: string
    time   long: µs of the day     inside of lists, maps and structs: string
    timestamptz, timestamp         Spark's timestamp and timestamp_ntz
    others                         their namesakes

The writer turns what is carried into the table's types. The same for Arrow: `arrow_type(…, carried=True)`.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from calve.config.columns import SourceTable
from calve.config.types import Decimal, List, Map, Plain, Struct, Type, parse_type

_PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "time": StringType(),
    "timestamp": TimestampNTZType(),
    "timestamptz": TimestampType(),
    "string": StringType(),
    "uuid": StringType(),
    "binary": BinaryType(),
}
_CARRIED: dict[str, DataType] = {"uuid": BinaryType(), "time": LongType()}


def spark_type(text: str) -> DataType:
    """The Spark type that carries a column."""
    kind = parse_type(text)
    if isinstance(kind, Plain) and kind.name in _CARRIED:
        return _CARRIED[kind.name]
    return _spark(kind)


def spark_schema(table: SourceTable) -> StructType:
    """The data columns of a decoded frame. Nothing is required there: a delete has its key alone."""
    return StructType([StructField(column.name, spark_type(column.type)) for column in table.columns])


def _spark(kind: Type) -> DataType:
    match kind:
        case Plain(name):
            return _PLAIN[name]
        case Decimal(precision, scale):
            return DecimalType(precision, scale)
        case List(element):
            return ArrayType(_spark(element))
        case Map(key, value):
            return MapType(_spark(key), _spark(value))
        case Struct(fields):
            return StructType([StructField(name, _spark(inner)) for name, inner in fields])
