"""Iceberg's partition transforms on Arrow columns, exactly as its specification has them.

    column ─▶ identity · bucket · truncate · year · month · day · hour · void ─▶ partition column

Guarantee: the same values as Iceberg's own implementations give, because another engine plans by them:
a row in a wrong partition is a row that a filter or a scoped delete does not find. null gives null.
Numbers are floored, also before 1970 and below zero; where the floor lies below the type's least value,
the row is refused (P8). Dates are counted by integer arithmetic, as wide as
the type: Arrow's own calendar ends at the year 32767.

Not here: where rows go (layout.py), how values are written into paths (paths.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import BadPartition, BadRow
from calve.model.file import PartitionValue
from calve.model.layout import PartitionField, Transform, TransformKind
from calve.writer.int128 import from_halves, halves
from calve.writer.murmur import as_longs, hash_keys, murmur3

__all__ = ["apply_transform", "check_transform", "hash_keys", "partition_value", "result_type"]

Column: TypeAlias = "pa.Array | pa.ChunkedArray"

_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000
_INT_MAX = 2**31 - 1
_TEMPORAL = frozenset({TransformKind.YEAR, TransformKind.MONTH, TransformKind.DAY, TransformKind.HOUR})


def apply_transform(transform: Transform, column: Column) -> Column:
    """The partition values of a column."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [apply_transform(transform, chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=result_type(transform, column.type))
    _require(transform, column.type, "a column")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    width = transform.width or 0
    match transform.kind:
        case TransformKind.IDENTITY:
            return column
        case TransformKind.VOID:
            return pa.nulls(len(column), column.type)
        case TransformKind.BUCKET:
            return _bucket(column, width)
        case TransformKind.TRUNCATE:
            return _truncate(column, width)
        case TransformKind.YEAR:
            return _int32(_year_and_month(_days(column))[0], column)
        case TransformKind.MONTH:
            years, months = _year_and_month(_days(column))
            return _int32(pc.add(pc.multiply(years, 12), months), column)
        case TransformKind.DAY:
            return _int32(_days(column), column)
        case TransformKind.HOUR:
            return _int32(_floor_divide(as_longs(column), _HOUR_US), column)


def result_type(transform: Transform, source: pa.DataType) -> pa.DataType:
    """The type of a transform's values. A day is an int32, the physical form of Iceberg's date."""
    if transform.kind in _TEMPORAL or transform.kind is TransformKind.BUCKET:
        return pa.int32()
    return source.value_type if pa.types.is_dictionary(source) else source


def check_transform(field: PartitionField, source: pa.DataType) -> None:
    """Refuse a transform that does not take its column's type."""
    _require(field.transform, source, f"column {field.column!r}")


def partition_value(scalar: pa.Scalar) -> PartitionValue:
    """Iceberg's physical value: days of a date, microseconds of a time or timestamp, a UUID of a uuid."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_date32(kind) or pa.types.is_time64(kind) or pa.types.is_timestamp(kind):
        return int(scalar.value)
    value: PartitionValue = scalar.as_py()
    return value


def is_uuid(kind: pa.DataType) -> bool:
    """Whether a type is Arrow's uuid extension."""
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int32(kind) or pa.types.is_int64(kind))


def _is_micros(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "us"


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_time64(kind)) and kind.unit == "us"


_Test = Callable[[pa.DataType], bool]
_INTEGERS: dict[str, _Test] = {"int, long": _is_integer, "decimal": pa.types.is_decimal128}
_STRINGS: dict[str, _Test] = {"string": _is_text, "binary": _is_binary}
_DATES: dict[str, _Test] = {"date": pa.types.is_date32}
_TIMESTAMPS: dict[str, _Test] = {"timestamp and timestamptz of microseconds": _is_micros}
_FIXED: dict[str, _Test] = {
    "time of microseconds": _is_time,
    "fixed": pa.types.is_fixed_size_binary,
    "uuid": is_uuid,
}
_NUMBERS: dict[str, _Test] = {"boolean": pa.types.is_boolean, "float, double": _is_float}

_TAKES: dict[TransformKind, dict[str, _Test]] = {
    TransformKind.IDENTITY: _INTEGERS | _STRINGS | _DATES | _TIMESTAMPS | _FIXED | _NUMBERS,
    TransformKind.BUCKET: _INTEGERS | _STRINGS | _DATES | _TIMESTAMPS | _FIXED,
    TransformKind.TRUNCATE: _INTEGERS | _STRINGS,
    TransformKind.YEAR: _DATES | _TIMESTAMPS,
    TransformKind.MONTH: _DATES | _TIMESTAMPS,
    TransformKind.DAY: _DATES | _TIMESTAMPS,
    TransformKind.HOUR: _TIMESTAMPS,
    TransformKind.VOID: {"every type": lambda _: True},
}


def _require(transform: Transform, source: pa.DataType, where: str) -> None:
    kind = source.value_type if pa.types.is_dictionary(source) else source
    takes = _TAKES[transform.kind]
    if not any(test(kind) for test in takes.values()):
        raise BadPartition(
            f"{transform} does not take {where} of type {source}",
            hint=f"{transform.kind.value} takes {', '.join(takes)}. Choose another transform or column.",
        )


def _bucket(column: pa.Array, buckets: int) -> pa.Int32Array:
    hashed = pc.bit_wise_and(murmur3(column), pa.scalar(_INT_MAX, pa.uint32())).cast(pa.int64())
    return _remainder(hashed, buckets).cast(pa.int32())


def _truncate(column: pa.Array, width: int) -> pa.Array:
    kind = column.type
    if _is_integer(kind):
        return _truncate_integer(column, width)
    if pa.types.is_decimal128(kind):
        return _truncate_decimal(column, width)
    if _is_text(kind):
        text = column.cast(pa.large_string()) if pa.types.is_string_view(kind) else column
        return pc.utf8_slice_codeunits(text, 0, width).cast(kind)
    content = column.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else column
    return pc.binary_slice(content, 0, width).cast(kind)


def _truncate_integer(column: pa.Array, width: int) -> pa.Array:
    longs = column.cast(pa.int64())
    try:
        return pc.subtract_checked(longs, _remainder(longs, width)).cast(column.type)
    except pa.ArrowInvalid:
        # Iceberg's own wrap around here. The same key would then have another partition once its column
        # is widened to long, and a scoped delete would miss its older row.
        least = pc.min(column).as_py()
        raise BadRow(
            f"{least} truncated to a multiple of {width} is below the least {column.type}",
            hint="Partition by another transform, or give the column a wider type.",
        ) from None


def _truncate_decimal(column: pa.Decimal128Array, width: int) -> pa.Decimal128Array:
    """Floor the unscaled value to a multiple of the width, 32 bits at a time."""
    low, high = halves(column)
    u64, mask = pa.uint64(), pa.scalar(0xFFFFFFFF, pa.uint64())
    thirty_two, divisor = pa.scalar(32, u64), pa.scalar(width, u64)
    rest = pa.repeat(pa.scalar(0, u64), len(column))
    for half in (high, low):
        for word in (pc.shift_right(half, thirty_two), pc.bit_wise_and(half, mask)):
            rest = _remainder(pc.bit_wise_or(pc.shift_left(rest, thirty_two), word), divisor)
    # What was divided is the value modulo 2^128: a negative one was too great by just that.
    negative = pc.greater_equal(high, pa.scalar(1 << 63, u64))
    shifted = _remainder(pc.add(rest, pa.scalar(width - 2**128 % width, u64)), divisor)
    rest = pc.if_else(negative, shifted, rest)
    borrow = pc.less(low, rest).cast(u64)
    floor = from_halves(pc.subtract(low, rest), pc.subtract(high, borrow), column.type)
    floor = pc.if_else(column.is_valid(), floor, pa.scalar(None, column.type))
    try:
        floor.validate(full=True)
    except pa.ArrowInvalid:
        # Only a negative value near the end of its type can grow by a digit. A decimal of more digits than
        # its type cannot be written.
        least = pc.min(column).as_py()
        raise BadRow(
            f"{least} truncated to a multiple of {width} has more digits than its {column.type} holds",
            hint="Partition by another transform, or give the column more digits.",
        ) from None
    return floor


def _remainder(column: pa.Array, divisor: int | pa.Scalar) -> pa.Array:
    """What floored division leaves: never negative."""
    divisor = divisor if isinstance(divisor, pa.Scalar) else pa.scalar(divisor, column.type)
    rest = pc.subtract(column, pc.multiply(pc.divide(column, divisor), divisor))
    if pa.types.is_unsigned_integer(column.type):
        return rest
    return pc.if_else(pc.less(rest, 0), pc.add(rest, divisor), rest)


def _floor_divide(column: pa.Int64Array, divisor: int) -> pa.Int64Array:
    quotient = pc.divide(column, divisor)
    below = pc.less(column, pc.multiply(quotient, divisor))
    return pc.subtract(quotient, below.cast(pa.int64()))


def _days(column: pa.Array) -> pa.Int64Array:
    longs = as_longs(column)
    return longs if pa.types.is_date32(column.type) else _floor_divide(longs, _DAY_US)


def _year_and_month(days: pa.Int64Array) -> tuple[pa.Int64Array, pa.Int64Array]:
    """Years since 1970 and months since January, of days since 1970-01-01, in the Gregorian calendar.

    A year is taken to begin in March: then the leap day is its last, and months have a regular pattern
    of 153 days in five. 400 years have 146,097 days."""
    since = pc.add(days, 719_468)  # from 0000-03-01
    era = _floor_divide(since, 146_097)
    day = pc.subtract(since, pc.multiply(era, 146_097))
    leaps = pc.subtract(pc.divide(day, 36_524), pc.add(pc.divide(day, 1_460), pc.divide(day, 146_096)))
    year = pc.divide(pc.add(day, leaps), 365)
    begins = pc.subtract(pc.add(pc.multiply(year, 365), pc.divide(year, 4)), pc.divide(year, 100))
    march_month = pc.divide(pc.add(pc.multiply(pc.subtract(day, begins), 5), 2), 153)
    next_year = pc.greater_equal(march_month, 10)
    month = pc.add(march_month, pc.if_else(next_year, -10, 2))
    years = pc.add(pc.add(year, pc.multiply(era, 400)), next_year.cast(pa.int64()))
    return pc.subtract(years, 1970), month


def _int32(values: pa.Int64Array, source: pa.Array) -> pa.Int32Array:
    try:
        return values.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise BadRow(
            f"a {source.type} lies too far from 1970 to be a partition value: {error}",
            hint="Mend the value at the source, or partition by a coarser unit.",
        ) from error
