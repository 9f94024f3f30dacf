"""Partition summaries of a manifest: what lets a reader skip it without opening it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, cast

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.types import IcebergType, PrimitiveType, StructType

from calve.model.file import PartitionValue

Summary = dict[str, Any]
"""`contains_null`, `contains_nan` and the bounds of one partition field, by Iceberg's names."""


def summarize(partition: StructType, tuples: Collection[tuple[PartitionValue, ...]]) -> list[Summary]:
    """A summary a partition field, over the partition tuples of a manifest's files."""
    return [
        _summary(field.field_type, [values[index] for values in tuples])
        for index, field in enumerate(partition.fields)
    ]


def merge_summaries(
    partition: StructType, manifests: Sequence[Sequence[Summary] | None]
) -> list[Summary] | None:
    """The summaries of a manifest that holds the files of several."""
    if any(summaries is None for summaries in manifests):
        # A writer may leave summaries out. No summary skips nothing; a null bound would skip every row.
        return None
    present = cast(Sequence[Sequence[Summary]], manifests)
    return [
        _merged(field.field_type, [summaries[index] for summaries in present])
        for index, field in enumerate(partition.fields)
    ]


def _summary(type_: IcebergType, values: Sequence[PartitionValue]) -> Summary:
    ordered = [cast(Any, value) for value in values if value is not None and not _is_nan(value)]
    return {
        "contains_null": any(value is None for value in values),
        "contains_nan": any(_is_nan(value) for value in values),
        "lower_bound": _encode(type_, _lowest(ordered)) if ordered else None,
        "upper_bound": _encode(type_, _highest(ordered)) if ordered else None,
    }


def _merged(type_: IcebergType, summaries: Sequence[Summary]) -> Summary:
    lowers = [
        _decode(type_, summary["lower_bound"]) for summary in summaries if summary["lower_bound"] is not None
    ]
    uppers = [
        _decode(type_, summary["upper_bound"]) for summary in summaries if summary["upper_bound"] is not None
    ]
    nans = [summary["contains_nan"] for summary in summaries]
    return {
        "contains_null": any(summary["contains_null"] for summary in summaries),
        "contains_nan": None if None in nans else any(nans),
        "lower_bound": _encode(type_, _lowest(lowers)) if lowers else None,
        "upper_bound": _encode(type_, _highest(uppers)) if uppers else None,
    }


def _lowest(values: Sequence[Any]) -> Any:
    """Iceberg has -0.0 below 0.0, Python takes them for one: a set of partition tuples keeps either of the
    two. So a zero bound takes in both, or a reader would skip the partition of the other."""
    lowest = min(values)
    return -0.0 if isinstance(lowest, float) and lowest == 0.0 else lowest


def _highest(values: Sequence[Any]) -> Any:
    highest = max(values)
    return 0.0 if isinstance(highest, float) and highest == 0.0 else highest


def _is_nan(value: PartitionValue) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _encode(type_: IcebergType, value: Any) -> bytes:
    return to_bytes(cast(PrimitiveType, type_), value)


def _decode(type_: IcebergType, value: bytes) -> Any:
    return from_bytes(cast(PrimitiveType, type_), value)
