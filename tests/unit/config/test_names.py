"""Names that would change their meaning somewhere are refused before anything is created (case 56)."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.config.names import NAME_BYTES_MAX, check_catalog, check_column, check_namespace, check_table
from calve.config.sink import SinkConfig
from calve.model.errors import BadName

HOSTILE = {
    "../x": "begins with a dot",
    "../../evil": "begins with a dot",
    "..": "begins with a dot",
    ".hidden": "begins with a dot",
    "a/b": "'/'",
    "a\\b": "\\",
    "a;b": "';'",
    "*": "'*'",
    "": "empty",
    "   ": "space",
    "a ": "space",
    "a\nb": "U+000A",
    "a\x00b": "U+0000",
    "a\u202eb": "U+202E",
    "a\ud800b": "U+D800",
    "a.b": "a dot",
    "x" * (NAME_BYTES_MAX + 1): "bytes",
    "é" * 128: "bytes",
}


@pytest.mark.parametrize("name,reason", HOSTILE.items(), ids=ascii)
@pytest.mark.parametrize(
    "check", [check_table, check_catalog, check_column, lambda name: check_namespace(("good", name))]
)
def test_case_56_hostile_names_are_refused_with_the_reason_and_a_hint(check, name, reason):
    with pytest.raises(BadName) as refused:
        check(name)
    assert reason in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("place", ["namespace", "table", "key", "partition", "sort"])
def test_case_56_a_configuration_refuses_a_hostile_name_wherever_it_stands(place, name):
    quoted = '"' + name + '"'
    values: dict[str, Any] = {"namespace": ("n",), "table": "t", "mode": "upsert", "key": ["id"]}
    values[place] = {"namespace": (name,), "key": ["id", name], "partition": quoted, "sort": quoted}.get(
        place, name
    )
    with pytest.raises(BadName):
        SinkConfig(**values)


def test_a_column_with_a_dot_is_refused_for_what_it_would_mean():
    with pytest.raises(BadName, match="inside a struct, a list or a map") as refused:
        SinkConfig(namespace="n", table="t", mode="upsert", key="tags.element")
    assert "parts the levels" not in refused.value.message
    assert "a column of its own" in refused.value.hint
    with pytest.raises(BadName, match="parts the levels of a name"):
        check_table("a.b")


@pytest.mark.parametrize("name", ['a"b', "a'b", "a`b", "a?b", "a#b", "a%b", "a:b", "a|b", "a<b"])
def test_what_paths_and_queries_give_a_meaning_to_is_refused_in_tables_and_allowed_in_columns(name):
    assert check_column(name) == name
    with pytest.raises(BadName):
        check_table(name)


def test_a_namespace_has_at_least_one_part():
    with pytest.raises(BadName):
        check_namespace(())


@pytest.mark.parametrize("name", ["orders", "заказы", "注文", "می\u200cخواهم", "a b", "a-b_1", "é" * 127])
def test_letters_of_any_script_are_fine(name):
    assert check_table(name) == check_column(name) == name
    assert check_namespace((name,)) == (name,)


@given(
    st.text(alphabet=st.characters(exclude_categories=["L", "N"]) | st.sampled_from("ab1é注"), max_size=20)
)
def test_what_is_taken_has_no_character_of_a_path_a_wildcard_or_a_control(name):
    with contextlib.suppress(BadName):
        assert check_table(name) == name
        assert not set(name) & set("/\\;*.\0\n")
        assert name.strip() == name
        assert 0 < len(name.encode()) <= NAME_BYTES_MAX


def test_a_namespace_that_climbs_is_refused_for_its_slash():
    with pytest.raises(BadName, match="'/'"):
        check_namespace(("", "", "/x"))
