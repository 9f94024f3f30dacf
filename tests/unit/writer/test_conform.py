"""Rows come out with the table's schema and their own values, or are refused with their place (P8)."""

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.errors import BadRow, CalveError, SchemaMismatch
from calve.writer.cast import without_views
from calve.writer.conform import check_keys, conform


def field(number: int, name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {b"PARQUET:field_id": str(number).encode()})


def one(values: list[Any], source: pa.DataType, target: pa.DataType, *, required: bool = False) -> pa.Table:
    """One column of values through `conform`."""
    rows = pa.table({"a": pa.array(values, source)})
    return conform(rows, pa.schema([field(1, "a", target, nullable=not required)]), first_row=100)


def refusal(*args: Any, **kwargs: Any) -> CalveError:
    with pytest.raises(CalveError) as refused:
        one(*args, **kwargs)
    assert refused.value.hint
    return refused.value


SCHEMA = pa.schema(
    [
        field(1, "id", pa.int64(), nullable=False),
        field(2, "name", pa.string()),
        field(3, "tags", pa.list_(field(6, "element", pa.string(), nullable=False))),
        field(4, "at", pa.struct([field(7, "x", pa.int32(), nullable=False), field(8, "y", pa.float64())])),
        field(5, "more", pa.map_(pa.field("key", pa.string(), False), field(10, "value", pa.int64()))),
    ]
)


# ------------------------------------------------------------------ columns


def test_columns_are_taken_by_name_in_any_order_and_missing_optional_ones_are_null() -> None:
    rows = pa.table({"name": ["a", None], "id": pa.array([1, 2], pa.int16())})
    result = conform(rows, SCHEMA)
    assert result.schema.equals(SCHEMA, check_metadata=True)
    assert result.to_pylist()[0] == {"id": 1, "name": "a", "tags": None, "at": None, "more": None}
    result.validate(full=True)


def test_the_result_has_field_ids_on_every_level() -> None:
    incoming = pa.table(
        {
            "id": [1],
            "tags": [["a"]],
            "at": [{"y": 0.5, "x": 1}],
            "more": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    result = conform(incoming, SCHEMA)
    assert result.schema.field("tags").type.value_field.metadata == {b"PARQUET:field_id": b"6"}
    assert result["at"].type.field("x").metadata == {b"PARQUET:field_id": b"7"}
    assert result.to_pylist()[0]["at"] == {"x": 1, "y": 0.5}
    assert result.to_pylist()[0]["more"] == [("k", 1)]


def test_a_column_that_fits_is_not_copied() -> None:
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}).slice(1)
    result = conform(rows, SCHEMA)
    for name in ("id", "name"):
        before = [buffer.address for buffer in rows[name].chunk(0).buffers() if buffer]
        after = [buffer.address for buffer in result[name].chunk(0).buffers() if buffer]
        assert before == after


def test_a_record_batch_is_as_good_as_a_table() -> None:
    record_batch = pa.record_batch({"id": [1], "name": ["a"]})
    assert conform(record_batch, SCHEMA).num_rows == 1


def test_a_column_that_the_table_lacks_is_named_with_the_nearest_one() -> None:
    with pytest.raises(SchemaMismatch) as refused:
        conform(pa.table({"id": [1], "nmae": ["a"]}), SCHEMA)
    assert "'nmae'" in refused.value.message
    assert "'tags'" in refused.value.message
    assert "Did you mean 'name'?" in refused.value.hint


def test_a_doubled_column_is_refused() -> None:
    rows = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    with pytest.raises(SchemaMismatch, match="'id' is there more than once"):
        conform(rows, SCHEMA)


def test_a_missing_required_column_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="'id' is missing"):
        conform(pa.table({"name": ["a"]}), SCHEMA)


@pytest.mark.parametrize(
    "struct, message",
    [
        ({"x": 1, "z": 1}, "column 'at': the table has no 'z'"),
        ({"y": 1.0}, "column 'at': 'x' is missing"),
        ({"x": "a"}, "column 'at.x' is string, the table's is int32"),
    ],
)
def test_nested_fields_are_held_to_the_same_rules(struct: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        conform(pa.table({"id": [1], "at": [struct]}), SCHEMA)
    assert message in refused.value.message


def test_types_are_checked_even_where_no_row_is() -> None:
    with pytest.raises(SchemaMismatch):
        conform(pa.table({"id": pa.chunked_array([], pa.string())}), SCHEMA)
    with pytest.raises(SchemaMismatch):
        conform(pa.schema([("id", pa.string())]).empty_table(), SCHEMA)


# ------------------------------------------------------------------ values that fit

UTC = dt.UTC
LOSSLESS: list[tuple[pa.DataType, pa.DataType, list[Any], list[Any] | None]] = [
    (pa.int8(), pa.int32(), [-128, 127], None),
    (pa.uint16(), pa.int32(), [65535], None),
    (pa.uint32(), pa.int64(), [2**32 - 1], None),
    (pa.uint64(), pa.decimal128(20, 0), [2**64 - 1, 0], [Decimal(2**64 - 1), Decimal(0)]),
    (pa.int64(), pa.int32(), [2**31 - 1, -(2**31)], None),
    (pa.int64(), pa.decimal128(9, 2), [9_999_999], [Decimal("9999999.00")]),
    (pa.int32(), pa.decimal128(38, 30), [-12], [Decimal("-12." + "0" * 30)]),
    (pa.float16(), pa.float32(), [1.5], None),
    (pa.float32(), pa.float64(), [0.5, float("inf")], None),
    (pa.decimal128(5, 2), pa.decimal128(20, 2), [Decimal("-1.25")], None),
    (pa.decimal256(50, 2), pa.decimal128(38, 2), [Decimal("1.25")], None),
    (pa.decimal64(10, 1), pa.decimal128(10, 1), [Decimal("1.5")], None),
    (pa.decimal128(20, 4), pa.decimal128(10, 2), [Decimal("1.2500")], [Decimal("1.25")]),
    (pa.large_string(), pa.string(), ["a", "ö"], None),
    (pa.string_view(), pa.string(), ["a long string that is not inlined"], None),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), ["a", "b", "a"], None),
    (pa.run_end_encoded(pa.int32(), pa.int64()), pa.int64(), [1, 1, 2], None),
    (pa.large_binary(), pa.binary(), [b"\xff"], None),
    (pa.binary(4), pa.binary(), [b"abcd"], None),
    (pa.binary(), pa.binary(4), [b"abcd"], None),
    (pa.binary(16), pa.uuid(), [b"\0" * 16], [UUID(int=0)]),
    (pa.uuid(), pa.binary(16), [b"\1" * 16], None),
    (pa.uuid(), pa.uuid(), [UUID(int=7).bytes], [UUID(int=7)]),
    (
        pa.struct({"u": pa.binary(16)}),
        pa.struct({"u": pa.uuid()}),
        [{"u": b"\1" * 16}],
        [{"u": UUID(bytes=b"\1" * 16)}],
    ),
    (pa.list_(pa.binary(16)), pa.list_(pa.uuid()), [[b"\1" * 16], []], [[UUID(bytes=b"\1" * 16)], []]),
    (pa.struct({}), pa.struct({"u": pa.uuid()}), [{}], [{"u": None}]),
    (pa.timestamp("s"), pa.timestamp("us"), [dt.datetime(2026, 1, 1)], None),  # noqa: DTZ001
    (pa.timestamp("ns"), pa.timestamp("us"), [1_000], [dt.datetime(1970, 1, 1, microsecond=1)]),  # noqa: DTZ001
    (
        pa.timestamp("ms", "Europe/Berlin"),
        pa.timestamp("us", "UTC"),
        [0],
        [dt.datetime(1970, 1, 1, tzinfo=UTC)],
    ),
    (pa.time32("ms"), pa.time64("us"), [dt.time(1, 2, 3)], None),
    (pa.time64("ns"), pa.time64("us"), [5_000], [dt.time(microsecond=5)]),
    (pa.date64(), pa.date32(), [dt.date(2026, 11, 15)], None),
    (pa.null(), pa.uuid(), [None], None),
    (pa.list_view(pa.int8()), pa.list_(pa.int32()), [[1], [2, 3], None, []], None),
    (pa.large_list(pa.large_string()), pa.list_(pa.string()), [["a", None], None, []], None),
    (pa.list_(pa.int8(), 2), pa.list_(pa.int64()), [[1, 2], None, [3, 4]], None),
    (pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, []], None),
    (
        pa.struct({"b": pa.int8(), "a": pa.large_string()}),
        pa.struct({"a": pa.string(), "b": pa.int64(), "c": pa.bool_()}),
        [{"a": "x", "b": 1}, None],
        [{"a": "x", "b": 1, "c": None}, None],
    ),
]


@pytest.mark.parametrize("source, target, values, expected", LOSSLESS, ids=lambda value: str(value)[:40])
def test_a_value_that_fits_is_the_same_value(
    source: pa.DataType, target: pa.DataType, values: list[Any], expected: list[Any] | None
) -> None:
    result = one([*values, None], source, target)
    result.validate(full=True)
    assert result["a"].type == target
    assert result["a"].to_pylist() == [*(values if expected is None else expected), None]


NESTED = pa.list_(
    pa.struct({"m": pa.map_(pa.string(), pa.list_(pa.int64())), "s": pa.struct({"v": pa.string()})})
)
nested_values = st.lists(
    st.none()
    | st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "m": st.none()
                | st.lists(
                    st.tuples(
                        st.text(max_size=2), st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=2)
                    ),
                    max_size=2,
                ),
                "s": st.none() | st.fixed_dictionaries({"v": st.none() | st.text(max_size=2)}),
            }
        ),
        max_size=3,
    ),
    max_size=8,
)
WIDER = pa.large_list(
    pa.struct(
        {
            "s": pa.struct({"v": pa.large_string()}),
            "m": pa.map_(pa.large_string(), pa.list_view(pa.int8())),
        }
    )
)


@given(nested_values, st.integers(0, 4), st.integers(0, 4))
def test_nested_slices_come_out_as_they_went_in(values: list[Any], start: int, length: int) -> None:
    rows = pa.table({"a": pa.array(values, WIDER)}).slice(start, length)
    result = conform(rows, pa.schema([field(1, "a", NESTED)]))
    result.validate(full=True)
    assert result["a"].to_pylist() == pa.array(values, NESTED).slice(start, length).to_pylist()


@given(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)),
    st.sampled_from([pa.int32(), pa.decimal128(10, 0)]),
)
def test_an_integer_either_keeps_its_value_or_is_named(values: list[int | None], target: pa.DataType) -> None:
    limit = 10**10 if pa.types.is_decimal(target) else 2**31
    fits = [value is None or -limit < value < limit or (value == -limit == -(2**31)) for value in values]
    if all(fits):
        assert one(values, pa.int64(), target)["a"].to_pylist() == values
    else:
        bad = fits.index(False)
        assert (
            f"column 'a', row {100 + bad}, value {values[bad]}:"
            in refusal(values, pa.int64(), target).message
        )


# ------------------------------------------------------------------ values that do not


@pytest.mark.parametrize(
    "source, target, values",
    [
        (pa.int64(), pa.int32(), [1, 2**31]),
        (pa.uint64(), pa.decimal128(10, 0), [1, 2**64 - 1]),
        (pa.decimal128(10, 2), pa.decimal128(10, 1), [Decimal("1.10"), Decimal("1.55")]),
        (pa.decimal128(10, 0), pa.decimal128(5, 0), [Decimal(1), Decimal(123456)]),
        (pa.timestamp("ns"), pa.timestamp("us"), [1000, 1001]),
        (pa.timestamp("s"), pa.timestamp("us"), [0, 2**62]),
        (pa.time64("ns"), pa.time64("us"), [1000, 1]),
        (pa.date64(), pa.date32(), [0, 1]),
        (pa.binary(), pa.uuid(), [b"a" * 16, b"a"]),
        (pa.list_(pa.int64()), pa.list_(pa.int32()), [[1], [1, 2**40]]),
        (pa.struct({"b": pa.int64()}), pa.struct({"b": pa.int32()}), [{"b": 1}, {"b": 2**40}]),
    ],
    ids=str,
)
def test_case_54_a_value_that_does_not_fit_is_named_with_its_row(
    source: pa.DataType, target: pa.DataType, values: list[Any]
) -> None:
    refused = refusal(values, source, target)
    assert isinstance(refused, BadRow)
    assert refused.message.startswith("column 'a")
    assert "row 101" in refused.message


def test_the_first_bad_row_of_many_chunks_is_named() -> None:
    column = pa.chunked_array([[1, 2], [], [3, 4, None, 6], [None]], pa.int64())
    with pytest.raises(BadRow, match="column 'id', row 14, value None"):
        conform(pa.table({"id": column}), SCHEMA, first_row=10)


@pytest.mark.parametrize(
    "kind, values, path",
    [
        (pa.list_(pa.field("element", pa.int64(), False)), [[1], [1, None]], "a.element"),
        (pa.struct([pa.field("b", pa.int64(), False)]), [{"b": 1}, {"b": None}], "a.b"),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), False)), [[("k", 1)], [("k", None)]], "a.value"),
    ],
    ids=str,
)
def test_a_null_in_a_required_nested_field_is_named(kind: pa.DataType, values: list[Any], path: str) -> None:
    optional = pa.array(values).type if not pa.types.is_map(kind) else pa.map_(pa.string(), pa.int64())
    assert f"column {path!r}, row 101" in refusal(values, optional, kind).message


def test_a_required_field_of_a_null_struct_is_no_error() -> None:
    kind = pa.struct([pa.field("b", pa.int64(), False)])
    assert one([None, {"b": 1}], pa.struct({"b": pa.int8()}), kind)["a"].to_pylist() == [None, {"b": 1}]


def test_a_long_value_is_cut_in_the_error() -> None:
    refused = refusal([b"x" * 10_000], pa.binary(), pa.uuid())
    assert len(refused.message) < 400


@pytest.mark.parametrize(
    "source, target",
    [
        (pa.float64(), pa.float32()),
        (pa.float64(), pa.int64()),
        (pa.int64(), pa.float64()),
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int32()),
        (pa.binary(), pa.string()),
        (pa.date32(), pa.timestamp("us")),
        (pa.binary(8), pa.binary(16)),
        (pa.list_(pa.int64()), pa.int64()),
        (pa.int64(), pa.list_(pa.int64())),
        (pa.int64(), pa.struct({"a": pa.int64()})),
        (pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())),
        (pa.duration("s"), pa.int64()),
    ],
    ids=str,
)
def test_types_that_mean_something_else_are_refused(source: pa.DataType, target: pa.DataType) -> None:
    refused = refusal([None], source, target)
    assert isinstance(refused, SchemaMismatch)
    assert f"column 'a' is {source}" in refused.message


def test_times_with_and_without_a_zone_never_meet() -> None:
    naive, aware = pa.timestamp("us"), pa.timestamp("us", "UTC")
    assert "zone" in refusal([0], naive, aware).hint
    assert "zone" in refusal([0], aware, naive).hint


def test_case_54_a_null_key_is_refused_with_its_row() -> None:
    rows = pa.table({"a": [1, 2, 3], "b": ["x", None, None]})
    check_keys(rows, ("a",))
    with pytest.raises(BadRow, match="column 'b', row 8: the key is null"):
        check_keys(rows, ("a", "b"), first_row=7)


@pytest.mark.parametrize(
    "encoded",
    [
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["a", None])),
        pa.array(["a", None]).dictionary_encode(),
        pc.run_end_encode(pa.array(["a", None])),
    ],
    ids=lambda array: str(array.type),
)
def test_a_null_key_behind_an_encoding_is_refused(encoded: pa.Array) -> None:
    with pytest.raises(BadRow, match="column 'a', row 8: the key is null"):
        check_keys(pa.table({"a": encoded}), ("a",), first_row=7)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("nested", [False, True])
def test_a_string_that_is_not_utf_8_is_refused_with_its_place(kind: pa.DataType, nested: bool) -> None:
    bad = pa.array([b"fine", None, b"\xff\xfe", b"\xc3"], pa.large_binary()).view(pa.large_string())
    if kind == pa.string():
        bad = pa.array([b"fine", None, b"\xff\xfe", b"\xc3"], pa.binary()).view(pa.string())
    column = pa.StructArray.from_arrays([bad], ["x"]) if nested else bad
    target = pa.struct([("x", pa.string())]) if nested else pa.string()
    with pytest.raises(BadRow, match=r"row 12.*not UTF-8") as refused:
        conform(pa.table({"s": column}), pa.schema([("s", target)]), first_row=10)
    assert ("column 's.x'" if nested else "column 's'") in refused.value.message


def test_views_become_plain_columns_on_every_level() -> None:
    text, raw = pa.string_view(), pa.binary_view()
    values: dict[pa.DataType, list[Any]] = {
        text: ["a long string that is not inlined", None],
        raw: [b"a long string that is not inlined", None],
        pa.struct([pa.field("x", text)]): [{"x": "a"}, None],
        pa.list_(raw): [[b"a", None], None],
        pa.large_list(text): [["a", None], None],
        pa.list_(text, 2): [["a", None], None],
        pa.list_(pa.struct([pa.field("x", raw)]), 1): [[{"x": b"a"}], None],
        pa.map_(text, pa.list_(text)): [[("k", ["v"])], None],
    }
    rows = pa.table({str(place): pa.array(values[kind], kind) for place, kind in enumerate(values)})
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array(["a"]).cast(text))
    rows = rows.append_column("d", encoded)
    plain = without_views(rows)
    assert plain.to_pylist() == rows.to_pylist()
    assert "view" not in str(plain.schema)
    assert without_views(plain) is plain


@pytest.mark.parametrize("of", [pa.string_view(), pa.binary_view(), pa.string()], ids=str)
@pytest.mark.parametrize("large", [False, True])
def test_list_views_in_any_order_keep_their_values(large: bool, of: pa.DataType) -> None:
    """Casts of Arrow's own empty such lists: nothing here may use one."""
    values = pa.array(["a", "bb", None, "dddd"]).cast(
        pa.binary() if pa.types.is_binary_view(of) else pa.string()
    )
    kind, size = (pa.LargeListViewArray, pa.int64()) if large else (pa.ListViewArray, pa.int32())
    lists = kind.from_arrays(
        pa.array([2, 0, 3, 1], size),
        pa.array([2, 2, 0, 1], size),
        values.cast(of),
        mask=pa.array([False, False, False, True]),
    )
    rows = without_views(pa.table({"c": lists}).slice(0, 4))
    kept = rows.filter(pa.array([True, False, True, True]))
    element = pa.binary() if pa.types.is_binary_view(of) else pa.string()
    schema = pa.schema([pa.field("c", pa.list_(pa.field("element", element)))])
    wanted = lists.to_pylist()
    assert conform(rows, schema)["c"].to_pylist() == wanted
    assert conform(kept, schema)["c"].to_pylist() == [wanted[0], wanted[2], wanted[3]]
