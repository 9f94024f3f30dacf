"""Columns that nobody declared, guessed from JSON values. Each guess is named in one warning.

    true, false             boolean
    12                      long; beyond 64 bits decimal(38,0), beyond 38 digits string
    1.5                     double: digits beyond its 15 are lost, so declare money as decimal
    "text"                  string, also where it looks like a time or a uuid
    [1, 2]                  list of what all elements are; of objects or of mixed ones: string, the JSON text
    {"a": 1}                string, the JSON text: the next one may have other fields
    null, and nothing else  string, which holds whatever comes: rows are samples, and a column that were left
                            out would lose the values of all others

Values that differ: long and double give double, long and decimal(38,0) give decimal(38,0), anything else
string.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal as Number
from typing import Any

from calve.config.columns import SourceColumn, SourceTable

_log = logging.getLogger("calve.source")

_LONG = 2**63
_DIGITS = 10**38
_BOTH = {
    frozenset({"long", "double"}): "double",
    frozenset({"long", "decimal(38,0)"}): "decimal(38,0)",
}


def infer(rows: Iterable[Mapping[str, object]], key: Iterable[str] = ()) -> SourceTable:
    """The columns that some rows show, in their order."""
    found: dict[str, str | None] = {}
    for row in rows:
        for name, value in row.items():
            kind = guess(value)
            before = found.setdefault(name, kind)
            if kind is not None:
                found[name] = _together(before or kind, kind)
    named = tuple(key)
    columns = tuple(SourceColumn(name, kind or "string", name in named) for name, kind in found.items())
    return SourceTable(columns, named, tuple(found))


def guess(value: object) -> str | None:
    """The type of one JSON value; none of a null."""
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            if -_LONG <= value < _LONG:
                return "long"
            return "decimal(38,0)" if abs(value) < _DIGITS else "string"
        case float() | Number():
            return "double" if math.isfinite(value) else "string"
        case list():
            return _of_list(value)
        case _:
            return "string"


def warn_of_guesses(table: SourceTable, place: str) -> None:
    """One warning that names each column whose type was guessed."""
    if not table.guessed:
        return
    guesses = ", ".join(f"{name} {table.column(name).type}" for name in table.guessed)
    _log.warning(
        "%s: nobody declared these columns, and their types are guessed from values: %s; the key: %s. "
        "Declare them before the table is created: it keeps the type of a column.",
        place,
        guesses,
        ", ".join(table.key) or "none",
    )


def _of_list(values: list[object]) -> str | None:
    kinds = {guess(value) for value in values} - {None}
    if not kinds:
        return None
    if any(isinstance(value, (dict, list)) for value in values):
        return "string"
    kind = kinds.pop() if len(kinds) == 1 else _BOTH.get(frozenset(filter(None, kinds)))
    return f"list<{kind}>" if kind is not None else "string"


def _together(one: str, two: str) -> str:
    return one if one == two else _BOTH.get(frozenset({one, two}), "string")


def infer_key(rows: Sequence[tuple[Mapping[str, Any], object]]) -> list[str]:
    """The columns of a key, from rows and the values of their keys: those that have these values in every
    row, where that is one choice alone, and there are several keys to tell by."""
    keys = [key if isinstance(key, list) else [] for _, key in rows]
    if not tells_key(keys) or len({len(key) for key in keys}) != 1:
        return []
    found: list[str] = []
    for at in range(len(keys[0])):
        fitting = [
            name
            for name in rows[0][0]
            if name not in found
            and all(row.get(name) == key[at] for (row, _), key in zip(rows, keys, strict=True))
        ]
        if len(fitting) != 1:
            return []
        found += fitting
    return found


def tells_key(keys: Sequence[object]) -> bool:
    """Whether there are enough keys to tell by: one alone may have the value of any column by chance."""
    return len({json.dumps(key) for key in keys}) > 1
