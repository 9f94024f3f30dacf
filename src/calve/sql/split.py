"""Split: the statements of a text, each with the place where it begins.

A semicolon ends a statement, unless it stands in quotes or in a comment. What is between two of them is not
looked at here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from calve.config.types.notation import show_place
from calve.model.errors import BadStatement
from calve.sql.mask import masked

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`)
      | (?P<open>/\*|['"`])
      | (?P<end>;)
      | (?P<blank>\s+)
      | (?P<other>[^\s;'"`/-]+|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of a statement."""

    text: str
    at: int


def split(text: str) -> list[Piece]:
    """The statements of a text, without those that are nothing but blanks and comments."""
    pieces: list[Piece] = []
    first: int | None = None
    last = 0
    long: int | None = None
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "open":
            raise _open(text, token, long)
        if kind == "quoted" and "\n" in token[0] and long is None:
            long = token.start()
        if kind == "end":
            pieces += [] if first is None else [Piece(text[first:last], first)]
            first = None
        elif kind not in ("blank", "comment"):
            first = token.start() if first is None else first
            last = token.end()
    pieces += [] if first is None else [Piece(text[first:last], first)]
    return pieces


def _open(text: str, token: re.Match[str], long: int | None) -> BadStatement:
    """A quote or a comment without an end. `long`: where the first text in quotes begins that goes over
    several lines: as a rule that is the one whose end was forgotten."""
    place = show_place(masked(text), token.start())
    if token[0] == "/*":
        return BadStatement("this comment is never closed", hint="Close it with */.", place=place)
    hint = f"Close it with another {token[0]}."
    if long is not None:
        hint = (
            f"Is it this one? On line {text.count(chr(10), 0, long) + 1} a text in quotes begins that goes "
            "on over several lines: perhaps it is its end that is missing."
        )
    return BadStatement("this quote is never closed", hint=hint, place=place)


def is_whole(text: str) -> bool:
    """Whether a text ends with a semicolon that ends a statement: nobody needs to wait for more of it."""
    last = ""
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "open":
            return False
        if token.lastgroup not in ("blank", "comment"):
            last = token[0]
    return last == ";"
