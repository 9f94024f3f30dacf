"""Overlap: whether a delete by values can match a row of a data file, by what manifests say of both.

A pair is told apart by one column: the ranges of its values do not meet, and not both have nulls. Whatever is
not known counts as a match, so that a delete is never left out by mistake. Bounds of texts may be cut: the
lower one stays below all values, the upper one above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from calve.table.live import LiveFile

_BYTES = (BinaryType, BooleanType, FixedType, StringType, UUIDType)
_WIDENED = (IntegerType, LongType)
"""A bound of four bytes and one of eight are of the same kind."""
_NUMBERS: Mapping[type[IcebergType], int] = {
    DateType: 4,
    TimeType: 8,
    TimestampType: 8,
    TimestamptzType: 8,
}
"""By the bytes of a bound: one that has others was written when the column was something else."""


def may_match(delete: LiveFile, data: LiveFile, columns: Sequence[tuple[int, IcebergType]]) -> bool:
    """Whether a key of a delete file may be that of a row of a data file."""
    return all(_may_meet(delete, data, column, kind) for column, kind in columns)


def _may_meet(delete: LiveFile, data: LiveFile, column: int, kind: IcebergType) -> bool:
    if delete.nulls.get(column, 1) and data.nulls.get(column, 1):
        return True
    low, high = (comparable(bounds.get(column), kind) for bounds in (delete.lower, delete.upper))
    least, greatest = (comparable(bounds.get(column), kind) for bounds in (data.lower, data.upper))
    if None in (low, high, least, greatest):
        return True
    return bool(low <= greatest and least <= high)


def comparable(bound: bytes | None, kind: IcebergType) -> Any:
    """A bound as a value that is ordered as its column is; `None` where that is not known. Floats are not:
    bounds leave NaN out, which is a value of a key."""
    if bound is None:
        return None
    if isinstance(kind, _BYTES):
        return bound
    if isinstance(kind, DecimalType):
        return int.from_bytes(bound, "big", signed=True)
    if isinstance(kind, _WIDENED) or _NUMBERS.get(type(kind)) == len(bound):
        return int.from_bytes(bound, "little", signed=True)
    return None
