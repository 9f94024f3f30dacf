"""Partition summaries: never narrower than what the manifest holds."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.types import DecimalType, DoubleType, FloatType, LongType, NestedField, StringType, StructType

from calve.table.partitions import merge_summaries, summarize


def struct_of(kind) -> StructType:
    return StructType(NestedField(1000, "p", kind))


values = st.none() | st.floats(width=64)


@given(st.lists(st.lists(values, min_size=1, max_size=4), min_size=1, max_size=4))
def test_merging_summaries_is_summarizing_all(groups: list[list[float | None]]) -> None:
    kind = struct_of(DoubleType())
    parts = [summarize(kind, [(value,) for value in group]) for group in groups]
    whole = summarize(kind, [(value,) for group in groups for value in group])
    assert merge_summaries(kind, parts) == whole
    (summary,) = whole
    numbers = [value for group in groups for value in group if value is not None and not math.isnan(value)]
    if numbers:
        bounds = (struct.unpack("<d", summary[name])[0] for name in ("lower_bound", "upper_bound"))
        assert tuple(bounds) == (min(numbers), max(numbers))
    else:
        assert summary["lower_bound"] is None
        assert summary["upper_bound"] is None


@pytest.mark.parametrize("order", [(-0.0, 0.0), (0.0, -0.0)])
def test_minus_zero_is_below_zero_as_iceberg_orders_them(order: tuple[float, float]) -> None:
    """A reader that compares bits would skip a manifest whose bounds are both of one sign."""
    (summary,) = summarize(struct_of(FloatType()), [(value,) for value in order])
    assert (summary["lower_bound"], summary["upper_bound"]) == (
        struct.pack("<f", -0.0),
        struct.pack("<f", 0.0),
    )
    one, two = (summarize(struct_of(FloatType()), [(value,)]) for value in order)
    assert merge_summaries(struct_of(FloatType()), [one, two]) == [summary]


def test_a_zero_bound_takes_in_both_zeros_because_a_set_keeps_one_of_them() -> None:
    kind = struct_of(DoubleType())
    wide = (struct.pack("<d", -0.0), struct.pack("<d", 0.0))
    for tuples in ({(0.0,), (-0.0,)}, {(-0.0,), (0.0,)}, {(0.0,)}):
        (summary,) = summarize(kind, tuples)
        assert (summary["lower_bound"], summary["upper_bound"]) == wide
    (narrow,) = summarize(kind, {(0.0,)})
    older = [narrow | {"lower_bound": wide[1], "upper_bound": wide[1]}]
    (merged,) = merge_summaries(kind, [older, older]) or []
    assert (merged["lower_bound"], merged["upper_bound"]) == wide


def test_a_manifest_without_summaries_leaves_the_merged_one_without() -> None:
    kind = struct_of(LongType())
    assert merge_summaries(kind, [summarize(kind, [(1,)]), None]) is None


def test_unknown_nans_stay_unknown() -> None:
    kind = struct_of(StringType())
    known = summarize(kind, [("a",)])
    unknown = [known[0] | {"contains_nan": None}]
    (merged,) = merge_summaries(kind, [known, unknown]) or []
    assert merged["contains_nan"] is None


def test_an_unpartitioned_manifest_has_no_summaries() -> None:
    assert summarize(StructType(), [()]) == []
    assert merge_summaries(StructType(), [[], []]) == []


def test_decimals_keep_all_their_digits() -> None:
    great = Decimal("-" + "9" * 36 + ".99")
    (summary,) = summarize(struct_of(DecimalType(38, 2)), [(great,), (Decimal("0.01"),)])
    assert from_bytes(DecimalType(38, 2), summary["lower_bound"]) == great
