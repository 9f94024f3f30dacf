"""Envelope: how a source encodes changes. Messages in, changes and marks out, in Spark columns.

    messages ──samples, on the driver──▶ learn ──▶ SourceTable ─┐
        └──────────────────────────────────────────────────────┴─▶ decode ──▶ a frame of changes and marks

A decoded frame has the data columns under their own names, and those of `model/columns.py` beside them. What
cannot be decoded is a row with an ERROR, never a row less (P8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame

from calve.config.columns import SourceTable
from calve.decode.messages import Kernel


@dataclass(frozen=True, slots=True)
class Sample:
    """A message that was looked at, to learn which columns there are."""

    topic: str
    partition: str
    offset: int | None
    key: bytes | None
    value: bytes | None

    @property
    def place(self) -> str:
        numbered = "" if self.offset is None else f", offset {self.offset}"
        return f"topic {self.topic}, partition {self.partition}{numbered}"


class Envelope(Protocol):
    """The messages of one table."""

    @property
    def meaning(self) -> str:
        """What times mean, as the table's progress says it: `hlc`, `lsn`, `micro-batch`."""
        ...

    @property
    def timed(self) -> bool:
        """Whether changes have times and the source marks how far it is; else micro-batches are batches."""
        ...

    @property
    def units_a_second(self) -> int | None:
        """How many units of its times make a second; `None` where times are no clock."""
        ...

    def tells(self, text: Column) -> Column:
        """Whether the text of a message may show columns of the table: cheap, and wrong at times."""
        ...

    def version(self, value: Column) -> Column:
        """A number that tells apart messages with other columns: some of each are looked at."""
        ...

    def learn(self, samples: Sequence[Sample], known: SourceTable | None) -> SourceTable:
        """The columns and the key that messages show, on top of what is known. A contradiction is refused
        with the place of the message."""
        ...

    def decode(self, raw: DataFrame, table: SourceTable) -> DataFrame:
        """The changes and marks in a frame of messages."""
        ...

    def kernel(self, topic: str, table: SourceTable, *, checks_names: bool) -> Kernel | None:
        """What reads plain messages of a topic in Arrow, before `decode` reads the others; `None`: nothing.
        `checks_names`: messages with other columns than the table's are not plain."""
        ...


class Boundaries(Protocol):
    """A topic beside those of the tables that says how far they are, such as that of transactions."""

    @property
    def topic(self) -> str: ...

    def advance(self, messages: DataFrame, before: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is known after a micro-batch: a function of its messages and of what was known before, which
        is empty at first. As JSON has it."""
        ...

    def mark(self, state: Mapping[str, Any]) -> int:
        """No change before it is to come."""
        ...

    def decode(self, raw: DataFrame, table: SourceTable, before: Mapping[str, Any]) -> DataFrame:
        """The changes in messages of a table, by what was known before them."""
        ...
