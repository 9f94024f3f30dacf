"""History: tables that change, and what each held at any time. The truth that a sink is compared with."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.changefeed.values import make

WALL = 1_794_830_400 * 10**9
"""2026-11-16T12:00:00Z, in nanoseconds."""
LOGICAL = 10**10
SECOND = 10**9 * LOGICAL

Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """A table: its columns (name, type in Iceberg's notation), its key in the key's own order."""

    topic: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    nullable: tuple[str, ...] = ()

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)


@dataclass(frozen=True)
class Version:
    """What a key's row became."""

    time: int
    mvcc: int
    """When the row was written: before `time` where a backfill said it again."""
    row: Row | None
    before: Row | None
    schema: int


@dataclass(frozen=True)
class Change:
    """A version, and whose."""

    topic: str
    key: Key
    version: Version


@dataclass
class History:
    """Tables and all their versions."""

    seed: int
    tables: dict[str, Table]
    now: int = WALL * LOGICAL
    log: list[Change] = field(default_factory=list)
    """In order of time."""
    schemas: dict[str, list[tuple[int, Table]]] = field(default_factory=dict)
    """Per topic: since when a table has which columns."""
    keys_max: int = 30

    def __post_init__(self) -> None:
        self._random = Random(f"history {self.seed}")
        self._rows: dict[str, dict[Key, list[Version]]] = {topic: {} for topic in self.tables}
        self.schemas = {topic: [(0, table)] for topic, table in self.tables.items()}

    @classmethod
    def of(cls, seed: int, *tables: Table) -> History:
        return cls(seed, {table.topic: table for table in tables})

    def run(self, transactions: int) -> None:
        """Let transactions happen."""
        for _ in range(transactions):
            self._tick()
            touched: set[tuple[str, Key]] = set()
            for _ in range(self._random.choice((1, 1, 2, 4))):
                self._change(self._random.choice(sorted(self.tables)), touched)

    def add_column(self, topic: str, name: str, kind: str, default: Any) -> None:
        """A schema change: the whole table is written again, at one time, with the new column."""
        self._tick()
        table = self.tables[topic]
        wider = Table(topic, (*table.columns, (name, kind)), table.key, (*table.nullable, name))
        self.tables[topic] = wider
        self.schemas[topic].append((self.now, wider))
        for key, versions in self._rows[topic].items():
            if (row := versions[-1].row) is not None:
                self._write(topic, key, {**row, name: default}, mvcc=versions[-1].mvcc)

    def state(self, topic: str, time: int) -> dict[Key, Row]:
        """The rows of a table as of a time, that time included."""
        found = {}
        for key, versions in self._rows[topic].items():
            at = bisect.bisect_right([version.time for version in versions], time)
            if at and (row := versions[at - 1].row) is not None:
                found[key] = row
        return found

    def at(self, topic: str, time: int) -> list[Change]:
        """The last change of every row that is there at a time."""
        found = []
        for key, versions in self._rows[topic].items():
            past = [version for version in versions if version.time <= time]
            if past and past[-1].row is not None:
                found.append(Change(topic, key, past[-1]))
        return found

    def between(self, after: int, upto: int) -> list[Change]:
        """Changes with `after < time <= upto`, in order of time."""
        return [change for change in self.log if after < change.version.time <= upto]

    def schema_at(self, topic: str, time: int) -> tuple[int, Table]:
        """The number of a table's schema, and the table."""
        at = bisect.bisect_right([since for since, _ in self.schemas[topic]], time)
        return at, self.schemas[topic][at - 1][1]

    def _tick(self) -> None:
        wall, logical = divmod(self.now, LOGICAL)
        if self._random.random() < 0.2:
            logical += 1  # the same nanosecond
        else:
            wall, logical = wall + self._random.randrange(1, 2 * 10**9), 0
        self.now = wall * LOGICAL + logical

    def _change(self, topic: str, touched: set[tuple[str, Key]]) -> None:
        table, rows = self.tables[topic], self._rows[topic]
        alive = [key for key, versions in rows.items() if versions[-1].row is not None]
        chance = self._random.random()
        if chance < 0.04:
            key = table.key_of(self._row(table))  # a delete of a row that never was
            return self._once(topic, key, None, touched)
        if len(alive) < 3 or (chance < 0.35 and len(alive) < self.keys_max):
            row = self._row(table)
            return self._once(topic, table.key_of(row), row, touched)
        key = self._random.choice(alive)
        old = rows[key][-1].row or {}
        if chance < 0.55:
            return self._once(topic, key, None, touched)
        row = {**old, **{name: value for name, value in self._row(table).items() if name not in table.key}}
        if chance < 0.65:  # the key changes: a delete and an insert, at one time
            moved = {**row, **{name: self._row(table)[name] for name in table.key}}
            self._once(topic, table.key_of(moved), moved, touched)
            return self._once(topic, key, None, touched)
        return self._once(topic, key, row, touched)

    def _row(self, table: Table) -> Row:
        return {
            name: None
            if name in table.nullable and self._random.random() < 0.3
            else self._value(name, kind, table)
            for name, kind in table.columns
        }

    def _value(self, name: str, kind: str, table: Table) -> Any:
        if name in table.key and kind in ("int", "long"):
            return self._random.randrange(1, 3 * self.keys_max)  # so that keys come back
        return make(kind, self._random)

    def _once(self, topic: str, key: Key, row: Row | None, touched: set[tuple[str, Key]]) -> None:
        if (topic, key) not in touched:  # a key changes once at a time
            touched.add((topic, key))
            self._write(topic, key, row, mvcc=self.now)

    def _write(self, topic: str, key: Key, row: Row | None, mvcc: int) -> None:
        versions = self._rows[topic].setdefault(key, [])
        before = versions[-1].row if versions else None
        schema, _ = self.schema_at(topic, self.now)
        version = Version(self.now, mvcc, row, before, schema)
        versions.append(version)
        self.log.append(Change(topic, key, version))


def columns_json(tables: Mapping[str, Table]) -> dict[str, Any]:
    """Tables as the source's option `tables` wants them."""
    return {
        topic: {"columns": [list(column) for column in table.columns], "key": list(table.key)}
        for topic, table in tables.items()
    }
