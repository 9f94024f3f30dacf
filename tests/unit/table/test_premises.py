"""Premises: each thing that a batch took for granted is found broken when it is, and only then (case 62)."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from calve.table.lists import Content
from calve.table.premises import Premises, SchemaState, broken

ID = NestedField(1, "id", IntegerType(), required=True)
V = NestedField(2, "v", StringType())
D = NestedField(3, "d", DecimalType(5, 2))
S = NestedField(4, "s", StructType(NestedField(5, "a", IntegerType())))
SCHEMA = Schema(ID, V, D, S, schema_id=0)


def table(schema: Schema = SCHEMA, *specs: PartitionSpec) -> TableMetadata:
    made = new_table_metadata(
        SCHEMA, PartitionSpec(), UNSORTED_SORT_ORDER, "file:///t", {"format-version": "2"}
    )
    schemas = [SCHEMA] if schema is SCHEMA else [SCHEMA, schema]
    return made.model_copy(
        update={
            "schemas": schemas,
            "current_schema_id": schema.schema_id,
            "last_column_id": max(one.highest_field_id for one in schemas),
            "partition_specs": [PartitionSpec(), *specs],
        }
    )


def manifest(content: Content = Content.DATA, spec_id: int = 0, live: int = 1) -> dict[str, Any]:
    return {
        "content": content,
        "partition_spec_id": spec_id,
        "added_files_count": live,
        "existing_files_count": 0,
    }


def test_nothing_that_stayed_is_broken() -> None:
    premises = Premises(SCHEMA, SchemaState.of(table()), empty=True, only_spec=0, new_spec=1)
    assert broken(premises, table(), ()) == ()


def test_a_table_that_was_empty_is_so_until_a_data_file_is_live() -> None:
    premises = Premises(SCHEMA, empty=True)
    assert broken(premises, table(), [manifest(Content.DELETES), manifest(live=0)]) == ()
    assert broken(premises, table(), [manifest()]) == ("the table was empty, and now has rows",)
    assert broken(Premises(SCHEMA), table(), [manifest()]) == ()


def test_the_only_spec_is_broken_by_a_live_data_file_of_another() -> None:
    premises = Premises(SCHEMA, only_spec=0)
    fine = [manifest(), manifest(Content.DELETES, 1), manifest(spec_id=1, live=0)]
    assert broken(premises, table(), fine) == ()
    assert len(broken(premises, table(), [manifest(), manifest(spec_id=1)])) == 1


def test_a_spec_id_that_is_taken_is_broken() -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "v"), spec_id=1)
    assert broken(Premises(SCHEMA, new_spec=1), table(SCHEMA, spec), ()) == (
        "somebody else added a partition spec with id 1",
    )


def test_a_batch_that_changes_the_schema_needs_it_as_it_was() -> None:
    premises = Premises(
        Schema(ID, V, D, S, NestedField(6, "mine", LongType()), schema_id=1), SchemaState.of(table())
    )
    assert broken(premises, table(), ()) == ()
    theirs = Schema(ID, V, D, S, NestedField(6, "theirs", LongType()), schema_id=1)
    assert len(broken(premises, table(theirs), ())) == 1
    back = table(theirs).model_copy(update={"current_schema_id": 0})
    assert len(broken(premises, back, ())) == 1, "the id that we meant to use is taken all the same"


@pytest.mark.parametrize(
    "fields, says",
    [
        ((ID, V, D, S, NestedField(6, "new", LongType())), None),
        ((ID, NestedField(2, "renamed", StringType()), D, S), None),
        ((NestedField(1, "id", LongType(), required=True), V, D, S), None),
        ((ID, V, NestedField(3, "d", DecimalType(20, 2)), S), None),
        ((NestedField(1, "id", IntegerType()), V, D, S), None),
        (
            (
                ID,
                V,
                D,
                NestedField(
                    4, "s", StructType(NestedField(5, "a", LongType()), NestedField(6, "b", LongType()))
                ),
            ),
            None,
        ),
        ((ID, D, S), "column v was dropped"),
        ((ID, NestedField(2, "v", StringType(), required=True), D, S), "column v became required"),
        ((ID, V, D, S, NestedField(6, "n", LongType(), required=True)), "column n is new and required"),
        ((ID, V, NestedField(3, "d", DecimalType(4, 2)), S), "column d changed its type"),
        ((ID, NestedField(2, "v", DoubleType()), D, S), "column v changed its type"),
        (
            (ID, V, D, NestedField(4, "s", StructType(NestedField(6, "b", LongType())))),
            "column a was dropped",
        ),
        ((ID, V, D, NestedField(4, "s", ListType(5, IntegerType()))), "column s changed its type"),
    ],
)
def test_files_are_committed_under_another_schema_only_if_it_reads_them(
    fields: tuple[NestedField, ...], says: str | None
) -> None:
    """Case 43."""
    reasons = broken(Premises(SCHEMA), table(Schema(*fields, schema_id=1)), ())
    if says is None:
        assert reasons == ()
    else:
        assert any(reason.startswith(says) for reason in reasons), reasons
