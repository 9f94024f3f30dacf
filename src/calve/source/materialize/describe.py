"""The columns of a relation, as its server describes them. On the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from calve.model.errors import BadColumns
from calve.source.materialize.client import Login, Subscription

if TYPE_CHECKING:
    from calve.config.columns import SourceTable

# fmt: off
_TYPES = {
    16: "boolean", 17: "binary", 18: "string", 19: "string", 20: "long", 21: "int", 23: "int", 25: "string",
    26: "long", 114: "string", 700: "float", 701: "double", 1042: "string", 1043: "string", 1082: "date",
    1083: "time", 1114: "timestamp", 1184: "timestamptz", 1186: "string", 2950: "uuid", 3802: "string",
    # Materialize's own: uint2, uint4, uint8, mz_timestamp
    16460: "int", 16462: "long", 16464: "decimal(20,0)", 16552: "decimal(20,0)",
}
# fmt: on
"""By the numbers that PostgreSQL has for types."""
_NUMERIC = 1700
_DIGITS_MAX = 38


def describe(login: Login, what: Subscription, types: Mapping[str, str], key: Sequence[str]) -> SourceTable:
    """The table that a subscription makes. `types` says what single columns shall be."""
    from calve.config.columns import SourceColumn, SourceTable

    columns = []
    for column in what.columns(login):
        said = types.get(column.name)
        kind = said or _type(column.name, column.type_code, column.precision, column.scale)
        columns.append(SourceColumn(column.name, kind, column.name in key))
    return SourceTable(tuple(columns), tuple(key))


def _type(name: str, number: int, precision: int | None, scale: int | None) -> str:
    if number in _TYPES:
        return _TYPES[number]
    if number == _NUMERIC and precision is not None and scale is not None:
        # Materialize says 39 digits, whatever was declared: only the scale counts there.
        return f"decimal({min(precision, _DIGITS_MAX)},{scale})"
    if number == _NUMERIC:
        raise BadColumns(
            f"the column {name!r} is numeric without a scale, which holds any number",
            hint=f"Say what it shall be: types={{{name!r}: 'decimal(38,9)'}}, or string.",
        )
    raise BadColumns(
        f"the column {name!r} is of a type that a subscription tells as Materialize's own text ({number})",
        hint=f"Subscribe to a query that makes it JSON: SELECT …, to_jsonb({name}) AS {name}.",
    )
