"""Partition specs and sort orders: Iceberg's names, its types, and back to what was asked for."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField as SpecField
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField as OrderField
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, UnknownTransform

from calve.model.errors import BadPartition
from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.table.layout import describe, from_sort_order, from_spec, to_sort_order, to_spec
from calve.table.schema import to_iceberg

TYPES = {
    "b": pa.bool_(),
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "dec": pa.decimal128(10, 2),
    "day": pa.date32(),
    "t": pa.time64("us"),
    "ts": pa.timestamp("us"),
    "tstz": pa.timestamp("us", "UTC"),
    "s": pa.string(),
    "u": pa.uuid(),
    "fix": pa.binary(4),
    "bin": pa.binary(),
    "list": pa.list_(pa.int32()),
    "map": pa.map_(pa.string(), pa.int32()),
    "struct": pa.struct([("x", pa.int32())]),
}
SCHEMA = to_iceberg(pa.schema(list(TYPES.items())))
NESTED = {"list", "map", "struct"}
PRIMITIVE = set(TYPES) - NESTED
TAKEN = {
    TransformKind.IDENTITY: PRIMITIVE,
    TransformKind.VOID: PRIMITIVE,
    TransformKind.BUCKET: PRIMITIVE - {"b", "f", "d"},
    TransformKind.TRUNCATE: {"i", "l", "dec", "s", "bin"},
    TransformKind.YEAR: {"day", "ts", "tstz"},
    TransformKind.MONTH: {"day", "ts", "tstz"},
    TransformKind.DAY: {"day", "ts", "tstz"},
    TransformKind.HOUR: {"ts", "tstz"},
}


def by(kind: TransformKind, column: str, width: int | None = None) -> PartitionField:
    if width is None and kind in (TransformKind.BUCKET, TransformKind.TRUNCATE):
        width = 16
    return PartitionField(column, Transform(kind, width))


def names(schema: Schema, *fields: PartitionField) -> list[str]:
    return [field.name for field in to_spec(fields, schema).fields]


@pytest.mark.parametrize("kind", TransformKind)
@pytest.mark.parametrize("column", TYPES)
def test_a_transform_is_taken_by_exactly_the_types_that_the_specification_gives_it(
    kind: TransformKind, column: str
) -> None:
    if column in TAKEN[kind]:
        assert from_spec(to_spec((by(kind, column),), SCHEMA), SCHEMA) == (by(kind, column),)
        return
    with pytest.raises(BadPartition) as refused:
        to_spec((by(kind, column),), SCHEMA)
    assert str(by(kind, column)) in refused.value.message
    assert repr(column) in refused.value.message
    assert "takes" in refused.value.hint


def test_fields_are_named_as_icebergs_own_builder_names_them() -> None:
    assert names(
        SCHEMA,
        by(TransformKind.DAY, "ts"),
        by(TransformKind.BUCKET, "l", 16),
        by(TransformKind.TRUNCATE, "s", 4),
        by(TransformKind.IDENTITY, "i"),
        by(TransformKind.YEAR, "tstz"),
        by(TransformKind.VOID, "bin"),
    ) == ["ts_day", "l_bucket", "s_trunc", "i", "tstz_year", "bin_null"]


def test_a_name_that_is_taken_gets_the_width() -> None:
    schema = to_iceberg(pa.schema([("id", pa.int64()), ("ID_bucket", pa.string())]))
    assert names(schema, by(TransformKind.BUCKET, "id", 8)) == ["id_bucket_8"]
    two = (by(TransformKind.BUCKET, "l", 8), by(TransformKind.BUCKET, "l", 9))
    assert names(SCHEMA, *two) == ["l_bucket", "l_bucket_9"]
    assert from_spec(to_spec(two, SCHEMA), SCHEMA) == two


def test_a_name_that_stays_taken_is_refused() -> None:
    schema = to_iceberg(pa.schema([("ts", pa.timestamp("us")), ("ts_day", pa.string())]))
    with pytest.raises(BadPartition, match="'ts_day', and that name is taken"):
        to_spec((by(TransformKind.DAY, "ts"),), schema)


def test_two_transforms_of_one_column_stand_side_by_side() -> None:
    assert names(SCHEMA, by(TransformKind.DAY, "ts"), by(TransformKind.HOUR, "ts")) == ["ts_day", "ts_hour"]


def test_the_same_field_twice_is_refused() -> None:
    with pytest.raises(BadPartition, match="twice"):
        to_spec((by(TransformKind.DAY, "ts"), by(TransformKind.DAY, "ts")), SCHEMA)


def test_a_column_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadPartition) as refused:
        to_spec((by(TransformKind.DAY, "tst"),), SCHEMA)
    assert "no column 'tst'" in refused.value.message
    assert "'ts" in refused.value.hint
    with pytest.raises(BadPartition, match="inside the column 'struct'"):
        to_spec((by(TransformKind.IDENTITY, "struct.x"),), SCHEMA)


def test_no_fields_are_an_unpartitioned_and_unsorted_table() -> None:
    assert to_spec((), SCHEMA).is_unpartitioned()
    assert to_sort_order((), SCHEMA).is_unsorted
    assert from_sort_order(to_sort_order((), SCHEMA), SCHEMA) == ()
    assert describe(()) == "none"


def test_a_foreign_spec_that_cannot_be_followed_is_refused_by_name() -> None:
    nested = SCHEMA.find_field("struct.x").field_id
    with pytest.raises(BadPartition, match=r"'x' is made of the nested field 'struct\.x'"):
        from_spec(PartitionSpec(SpecField(nested, 1000, IdentityTransform(), "x")), SCHEMA)
    with pytest.raises(BadPartition, match="a dropped column"):
        from_spec(PartitionSpec(SpecField(999, 1000, IdentityTransform(), "gone")), SCHEMA)
    zorder: UnknownTransform = UnknownTransform("zorder[2]")
    with pytest.raises(BadPartition, match=r"unknown transform, .*'zorder\[2\]'"):
        from_spec(PartitionSpec(SpecField(1, 1000, zorder, "z")), SCHEMA)


def test_a_foreign_order_that_cannot_be_followed_is_none() -> None:
    assert from_sort_order(SortOrder(OrderField(2, BucketTransform(4))), SCHEMA) is None
    assert from_sort_order(SortOrder(OrderField(SCHEMA.find_field("struct.x").field_id)), SCHEMA) is None


@given(
    st.lists(
        st.builds(SortField, st.sampled_from(sorted(PRIMITIVE)), st.booleans(), st.booleans()),
        unique_by=lambda field: field.column,
    )
)
def test_a_sort_order_comes_back_as_it_was(fields: list[SortField]) -> None:
    assert from_sort_order(to_sort_order(tuple(fields), SCHEMA), SCHEMA) == tuple(fields)


@pytest.mark.parametrize(
    "columns, reason", [(["i", "i"], "twice"), (["list"], "no order"), (["ii"], "no column 'ii'")]
)
def test_a_sort_order_that_does_not_fit_is_refused(columns: list[str], reason: str) -> None:
    with pytest.raises(BadPartition, match=reason):
        to_sort_order(tuple(SortField(column) for column in columns), SCHEMA)
