"""Structs: where the rows of each topic stand in a frame that has the rows of all.

    apart      t0 struct<id long, note string> │ t1 struct<id long, price decimal>   for people who read it
    together   rows struct<c0 long, c1 string, c2 decimal>                           for feeds

Together there is one struct: of each type as many columns as the topic has that has most of it. A row is
then about as wide as the widest topic, however many there are. Apart, each row has a null for every column of
every other topic, which on its way to Spark takes as many bytes as a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

TOGETHER = "rows"


@dataclass(frozen=True)
class Place:
    """Where the rows of a topic stand."""

    column: str
    """The struct."""
    fields: Mapping[str, str]
    """What each of the topic's columns is called in it."""


@dataclass(frozen=True)
class Structs:
    """The structs of a frame."""

    columns: Mapping[str, pa.DataType]
    places: Mapping[str, Place]
    """By topic."""

    def put(self, topic: str | None, rows: pa.Array | None, count: int) -> list[pa.Array]:
        """All structs of so many rows of a topic; `None` for rows that are not read."""
        place = None if topic is None else self.places.get(topic)
        return [
            pa.nulls(count, kind)
            if rows is None or place is None or place.column != column
            else _renamed(rows, kind, place.fields)
            for column, kind in self.columns.items()
        ]


def apart(topics: Mapping[str, pa.DataType]) -> Structs:
    """A struct for each topic, numbered as topics sort."""
    columns = {topic: f"t{number}" for number, topic in enumerate(sorted(topics))}
    return Structs(
        {columns[topic]: topics[topic] for topic in columns},
        {topic: Place(columns[topic], {name: name for name in topics[topic].names}) for topic in columns},
    )


def together(topics: Mapping[str, pa.DataType], column: str = TOGETHER) -> Structs:
    """One struct for all topics."""
    names: dict[tuple[pa.DataType, int], str] = {}
    places = {}
    for topic in sorted(topics):
        met: Counter[pa.DataType] = Counter()
        fields = {}
        for field in topics[topic]:
            fields[field.name] = names.setdefault((field.type, met[field.type]), f"c{len(names)}")
            met[field.type] += 1
        places[topic] = Place(column, fields)
    shared = pa.struct([pa.field(name, kind) for (kind, _), name in names.items()])
    return Structs({column: shared} if names else {}, places)


def _renamed(rows: pa.Array, kind: pa.DataType, fields: Mapping[str, str]) -> pa.Array:
    """Rows of a topic as those of the struct that they stand in."""
    if rows.type == kind:
        return rows
    there = {fields[field.name]: rows.field(number) for number, field in enumerate(rows.type)}
    arrays = [there[one.name] if one.name in there else pa.nulls(len(rows), one.type) for one in kind]
    mask = pc.is_null(rows) if rows.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)
