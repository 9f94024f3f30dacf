"""Probes: predicates whose answer is known, asked where a wrong bound or partition value would lose a row.

    rows ──probes()──▶ Probe(column, op, value) ──sql(dialect)──▶ WHERE …
                                └──holds(row)──▶ what must come back

An engine skips files by what manifests say of them. A predicate on a value that stands at the edge of a file
is where that goes wrong first, so each probe compares with a value that is in the table.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from random import Random
from typing import Any

from tests.support.workload import Values

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Dialect(Enum):
    """How an engine writes literals."""

    SPARK = "spark"
    DUCKDB = "duckdb"


@dataclass(frozen=True, slots=True)
class Probe:
    """A predicate on one column. `op` is a comparison, `null`, `not null`, `nan` or `starts`."""

    column: str
    op: str
    value: Any = None

    def sql(self, dialect: Dialect) -> str:
        match self.op:
            case "null":
                return f"{self.column} IS NULL"
            case "not null":
                return f"{self.column} IS NOT NULL"
            case "nan":
                return f"isnan({self.column})"
            case "starts":
                return f"{self.column} LIKE '{self.value}%'"
        return f"{self.column} {self.op} {literal(self.value, dialect)}"

    def holds(self, row: Values) -> bool:
        """Whether SQL calls the predicate true: a null is neither equal nor unequal to anything."""
        value = row[self.column]
        match self.op:
            case "null":
                return value is None
            case "not null":
                return value is not None
            case "nan":
                return value is not None and math.isnan(value)
            case "starts":
                return value is not None and value.startswith(self.value)
        return value is not None and _COMPARE[self.op](value, self.value)


def literal(value: Any, dialect: Dialect) -> str:
    """A value in SQL, with its exact type."""
    duckdb = dialect is Dialect.DUCKDB
    match value:
        case bool():
            return str(value)
        case str():
            escaped = value if duckdb else value.replace("\\", "\\\\")
            return "'" + escaped.replace("'", "''" if duckdb else "\\'") + "'"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL(12, 2))"
        case datetime() if value.tzinfo is None:
            return f"{'TIMESTAMP' if duckdb else 'TIMESTAMP_NTZ'} '{value:%Y-%m-%d %H:%M:%S.%f}'"
        case datetime():
            return f"{'TIMESTAMPTZ' if duckdb else 'TIMESTAMP'} '{value:%Y-%m-%d %H:%M:%S.%f}+00:00'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
    return str(value)


def probes(rows: Sequence[Values], random: Random, count: int) -> list[Probe]:
    """Predicates over all columns, each value of the rows with several operators; a sample of `count`."""
    found: dict[Probe, None] = {}
    for column in rows[0]:
        found |= dict.fromkeys([Probe(column, "null"), Probe(column, "not null")])
        values = [row[column] for row in rows if row[column] is not None]
        for value in values:
            found |= dict.fromkeys(_around(column, value))
    probed = sorted(found, key=repr)
    return random.sample(probed, min(count, len(probed)))


def _around(column: str, value: Any) -> list[Probe]:
    if isinstance(value, float):
        if math.isnan(value):
            return [Probe(column, "nan")]
        # Engines differ in whether a NaN is greater than a number. None calls it smaller or equal.
        return [Probe(column, op, value) for op in ("=", "<", "<=")]
    compared = [Probe(column, op, value) for op in _COMPARE]
    if isinstance(value, str) and value.isascii() and value.replace("-", "").isalnum():
        compared += [Probe(column, "starts", value[:length]) for length in (1, 15, 16, 17)]
    return compared
