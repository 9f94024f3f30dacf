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

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from calve.decode.structs import Structs, apart, together
from calve.decode.tables import TIME, TopicPlan
from calve.store.access import NO_ACCESS, Access

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
BLOCK_BYTES = 4 * 1024 * 1024
LINE_BYTES_MAX = 512 * 1024 * 1024


@dataclass(frozen=True)
class ReadPlan:
    """A feed."""

    url: str
    tables: tuple[TopicPlan, ...] = ()
    topics: frozenset[str] | None = None
    """Files of other topics are passed over; `None` for all."""
    access: Access = field(default=NO_ACCESS)
    block_bytes: int = BLOCK_BYTES
    together: bool = False
    """The rows of all topics stand in one struct."""

    @cached_property
    def structs(self) -> Structs:
        return (together if self.together else apart)({table.topic: table.arrow for table in self.tables})

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*COMMON, *self.structs.columns.items()])

    def table(self, topic: str) -> TopicPlan | None:
        return next((table for table in self.tables if table.topic == topic), None)

    def location(self, path: str) -> str:
        return f"{self.url.rstrip('/')}/{path}"
