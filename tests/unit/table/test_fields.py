"""What a table's columns are and were."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import IcebergType, IntegerType, ListType, MapType, NestedField, StringType, StructType

from calve.model.errors import Unreadable
from calve.table.fields import field_of, names_are_reused, structs_may_be_hollow

Columns = list[tuple[int, str, IcebergType]]


def struct(*fields: tuple[int, str]) -> StructType:
    return StructType(*(NestedField(id_, name, IntegerType()) for id_, name in fields))


def in_list(*fields: tuple[int, str]) -> ListType:
    return ListType(50, struct(*fields), element_required=False)


def in_map(*fields: tuple[int, str]) -> MapType:
    return MapType(51, StringType(), 52, struct(*fields), value_required=False)


def table(*schemas: Columns, ids: list[int] | None = None) -> tuple[TableMetadata, Schema]:
    """A table that had these schemas, the last one now."""
    made = [
        Schema(*(NestedField(id_, name, kind) for id_, name, kind in columns), schema_id=number)
        for number, columns in zip(ids or range(len(schemas)), schemas, strict=True)
    ]
    base: Any = new_table_metadata(made[-1], UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///t")
    return base.model_copy(update={"schemas": made, "current_schema_id": made[-1].schema_id}), made[-1]


TEXT = StringType()


@pytest.mark.parametrize(
    "schemas, reused",
    [
        ([[(1, "a", TEXT)], [(1, "a", TEXT), (2, "b", TEXT)]], False),
        ([[(1, "a", TEXT)], [(1, "b", TEXT)]], False),  # `a` means nothing now
        ([[(1, "a", TEXT)], [(1, "b", TEXT), (2, "a", TEXT)]], True),
        ([[(1, "a", TEXT), (2, "b", TEXT)], [(1, "b", TEXT), (2, "a", TEXT)]], True),
        ([[(1, "s", struct((2, "x")))], [(1, "s", struct((3, "x")))]], True),
        ([[(1, "s", struct((2, "x")))], [(1, "s", struct((2, "y"))), (3, "x", TEXT)]], False),
        ([[(1, "l", in_list((2, "x")))], [(1, "l", in_list((3, "x")))]], True),
        ([[(1, "m", in_map((2, "x")))], [(1, "m", in_map((3, "x")))]], True),
    ],
)
def test_a_name_is_reused_where_an_older_schema_has_it_for_another_field(
    schemas: list[Columns], reused: bool
):
    assert names_are_reused(*table(*schemas)) is reused


def test_where_schemas_were_removed_nobody_knows():
    columns: Columns = [(1, "a", TEXT), (2, "s", struct((3, "x")))]
    assert not names_are_reused(*table(columns, columns))
    assert names_are_reused(*table(columns, columns, ids=[0, 2]))
    assert not structs_may_be_hollow(*table(columns, columns))
    assert structs_may_be_hollow(*table(columns, columns, ids=[1, 2]))
    assert not structs_may_be_hollow(*table(columns[:1], columns[:1], ids=[1, 2])), "there is none"


@pytest.mark.parametrize("make", [struct, in_list, in_map])
def test_a_struct_is_hollow_where_an_older_schema_has_none_of_its_fields(make: Any):
    before: Columns = [(1, "s", make((2, "x")))]
    assert structs_may_be_hollow(*table(before, [(1, "s", make((3, "y")))]))
    assert not structs_may_be_hollow(*table(before, [(1, "s", make((2, "x"), (3, "y")))]))
    assert not structs_may_be_hollow(*table([(9, "o", TEXT)], before)), "a struct that was not there is null"


def test_a_dropped_column_is_still_known_and_one_inside_another_is_no_key():
    metadata, schema = table([(1, "a", TEXT), (2, "s", struct((3, "x")))], [(2, "s", struct((3, "x")))])
    assert field_of(metadata, schema, 1, "a file").name == "a"
    with pytest.raises(Unreadable, match=r"a file deletes rows by 's\.x', which lies inside another column"):
        field_of(metadata, schema, 3, "a file")
