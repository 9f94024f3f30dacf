"""Iceberg's notation of types, read: `decimal(10, 2)`, `list<struct<a: int, "b c": map<string, uuid>>>`.

    text ──words──▶ word, "name", 12, < > ( ) , :  ──▶ one function a rule ──▶ Type

Words in any case, spaces anywhere; names of fields keep their case and stand in double quotes or backquotes
where they are no words. What cannot be read is refused with its place and the nearest right word. Type names
of databases are not read here (config/ddl): in a text of ours, a type has one name.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import lru_cache

from calve.config.types.tree import PLAIN, Decimal, List, Map, Plain, Struct, Type
from calve.model.errors import BadColumns

DEPTH_MAX = 32
"""Types inside of types. Deeper than any table, and far from the end of Python's stack."""

_WORD = re.compile(
    r"\s*(?:(?P<word>\w+)|(?P<quoted>\"(?:[^\"]|\"\")+\"|`(?:[^`]|``)+`)|(?P<mark>[<>(),:]))|(?P<bad>\s*\S)"
)
_NAMES = (*PLAIN, "decimal", "list", "map", "struct")
_COLUMNS = 72
"""Of a line of text that is shown, below which a caret stands."""
_HINT = "Types are: " + ", ".join(PLAIN) + ", decimal(p,s), list<T>, map<K,V>, struct<a: T, b: T>."


@lru_cache(maxsize=1024)
def parse_type(text: str) -> Type:
    """The type that a text names."""
    reader = _Reader(text)
    kind = reader.type(0)
    reader.end()
    return kind


def canonical(text: str) -> str:
    """The one text of a type."""
    return str(parse_type(text))


class _Reader:
    """The words of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = list(_WORD.finditer(text.rstrip()))
        self._next = 0

    def type(self, depth: int) -> Type:
        if depth > DEPTH_MAX:
            raise self._refused(f"types stand {DEPTH_MAX} deep in each other")
        name = self._take("word", "a type").lower()
        if name in PLAIN:
            return Plain(name)
        match name:
            case "decimal":
                self._mark("(")
                precision = self._number()
                self._mark(",")
                scale = self._number()
                self._mark(")")
                return Decimal(precision, scale)
            case "list":
                self._mark("<")
                element = self.type(depth + 1)
                self._mark(">")
                return List(element)
            case "map":
                self._mark("<")
                key = self.type(depth + 1)
                self._mark(",")
                value = self.type(depth + 1)
                self._mark(">")
                return Map(key, value)
            case "struct":
                return self._struct(depth)
        self._next -= 1
        near = get_close_matches(name, _NAMES, n=1)
        raise self._refused("there is no such type", f"Did you mean {near[0]}? {_HINT}" if near else _HINT)

    def _struct(self, depth: int) -> Struct:
        fields: list[tuple[str, Type]] = []
        self._mark("<")
        while True:
            name = self._field_name()
            self._mark(":")
            fields.append((name, self.type(depth + 1)))
            if not self._is_mark(","):
                break
            self._next += 1
        self._mark(">")
        return Struct(tuple(fields))

    def _field_name(self) -> str:
        if self._kind() == "quoted":
            text = self._words[self._next].group("quoted")
            self._next += 1
            return text[1:-1].replace(text[0] * 2, text[0])
        return self._take("word", "the name of a field")

    def _number(self) -> int:
        text = self._take("word", "a number")
        if not text.isdecimal() or not text.isascii() or len(text) > 4:
            self._next -= 1
            raise self._refused("a number of digits was expected")
        return int(text)

    def _mark(self, mark: str) -> None:
        if not self._is_mark(mark):
            raise self._refused(f"{mark!r} was expected")
        self._next += 1

    def _is_mark(self, mark: str) -> bool:
        return self._kind() == "mark" and self._words[self._next].group("mark") == mark

    def _kind(self) -> str | None:
        return self._words[self._next].lastgroup if self._next < len(self._words) else None

    def _take(self, kind: str, what: str) -> str:
        if self._kind() != kind:
            raise self._refused(f"{what} was expected")
        self._next += 1
        return str(self._words[self._next - 1].group(kind))

    def end(self) -> None:
        if self._next < len(self._words):
            raise self._refused("the type ended before this")

    def _refused(self, reason: str, hint: str = _HINT) -> BadColumns:
        ends = self._next >= len(self._words)
        start = len(self._text.rstrip())
        if not ends:
            match = self._words[self._next]
            start = match.end() - len(match.group().lstrip())
        return BadColumns(f"{reason}{show_place(self._text, start)}", hint=hint)


def show_place(text: str, start: int) -> str:
    """Where in a text something stands: line and column, the line itself, and a caret below. Of a line
    that is wider than a terminal the part around the place: where it wraps, a caret shows another word."""
    before = text[:start]
    line, column = before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1
    shown = text.splitlines()[line - 1] if text.strip() else ""
    cut = max(0, column - _COLUMNS + _COLUMNS // 5)
    spaces = "".join("\t" if mark == "\t" else " " for mark in shown[cut : column - 1])
    return f" (line {line}, column {column})\n    {shown[cut : cut + _COLUMNS].rstrip()}\n    {spaces}^"
