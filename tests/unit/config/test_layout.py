"""Layouts as text: what is read, what is refused, and that both name the place."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.config.layout import (
    format_column,
    format_partition,
    format_sort,
    parse_columns,
    parse_partition,
    parse_sort,
)
from calve.model.errors import BadName, BadPartition, CalveError, ConfigError
from calve.model.layout import WIDTH_MAX, PartitionField, SortField, Transform, TransformKind

DAY = Transform(TransformKind.DAY)
IDENTITY = Transform(TransformKind.IDENTITY)


def field(column, kind, width=None):
    return PartitionField(column, Transform(TransformKind(kind), width))


@pytest.mark.parametrize(
    "text,fields",
    [
        ("", []),
        ("  ", []),
        (
            "DAYS(ts), BUCKET(16, id), IDENTITY(region)",
            [field("ts", "day"), field("id", "bucket", 16), field("region", "identity")],
        ),
        ("day(ts)", [field("ts", "day")]),
        ("region", [field("region", "identity")]),
        ("identity", [field("identity", "identity")]),
        ("region , kind", [field("region", "identity"), field("kind", "identity")]),
        ("years(a),year(b)", [field("a", "year"), field("b", "year")]),
        ("Months(a),month(b)", [field("a", "month"), field("b", "month")]),
        ("hours(a),hour(b)", [field("a", "hour"), field("b", "hour")]),
        ("truncate( 4 ,name )", [field("name", "truncate", 4)]),
        ("void(x)", [field("x", "void")]),
        ('day("my col")', [field("my col", "day")]),
        ("day(`my col`), `a``b`", [field("my col", "day"), field("a`b", "identity")]),
        ('"a""b, (c)"', [field('a"b, (c)', "identity")]),
        ("day(größe)", [field("größe", "day")]),
        (f"bucket({WIDTH_MAX}, id)", [field("id", "bucket", WIDTH_MAX)]),
        (
            "identity(id), bucket(4, id), day(id)",
            [field("id", "identity"), field("id", "bucket", 4), field("id", "day")],
        ),
    ],
)
def test_partition_texts_mean_what_they_say(text, fields):
    assert parse_partition(text) == tuple(fields)


def test_a_list_may_mix_texts_and_fields():
    ready = field("id", "bucket", 8)
    assert parse_partition(["day(ts), region", ready]) == (
        field("ts", "day"),
        field("region", "identity"),
        ready,
    )
    assert parse_sort(["a desc", SortField("b")]) == (SortField("a", True, False), SortField("b"))


@pytest.mark.parametrize(
    "text,position,told",
    [
        ("DAYS(ts), BUKET(16, id)", 11, "bucket"),
        ("dayz(ts)", 1, "day"),
        ("zzz(ts)", 1, "identity"),
        ("bucket(id)", 8, "bucket(16, column)"),
        ("bucket(id, 16)", 8, "a number first"),
        ("bucket(16 id)", 8, "a number first"),
        ('bucket("16", id)', 8, "a number first"),
        ("bucket(-4, id)", 8, "a number first"),
        ("bucket(0, id)", 8, "outside"),
        (f"bucket({WIDTH_MAX + 1}, id)", 8, "outside"),
        ("bucket(" + "9" * 5000 + ", id)", 8, "outside"),
        ("day(ts", 7, "'the end'"),
        ("day()", 5, "a column was expected"),
        ("day(16, ts)", 7, "ends with ')'"),
        ("day(ts))", 8, "a comma or the end"),
        ("day(ts) hour(ts)", 9, "a comma or the end"),
        ("day(ts),", 8, "nothing follows"),
        (",day(ts)", 1, "a transform or a column"),
        ("(ts)", 1, "a transform or a column"),
        ('day("ts)', 5, "never closed"),
        ("day(`ts)", 5, "never closed"),
    ],
)
def test_a_wrong_partition_is_refused_with_its_position_and_the_way_out(text, position, told):
    with pytest.raises(BadPartition) as refused:
        parse_partition(text)
    assert f"position {position}:" in refused.value.message
    assert told in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["a, a", "day(ts), hour(ts)", "bucket(4, id), bucket(8, id)", "day(ts), days(ts)", "void(a), void(a)"],
)
def test_a_partition_that_iceberg_calls_redundant_is_refused(text):
    with pytest.raises(BadPartition, match="both"):
        parse_partition(text)


def test_the_same_field_twice_is_refused_also_as_one_object():
    with pytest.raises(BadPartition, match="both"):
        parse_partition([field("a", "day")] * 2)


@pytest.mark.parametrize("text", ["day(../x)", "a;b", "*", "a.b", '""', "day(a/b)"])
def test_case_56_hostile_columns_are_refused_in_layouts(text):
    for parse in (parse_partition, parse_sort if "(" not in text else parse_partition):
        with pytest.raises(BadName):
            parse(text)


def test_case_56_hostile_columns_are_refused_in_ready_fields():
    with pytest.raises(BadName):
        parse_partition([PartitionField("../x", DAY)])
    with pytest.raises(BadName):
        parse_sort([SortField("a;b")])


@pytest.mark.parametrize(
    "text,fields",
    [
        ("", []),
        ("a", [SortField("a", False, True)]),
        ("a DESC", [SortField("a", True, False)]),
        (
            "event_time ASC NULLS LAST, id desc",
            [SortField("event_time", False, False), SortField("id", True, False)],
        ),
        ("a descending nulls first, b ascending", [SortField("a", True, True), SortField("b", False, True)]),
        ("a nulls last", [SortField("a", False, False)]),
        ('"asc" desc, nulls', [SortField("asc", True, False), SortField("nulls", False, True)]),
    ],
)
def test_sort_orders_put_nulls_where_iceberg_does_unless_told(text, fields):
    assert parse_sort(text) == tuple(fields)


@pytest.mark.parametrize(
    "text,position,told",
    [
        ("a up", 3, "a comma or the end"),
        ("a desc nulls", 13, "FIRST or LAST"),
        ("a nulls middle", 9, "FIRST or LAST"),
        ("bucket(4, a)", 7, "a comma or the end"),
        ("a,", 2, "nothing follows"),
        (", a", 1, "a column was expected"),
    ],
)
def test_a_wrong_sort_order_is_refused_with_its_position(text, position, told):
    with pytest.raises(BadPartition) as refused:
        parse_sort(text)
    assert f"position {position}:" in refused.value.message
    assert told in refused.value.message


def test_a_sort_order_names_a_column_once():
    with pytest.raises(BadPartition, match="'a' twice"):
        parse_sort("a, a desc")


@pytest.mark.parametrize("parse", [parse_partition, parse_sort, lambda items: parse_columns(items, "key")])
def test_a_list_of_something_else_is_refused(parse):
    with pytest.raises(ConfigError, match="int"):
        parse([1])


def test_columns_stand_with_commas_or_in_a_list():
    assert parse_columns('id, "my col",`x`', "key") == ("id", "my col", "x")
    assert parse_columns(["id", "a,b"], "key") == ("id", "a,b")
    assert parse_columns("", "key") == ()
    with pytest.raises(ConfigError, match="a comma or the end"):
        parse_columns("my col", "key")


columns = st.one_of(
    st.from_regex(r"[a-z_][a-z0-9_]{0,10}", fullmatch=True),
    st.sampled_from(["my col", 'a"b', "a,b", "(", "ü`", "day", "16"]),
)
transforms = st.one_of(
    st.sampled_from([Transform(kind) for kind in TransformKind if kind.value not in ("bucket", "truncate")]),
    st.builds(
        Transform, st.sampled_from([TransformKind.BUCKET, TransformKind.TRUNCATE]), st.integers(1, WIDTH_MAX)
    ),
)


@given(st.lists(st.builds(PartitionField, columns, transforms), unique_by=lambda field: field.column))
def test_a_partition_survives_being_written_as_text(fields):
    assert parse_partition(", ".join(map(format_partition, fields))) == tuple(fields)


@given(
    st.lists(
        st.builds(SortField, columns, st.booleans(), st.booleans()), unique_by=lambda field: field.column
    )
)
def test_a_sort_order_survives_being_written_as_text(fields):
    assert parse_sort(", ".join(map(format_sort, fields))) == tuple(fields)


@given(st.lists(columns))
def test_columns_survive_being_written_as_text(names):
    assert parse_columns(", ".join(map(format_column, names)), "key") == tuple(names)


@given(st.text(alphabet=" (),\"`ab1.;*'\n"))
def test_any_text_is_a_layout_or_an_error_of_ours(text):
    for parse in (parse_partition, parse_sort, lambda text: parse_columns(text, "key")):
        with contextlib.suppress(CalveError):
            parse(text)


@pytest.mark.parametrize(
    "hostile",
    [
        "day(ts); DROP TABLE x",
        "bucket(16, id)) --",
        'day("a") "b"',
        "__import__('os')",
        "day(ts)\x00",
    ],
)
def test_case_59_layouts_are_parsed_and_never_spliced(hostile: str) -> None:
    """Case 59: what is not a layout is refused with its place, whatever language it would be."""
    with pytest.raises(BadPartition):
        parse_partition(hostile)
