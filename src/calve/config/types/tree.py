"""A type as a value. Its text is the canonical one: `str` of what was parsed from it is the same text.

    Plain("long")                          long
    Decimal(10, 2)                         decimal(10,2)
    List(Plain("int"))                     list<int>
    Map(Plain("string"), Plain("int"))     map<string,int>
    Struct((("a", Plain("int")),))         struct<a: int>

Whether an element or a field may be null is not said: all of them may. What a table requires inside of a
column is the table's to know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from calve.model.errors import BadColumns

PLAIN = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "string",
    "uuid",
    "binary",
)
DIGITS_MAX = 38
"""Iceberg's, Spark's and Arrow's: what 128 bits hold."""

_BARE = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Plain:
    """A type without parameters."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Decimal:
    """Exact numbers: so many digits, of which so many stand behind the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= DIGITS_MAX or not 0 <= self.scale <= self.precision:
            raise BadColumns(
                f"{self} is no decimal of Iceberg: it has 1 to {DIGITS_MAX} digits, and from none to all of "
                "them stand behind the point",
                hint=f"Declare the column decimal({DIGITS_MAX},s) if its values fit, or string.",
            )

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class List:
    """A list."""

    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """A map."""

    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields."""

    fields: tuple[tuple[str, Type], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.fields]
        if doubled := next((name for name in names if names.count(name) > 1), None):
            raise BadColumns(f"a struct has two fields {doubled!r}", hint="Give each a name of its own.")

    def __str__(self) -> str:
        return "struct<" + ", ".join(f"{quoted(name)}: {kind}" for name, kind in self.fields) + ">"


Type: TypeAlias = Plain | Decimal | List | Map | Struct


def quoted(name: str) -> str:
    """A name as it stands in a text: in quotes where it is no word."""
    return name if _BARE.fullmatch(name) else '"' + name.replace('"', '""') + '"'
