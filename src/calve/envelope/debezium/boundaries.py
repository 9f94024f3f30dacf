"""Boundaries: the transaction topic of a Debezium connector, as what says how far its tables are.

state before ─┐
messages ─────┴─▶ observe ─▶ advance ─▶ state after, whose `mark` no change is before any more
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from calve.config.columns import SourceTable
from calve.envelope.debezium.envelope import Debezium
from calve.envelope.debezium.observe import Observer
from calve.envelope.debezium.transactions import State, advance, check_one_partition


@dataclass(frozen=True, slots=True)
class Transactions:
    """The transactions of the tables that are read."""

    topic: str
    envelope: Debezium
    tables: Mapping[str, frozenset[str]]
    """What is read: by topic, the tables as ENDs name them, `schema.table`."""

    def advance(self, messages: DataFrame, before: Mapping[str, Any]) -> Mapping[str, Any]:
        """The state after a micro-batch."""
        ends = messages.where(F.col("topic") == self.topic)
        rows = ends.select("partition").distinct().limit(2).collect()
        check_one_partition(self.topic, [row["partition"] for row in rows])
        state = _state(before)
        data = messages.where(F.col("topic").isin(*self.tables))
        tables = frozenset().union(*self.tables.values())
        seen = Observer(tables).seen(self.envelope.events(data), self.envelope.ends(ends), state)
        return advance(state, seen).to_json()

    def mark(self, state: Mapping[str, Any]) -> int:
        """How far the source is: no change before it is to come."""
        return _state(state).mark

    def decode(self, raw: DataFrame, table: SourceTable, before: Mapping[str, Any]) -> DataFrame:
        """The changes in messages, on the state before them."""
        return self.envelope.decode(raw, table, floor=_state(before).mark)


def _state(said: Mapping[str, Any]) -> State:
    return State.from_json(said) if said else State()
