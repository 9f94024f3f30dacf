"""Names of namespaces, tables and columns: what is refused, before anything is created (case 56).

A name becomes a folder, a part of an identifier and a part of other engines' SQL. What would change its
meaning in one of them is refused here, once, instead of being escaped differently by each. Letters of any
script are fine.
"""

from __future__ import annotations

import unicodedata

from calve.model.errors import BadName, about

NAME_BYTES_MAX = 255
"""What a file system takes as one folder."""

_NOT_IN_COLUMNS = frozenset("/\\;*")
_NOT_IN_FOLDERS = _NOT_IN_COLUMNS | frozenset("\"'`?#%:|<>")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")  # Persian and Indic words are spelt with them
_HINT = "Use letters, digits, '_' or '-', at most 255 bytes, not beginning with a dot."
_LEVELS = "it has a dot, which parts the levels of a name"
_INSIDE = (
    "with a dot it names a value inside a struct, a list or a map, and only a column of the table itself has "
    "one value in every row"
)
_INSIDE_HINT = "Take the value out into a column of its own, or rename the column that has the dot."


def check_namespace(parts: tuple[str, ...]) -> tuple[str, ...]:
    """The parts themselves, if each can be a folder and there is at least one."""
    if not parts:
        raise BadName(
            "the namespace is empty", hint="Name at least one part, such as 'analytics'.", about="namespace"
        )
    # An empty part last: in '../x' it is not the dots that are wrong.
    for number, part in sorted(enumerate(parts, start=1), key=lambda one: not one[1]):
        with about("namespace"):
            _check(part, f"part {number} of the namespace {'.'.join(parts)!r}", _NOT_IN_FOLDERS)
    return parts


def check_table(name: str) -> str:
    """The name itself, if it can be a table's."""
    with about("table"):
        return _check(name, f"the table name {name!r}", _NOT_IN_FOLDERS)


def check_catalog(name: str) -> str:
    """The name itself, if it can be a catalog's."""
    with about("catalog.name"):
        return _check(name, f"the catalog name {name!r}", _NOT_IN_FOLDERS)


def check_column(name: str, what: str = "column") -> str:
    """The name itself, if it can be a top-level column that a layout or a key names."""
    return _check(name, f"the {what} {name!r}", _NOT_IN_COLUMNS, dotted=_INSIDE)


def _check(name: str, place: str, forbidden: frozenset[str], dotted: str = _LEVELS) -> str:
    reason = _why_refused(name, forbidden, dotted)
    if reason is not None:
        raise BadName(f"{place} is refused: {reason}", hint=_INSIDE_HINT if reason is _INSIDE else _HINT)
    return name


def _why_refused(name: str, forbidden: frozenset[str], dotted: str) -> str | None:
    if not name:
        return "it is empty"
    if name != name.strip():
        return "it begins or ends with a space"
    if name.startswith("."):
        return "it begins with a dot"
    for character in name:
        if unicodedata.category(character) in _INVISIBLE and character not in _JOINERS:
            return f"it has the invisible character U+{ord(character):04X}"
        if character in forbidden:
            return f"it has the character {character!r}"
        if character == ".":
            return dotted
    if len(name.encode()) > NAME_BYTES_MAX:
        return f"it has {len(name.encode())} bytes, more than {NAME_BYTES_MAX}"
    return None
