"""Explain: which value of a message does not fit the table, for people; of the few messages that are bad.

message, the table's columns ─▶ the object in it that has most of them ─▶ each value against its type
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from calve.model.columns import UNFIT

_VALUE_CHARACTERS = 60


def explained(message: str | None, schema: pa.Schema) -> str:
    """Why a message could not be parsed."""
    try:
        body = json.loads(message or "")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return "the message is no JSON object"
    names = set(schema.names)
    row = max(_objects(body), key=lambda one: len(names & one.keys()))
    wrong = [
        f"{name!r} is {_shown(row[name])}, and the column is {kind}"
        for name, kind in zip(schema.names, schema.types, strict=True)
        if name in row and not _fits(row[name], kind)
    ]
    return f"a value does not fit: {'; '.join(wrong)}" if wrong else UNFIT


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a value could be one of a type, as far as JSON tells."""
    if value is None or pa.types.is_string(kind):
        return True
    if pa.types.is_boolean(kind):
        return isinstance(value, bool)
    if pa.types.is_nested(kind):
        return isinstance(value, list | dict)
    if pa.types.is_integer(kind):
        return isinstance(value, int) and -(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1)
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:_VALUE_CHARACTERS]
