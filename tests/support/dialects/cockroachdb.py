"""CockroachDB's changefeeds on Kafka: wrapped, enriched with and without schemas, bare."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from calve.envelope.cockroachdb import CockroachDB, Kind
from tests.support.feeds import Change

_WALL = 1_698_775_840_000_000_000
SCALE = 10**10
"""One of our times is a nanosecond: the logical part stays 0."""


def hlc(time: int) -> str:
    return f"{_WALL + time}.{0:010d}"


def upper(time: int) -> int:
    """What a frontier is after this time was resolved."""
    return (_WALL + time) * SCALE + 1


@dataclass(frozen=True)
class Cockroach:
    """One envelope. Times of changes are nanoseconds after some moment."""

    kind: Kind = Kind.WRAPPED
    schemas: bool = False
    key_in_value: bool = True

    timed = True

    @property
    def name(self) -> str:
        return f"cockroachdb-{self.kind}{'-schemas' if self.schemas else ''}"

    @property
    def envelope(self) -> CockroachDB:
        return CockroachDB(self.kind, self.schemas)

    def time(self, change: Change) -> int:
        return (_WALL + change.time) * SCALE

    def change(self, change: Change) -> list[tuple[str | None, str | None]]:
        positional, updated = list(change.key.values()), hlc(change.time)
        row = None if change.row is None else dict(change.row)
        match self.kind:
            case Kind.WRAPPED:
                value: dict[str, Any] = {"after": row, "updated": updated}
                if self.key_in_value:
                    return [(None, _json(value | {"key": positional}))]
                return [(json.dumps(positional), _json(value))]
            case Kind.BARE:
                empty = dict.fromkeys(("name", "amount"), None)
                body = row if row is not None else {**empty, **change.key}
                return [(json.dumps(positional), _json({**body, "__crdb__": {"updated": updated}}))]
        source = {"ts_hlc": updated, "primary_keys": list(change.key), "table_name": change.topic}
        body = {"after": row, "op": "d" if row is None else "u", "ts_ns": 1, "source": source}
        key: dict[str, Any] = dict(change.key)
        if not self.schemas:
            return [(json.dumps(key), _json(body))]
        return [
            (
                json.dumps({"payload": key, "schema": {}}),
                _json({"payload": body, "schema": self._schema()}),
            )
        ]

    def mark(self, time: int) -> list[tuple[str | None, str | None]]:
        # Ours say that nothing before is to come, CockroachDB's that nothing at it is to come either.
        if self.kind is Kind.BARE:
            return [(None, json.dumps({"__crdb__": {"resolved": hlc(time - 1)}}))]
        return [(None, json.dumps({"resolved": hlc(time - 1)}))]

    def _schema(self) -> dict[str, Any]:
        fields = [
            {"field": "id", "type": "int64", "optional": False},
            {"field": "name", "type": "string", "optional": False},
            {
                "field": "amount",
                "type": "float64",
                "name": "decimal",
                "parameters": {"precision": "10", "scale": "2"},
                "optional": True,
            },
        ]
        after = {"field": "after", "type": "struct", "fields": fields, "optional": True}
        return {"type": "struct", "name": "cockroachdb.envelope", "fields": [after], "optional": False}


class _Number(float):
    """A decimal in JSON: its own digits, not those of a float."""

    def __init__(self, value: Decimal) -> None:
        self._text = str(value)

    def __repr__(self) -> str:
        return self._text


def _json(value: Any) -> str:
    def plain(one: Any) -> Any:
        match one:
            case Decimal():
                return _Number(one)
            case dict():
                return {name: plain(inner) for name, inner in one.items()}
            case list():
                return [plain(inner) for inner in one]
        return one

    return json.dumps(plain(value))
