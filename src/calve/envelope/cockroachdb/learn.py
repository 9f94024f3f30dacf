"""What messages of a changefeed show of their table, on the driver, from a few of them.

    enriched with schemas    columns, types, which are required; the key by `source.primary_keys`
    rows of Parquet files    names and types, but for what is text or bytes there
    all others               names, and guesses of types and the key from values

A guess says nothing of what was declared. A value that is null guesses text, which holds whatever comes: only
a few messages are looked at, and a column that is left out would lose the values of all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calve.config.columns import SourceColumn, SourceTable
from calve.config.infer import infer, infer_key
from calve.config.merge import merge, wider
from calve.config.types import parse_type
from calve.envelope.base import Sample
from calve.model.columns import TYPES
from calve.model.errors import SchemaMismatch

_TYPES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "boolean": "boolean",
    "bytes": "binary",
    "json": "string",
    "string": "string",
}
_NAMED = {"date": "date", "time": "time"}
_DECIMAL_DIGITS_MAX = 38


def learn(
    samples: Sequence[Sample], known: SourceTable | None, path: tuple[str, ...], meta: str | None
) -> SourceTable:
    """The table that samples show: rows are below `path` in a message, without a field `meta`."""
    found = known
    rows: list[Mapping[str, Any]] = []
    keys: list[tuple[Mapping[str, Any], object]] = []
    key: object = None
    types: dict[str, str] = {}
    for sample, message in _parsed(samples):
        row = _at(message, path)
        if not isinstance(row, Mapping):
            continue
        row = {name: value for name, value in row.items() if name != meta}
        shown = _by_schema(message, row, path)
        if shown is not None:
            found = merge(found, shown, sample.place)
            continue
        rows.append(row)
        keys.append((row, _key_of(sample, message)))
        types |= message.get(TYPES) or {}
        key = key or (_at(message, (*path[:-1], "source", "primary_keys")) if path else None)
    if rows:
        shown = _typed(infer(rows), types, known)
        named = tuple(key) if isinstance(key, list) and set(key) <= set(shown.names) else ()
        if not named and known is None:
            named = tuple(infer_key(keys))
        found = merge(found, SourceTable(shown.columns, named, shown.guessed), f"topic {samples[0].topic}")
    if found is None:
        place = f"topic {samples[0].topic}" if samples else "the feed"
        raise SchemaMismatch(
            f"{place}: no message shows the columns of the table, and nobody declared them",
            hint="Paste its CREATE TABLE, or name its columns: tables='id long primary key, …'.",
        )
    return found


def _typed(table: SourceTable, types: Mapping[str, str], known: SourceTable | None) -> SourceTable:
    """A table whose file knows some of its types. What is known to be another one stays: a guess of an
    earlier run, from nulls."""
    columns, guessed = [], []
    for one in table.columns:
        kind = types.get(one.name)
        if kind is not None and known is not None and one.name in known.names:
            kind = kind if wider(parse_type(known.column(one.name).type), parse_type(kind)) else None
        columns.append(one if kind is None else replace(one, type=kind))
        guessed += [one.name] if kind is None and one.name in table.guessed else []
    return SourceTable(tuple(columns), table.key, tuple(guessed))


def _parsed(samples: Sequence[Sample]) -> Iterator[tuple[Sample, dict[str, Any]]]:
    """Messages that are JSON objects; the others are found when they are decoded."""
    for sample in samples:
        try:
            message = json.loads(sample.value or b"null")
        except ValueError:
            continue
        if isinstance(message, dict):
            yield sample, message


def _key_of(sample: Sample, message: Mapping[str, Any]) -> object:
    """The values of a message's key, as the changefeed has them in the message or beside it."""
    if "key" in message:
        return message["key"]
    try:
        return json.loads(sample.key or b"null")
    except ValueError:
        return None


def _at(message: Any, path: Sequence[str]) -> Any:
    for name in path:
        message = message.get(name) if isinstance(message, Mapping) else None
    return message


def _by_schema(
    message: Mapping[str, Any], row: Mapping[str, Any], path: tuple[str, ...]
) -> SourceTable | None:
    """The table by the schema in a message, where it has one."""
    fields = _at(message, ("schema", "fields"))
    if not isinstance(fields, list) or path[:1] != ("payload",):
        return None
    after: dict[str, Any] = next((one for one in fields if one.get("field") == "after"), {})
    columns: list[SourceColumn] = []
    guessed: list[str] = []
    for field in after.get("fields", ()):
        name = field["field"]
        kind, sure = _type(field, row.get(name))
        is_json = field.get("type") == "json"
        columns.append(SourceColumn(name, kind, not field.get("optional", True), is_json))
        guessed += () if sure else (name,)
    key = _at(message, ("payload", "source", "primary_keys"))
    named = tuple(key) if isinstance(key, list) else ()
    return SourceTable(tuple(columns), named, tuple(guessed)) if columns else None


def _type(field: Mapping[str, Any], value: Any) -> tuple[str, bool]:
    """The type of a field, and whether it is sure."""
    match field.get("type"), field.get("name"):
        case _, "decimal":
            precision, scale = (
                int(field.get("parameters", {}).get(word, 0)) for word in ("precision", "scale")
            )
            if 0 < precision <= _DECIMAL_DIGITS_MAX:
                return f"decimal({precision},{scale})", True
            return "string", True  # as many digits as it likes: no decimal of Iceberg's holds all of them
        case _, "timestamp":
            # With a zone and without one have one name: the value tells.
            if isinstance(value, str):
                return (
                    "timestamptz" if value.endswith("Z") or value[-6:-5] in ("+", "-") else "timestamp"
                ), True
            return "timestamptz", False
        case "array", _:
            kind, sure = _type(field.get("items", {}), None)
            return f"list<{kind}>", sure
        case _, str(name) if name in _NAMED:
            return _NAMED[name], True
        case str(word), _ if word in _TYPES:
            return _TYPES[word], True
    return "string", False
