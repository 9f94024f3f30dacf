"""What messages of Debezium show of their table: its columns and its key.

    with a schema      all columns, and the key's ──▶ types as `schema.py` has them
    without one        columns and their values ────▶ guesses (config/infer.py)

A declared type wins where the values can be read as it: a numeric without a scale as any decimal, a text as
any type that is spelt as text. Other contradictions are refused with the place of the message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from calve.config.columns import SourceColumn, SourceTable
from calve.config.infer import infer
from calve.config.merge import merge
from calve.config.types import Decimal, Plain, Type, parse_type
from calve.envelope.base import Sample
from calve.envelope.debezium.position import SUPPORTED
from calve.envelope.debezium.schema import DECIMAL, VARIABLE_DECIMAL, Field
from calve.model.errors import BadMessage, ConfigError

T = TypeVar("T")
_SPELT = ("int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "uuid")


def from_schema(row: Field, key: Sequence[str], known: SourceTable | None, place: str) -> SourceTable:
    """Columns by a schema, on top of what is known."""
    columns = tuple(_column(one, known) for one in row.inside)
    return merge(known, SourceTable(columns, tuple(key)), place)


def _column(field: Field, known: SourceTable | None) -> SourceColumn:
    if known is not None and field.name in known.names and field.name not in known.guessed:
        declared = known.column(field.name)
        if can_be(field, parse_type(declared.type)):
            return replace(declared, required=field.required)
    return SourceColumn(field.name, str(field.type()), field.required)


def can_be(field: Field, kind: Type) -> bool:
    """Whether values of a field can be read as a type that is not their own."""
    if isinstance(kind, Decimal):
        return field.meaning == VARIABLE_DECIMAL or field.kind in ("string", "double")
    if kind == Plain("string"):
        return field.meaning == DECIMAL or field.kind in ("string", "struct", "array", "map")
    return field.kind == "string" and not field.meaning and isinstance(kind, Plain) and kind.name in _SPELT


def from_values(samples: Sequence[Sample], known: SourceTable | None) -> SourceTable:
    """Columns by the values of messages without a schema, on top of what is known."""
    rows: list[dict[str, object]] = []
    key: tuple[str, ...] = ()
    for row, named in _readable(samples, _row, needed=known is None):
        key = key or named
        rows.append(row)
    if not rows:
        return known if known is not None else SourceTable(())
    return merge(known, infer(rows, key), f"topic {samples[0].topic}")


def _row(sample: Sample) -> tuple[dict[str, object], tuple[str, ...]]:
    """The columns that a message shows, and those of them that are the key."""
    assert sample.value is not None
    message = _object(sample.value, sample.place)
    if {"schema", "payload"} <= message.keys():
        raise ConfigError(
            f"{sample.place}: the message brings its schema along",
            hint="Name the envelope 'debezium-schemas'.",
        )
    check_connector(message, sample.place)
    row = message.get("after") or message.get("before") or {}
    if not isinstance(row, dict):
        raise BadMessage(f"{sample.place}: `after` is no object", hint="This is no message of Debezium.")
    key = () if sample.key is None else tuple(_object(sample.key, sample.place))
    return row, tuple(name for name in key if name in row)


def check_connector(message: dict[str, object], place: str) -> None:
    """Refuse messages of connectors whose order is not known."""
    source = message.get("source")
    connector = source.get("connector") if isinstance(source, dict) else None
    if connector is not None and connector not in SUPPORTED:
        raise ConfigError(
            f"{place}: the connector {connector!r} is not supported: the order of its events is not known",
            hint=f"Supported are {', '.join(SUPPORTED)}.",
        )


def _object(text: bytes, place: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadMessage(
            f"{place}: the message is no JSON",
            hint="Avro has an envelope of its own: 'debezium-avro'.",
        ) from error
    if not isinstance(found, dict):
        raise BadMessage(f"{place}: the message is no JSON object", hint="This is no message of Debezium.")
    return found


def by_schema(
    samples: Sequence[Sample],
    known: SourceTable | None,
    shown: Callable[[Sample], tuple[Field, Sequence[str]] | None],
) -> SourceTable:
    """Columns by the schemas of messages, one on top of the other."""
    for sample, said in _readable(samples, lambda one: (one, shown(one)), needed=known is None):
        if said is not None:
            known = from_schema(*said, known, sample.place)
    return known if known is not None else SourceTable(())


def _readable(samples: Sequence[Sample], read: Callable[[Sample], T], *, needed: bool) -> list[T]:
    """What was read of samples. One that cannot be read says nothing: it is told, with all that are like it,
    when messages are decoded; unless one is needed to go by, and there is no other."""
    found: list[T] = []
    bad: BadMessage | None = None
    for sample in samples:
        if sample.value is not None:
            try:
                found.append(read(sample))
            except BadMessage as error:
                bad = bad or error
    if needed and not found and bad is not None:
        raise bad
    return found
