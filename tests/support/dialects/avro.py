"""Debezium's PostgreSQL connector in Avro, whose schemas a registry has; the registry is one of the tests.

change ──Postgres──▶ event ──schema by the columns of its row──▶ 0 · id · Avro
                                    └──▶ Schemas ◀──GET /schemas/ids/{id}── calve
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import fastavro

from calve.envelope.debezium import RegisteredDebezium, Registry
from tests.support.dialects.debezium import Postgres
from tests.support.feeds import Change
from tests.support.http import Asked, Said, scripted

_TYPES = {int: "long", str: "string"}


@dataclass
class Schemas:
    """A registry, as long as `is_up`."""

    known: list[Any] = field(default_factory=list)
    is_up: bool = True
    url: str = ""

    def number(self, schema: Any) -> int:
        """The id of a schema, which it has from now on."""
        if schema not in self.known:
            self.known.append(schema)
        return self.known.index(schema) + 1

    def answer(self, asked: Asked) -> Said:
        number = int(asked.path.rpartition("/")[2])
        if not self.is_up:
            return Said(status=None)
        return Said(200, {"schema": json.dumps(self.known[number - 1])})


@contextmanager
def schemas() -> Iterator[Schemas]:
    """A registry on a port of its own."""
    known = Schemas()
    with scripted(known.answer) as server:
        known.url = server.uri
        yield known


@dataclass(frozen=True)
class PostgresAvro(Postgres):
    """The same changes as in JSON. Columns of a row are those that it has: other ones, another schema."""

    schemas: Schemas = field(default_factory=Schemas)
    name = "debezium-avro"

    @property
    def envelope(self) -> RegisteredDebezium:
        return RegisteredDebezium(registry=Registry(self.schemas.url, timeout_s=5))

    def change(self, change: Change) -> list[tuple[Any, Any]]:
        row = change.row or {}
        key = _record("Key", change.key)
        value = _record("Value", row or change.key)
        found: list[tuple[Any, Any]] = []
        for text, event in super().change(change):
            body = None if event is None else self._encoded(_envelope(value), json.loads(event))
            found.append((self._encoded(key, json.loads(text or "")), body))
        return found

    def _encoded(self, schema: Any, value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
        return b"\0" + self.schemas.number(schema).to_bytes(4, "big") + out.getvalue()


def _record(name: str, row: Any) -> dict[str, Any]:
    fields = [{"name": column, "type": _TYPES[type(value)]} for column, value in row.items()]
    return {"type": "record", "name": name, "fields": fields}


def _envelope(row: dict[str, Any]) -> dict[str, Any]:
    texts = ("version", "connector", "name", "snapshot", "db", "sequence", "schema", "table")
    numbers = ("ts_ms", "txId", "lsn")
    source = [{"name": name, "type": ["null", "string"]} for name in texts]
    source += [{"name": name, "type": ["null", "long"]} for name in numbers]
    order = [{"name": "id", "type": "string"}]
    order += [{"name": name, "type": "long"} for name in ("total_order", "data_collection_order")]
    return {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
            {"name": "transaction", "type": ["null", {"type": "record", "name": "Block", "fields": order}]},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }
