"""What is known of a table, and what messages show of it: both together, or a contradiction with its place.

    known   shown      merged
    –       a T        a T at the end; optional, because older rows have none
    a int   a long     a long           so float to double, and a decimal with more digits of the same scale
    a long  a int      a long           the wider one stays
    a T     a guess    a T              a guess says nothing of what was declared
    a T!    a T        a T              required only where both say so
    a T!    –          a T              a source that tells all its columns has dropped it; a guess tells some
    a T     a U        SchemaMismatch

Guarantee: a merged type holds all values of both, and a table of the known one can become it in place
(Iceberg's own promotions).
"""

from __future__ import annotations

from dataclasses import replace

from calve.config.columns import SourceColumn, SourceTable
from calve.config.types import Decimal, List, Map, Plain, Struct, Type, parse_type
from calve.model.errors import SchemaMismatch

_WIDER = {("int", "long"): "long", ("float", "double"): "double"}


def merge(known: SourceTable | None, shown: SourceTable, place: str) -> SourceTable:
    """What is known after a message was seen at a place."""
    if known is None:
        return shown
    key = _key(known, shown, place)
    columns = [_merged(column, known, shown, place) for column in known.columns]
    new = [column for column in shown.columns if column.name not in known.names]
    columns += [replace(one, required=one.required and one.name in key) for one in new]
    told = {name for name in shown.names if name not in shown.guessed}
    guessed = [name for name in known.guessed if name not in told]
    guessed += [name for name in shown.guessed if name not in known.names]
    return SourceTable(tuple(columns), key, tuple(guessed), known.before_key)


def _key(known: SourceTable, shown: SourceTable, place: str) -> tuple[str, ...]:
    if known.key and shown.key and set(known.key) != set(shown.key):
        raise SchemaMismatch(
            f"{place}: the key is ({', '.join(shown.key)}), and was ({', '.join(known.key)})",
            hint="Rows of the table are found by their key: write to a new table from here on.",
        )
    return known.key or shown.key


def _merged(column: SourceColumn, known: SourceTable, shown: SourceTable, place: str) -> SourceColumn:
    name = column.name
    if name not in shown.names:
        # A source that tells its columns tells all of them: this one is gone, and rows come without it.
        gone = len(shown.guessed) < len(shown.columns)
        return replace(column, required=column.required and not gone)
    other = shown.column(name)
    if name in shown.guessed:
        return column
    kind = wider(parse_type(column.type), parse_type(other.type))
    if kind is None:
        raise SchemaMismatch(
            f"{place}: the column {name!r} is {other.type}, and was {column.type}"
            + (", a guess of ours" if name in known.guessed else ""),
            hint="An int becomes a long, a float a double, a decimal gets more digits; nothing else changes "
            "in place. Write to a new table, or cast it at the source.",
        )
    return SourceColumn(name, str(kind), column.required and other.required, column.is_json or other.is_json)


def wider(one: Type, two: Type) -> Type | None:
    """The type that holds both, if the first can become it in place."""
    if one == two:
        return one
    match one, two:
        case Plain(name=a), Plain(name=b):
            name = _WIDER.get((a, b)) or _WIDER.get((b, a))
            return Plain(name) if name is not None else None
        case Decimal(scale=a), Decimal(scale=b):
            return Decimal(max(one.precision, two.precision), a) if a == b else None
        case List(a), List(b):
            element = wider(a, b)
            return List(element) if element is not None else None
        case Map(a, x), Map(b, y):
            value = wider(x, y)
            return Map(a, value) if a == b and value is not None else None
        case Struct(a), Struct(b):
            return _wider_struct(dict(a), dict(b))
    return None


def _wider_struct(one: dict[str, Type], two: dict[str, Type]) -> Struct | None:
    fields: list[tuple[str, Type]] = []
    for name, kind in one.items():
        both = wider(kind, two.get(name, kind))
        if both is None:
            return None
        fields.append((name, both))
    fields += [(name, kind) for name, kind in two.items() if name not in one]
    return Struct(tuple(fields))
