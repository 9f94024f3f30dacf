"""Debezium's PostgreSQL connector in JSON without schemas: no marks, the micro-batch is the batch."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from calve.envelope.debezium import Debezium
from tests.support.feeds import Change


@dataclass(frozen=True)
class Postgres:
    """A change is a transaction of its own: its time is where the commit before it ended."""

    timed = False
    name = "debezium"

    @property
    def envelope(self) -> Debezium:
        return Debezium()

    def time(self, change: Change) -> int:
        return change.time

    def change(self, change: Change) -> list[tuple[str | None, str | None]]:
        row = None if change.row is None else {name: _value(value) for name, value in change.row.items()}
        lsn = change.time * 100 + change.order
        source = {
            "version": "3.6.1.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": 1,
            "snapshot": "false",
            "db": "shop",
            "sequence": json.dumps([str(change.time * 100), str(lsn)]),
            "schema": "public",
            "table": change.topic,
            "txId": change.time,
            "lsn": lsn,
            "xmin": None,
        }
        order = {"id": f"{change.time}:{lsn}", "total_order": 1, "data_collection_order": 1}
        event = {
            "before": dict(change.key) if row is None else None,
            "after": row,
            "source": source,
            "transaction": order,
            "op": "d" if row is None else "u",
            "ts_ms": 1,
        }
        key = json.dumps(dict(change.key))
        # A tombstone follows a delete.
        return [(key, json.dumps(event)), *([(key, None)] if row is None else [])]

    def mark(self, time: int) -> list[tuple[str | None, str | None]]:
        return []


def _value(value: Any) -> Any:
    if not isinstance(value, Decimal):
        return value
    unscaled = int(value.scaleb(2))
    return base64.b64encode(unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)).decode()
