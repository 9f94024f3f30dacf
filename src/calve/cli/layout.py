"""Layout: texts in lines, names with their values, rows in columns. No word is ever cut.

    words ──wrapped──▶ lines        a word that is wider than the line has a line of its own, and is whole
    names, values ──named──▶ lines  a value goes on below itself
    rows ──table──▶ lines           columns with blanks between; where a terminal is too narrow, names and
                                    values, row by row

A width of `None` is no terminal: there a line is as long as it is. Nothing here prints.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

GAP = "  "
_TIED = "\ue000"
"""A blank at which no line ends."""
_MARGIN = "    "
"""Before a line that is shown with a caret (`show_place`)."""
_NARROW = 20
"""Columns that a text has at least, however far it is from the margin."""

Cell = str | Text
Named = tuple[str, "Cell | Sequence[Cell]"]
"""A name, and what is said of it; several lines, where it has several."""


def wrapped(text: str, width: int | None, hang: int = 0) -> list[str]:
    """A text in lines. What is indented is not wrapped, and is cut where a caret stands below it: that shows
    its word in any terminal. `hang`: how far from the margin a line goes on."""
    lines: list[str] = []
    for line in _cut_at_carets(text.splitlines(), width) or [""]:
        if width is None or line.startswith(" ") or cell_len(line) <= width:
            lines.append(line)
        else:
            lines += _filled(line, width, " " * hang)
    return [line.replace(_TIED, " ") for line in lines]


def _cut_at_carets(lines: list[str], width: int | None) -> list[str]:
    """The same lines; of one that has a caret below and is too wide, what fits around that."""
    found = list(lines)
    for number, (above, below) in enumerate(itertools.pairwise(lines)):
        if width is None or below.strip() != "^" or not above.startswith(_MARGIN) or cell_len(above) <= width:
            continue
        room = max(_NARROW, width - len(_MARGIN))
        caret = len(below) - len(_MARGIN)
        cut = len(_MARGIN) + max(0, caret - room + room // 5)
        found[number] = (_MARGIN + above[cut : cut + room]).rstrip()
        found[number + 1] = _MARGIN + below[cut:]
    return found


def _filled(line: str, width: int, margin: str) -> Iterator[str]:
    """As many words in a line as fit. Letters may be two places wide."""
    begun = ""
    for blank, word in re.findall(r"(\s*)(\S+)", line):
        if begun.strip() and cell_len(begun + blank + word) > width:
            yield begun
            begun = margin + word
        else:
            begun += blank + word if begun.strip() else word
    yield begun


def tied(text: str) -> str:
    """A text that stays in one line, where there is room for it."""
    return text.replace(" ", _TIED)


def hanging(first: Text, text: str, width: int | None, style: str = "") -> Iterator[Text]:
    """A text behind a word, whose further lines begin where its first one does."""
    margin = cell_len(first.plain)
    lines = wrapped(text, None if width is None else max(_NARROW, width - margin))
    for number, line in enumerate(lines):
        yield Text.assemble(first if number == 0 else " " * margin, (line, style))


def named(lines: Iterable[Named], width: int | None, indent: int = 0, least: int = 0) -> Iterator[Text]:
    """Names in a column, which has so many places at least, and their values in another. What is empty is
    left out."""
    said = [(name, value) for name, value in lines if value]
    column = max((least, *(cell_len(name) for name, _ in said)))
    margin = indent + column + len(GAP)
    for name, value in said:
        head = Text.assemble(" " * indent, (name, "dim"), " " * (margin - indent - cell_len(name)))
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, Text):
                yield Text.assemble(head, part)
            else:
                yield from hanging(head, str(part), width)
            head = Text(" " * margin)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    right: Iterable[str] = (),
    width: int | None = None,
    indent: int = 0,
) -> Iterator[Text]:
    """Rows below their headings. The columns that are named in `right` are numbers."""
    body = [[one if isinstance(one, Text) else Text(one) for one in row] for row in rows]
    known = set(right)
    widths = _widths(headings, body, None if width is None else width - indent)
    if widths is None:
        yield from _stacked(headings, body, width, indent)
        return
    aligned = [heading in known for heading in headings]
    if any(headings):
        yield _line([Text(one, style="bold") for one in headings], widths, aligned, indent)
    for row in body:
        cells = [_cut(cell, size) for cell, size in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells), default=0)):
            parts = [cell[number] if number < len(cell) else Text() for cell in cells]
            yield _line(parts, widths, aligned, indent)


def _widths(headings: Sequence[str], rows: Sequence[Sequence[Text]], width: int | None) -> list[int] | None:
    """Of each column, so that all stand side by side; `None` where they cannot without cutting a word."""
    columns = [[heading, *(row[n].plain for row in rows)] for n, heading in enumerate(headings)]
    wide = [max(map(_longest_line, column), default=0) for column in columns]
    if width is None:
        return wide
    least = [max(cell_len(column[0]), *map(_longest_word, column)) for column in columns]
    most = width - len(GAP) * (len(columns) - 1)
    while sum(wide) > most:
        widest = max(range(len(wide)), key=lambda n: (wide[n] > least[n], wide[n]))
        if wide[widest] <= least[widest]:
            return None
        wide[widest] -= 1
    return wide


def _longest_line(text: str) -> int:
    return max(map(cell_len, text.splitlines()), default=0)


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _cut(cell: Text, width: int) -> list[Text]:
    if _TIED not in cell.plain and _longest_line(cell.plain) <= width:
        return list(cell.split("\n"))
    return [Text(line, style=cell.style) for line in wrapped(cell.plain, width)]


def _line(cells: Sequence[Text], widths: Sequence[int], right: Sequence[bool], indent: int) -> Text:
    line = Text(" " * indent)
    for number, (cell, size, is_right) in enumerate(zip(cells, widths, right, strict=True)):
        blank = " " * (size - cell_len(cell.plain))
        line.append_text(Text(GAP if number else ""))
        line.append_text(Text.assemble(blank, cell) if is_right else Text.assemble(cell, blank))
    line.rstrip()
    return line


def _stacked(
    headings: Sequence[str], rows: Sequence[Sequence[Text]], width: int | None, indent: int
) -> Iterator[Text]:
    for number, row in enumerate(rows):
        if number:
            yield Text()
        pairs = [(heading, cell.plain) for heading, cell in zip(headings, row, strict=True)]
        yield from named(pairs, width, indent)
