"""Shapes: Iceberg's types in Spark, in three forms.

    stored   as files hold them: what a reader of files is told, with the ids of fields
    carried  the same in Arrow, for files that are read in Python
    shown    as people see them: what Iceberg's own Spark runtime makes of a type

The forms differ in a uuid, which is 16 bytes in files and text to people. A time of day is a long, its
microseconds since midnight: Iceberg's Spark runtime cannot read it, and Spark 4.0 has no such type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.model.columns import RESERVED
from calve.model.errors import Unreadable
from calve.reader import columns as carried
from calve.table.fields import structs_in
from calve.table.types import arrow_field

ID = "parquet.field.id"
_EXISTS = "EXISTS_DEFAULT"
"""Where Spark looks for the value of a column that a file lacks, as SQL."""

_LEAVES: Mapping[type[IcebergType], T.DataType] = {
    BooleanType: T.BooleanType(),
    IntegerType: T.IntegerType(),
    LongType: T.LongType(),
    FloatType: T.FloatType(),
    DoubleType: T.DoubleType(),
    DateType: T.DateType(),
    TimeType: T.LongType(),
    TimestampType: T.TimestampNTZType(),
    TimestamptzType: T.TimestampType(),
    StringType: T.StringType(),
    UUIDType: T.BinaryType(),
    FixedType: T.BinaryType(),
    BinaryType: T.BinaryType(),
}

Naming = Callable[[NestedField], str]


def own_name(field: NestedField) -> str:
    """A field under its own name."""
    return field.name


def name_by_id(field: NestedField) -> str:
    """A field under a name that no file has."""
    return f"{RESERVED}{field.field_id}"


# ---------------------------------------------------------------- stored


def stored_field(field: NestedField, naming: Naming, *, top: bool = True) -> T.StructField:
    """A column for Spark's own reader, which finds it by its id."""
    metadata: dict[str, Any] = {ID: field.field_id}
    if top and field.initial_default is not None:
        metadata[_EXISTS] = _literal(field)
    return T.StructField(naming(field), _stored(field.field_type, field.name, naming), True, metadata)


def _stored(kind: IcebergType, path: str, naming: Naming) -> T.DataType:
    match kind:
        case StructType():
            return T.StructType([stored_field(field, naming, top=False) for field in kind.fields])
        case ListType():
            return T.ArrayType(_stored(kind.element_type, f"{path}.element", naming), True)
        case MapType():
            key = _stored(kind.key_type, f"{path}.key", naming)
            return T.MapType(key, _stored(kind.value_type, f"{path}.value", naming), True)
        case DecimalType():
            return T.DecimalType(kind.precision, kind.scale)
    if (found := _LEAVES.get(type(kind))) is None:
        raise Unreadable(
            f"column {path!r} is {kind}, which Spark has no type for",
            hint="Read the table with an engine that has it, or drop the column from the table.",
        )
    return found


def spark_can_fill(field: NestedField) -> bool:
    """Whether Spark's own reader can give a column its default in files that lack it."""
    bare = (BinaryType, FixedType, UUIDType)
    top = field.initial_default is None or not isinstance(field.field_type, bare)
    return top and not any(
        inner.initial_default is not None for inner in _inside(field.field_type, field.field_id)
    )


def _inside(kind: IcebergType, id_: int) -> Iterator[NestedField]:
    for _, struct in structs_in(kind, id_):
        for field in struct.fields:
            yield field
            yield from _inside(field.field_type, field.field_id)


def _literal(field: NestedField) -> str:
    """A default as SQL. Texts go as bytes: Spark's releases differ in how they read quotes."""
    value: Any = field.initial_default
    kind = field.field_type
    match kind:
        case BooleanType():
            return "true" if value else "false"
        case DateType():
            return f"DATE '{value}'"
        case TimeType():
            return f"{(value.hour * 3600 + value.minute * 60 + value.second) * 10**6 + value.microsecond}L"
        case TimestampType():
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        case TimestamptzType():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case StringType():
            return f"CAST(X'{str(value).encode().hex()}' AS STRING)"
        case BinaryType() | FixedType() | UUIDType():
            return "NULL"  # never asked for: see spark_can_fill
    return f"CAST('{value}' AS {_stored(kind, field.name, own_name).simpleString()})"


# ---------------------------------------------------------------- carried


def carried_column(field: NestedField) -> carried.Column:
    """A column for the reader in Python, in types that Spark takes."""
    arrow = _carried(arrow_field(field, ""))
    fields = [field, *_inside(field.field_type, field.field_id)]
    defaults = {
        one.field_id: carried.cast(
            pa.array([_physical(one.initial_default, one.field_type)]),
            _carried(arrow_field(one, "")).type,
        )
        for one in fields
        if one.initial_default is not None
    }
    return carried.Column(arrow, defaults)


def _physical(value: Any, kind: IcebergType) -> Any:
    return value.bytes if isinstance(kind, UUIDType) else value


def _carried(field: pa.Field) -> pa.Field:
    return field.with_type(_carried_type(field.type)).with_nullable(True)


def _carried_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.UuidType) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_time(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([_carried(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_carried(kind.key_field).with_nullable(False), _carried(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_carried(kind.value_field))
    return kind


# ---------------------------------------------------------------- shown


def shown_field(field: NestedField) -> T.StructField:
    """A column as people see it."""
    metadata = {} if field.doc is None else {"comment": field.doc}
    return T.StructField(field.name, _shown_type(field.field_type, field.name), True, metadata)


def _shown_type(kind: IcebergType, path: str) -> T.DataType:
    match kind:
        case UUIDType():
            return T.StringType()
        case StructType():
            return T.StructType([shown_field(field) for field in kind.fields])
        case ListType():
            return T.ArrayType(_shown_type(kind.element_type, f"{path}.element"), True)
        case MapType():
            key = _shown_type(kind.key_type, f"{path}.key")
            return T.MapType(key, _shown_type(kind.value_type, f"{path}.value"), True)
    return _stored(kind, path, own_name)


def shown(column: Column, kind: IcebergType, naming: Naming) -> Column:
    """A stored column as people see it; the column itself where both are the same."""
    if not has_uuid(kind):
        return column
    match kind:
        case StructType():
            inner = [
                shown(column.getField(naming(field)), field.field_type, naming).alias(field.name)
                for field in kind.fields
            ]
            return F.when(column.isNotNull(), F.struct(*inner))
        case ListType():
            return F.transform(column, lambda one: shown(one, kind.element_type, naming))
        case MapType():
            keys = F.transform_keys(column, lambda key, _: shown(key, kind.key_type, naming))
            return F.transform_values(keys, lambda _, value: shown(value, kind.value_type, naming))
    return _uuid_text(column)


def has_uuid(kind: IcebergType) -> bool:
    """Whether a type is, or holds, one that is stored otherwise than it is shown."""
    match kind:
        case StructType():
            return any(has_uuid(field.field_type) for field in kind.fields)
        case ListType():
            return has_uuid(kind.element_type)
        case MapType():
            return has_uuid(kind.key_type) or has_uuid(kind.value_type)
    return isinstance(kind, UUIDType)


def _uuid_text(column: Column) -> Column:
    digits = F.lower(F.hex(column))
    parts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    cut = [F.substring(digits, start, length) for start, length in parts]
    dashed = [piece for part in cut for piece in (F.lit("-"), part)][1:]
    return F.concat(*dashed)
