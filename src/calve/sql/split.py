"""Split: the statements of a text, each with the place where it begins.

A semicolon ends a statement, unless it stands in quotes or in a comment. What is between two of them is not
looked at here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from calve.config.types.notation import show_place
from calve.model.errors import BadStatement

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
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "open":
            what = "comment" if token[0] == "/*" else "quote"
            raise BadStatement(
                f"this {what} is never closed{show_place(text, token.start())}",
                hint=f"Close it with {'*/' if what == 'comment' else token[0]}.",
            )
        if kind == "end":
            pieces += [] if first is None else [Piece(text[first:last], first)]
            first = None
        elif kind not in ("blank", "comment"):
            first = token.start() if first is None else first
            last = token.end()
    pieces += [] if first is None else [Piece(text[first:last], first)]
    return pieces
