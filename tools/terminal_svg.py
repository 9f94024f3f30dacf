"""A screen of a terminal as an SVG, in light and in dark.

    cells of pyte ──▶ runs of one style ──▶ <text>, each with its place and its width
                  └─▶ lines of boxes ─────▶ <path>

A picture loads nothing: text is text, in whatever monospace font the reader has. Every run is given its
width, so that columns stand under one another in all of them. Lines of boxes are drawn as lines, because
glyphs of two rows do not meet in every font. The same screen gives the same bytes: no date, no random name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from unicodedata import name as name_of
from xml.sax.saxutils import escape


@dataclass(frozen=True)
class Palette:
    """The colours of a picture, under the names that pyte gives them."""

    name: str
    paper: str
    ink: str
    edge: str
    faint: str
    colours: Mapping[str, str]


def _colours(*colours: str) -> dict[str, str]:
    names = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
    plain = dict(zip(names, colours, strict=True))
    return plain | {f"bright{name}": colour for name, colour in plain.items()}


LIGHT = Palette(
    "light", "#fbfdfe", "#1c2b39", "#d3dee6", "#5c6d7d",
    _colours("#1c2b39", "#b3261e", "#16703a", "#8a6100", "#0b5cad", "#7d3aa0", "#0b6f7c", "#5b6b79")
    | {"brightblack": "#5c6d7d"},
)  # fmt: skip
DARK = Palette(
    "dark", "#0d1b2a", "#dbe7f0", "#23394e", "#7f93a6",
    _colours("#5d7185", "#ff8a80", "#7ee2a0", "#e8c268", "#82bdff", "#d6a8ff", "#62d0d9", "#dbe7f0")
    | {"brightblack": "#7f93a6"},
)  # fmt: skip
PALETTES = (LIGHT, DARK)

CELL, LINE, SIZE = 8.4, 19.0, 14  # of a character, of a row, of the font
PAD, HEAD = 18.0, 40.0
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"


@dataclass(frozen=True)
class Style:
    """How a cell looks."""

    ink: str
    paper: str | None = None
    bold: bool = False
    italic: bool = False
    underlined: bool = False


def style_of(cell: Any, palette: Palette) -> Style:
    def colour(name: str, default: str) -> str:
        if name == "default":
            return default
        return palette.colours.get(name, f"#{name}")

    ink, paper = colour(cell.fg, palette.ink), colour(cell.bg, "")
    if cell.reverse:
        ink, paper = paper or palette.paper, ink
    if cell.blink and cell.fg == "default":
        ink = palette.faint
    return Style(ink, paper or None, cell.bold, cell.italics, cell.underscore)


def picture(screen: Any, palette: Palette, title: str) -> str:
    """The SVG of a screen, without the empty lines at its end."""
    rows = _rows(screen)
    width = screen.columns * CELL + 2 * PAD
    height = HEAD + len(rows) * LINE + PAD
    parts: list[str] = []
    lines: dict[tuple[str, float], list[str]] = {}
    for number, row in enumerate(rows):
        top = HEAD + number * LINE
        for at, style, text in _runs(row, palette):
            parts += _drawn(PAD + at * CELL, top, style, text, lines)
    strokes = [
        f'<path d="{"".join(moves)}" stroke="{ink}" stroke-width="{_n(weight)}"/>'
        for (ink, weight), moves in sorted(lines.items())
    ]
    dots = "".join(
        f'<circle cx="{_n(PAD + 6 + 18 * place)}" cy="20" r="5.5" fill="{palette.edge}"/>'
        for place in range(3)
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" role="img">
<title>{escape(title)}</title>
<style>text {{ font-family: {FONTS}; font-size: {SIZE}px; white-space: pre; }} path {{ fill: none; }}</style>
<rect x="0.5" y="0.5" width="{_n(width - 1)}" height="{_n(height - 1)}" rx="9" fill="{palette.paper}" \
stroke="{palette.edge}"/>
{dots}
{chr(10).join([*parts, *strokes])}
</svg>
"""


def _rows(screen: Any) -> list[list[Any]]:
    rows = [[screen.buffer[row][column] for column in range(screen.columns)] for row in range(screen.lines)]
    filled = [
        number
        for number, row in enumerate(rows)
        if any(cell.data.strip() or cell.bg != "default" for cell in row)
    ]
    return rows[: filled[-1] + 1] if filled else []


def _runs(row: list[Any], palette: Palette) -> Iterator[tuple[int, Style, str]]:
    """Cells that can be drawn as one: of one style, with no gap wider than a space, all of boxes or none."""
    cells = [(at, style_of(cell, palette), cell.data) for at, cell in enumerate(row)]

    def kind(cell: tuple[int, Style, str]) -> tuple[Style, bool]:
        return cell[1], _is_box(cell[2])

    for (style, _), group in groupby(cells, key=kind):
        run_of = list(group)
        text = "".join(data or "\0" for _, _, data in run_of)  # behind a wide character stands nothing
        yield from _pieces(run_of[0][0], style, text)


def _pieces(at: int, style: Style, text: str) -> Iterator[tuple[int, Style, str]]:
    if style.paper is not None:
        yield at, style, text
        return
    begin = None
    for place in range(len(text) + 1):
        gap = place == len(text) or text[place : place + 2] in ("  ", " ")
        if begin is None and not gap and text[place] != " ":
            begin = place
        elif begin is not None and gap:
            yield at + begin, style, text[begin:place]
            begin = None


def _drawn(
    left: float, top: float, style: Style, text: str, lines: dict[tuple[str, float], list[str]]
) -> Iterator[str]:
    width = len(text) * CELL
    if style.paper is not None:
        size = f'width="{_n(width)}" height="{_n(LINE)}"'
        yield f'<rect x="{_n(left)}" y="{_n(top)}" {size} fill="{style.paper}"/>'
    if text and _is_box(text[0]):
        for place, box in enumerate(text):
            for weight, move in _strokes(box, left + place * CELL, top):
                lines.setdefault((style.ink, weight), []).append(move)
    elif words := text.replace("\0", "").rstrip():
        yield (
            f'<text x="{_n(left)}" y="{_n(top + 14)}" textLength="{_n(len(text.rstrip()) * CELL)}" '
            f'lengthAdjust="spacingAndGlyphs" fill="{style.ink}"{_face(style)}>{escape(words)}</text>'
        )


def _face(style: Style) -> str:
    said = ' font-weight="bold"' if style.bold else ""
    said += ' font-style="italic"' if style.italic else ""
    return said + (' text-decoration="underline"' if style.underlined else "")


# ---------------------------------------------------------------- boxes, as lines

_ARMS = {
    "LEFT": ("LEFT",),
    "RIGHT": ("RIGHT",),
    "UP": ("UP",),
    "DOWN": ("DOWN",),
    "HORIZONTAL": ("LEFT", "RIGHT"),
    "VERTICAL": ("UP", "DOWN"),
}
_WEIGHTS = {"LIGHT": 1.2, "HEAVY": 2.0}


def _is_box(text: str) -> bool:
    return len(text) == 1 and bool(_arms(text))


def _arms(box: str) -> dict[str, float]:
    """The arms of a box character and how heavy they are, by its Unicode name: `BOX DRAWINGS HEAVY DOWN AND
    RIGHT`, or `BOX DRAWINGS DOWN LIGHT AND RIGHT HEAVY`. None for those that are not plain lines."""
    words = name_of(box, "").split()
    if words[:2] != ["BOX", "DRAWINGS"] or {"DOUBLE", "DASH", "DIAGONAL"} & set(words):
        return {}
    first = next((_WEIGHTS[word] for word in words[2:3] if word in _WEIGHTS), 0.0)
    arms: dict[str, float] = {}
    waiting: list[str] = []
    for word in words[2:]:
        if word in _WEIGHTS:
            arms |= dict.fromkeys(waiting, _WEIGHTS[word])
            waiting = []
        else:
            waiting += _ARMS.get(word, ())
    return arms | dict.fromkeys(waiting, first)


def _strokes(box: str, left: float, top: float) -> Iterator[tuple[float, str]]:
    """The lines of a box character, as moves of a pen."""
    middle, centre = left + CELL / 2, top + LINE / 2
    ends = {
        "LEFT": (left, centre),
        "RIGHT": (left + CELL, centre),
        "UP": (middle, top),
        "DOWN": (middle, top + LINE),
    }
    arms = _arms(box)
    if "ARC" in name_of(box):
        begin, end = (ends[arm] for arm in sorted(arms))
        bend = f"M{_n(begin[0])} {_n(begin[1])}Q{_n(middle)} {_n(centre)} {_n(end[0])} {_n(end[1])}"
        yield next(iter(arms.values())), bend
        return
    for arm, weight in arms.items():
        x, y = ends[arm]
        yield weight, f"M{_n(middle)} {_n(centre)}L{_n(x)} {_n(y)}"


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
