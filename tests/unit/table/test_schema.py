"""Arrow to Iceberg and back: what is mapped keeps its meaning, what is not is refused by name."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids, index_by_id
from pyiceberg.types import IntegerType, NestedField, TimestampNanoType

from calve.model.errors import BadKey, BadName, SchemaMismatch
from calve.table.schema import NAME_BYTES_MAX, RESERVED_NAMES, check_key, key_of, to_arrow, to_iceberg

MAPPED = [
    (pa.bool_(), "boolean", pa.bool_()),
    (pa.int8(), "int", pa.int32()),
    (pa.int16(), "int", pa.int32()),
    (pa.int32(), "int", pa.int32()),
    (pa.int64(), "long", pa.int64()),
    (pa.uint8(), "int", pa.int32()),
    (pa.uint16(), "int", pa.int32()),
    (pa.uint32(), "long", pa.int64()),
    (pa.uint64(), "decimal(20, 0)", pa.decimal128(20, 0)),
    (pa.float16(), "float", pa.float32()),
    (pa.float32(), "float", pa.float32()),
    (pa.float64(), "double", pa.float64()),
    (pa.decimal32(9, 2), "decimal(9, 2)", pa.decimal128(9, 2)),
    (pa.decimal64(18, 4), "decimal(18, 4)", pa.decimal128(18, 4)),
    (pa.decimal128(38, 38), "decimal(38, 38)", pa.decimal128(38, 38)),
    (pa.decimal256(38, 10), "decimal(38, 10)", pa.decimal128(38, 10)),
    (pa.string(), "string", pa.string()),
    (pa.large_string(), "string", pa.string()),
    (pa.string_view(), "string", pa.string()),
    (pa.json_(), "string", pa.string()),
    (pa.binary(), "binary", pa.binary()),
    (pa.large_binary(), "binary", pa.binary()),
    (pa.binary_view(), "binary", pa.binary()),
    (pa.binary(7), "fixed[7]", pa.binary(7)),
    (pa.uuid(), "uuid", pa.uuid()),
    (pa.date32(), "date", pa.date32()),
    (pa.date64(), "date", pa.date32()),
    (pa.time32("s"), "time", pa.time64("us")),
    (pa.time32("ms"), "time", pa.time64("us")),
    (pa.time64("us"), "time", pa.time64("us")),
    (pa.time64("ns"), "time", pa.time64("us")),
    (pa.timestamp("s"), "timestamp", pa.timestamp("us")),
    (pa.timestamp("ns"), "timestamp", pa.timestamp("us")),
    (pa.timestamp("ms", tz="UTC"), "timestamptz", pa.timestamp("us", tz="UTC")),
    (pa.timestamp("us", tz="Europe/Paris"), "timestamptz", pa.timestamp("us", tz="UTC")),
    (pa.dictionary(pa.int8(), pa.large_string()), "string", pa.string()),
]

REFUSED = [
    pa.null(),
    pa.duration("ms"),
    pa.month_day_nano_interval(),
    pa.dense_union([pa.field("a", pa.int32())]),
    pa.run_end_encoded(pa.int32(), pa.string()),
    pa.decimal256(39, 0),
    pa.decimal128(5, -2),
    pa.decimal128(5, 6),
    pa.binary(0),
    pa.bool8(),
    pa.struct([]),
]


@pytest.mark.parametrize("arrow, iceberg, back", MAPPED, ids=lambda value: str(value))
def test_a_type_has_its_iceberg_type_and_comes_back_as_the_one_files_are_written_in(
    arrow: pa.DataType, iceberg: str, back: pa.DataType
) -> None:
    schema = to_iceberg(pa.schema([("c", arrow)]))
    assert str(schema.fields[0].field_type) == iceberg
    assert to_arrow(schema).field("c").type == back


@pytest.mark.parametrize("arrow", REFUSED, ids=lambda value: str(value))
@pytest.mark.parametrize(
    "wrap, path",
    [
        (lambda inner: inner, "'c'"),
        (lambda inner: pa.list_(inner), "'c.element'"),
        (lambda inner: pa.struct([("in", pa.map_(pa.string(), inner))]), "'c.in.value'"),
    ],
)
def test_case_54_a_type_that_has_no_place_is_refused_by_its_full_path(arrow, wrap, path) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        to_iceberg(pa.schema([("id", pa.int64()), ("c", wrap(arrow))]))
    assert path in refused.value.message
    assert refused.value.hint


def test_every_refused_kind_of_type_has_a_reason_of_its_own() -> None:
    messages = set()
    for arrow in REFUSED[:5]:
        with pytest.raises(SchemaMismatch) as refused:
            to_iceberg(pa.schema([("c", arrow)]))
        messages.add(refused.value.message.partition("Iceberg type: ")[2])
    assert len(messages) == 5


def test_an_empty_schema_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="has no fields"):
        to_iceberg(pa.schema([]))


def test_nanoseconds_and_v3_types_of_a_table_are_refused_by_name() -> None:
    with pytest.raises(SchemaMismatch, match=r"'at' is timestamp_ns"):
        to_arrow(Schema(NestedField(1, "at", TimestampNanoType())))


@pytest.mark.parametrize(
    "names, reason",
    [
        (["a", "a"], "fold case"),
        (["Straße", "STRASSE"], "fold case"),
        (["id", "ID"], "fold case"),
        ([""], "not empty"),
        (["  "], "not empty"),
        (["x" * (NAME_BYTES_MAX + 1)], "at most 255 bytes"),
        (["é" * 128], "at most 255 bytes"),
        (["a\nb"], "control"),
        (["a\0b"], "control"),
        (["_pos"], "Iceberg's own"),
        (["_FILE"], "Iceberg's own"),
    ],
)
def test_case_56_a_column_name_that_a_table_cannot_have_is_refused(names: list[str], reason: str) -> None:
    with pytest.raises(BadName, match=reason):
        to_iceberg(pa.schema([pa.field(name, pa.int32()) for name in names]))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda struct: struct,
        lambda struct: pa.list_(struct),
        lambda struct: pa.map_(pa.string(), struct),
        lambda struct: pa.map_(struct, pa.string()),
        lambda struct: pa.list_view(struct),
        lambda struct: pa.list_(struct, 3),
    ],
)
def test_names_are_checked_on_every_level(wrap) -> None:
    twins = pa.struct([("a", pa.int32()), ("A", pa.int32())])
    with pytest.raises(BadName, match="fold case"):
        to_iceberg(pa.schema([("c", wrap(twins))]))


def test_two_fields_with_one_full_name_are_refused() -> None:
    with pytest.raises(BadName, match=r"full name 'a\.b'"):
        to_iceberg(pa.schema([("a.b", pa.int32()), ("a", pa.struct([("b", pa.int32())]))]))


def test_a_dot_in_a_name_is_only_a_character() -> None:
    schema = to_iceberg(pa.schema([("a.b", pa.int32())]), key=("a.b",))
    assert to_arrow(schema).names == ["a.b"]
    assert key_of(schema) == {"a.b"}


def test_key_columns_are_required_and_identify_rows() -> None:
    schema = to_iceberg(
        pa.schema([("v", pa.string()), ("id", pa.int64()), ("s", pa.string())]), key=("s", "id")
    )
    assert {field.name for field in schema.fields if field.required} == {"id", "s"}
    assert key_of(schema) == {"id", "s"}


def test_keys_that_may_be_null_stay_optional_and_identify_nothing_in_the_tables_eyes() -> None:
    schema = to_iceberg(pa.schema([("id", pa.int64())]), key=("id",), null_keys=True)
    assert not schema.fields[0].required
    assert key_of(schema) == frozenset()


COLUMNS = pa.schema(
    [
        ("customer", pa.int64()),
        ("price", pa.float64()),
        ("rate", pa.float32()),
        ("tags", pa.list_(pa.int64())),
        ("attributes", pa.map_(pa.string(), pa.int64())),
        ("address", pa.struct([("zip", pa.string())])),
    ]
)


@pytest.mark.parametrize(
    "key, reason, hint",
    [
        (("custommer",), "'custommer' is not among the columns", "'customer'"),
        (("Customer",), "'Customer' is not among the columns", "'customer'"),
        (("zzzzzz",), "'zzzzzz' is not among the columns", "price, rate"),
        (("price",), "'price' is a double", "decimal"),
        (("rate",), "'rate' is a float", "decimal"),
        (("tags",), "nested values", "column of its own"),
        (("attributes",), "nested values", "column of its own"),
        (("address",), "nested values", "column of its own"),
        (("tags.element",), "inside the column 'tags'", "column of its own"),
        (("address.zip",), "inside the column 'address'", "column of its own"),
        (("customer", "customer"), "'customer' 2 times", "once"),
    ],
)
def test_case_54_a_key_that_cannot_identify_rows_is_refused(key, reason: str, hint: str) -> None:
    with pytest.raises(BadKey) as refused:
        to_iceberg(COLUMNS, key=key)
    assert reason in refused.value.message
    assert hint in refused.value.hint


def test_no_key_is_no_bad_key() -> None:
    check_key(Schema(NestedField(1, "a", IntegerType())), ())


def test_a_uuid_is_written_with_parquets_own_annotation_and_ids_stand_on_every_level() -> None:
    nested = pa.struct([("ids", pa.list_(pa.uuid())), ("m", pa.map_(pa.string(), pa.int64()))])
    schema = to_arrow(to_iceberg(pa.schema([("u", pa.uuid()), ("n", nested)])))
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([], schema), file)
    text = str(pq.ParquetFile(file).schema)
    assert text.count("(UUID)") == 2
    for field_id in range(1, 8):
        assert f"field_id={field_id} " in text
    # the only levels without an id are those that Parquet adds around elements, and the root
    assert text.count("field_id=-1") == 3


# ------------------------------------------------------------------------------ the whole space

NAMES = st.text(
    st.characters(categories=["L", "N"], include_characters="_-. "), min_size=1, max_size=8
).filter(lambda name: name.strip() and name.casefold() not in RESERVED_NAMES)


def fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    return st.lists(
        st.builds(pa.field, NAMES.map(lambda name: name.replace(".", "_")), types, st.booleans()),
        min_size=1,
        max_size=4,
        unique_by=lambda field: field.name.casefold(),
    )


def nested(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    element = st.builds(lambda inner, nullable: pa.field("item", inner, nullable), types, st.booleans())
    return st.one_of(
        element.map(pa.list_),
        element.map(pa.large_list),
        element.map(pa.list_view),
        st.builds(lambda field: pa.list_(field, 3), element),
        st.builds(lambda key, field: pa.map_(key, field), types, element),
        fields(types).map(pa.struct),
    )


TYPES = st.recursive(st.sampled_from([arrow for arrow, _, _ in MAPPED]), nested, max_leaves=6)


def ids_of(arrow: pa.DataType | pa.Schema) -> Iterator[int]:
    match arrow:
        case pa.Schema() | pa.StructType():
            inner = list(arrow)
        case pa.ListType():
            inner = [arrow.value_field]
        case pa.MapType():
            inner = [arrow.key_field, arrow.item_field]
        case _:
            inner = []
    for field in inner:
        yield int(field.metadata[b"PARQUET:field_id"])
        yield from ids_of(field.type)


@settings(max_examples=150, deadline=None)
@given(fields(TYPES))
def test_what_came_from_iceberg_goes_back_to_the_same_schema(columns: list[pa.Field]) -> None:
    schema = to_iceberg(pa.schema(columns))
    arrow = to_arrow(schema)
    assert to_iceberg(arrow) == schema
    assert sorted(ids_of(arrow)) == sorted(index_by_id(schema)) == list(range(1, schema.highest_field_id + 1))
    assert [column.nullable for column in arrow] == [column.nullable for column in columns]


@settings(max_examples=100, deadline=None)
@given(fields(TYPES))
def test_what_files_are_written_in_means_the_same_to_pyiceberg(columns: list[pa.Field]) -> None:
    schema = to_iceberg(pa.schema(columns))
    theirs = _pyarrow_to_schema_without_ids(_without_uuid(to_arrow(schema)))
    assert (
        assign_fresh_schema_ids(theirs).as_struct() == to_iceberg(_without_uuid(to_arrow(schema))).as_struct()
    )


def _without_uuid(schema: pa.Schema) -> pa.Schema:
    """PyIceberg's reader of Arrow schemas knows the extension type by its storage alone."""

    def strip(arrow: pa.DataType) -> pa.DataType:
        match arrow:
            case pa.UuidType():
                return pa.binary(16)
            case pa.StructType():
                return pa.struct([stripped(field) for field in arrow])
            case pa.ListType():
                return pa.list_(stripped(arrow.value_field))
            case pa.MapType():
                return pa.map_(stripped(arrow.key_field), stripped(arrow.item_field))
        return arrow

    def stripped(field: pa.Field) -> pa.Field:
        return field.with_type(strip(field.type))

    return pa.schema([stripped(field) for field in schema])
