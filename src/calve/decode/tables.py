"""Tables: what is read of the rows of one table, as plain values that go with a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.carriers import TINY, Carrier, carrier
from calve.model.errors import BadKey

TIME = pa.decimal128(38, 0)
UPSERT, DELETE = "upsert", "delete"


@dataclass(frozen=True)
class TopicPlan:
    """A declared table."""

    topic: str
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

    def doubtful(self, columns: Mapping[str, pa.Array], texts: pa.Array) -> pa.Array | None:
        """Rows with a decimal that may not be zero: of anything with a power of ten that is small enough,
        Arrow makes zero. `None`: there is none."""
        zero: pa.Array | None = None
        for one in self.columns:
            if one.has_decimals:
                here = _may_be_zero(columns[one.name])
                zero = here if zero is None else pc.or_(zero, here)
        if zero is None or not pc.any(zero).as_py():
            return None
        found = pc.match_substring_regex(texts.filter(zero), TINY)
        return pc.replace_with_mask(zero, zero, found) if pc.any(found).as_py() else None


def _may_be_zero(column: pa.Array) -> pa.Array:
    if not pa.types.is_decimal(column.type):
        return pc.is_valid(column)
    return pc.fill_null(pc.equal(column, pa.scalar(0, column.type)), False)


Declared = tuple[Sequence[tuple[str, str]], Sequence[str]]
"""Columns (name, type) and the key."""


def make_tables(
    declared: Mapping[str, Declared], before_key: Mapping[str, int] = MappingProxyType({})
) -> tuple[TopicPlan, ...]:
    """Declared topics, as they sort."""
    found = []
    for topic, (columns, key) in sorted(declared.items()):
        for name in key:
            if name not in [column for column, _ in columns]:
                raise BadKey(
                    f"the key of {topic} names {name!r}, which is not among its columns",
                    hint="Name columns of the table, in the order of its primary key.",
                )
        carriers = tuple(carrier(name, kind) for name, kind in columns)
        found.append(TopicPlan(topic, carriers, tuple(key), before_key.get(topic, 0)))
    return tuple(found)
