"""Schema evolution: only wider, never narrower, and decided before anything is written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate

from calve.model.errors import BadName, SchemaMismatch
from calve.model.layout import PartitionField, Transform, TransformKind
from calve.table.evolve import Evolution, evolve, plan_evolution
from calve.table.layout import to_spec
from calve.table.schema import key_of, to_arrow, to_iceberg


def plan(table: pa.Schema, incoming: pa.Schema, key=(), nulls_in=(), allowed=True) -> Evolution | None:
    schema = to_iceberg(table, key)
    return plan_evolution(schema, incoming, schema.highest_field_id, allowed, nulls_in=frozenset(nulls_in))


def evolved(table: pa.Schema, incoming: pa.Schema, key=(), nulls_in=()) -> Schema:
    evolution = plan(table, incoming, key, nulls_in)
    assert evolution is not None
    return evolution.schema


def refused(table: pa.Schema, incoming: pa.Schema, key=(), nulls_in=()) -> str:
    with pytest.raises(SchemaMismatch) as error:
        plan(table, incoming, key, nulls_in)
    assert error.value.hint
    return error.value.message


def added(schema: Schema) -> AddSchemaUpdate:
    return AddSchemaUpdate.model_validate({"schema": schema})


def column(arrow: pa.DataType, nullable: bool = True) -> pa.Schema:
    return pa.schema([pa.field("c", arrow, nullable)])


INNER = pa.struct([pa.field("x", pa.int32(), nullable=False)])
WIDER_INNER = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])


@pytest.mark.parametrize(
    "inner, path",
    [
        (pa.struct([("b", pa.int32())]), "a.b"),
        (pa.struct([("b", pa.list_(pa.struct([("c", pa.int32())])))]), "a.b.element.c"),
        (pa.list_(pa.int32()), "a.element"),
        (pa.map_(pa.string(), pa.int32()), "a.value"),
    ],
)
def test_a_new_field_may_not_have_the_full_name_of_a_column_with_a_dot(inner: pa.DataType, path: str) -> None:
    with pytest.raises(BadName, match=f"two fields have the full name '{path}'") as caught:
        plan(
            pa.schema([("id", pa.int64()), (path, pa.int32())]), pa.schema([("id", pa.int64()), ("a", inner)])
        )
    assert caught.value.hint


def test_data_that_fits_needs_nothing() -> None:
    table = pa.schema([("id", pa.int64()), ("v", pa.string())])
    assert plan(table, table) is None
    assert plan(table, pa.schema([("v", pa.string()), ("id", pa.int64())])) is None


def test_a_new_column_is_optional_comes_last_and_takes_the_next_ids() -> None:
    table = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int32())]))])
    schema = to_iceberg(table, key=("id",))
    new = pa.field(
        "n",
        pa.struct([pa.field("a", pa.int32(), nullable=False), ("b", pa.list_(pa.int8()))]),
        nullable=False,
    )
    evolution = plan_evolution(schema, table.insert(0, new), 40, allowed=True)
    assert evolution is not None
    assert evolution.schema.fields[:2] == schema.fields
    assert [field.name for field in evolution.schema.fields] == ["id", "s", "n"]
    assert not evolution.schema.find_field("n").required
    assert evolution.schema.find_field("n.a").required
    assert set(index_by_id(evolution.schema)) == {1, 2, 3, 41, 42, 43, 44}
    assert evolution.last_column_id == 44
    assert evolution.schema.schema_id == schema.schema_id + 1
    assert key_of(evolution.schema) == {"id"}
    assert "'n' is new" in evolution.changes[0]


@pytest.mark.parametrize(
    "have, arriving, wider",
    [
        (pa.int32(), pa.int64(), "long"),
        (pa.int32(), pa.uint32(), "long"),
        (pa.float32(), pa.float64(), "double"),
        (pa.decimal128(9, 2), pa.decimal128(20, 2), "decimal(20, 2)"),
    ],
)
def test_a_type_is_promoted_as_iceberg_allows_and_never_back(have, arriving, wider) -> None:
    assert str(evolved(column(have), column(arriving)).fields[0].field_type) == wider
    assert plan(column(arriving), column(have)) is None


@pytest.mark.parametrize(
    "have, arriving",
    [
        (pa.int64(), pa.string()),
        (pa.int32(), pa.float64()),
        (pa.int64(), pa.uint64()),
        (pa.float64(), pa.int64()),
        (pa.decimal128(9, 2), pa.decimal128(20, 3)),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.timestamp("us")),
        (pa.binary(16), pa.uuid()),
        (pa.binary(4), pa.binary(5)),
        (pa.string(), pa.list_(pa.string())),
        (pa.list_(pa.string()), pa.struct([("a", pa.string())])),
        (pa.list_(pa.string()), pa.map_(pa.string(), pa.string())),
        (pa.map_(pa.string(), pa.string()), pa.list_(pa.string())),
        (pa.struct([("a", pa.string())]), pa.string()),
    ],
)
def test_any_other_change_of_type_is_refused_with_both_types(have, arriving) -> None:
    message = refused(column(have), column(arriving))
    assert "column 'c': found" in message
    assert "wanted" in message


def test_all_that_does_not_fit_is_named_at_once() -> None:
    table = pa.schema([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
    message = refused(table, pa.schema([("a", pa.string()), ("b", pa.struct([("c", pa.int64())]))]))
    assert "'a': found string, wanted long" in message
    assert "'b.c': found long, wanted string" in message


@pytest.mark.parametrize(
    "wrap, prefix",
    [
        (lambda inner: inner, "c"),
        (lambda inner: pa.list_(inner), "c.element"),
        (lambda inner: pa.map_(pa.string(), inner), "c.value"),
        (lambda inner: pa.struct([("in", pa.list_(inner))]), "c.in.element"),
    ],
)
def test_nested_structs_grow_are_promoted_and_relaxed(wrap, prefix: str) -> None:
    have, arriving = column(wrap(INNER)), column(wrap(WIDER_INNER))
    schema = evolved(have, arriving, nulls_in=[f"{prefix}.x"])
    assert str(schema.find_field(f"{prefix}.x").field_type) == "long"
    assert not schema.find_field(f"{prefix}.x").required
    assert str(schema.find_field(f"{prefix}.y.element").field_type) == "string"
    before = index_by_id(to_iceberg(have))
    assert {id_: field.name for id_, field in index_by_id(schema).items() if id_ in before} == {
        id_: field.name for id_, field in before.items()
    }
    assert plan_evolution(schema, arriving, schema.highest_field_id, allowed=False) is None


def test_list_elements_and_map_values_are_promoted_and_relaxed() -> None:
    element = pa.field("item", pa.int32(), nullable=False)
    schema = evolved(column(pa.list_(element)), column(pa.large_list(pa.int64())), nulls_in=["c.element"])
    assert str(schema.fields[0].field_type) == "list<long>"
    assert not schema.find_field("c.element").required
    value = pa.field("value", pa.float32(), nullable=False)
    schema = evolved(
        column(pa.map_(pa.string(), value)), column(pa.map_(pa.string(), pa.float64())), nulls_in=["c.value"]
    )
    assert str(schema.fields[0].field_type) == "map<string, double>"
    assert not schema.find_field("c.value").required


def test_the_keys_of_a_map_never_change() -> None:
    message = refused(column(pa.map_(pa.int32(), pa.string())), column(pa.map_(pa.int64(), pa.string())))
    assert "keys of map 'c' cannot change" in message
    grown = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    assert "cannot change" in refused(
        column(pa.map_(INNER, pa.string())), column(pa.map_(grown, pa.string()))
    )


def test_required_becomes_optional_only_where_nulls_did_arrive() -> None:
    table = column(pa.int64(), nullable=False)
    assert plan(table, column(pa.int64())) is None
    schema = evolved(table, column(pa.int64()), nulls_in=["c"])
    assert not schema.fields[0].required


def test_optional_stays_optional_where_nulls_arrive() -> None:
    assert plan(column(pa.int64()), column(pa.int64()), nulls_in=["c"]) is None


def test_a_key_column_is_promoted_and_never_optional() -> None:
    table = pa.schema([("id", pa.int32()), ("v", pa.string())])
    schema = evolved(table, pa.schema([("id", pa.int64()), ("v", pa.string())]), key=("id",))
    assert str(schema.find_field("id").field_type) == "long"
    assert key_of(schema) == {"id"}
    assert schema.find_field("id").required
    assert "'id' is part of the key" in refused(table, table, key=("id",), nulls_in=["id"])


def test_a_column_that_the_data_lacks_is_null_and_so_must_be_optional() -> None:
    table = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.int64())])
    assert plan(table, pa.schema([pa.field("a", pa.int64())])) is None
    assert "'a' is required in the table and missing" in refused(table, pa.schema([("b", pa.int64())]))
    assert not evolved(table, pa.schema([("b", pa.int64())]), nulls_in=["a"]).find_field("a").required


@pytest.mark.parametrize("have", [pa.int64(), pa.list_(pa.string()), INNER, pa.map_(pa.string(), pa.int32())])
def test_nothing_but_nulls_fits_every_column_that_is_there(have) -> None:
    assert plan(column(have), column(pa.null())) is None


def test_a_list_that_was_always_empty_fits_every_list() -> None:
    assert plan(column(pa.list_(pa.string())), column(pa.list_(pa.null()))) is None


def test_a_new_column_of_nulls_alone_has_no_type_and_is_refused() -> None:
    assert "'n'" in refused(column(pa.int64()), pa.schema([("c", pa.int64()), ("n", pa.null())]))


def test_a_dictionary_counts_as_its_values() -> None:
    assert plan(column(pa.string()), column(pa.dictionary(pa.int32(), pa.string()))) is None


def test_a_new_column_that_differs_by_case_alone_is_refused() -> None:
    assert "'C' is the table's 'c' but for its case" in refused(
        column(pa.int64()), pa.schema([("C", pa.int64())])
    )
    with pytest.raises(BadName):
        plan(column(pa.int64()), pa.schema([("n", pa.int64()), ("N", pa.int64())]))


def test_with_evolution_off_a_change_is_refused_with_the_way_to_turn_it_on() -> None:
    with pytest.raises(SchemaMismatch) as error:
        plan(column(pa.int32()), pa.schema([("c", pa.int64()), ("d", pa.int64())]), allowed=False)
    assert "'c' goes from int to long" in error.value.message
    assert "'d' is new" in error.value.message
    assert "'schema.evolution' = 'true'" in error.value.hint


def test_with_evolution_off_data_that_fits_goes_through() -> None:
    assert plan(column(pa.int64()), column(pa.int32()), allowed=False) is None


def test_a_real_catalog_takes_the_evolution_and_then_the_data_fits(tmp_path) -> None:
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", to_iceberg(pa.schema([("id", pa.int32())]), key=("id",)))
    incoming = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    evolution = evolve(table.metadata, incoming, allowed=True)
    assert evolution is not None
    catalog.commit_table(table, (), (added(evolution.schema), SetCurrentSchemaUpdate(schema_id=-1)))
    loaded = catalog.load_table("n.t")
    assert loaded.schema() == evolution.schema
    assert loaded.metadata.current_schema_id == evolution.schema.schema_id
    assert loaded.metadata.last_column_id == evolution.last_column_id
    assert evolve(loaded.metadata, incoming, allowed=False) is None


def test_ids_follow_all_that_the_table_ever_gave_away(tmp_path) -> None:
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", to_iceberg(pa.schema([("id", pa.int32()), ("gone", pa.string())])))
    with table.update_schema() as update:
        update.delete_column("gone")
    evolution = evolve(table.metadata, pa.schema([("id", pa.int32()), ("gone", pa.string())]), allowed=True)
    assert evolution is not None
    assert evolution.schema.find_field("gone").field_id == 3
    assert evolution.schema.schema_id == 2


def test_a_new_column_never_takes_the_name_of_a_partition_field(tmp_path) -> None:
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    columns = pa.schema([("ts", pa.timestamp("us"))])
    spec = to_spec((PartitionField("ts", Transform(TransformKind.DAY)),), to_iceberg(columns))
    table = catalog.create_table("n.t", to_iceberg(columns), partition_spec=spec)
    with pytest.raises(SchemaMismatch, match="'ts_day' has the name of a partition field"):
        evolve(table.metadata, columns.append(pa.field("ts_day", pa.int32())), allowed=True)


def test_a_schema_that_the_table_had_before_is_taken_up_again(tmp_path) -> None:
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", to_iceberg(column(pa.int64())))
    strict = to_iceberg(column(pa.int64(), nullable=False)).model_copy(update={"schema_id": 1})
    updates = (added(strict), SetCurrentSchemaUpdate(schema_id=1))
    catalog.commit_table(table, (), updates)
    evolution = evolve(
        catalog.load_table("n.t").metadata, column(pa.int64()), allowed=True, nulls_in=frozenset({"c"})
    )
    assert evolution is not None
    assert evolution.known
    assert evolution.schema.schema_id == 0


TYPES = st.recursive(
    st.sampled_from(
        [
            pa.int32(),
            pa.int64(),
            pa.float32(),
            pa.float64(),
            pa.decimal128(5, 2),
            pa.decimal128(9, 2),
            pa.string(),
        ]
    ),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda value: pa.map_(pa.string(), value)),
        st.dictionaries(st.sampled_from("xyz"), inner, min_size=1).map(
            lambda fields: pa.struct(list(fields.items()))
        ),
    ),
    max_leaves=4,
)
SCHEMAS = st.dictionaries(st.sampled_from("abcd"), TYPES, min_size=1).map(
    lambda fields: pa.schema(list(fields.items()))
)


@settings(max_examples=200, deadline=None)
@given(SCHEMAS, SCHEMAS)
def test_an_evolved_schema_holds_the_new_data_and_all_that_the_old_one_held(table, incoming) -> None:
    schema = to_iceberg(table)
    try:
        evolution = plan_evolution(schema, incoming, schema.highest_field_id, allowed=True)
    except SchemaMismatch:
        return
    after = evolution.schema if evolution else schema
    last = evolution.last_column_id if evolution else schema.highest_field_id
    assert plan_evolution(after, incoming, last, allowed=False) is None
    assert plan_evolution(after, to_arrow(schema), last, allowed=False) is None
    assert set(index_by_id(schema)) <= set(index_by_id(after))
    assert after.highest_field_id <= last
