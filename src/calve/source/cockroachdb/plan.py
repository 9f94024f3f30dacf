"""Plan: what executors need to read files, as plain values: where, which topics, which columns.

    options (driver) ──▶ ReadPlan ──pickled with a task──▶ reader (executor)

The rows that a reader makes have these columns, and one struct of declared columns for each declared topic:

| column | meaning |
|---|---|
| `topic` | the topic; null in marks |
| `file`, `line` | where the row stands; the line counts from 1 (the row, in Parquet) |
| `change` | `upsert` or `delete`; null in marks and in rows with an error |
| `at` | when, an HLC as an integer |
| `mark` | no change before it is to come; null in rows |
| `error` | what is wrong with the row, for people |
| `raw` | the row as it came, where it has an error, *or where its struct is null* |

A struct is null, and `raw` is there to be decoded, where the topic was not declared, the row has fields
beyond the declared ones, or values that only a slower parser can read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import pyarrow as pa

from calve.model.errors import BadKey
from calve.source.cockroachdb.carriers import Carrier, carrier
from calve.store.access import NO_ACCESS, Access

TIME = pa.decimal128(38, 0)
COMMON = pa.schema(
    [
        ("topic", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("change", pa.string()),
        ("at", TIME),
        ("mark", TIME),
        ("error", pa.string()),
        ("raw", pa.string()),
    ]
)
UPSERT, DELETE = "upsert", "delete"
BLOCK_BYTES = 4 * 1024 * 1024
LINE_BYTES_MAX = 512 * 1024 * 1024


@dataclass(frozen=True)
class TopicPlan:
    """A declared table."""

    topic: str
    column: str
    """The struct column that its rows stand in: `t0`, `t1`, …"""
    columns: tuple[Carrier, ...]
    key: tuple[str, ...]
    before_key: int = 0
    """Values that stand before those of the key."""

    @cached_property
    def arrow(self) -> pa.DataType:
        return pa.struct([pa.field(one.name, one.arrow) for one in self.columns])

    @cached_property
    def json(self) -> pa.DataType | None:
        """What a parser of JSON reads `after` as; `None` where it cannot read one of the columns."""
        if any(one.json is None for one in self.columns):
            return None
        return pa.struct([pa.field(one.name, one.json) for one in self.columns])

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.columns)


Declared = tuple[Sequence[tuple[str, str]], Sequence[str]]
"""Columns (name, type) and the key."""


def make_tables(
    declared: Mapping[str, Declared], before_key: Mapping[str, int] = MappingProxyType({})
) -> tuple[TopicPlan, ...]:
    """Declared topics. Their struct columns are numbered as topics sort."""
    found = []
    for at, (topic, (columns, key)) in enumerate(sorted(declared.items())):
        for name in key:
            if name not in [column for column, _ in columns]:
                raise BadKey(
                    f"the key of {topic} names {name!r}, which is not among its columns",
                    hint="Name columns of the table, in the order of its primary key.",
                )
        carriers = tuple(carrier(name, kind) for name, kind in columns)
        found.append(TopicPlan(topic, f"t{at}", carriers, tuple(key), before_key.get(topic, 0)))
    return tuple(found)


@dataclass(frozen=True)
class ReadPlan:
    """A feed."""

    url: str
    tables: tuple[TopicPlan, ...] = ()
    topics: frozenset[str] | None = None
    """Files of other topics are passed over; `None` for all."""
    access: Access = field(default=NO_ACCESS)
    block_bytes: int = BLOCK_BYTES

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*COMMON, *(pa.field(table.column, table.arrow) for table in self.tables)])

    def table(self, topic: str) -> TopicPlan | None:
        return next((table for table in self.tables if table.topic == topic), None)

    def location(self, path: str) -> str:
        return f"{self.url.rstrip('/')}/{path}"
