"""Layout: what is shown fits its terminal, and no word is ever cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from calve.cli.layout import hanging, named, table, tied, wrapped

WORDS = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=24)
TEXTS = st.lists(WORDS, max_size=20).map(" ".join)
WIDTHS = st.integers(40, 120)


def words_of(lines: list[str]) -> list[str]:
    return " ".join(lines).split()


@given(TEXTS, WIDTHS)
def test_a_text_is_wrapped_between_words(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert words_of(lines) == text.split()
    assert all(cell_len(line) <= width or len(line.split()) == 1 for line in lines)


@given(st.lists(st.tuples(WORDS, TEXTS), max_size=6), WIDTHS)
def test_names_and_their_values_are_all_there_and_fit(lines: list[tuple[str, str]], width: int) -> None:
    shown = [line.plain for line in named(lines, width)]
    said = [word for name, value in lines if value for word in (name, *value.split())]
    assert words_of(shown) == said
    # A value has twenty columns at least, however long the names are.
    room = max(width, max((cell_len(name) for name, value in lines if value), default=0) + 22)
    assert all(cell_len(line) <= room or len(line.split()) <= 2 for line in shown)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=5), WIDTHS)
def test_a_table_has_every_word_whole_and_fits(rows: list[tuple[str, str, str]], width: int) -> None:
    shown = [line.plain for line in table(("one", "two", "three"), rows, ("two",), width)]
    said = [word for row in rows for cell in row for word in cell.split()]
    found = words_of(shown)
    assert all(found.count(word) >= said.count(word) for word in said)
    longest = max((cell_len(word) for word in said), default=0)
    assert all(cell_len(line) <= width for line in shown) or longest > width - 12


def test_without_a_terminal_a_line_is_a_line() -> None:
    text = "word " * 100
    assert wrapped(text, None) == [text]
    (_, row) = table(("a", "b"), [(text, "x")], width=None)
    assert row.plain == f"{text}  x"


def test_a_value_goes_on_below_itself_and_what_is_indented_stays() -> None:
    shown = hanging(Text("name  "), "one two three four five six\n    kept  as it is\n      ^", 26)
    assert [line.plain for line in shown] == [
        "name  one two three four",
        "      five six",
        "          kept  as it is",
        "            ^",
    ]


@given(st.text("abc ", max_size=70), st.text("abc ", max_size=70), st.integers(40, 100), st.integers(0, 15))
def test_a_caret_stays_below_its_letter_and_its_line_fits(
    before: str, behind: str, width: int, margin: int
) -> None:
    text = f"what is wrong (line 1, column 9)\n    {before}X{behind}\n    {' ' * len(before)}^"
    *_, line, caret = (one.plain for one in hanging(Text("." * margin), text, width))
    assert line[caret.index("^")] == "X"
    assert len(line) <= width


def test_a_table_that_is_too_wide_is_shown_name_by_name() -> None:
    rows = [("paid", "a" * 30, "1"), ("log", "b" * 30, "2")]
    shown = [line.plain for line in table(("sink", "table", "rows"), rows, ("rows",), 40)]
    assert shown == [
        "sink   paid",
        f"table  {'a' * 30}",
        "rows   1",
        "",
        "sink   log",
        f"table  {'b' * 30}",
        "rows   2",
    ]


def test_tied_words_stay_in_one_line() -> None:
    text = f"{tied('Spark 4.1')}, {tied('Trino 476')}"
    assert wrapped(text, 20) == ["Spark 4.1, Trino 476"]
    assert [line.plain for line in table(("", ""), [("x", text)], width=18)] == [
        "x  Spark 4.1,",
        "   Trino 476",
    ]
