"""Types: what an Arrow type is in Iceberg and back, column by column.

    pa.DataType ──from_arrow──▶ IcebergType ──arrow_type──▶ pa.DataType, the one that files are written in

Guarantee: a type is mapped only where every value of it has a place on the other side, or where the
writer can tell by the value that it has none (nanoseconds, for one). Everything else is refused by the
full path of the column, with the reason and what to do. So a table is never created that its own data
does not fit.

PyIceberg has such a map, too. It is not used: it makes large types where a reader of ours would see
plain ones, and it knows no unsigned integers of 64 bits, no views and no dictionaries inside lists.

Not here: names, keys and whole schemas (schema.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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

from calve.model.errors import SchemaMismatch

FIELD_ID = b"PARQUET:field_id"
"""Where pyarrow looks for the field id that it writes into a Parquet schema."""

DECIMAL_DIGITS_MAX = 38

_is = pa.types

_PRIMITIVES: tuple[tuple[Callable[[pa.DataType], bool], IcebergType], ...] = (
    (_is.is_boolean, BooleanType()),
    (_is.is_uint32, LongType()),
    (_is.is_uint64, DecimalType(20, 0)),
    (_is.is_int64, LongType()),
    (_is.is_integer, IntegerType()),
    (_is.is_float64, DoubleType()),
    (_is.is_floating, FloatType()),
    (_is.is_string, StringType()),
    (_is.is_large_string, StringType()),
    (_is.is_string_view, StringType()),
    (_is.is_binary, BinaryType()),
    (_is.is_large_binary, BinaryType()),
    (_is.is_binary_view, BinaryType()),
    (_is.is_date, DateType()),
    (_is.is_time, TimeType()),
)
"""Looked through in this order: what is narrower than the next line has been taken before it."""

_LISTS = (_is.is_list, _is.is_large_list, _is.is_fixed_size_list, _is.is_list_view, _is.is_large_list_view)

_REFUSED: tuple[tuple[Callable[[pa.DataType], bool], str, str], ...] = (
    (_is.is_null, "nulls alone have no type", "Cast it to the type that its values will have."),
    (_is.is_duration, "Iceberg has no durations", "Cast it to int64 and tell the unit in the column's name."),
    (_is.is_interval, "Iceberg has no intervals", "Make it a struct of months, days and nanoseconds."),
    (_is.is_union, "Iceberg has no unions", "Make it a struct with one optional field for each case."),
    (_is.is_run_end_encoded, "it is run-end encoded", "Decode it with pyarrow.compute.run_end_decode."),
)

_ARROW: dict[type[IcebergType], pa.DataType] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
    # pyarrow writes this one as fixed(16) with Parquet's own UUID annotation, which is what Iceberg asks for.
    UUIDType: pa.uuid(),
}


def from_arrow(arrow: pa.DataType, path: str, ids: Iterator[int]) -> IcebergType:
    """The Iceberg type of a column; nested fields get the next ids, whoever calls may assign others."""
    if _is.is_dictionary(arrow):
        return from_arrow(arrow.value_type, path, ids)
    if isinstance(arrow, pa.BaseExtensionType):
        return _from_extension(arrow, path)
    if _is.is_struct(arrow):
        return StructType(*fields_from_arrow(list(arrow), path, ids))
    if _is.is_map(arrow):
        return MapType(
            key_id=next(ids),
            key_type=from_arrow(arrow.key_type, f"{path}.key", ids),
            value_id=next(ids),
            value_type=from_arrow(arrow.item_type, f"{path}.value", ids),
            value_required=not arrow.item_field.nullable,
        )
    if any(is_list(arrow) for is_list in _LISTS):
        return ListType(
            element_id=next(ids),
            element=from_arrow(arrow.value_type, f"{path}.element", ids),
            element_required=not arrow.value_field.nullable,
        )
    return _from_primitive(arrow, path)


def fields_from_arrow(fields: list[pa.Field], path: str, ids: Iterator[int]) -> list[NestedField]:
    """The fields of a struct, or the columns of a schema where `path` is empty."""
    if not fields:
        raise SchemaMismatch(
            f"{place(path)} has no fields",
            hint="Give it one, or leave it out: a file has no rows without columns.",
        )
    return [
        NestedField(
            field_id=next(ids),
            name=field.name,
            field_type=from_arrow(field.type, join(path, field.name), ids),
            required=not field.nullable,
        )
        for field in fields
    ]


def _from_primitive(arrow: pa.DataType, path: str) -> IcebergType:
    for accepts, iceberg in _PRIMITIVES:
        if accepts(arrow):
            return iceberg
    if _is.is_timestamp(arrow):
        return TimestampType() if arrow.tz is None else TimestamptzType()
    if _is.is_decimal(arrow):
        return _from_decimal(arrow, path)
    if _is.is_fixed_size_binary(arrow) and arrow.byte_width > 0:
        return FixedType(arrow.byte_width)
    for accepts, reason, hint in _REFUSED:
        if accepts(arrow):
            raise _unmapped(arrow, path, reason, hint)
    raise _unmapped(arrow, path, "Iceberg has nothing like it", "Cast it, or leave the column out.")


def _from_decimal(arrow: pa.DataType, path: str) -> IcebergType:
    if arrow.precision > DECIMAL_DIGITS_MAX:
        reason = f"a decimal has at most {DECIMAL_DIGITS_MAX} digits"
        hint = f"Cast it to decimal({DECIMAL_DIGITS_MAX}, …) or to a string."
        raise _unmapped(arrow, path, reason, hint)
    if not 0 <= arrow.scale <= arrow.precision:
        reason = "the scale of a decimal lies between 0 and its precision"
        raise _unmapped(arrow, path, reason, "Cast it to a decimal with such a scale.")
    return DecimalType(arrow.precision, arrow.scale)


def _from_extension(arrow: pa.BaseExtensionType, path: str) -> IcebergType:
    if isinstance(arrow, pa.UuidType):
        return UUIDType()
    if isinstance(arrow, pa.JsonType):
        return StringType()
    raise _unmapped(arrow, path, "this extension type is not known here", f"Cast it to {arrow.storage_type}.")


def _unmapped(arrow: pa.DataType, path: str, reason: str, hint: str) -> SchemaMismatch:
    return SchemaMismatch(f"{place(path)} is {arrow}, which has no Iceberg type: {reason}", hint=hint)


def arrow_type(iceberg: IcebergType, path: str) -> pa.DataType:
    """The Arrow type that holds a column in memory and in a file, with field ids on all nested fields."""
    match iceberg:
        case StructType():
            return pa.struct([arrow_field(field, path) for field in iceberg.fields])
        case ListType():
            return pa.list_(arrow_field(iceberg.element_field, path))
        case MapType():
            return pa.map_(arrow_field(iceberg.key_field, path), arrow_field(iceberg.value_field, path))
        case DecimalType():
            return pa.decimal128(iceberg.precision, iceberg.scale)
        case FixedType():
            return pa.binary(len(iceberg))
    if (arrow := _ARROW.get(type(iceberg))) is None:
        raise SchemaMismatch(
            f"{place(path)} is {iceberg}, which this release cannot write",
            hint="Drop the column from the table, or write to a table of format version 2 without it.",
        )
    return arrow


def arrow_field(field: NestedField, path: str) -> pa.Field:
    """A field with its id and its exact nullability."""
    return pa.field(
        field.name,
        arrow_type(field.field_type, join(path, field.name)),
        nullable=not field.required,
        metadata={FIELD_ID: str(field.field_id).encode()},
    )


def join(path: str, name: str) -> str:
    """The full name of a field, as Iceberg writes it: `address.street`, `tags.element`."""
    return f"{path}.{name}" if path else name


def place(path: str) -> str:
    """A column in a message."""
    return f"column {path!r}" if path else "the schema"
