"""Types as text: what is read, what is refused and where, and what Arrow makes of it."""

from __future__ import annotations

from contextlib import suppress
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import DecimalType, IcebergType, ListType, MapType, StructType

from calve.config.columns import SourceColumn
from calve.config.types import Decimal, List, Map, Plain, Struct, Type, arrow_type, canonical, parse_type
from calve.config.types.notation import DEPTH_MAX
from calve.config.types.tree import PLAIN
from calve.model.errors import BadColumns, CalveError
from calve.table.types import from_arrow
from tests.support.types import types


@given(types())
def test_a_type_is_what_its_text_says(kind):
    assert parse_type(str(kind)) == kind


@given(types(), st.randoms())
def test_spaces_and_the_case_of_words_change_nothing(kind, random):
    text = str(kind)
    if '"' in text:
        return  # inside of quotes both count
    spaced = "".join(mark + (" \n" if mark in "<>(),:" and random.random() < 0.5 else "") for mark in text)
    assert canonical(spaced) == text
    if "struct" not in text:
        assert canonical(spaced.upper()) == text


@given(st.text(alphabet='lonmap<>(),: "`struc9\n\tdeil', max_size=40))
def test_any_text_is_a_type_or_is_refused(text):
    with suppress(CalveError):
        assert canonical(canonical(text)) == canonical(text)


@pytest.mark.parametrize(
    "text,place,reason",
    [
        ("", "line 1, column 1", "a type was expected"),
        ("lang", "line 1, column 1", "there is no such type"),
        ("list<\n  strung>", "line 2, column 3", "there is no such type"),
        ("decimal", "line 1, column 8", "'(' was expected"),
        ("decimal(x,2)", "line 1, column 9", "a number of digits was expected"),
        ("decimal(10,2", "line 1, column 13", "')' was expected"),
        ("struct<a int>", "line 1, column 10", "':' was expected"),
        ("struct<>", "line 1, column 8", "the name of a field was expected"),
        ("long long", "line 1, column 6", "the type ended before this"),
        ("long;", "line 1, column 5", "the type ended before this"),
        ("list<" * 40 + "int" + ">" * 40, f"column {5 * (DEPTH_MAX + 1) + 1}", "32 deep"),
    ],
)
def test_what_is_no_type_is_refused_at_its_place(text, place, reason):
    with pytest.raises(BadColumns) as caught:
        parse_type(text)
    assert place in caught.value.message
    assert reason in caught.value.message


def test_the_caret_stands_below_what_is_wrong():
    with pytest.raises(BadColumns) as caught:
        parse_type("map<string,\n\tlang>")
    assert caught.value.message.splitlines()[1:] == ["    \tlang>", "    \t^"]
    assert "Did you mean long?" in caught.value.hint


@pytest.mark.parametrize("text", ["decimal(39,0)", "decimal(0,0)", "decimal(3,4)"])
def test_a_decimal_that_iceberg_lacks_is_refused(text):
    with pytest.raises(BadColumns, match="no decimal of Iceberg"):
        parse_type(text)


def test_two_fields_of_a_struct_have_two_names():
    with pytest.raises(BadColumns, match="two fields 'a'"):
        parse_type("struct<a: int, a: long>")


def test_a_column_keeps_the_canonical_text_of_its_type():
    assert SourceColumn("a", "DECIMAL( 10, 2 )").type == "decimal(10,2)"


@given(types())
def test_a_table_made_of_the_arrow_type_has_the_type(kind):
    made = from_arrow(arrow_type(str(kind)), "a", count(1))
    assert _ours(made) == kind


def test_files_hold_uuids_and_times_and_frames_carry_bytes_and_numbers():
    assert arrow_type("uuid") == pa.uuid()
    assert arrow_type("time") == pa.time64("us")
    assert arrow_type("uuid", carried=True) == pa.binary()
    assert arrow_type("time", carried=True) == pa.int64()
    inside = arrow_type("struct<a: uuid, b: list<time>>", carried=True)
    assert inside == pa.struct([("a", pa.string()), ("b", pa.list_(pa.field("element", pa.string())))])


@pytest.mark.parametrize("text", [name for name in PLAIN if name not in ("uuid", "time")])
def test_all_others_are_carried_as_they_are(text):
    assert arrow_type(text) == arrow_type(text, carried=True)


def _ours(kind: IcebergType) -> Type:
    match kind:
        case StructType():
            return Struct(tuple((field.name, _ours(field.field_type)) for field in kind.fields))
        case ListType():
            return List(_ours(kind.element_type))
        case MapType():
            return Map(_ours(kind.key_type), _ours(kind.value_type))
        case DecimalType():
            return Decimal(kind.precision, kind.scale)
        case _:
            return Plain(str(kind))
