"""Columns of a source: lists, CREATE TABLE texts, guesses, and what messages add to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.config.columns import SourceColumn, SourceTable
from calve.config.ddl import names
from calve.config.ddl.connect import CONNECT
from calve.config.ddl.page import types_page
from calve.config.infer import infer, warn_of_guesses
from calve.config.merge import merge, wider
from calve.config.types import parse_type
from calve.model.errors import BadColumns, BadKey, BadName, CalveError, SchemaMismatch
from tests.support.types import types


def columns(table: SourceTable) -> list[str]:
    return [f"{c.name} {c.type}{' !' if c.required else ''}" for c in table.columns]


def test_a_column_list_is_read_in_its_order_with_types_of_any_database():
    table = SourceTable.of(
        'Id int8 PRIMARY KEY, total decimal(10,2) not null, "a b" timestamp(3) with time zone, tags text[], '
        "v varchar(20), d double precision, j jsonb, m map[text=>int4 list], s array<struct<a: bigint>>,"
    )
    assert columns(table) == [
        "Id long !",
        "total decimal(10,2) !",
        "a b timestamptz",
        "tags list<string>",
        "v string",
        "d double",
        "j string",
        "m map<string,list<int>>",
        "s list<struct<a: long>>",
    ]
    assert table.key == ("Id",)


@pytest.mark.parametrize(
    "listed",
    [
        "a long not null, b text",
        {"a": "long not null", "b": "text"},
        [("a", "long", True), ("b", "text")],
        [SourceColumn("a", "long", True), ("b", "text")],
    ],
    ids=["text", "mapping", "pairs", "columns"],
)
def test_the_forms_of_a_column_list_say_the_same(listed):
    assert columns(SourceTable.of(listed, key=["a"])) == ["a long !", "b string"]


@given(types())
def test_a_column_list_takes_every_type_of_iceberg(kind):
    assert SourceTable.of(f"a {kind}").column("a").type == str(kind)


@pytest.mark.parametrize(
    "listed,said,hint",
    [
        ("a long b int", "'b' was not expected after the type of 'a' (line 1, column 8)", "comma"),
        ("a long,\n  b nmeric(10)", "the type 'nmeric' is not known (line 2, column 5)", "mean numeric?"),
        ("a", "a type was expected (line 1, column 2)", "A column is a name"),
        ("", "a name was expected", "A column is a name"),
        ("a list<int", "'>' was expected (line 1, column 11)", ""),
        ("a decimal(10,2", "'(' is never closed (line 1, column 10)", ""),
        ('a "long', "this quote is never closed (line 1, column 3)", ""),
        ("a numeric", "a decimal without digits", "decimal(38,9)"),
        ("a decimal(39,1)", "decimal(39,1) has no place", "string"),
        ("a int[][]", "an array of arrays", "list<list<int>>"),
        ("a map", "a map of what?", "map<K,V>"),
        ("a list<int, int>", "list<…> is no type", "list<T>"),
        ([("a", "lang")], "column 'a': the type 'lang' is not known (line 1, column 1)", "mean long?"),
        ([("a",)], "('a',) is no column", "pairs"),
        ([("", "int")], "a column has no name", ""),
        (7, "columns are a int", "Give a text"),
        ("a " + "list<" * 40 + "int" + ">" * 40, "32 deep", ""),
    ],
    ids=str,
)
def test_what_is_no_column_list_is_refused_at_its_place(listed, said, hint):
    with pytest.raises(BadColumns) as caught:
        SourceTable.of(listed)
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_names_of_ours_doubled_names_and_keys_that_are_no_columns_are_refused():
    with pytest.raises(BadName, match="stands twice"):
        SourceTable.of("a long, a int")
    with pytest.raises(BadName, match="begins with '__calve_'"):
        SourceTable.of("__calve_at long")
    with pytest.raises(BadKey, match="names 'b'"):
        SourceTable.of("a long", key=["b"])


@given(st.text(alphabet="ab1 (),<>[]\"'`:.-\n$intlongdecimal", max_size=60))
def test_any_text_is_a_column_list_or_is_refused(text):
    """Never an error of the parser's own, never an endless loop."""
    for read in (SourceTable.of, SourceTable.from_create_table):
        try:
            read(text)
        except CalveError:
            pass


@pytest.mark.parametrize("line", names.LINES, ids=lambda line: line.names[0])
def test_every_type_of_the_list_is_read_in_a_create_table(line):
    for name in line.names:
        text = f"CREATE TABLE t (a {name}{'(10,2)' if line.iceberg == 'decimal' else ''})"
        expected = "decimal(10,2)" if line.iceberg == "decimal" else line.iceberg
        assert SourceTable.from_create_table(text).column("a").type == expected


def test_no_type_stands_twice_in_the_list():
    all_names = [name for line in names.LINES for name in line.names]
    assert len(all_names) == len(set(all_names))
    assert not set(all_names) & (set(names.LIST_WORDS) | set(names.CREATE_WORDS))


@pytest.mark.parametrize("text", sorted({iceberg for _, iceberg, _ in CONNECT}))
def test_the_types_of_connect_are_types_of_iceberg(text):
    written = text.replace("(p,s)", "(9,2)").replace("<…>", "<a: int>").replace("<T>", "<int>")
    parse_type(written.replace("<K,V>", "<string,int>"))


def test_the_page_of_types_is_up_to_date():
    page = Path(__file__).parents[3] / "docs" / "types.md"
    assert page.read_text() == types_page(), "run: python -m calve.config.ddl > docs/types.md"


# ---------------------------------------------------------------- guesses


def test_types_are_guessed_from_values():
    rows: list[dict[str, object]] = [
        {"id": 1, "n": None, "f": 1.5, "b": True, "t": "2026-11-16T00:00:00Z", "l": [1, None], "o": {"x": 1}},
        {"id": 2, "f": 2, "l": [2.5], "big": 2**63, "huge": 10**38, "m": [1, "a"], "e": [], "oo": [{}]},
    ]
    table = infer(rows, key=["id"])
    assert columns(table) == [
        "id long !",
        "n string",
        "f double",
        "b boolean",
        "t string",
        "l string",
        "o string",
        "big decimal(38,0)",
        "huge string",
        "m string",
        "e string",
        "oo string",
    ]
    assert table.guessed == table.names
    assert columns(infer([{"l": [1, 2.5]}, {"l": [1, 0.5]}])) == ["l list<double>"]


def test_one_warning_names_each_guess(caplog):
    table = infer([{"id": 1, "f": 1.5}])
    warn_of_guesses(table, "topic orders")
    warn_of_guesses(SourceTable.of("a long"), "topic orders")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "topic orders" in record.getMessage()
    assert "id long, f double" in record.getMessage()


# ---------------------------------------------------------------- merge


def test_new_columns_are_added_at_the_end_and_older_rows_have_none():
    known = SourceTable.of("a long not null", key=["a"])
    merged = merge(known, SourceTable.of("b text not null, a long not null", key=["a"]), "here")
    assert columns(merged) == ["a long !", "b string"]
    assert merged.key == ("a",)


@pytest.mark.parametrize(
    "one,two,both",
    [
        ("int", "long", "long"),
        ("long", "int", "long"),
        ("float", "double", "double"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(12,2)", "decimal(10,2)", "decimal(12,2)"),
        ("list<int>", "list<long>", "list<long>"),
        ("map<string,int>", "map<string,long>", "map<string,long>"),
        ("struct<a: int>", "struct<b: int, a: long>", "struct<a: long, b: int>"),
        ("decimal(10,2)", "decimal(12,3)", None),
        ("int", "double", None),
        ("string", "long", None),
        ("timestamp", "timestamptz", None),
        ("map<int,int>", "map<long,int>", None),
        ("struct<a: int>", "struct<a: string>", None),
        ("list<int>", "int", None),
    ],
)
def test_types_widen_as_a_table_can_in_place(one, two, both):
    known, shown = SourceTable.of([("a", one)]), SourceTable.of([("a", two)])
    if both is not None:
        assert merge(known, shown, "here").column("a").type == both
        return
    with pytest.raises(SchemaMismatch) as caught:
        merge(known, shown, "topic orders, partition 3, offset 17")
    assert caught.value.message.startswith("topic orders, partition 3, offset 17: the column 'a' is ")


@given(types(), types())
def test_a_merge_does_not_depend_on_which_came_first(one, two):
    there, back = wider(one, two), wider(two, one)
    assert (there is None) == (back is None)
    assert there is None or wider(there, one) == there


def test_a_guess_says_nothing_of_what_was_declared_and_what_is_told_ends_a_guess():
    known = SourceTable.of("a timestamptz not null, b int")
    merged = merge(known, infer([{"a": "2026-11-16T00:00:00Z", "c": 1}]), "here")
    assert columns(merged) == ["a timestamptz !", "b int", "c long"]
    assert merged.guessed == ("c",)
    told = merge(merged, SourceTable.of("a timestamptz not null, b int, c long"), "here")
    assert told.guessed == ()
    with pytest.raises(SchemaMismatch, match="was long, a guess of ours"):
        merge(merged, SourceTable.of("c double"), "here")


def test_a_column_is_required_where_both_say_so_and_one_that_is_gone_is_not():
    known = SourceTable.of("a long not null, b int not null, c int not null")
    merged = merge(known, SourceTable.of("a long not null, b int"), "here")
    assert columns(merged) == ["a long !", "b int", "c int"]


def test_another_key_is_refused_and_one_that_was_not_known_is_taken():
    known = SourceTable.of("a long, b long")
    assert merge(known, SourceTable.of("a long", key=["a"]), "here").key == ("a",)
    assert merge(None, known, "here") == known
    with pytest.raises(SchemaMismatch, match=r"the key is \(b\), and was \(a\)"):
        merge(
            SourceTable.of("a long, b long", key=["a"]), SourceTable.of("a long, b long", key=["b"]), "here"
        )


def test_columns_that_differ_in_capital_letters_alone_are_refused_by_their_names():
    with pytest.raises(BadName, match=r"'id' and 'ID' .* differ in capital letters") as refused:
        SourceTable.of({"id": "long", "ID": "string"}, key=["id"])
    assert "Rename one of them" in refused.value.hint
    known = SourceTable.of("id long primary key, name string")
    with pytest.raises(BadName, match="'name' and 'Name'"):
        merge(known, SourceTable.of("Name string"), "topic t")


def test_a_column_of_json_is_known_as_such_where_it_is_declared():
    created = SourceTable.from_create_table(
        "CREATE TABLE t (id INT8 PRIMARY KEY, a JSONB NOT NULL, b pg_catalog.json, c TEXT, d JSONB, e JSONB)",
        types={"d": "string", "e": "struct<x: long>"},
    )
    assert [one.name for one in created.columns if one.is_json] == ["a", "b", "d"]
    listed = SourceTable.of("id long primary key, a jsonb, b string, c json")
    assert [one.name for one in listed.columns if one.is_json] == ["a", "c"]
    assert {one.type for one in listed.columns[1:]} == {"string"}
    shown = SourceTable((SourceColumn("a", "string"),), (), ("a",))
    assert merge(listed, shown, "topic t") == listed
