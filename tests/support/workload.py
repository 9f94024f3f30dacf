"""A seeded ledger of changes, epoch by epoch, and what a table must show after each of them.

    Variant ──ledger()──▶ Ledger ──next_epoch()──▶ Epoch(changes with `_op`, truth)

The truth is kept by a plain dictionary from key to row (a list of rows where there is no key): it knows
nothing of files, deletes or partitions. Values come from small pools, so that keys return, are deleted and
come back, rows move between partitions, and texts differ only behind their sixteenth character.

Not here: the variants themselves (variants.py) and how epochs get into a table (lake.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

OP = "_op"
INSERT_WORDS = ("I", "+I", "c", "insert")
UPSERT_WORDS = ("r", "+U", "u", "U", "upsert", "update")
DELETE_WORDS = ("D", "-D", "-U", "d", "delete")

_KEYS = 14
_DRAWS = 200
_CHANGES = 10
_DELETE_SHARE = 0.25
_NULL_SHARE = 0.15

Values = Mapping[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it is sent, and the values that it takes."""

    name: str
    sent: pa.DataType
    pool: tuple[Any, ...]
    nullable: bool = True
    stored: pa.DataType | None = None
    """What the table makes of it, where that differs."""

    def draw(self, random: Random) -> Any:
        if self.nullable and random.random() < _NULL_SHARE:
            return None
        return random.choice(self.pool)

    def sent_field(self) -> pa.Field:
        return pa.field(self.name, self.sent, self.nullable)

    def stored_field(self) -> pa.Field:
        return pa.field(self.name, self.stored or self.sent, self.nullable)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The changes of one epoch, in the order in which they happened, and the table after them."""

    number: int
    changes: pa.Table
    truth: pa.Table
    cut: int
    """Where the changes are cut in two, to be handed over in two calls."""

    @property
    def pieces(self) -> list[pa.Table]:
        pieces = (self.changes.slice(0, self.cut), self.changes.slice(self.cut))
        return [piece for piece in pieces if piece.num_rows]


@dataclass(frozen=True, slots=True)
class Variant:
    """One kind of table: its columns, stage by stage, and the options of its sink."""

    name: str
    stages: tuple[tuple[Column, ...], ...]
    """The columns of the first epoch, of the second, …; the last stage stays."""
    options: Mapping[str, object] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    mode: str = "upsert"
    epochs: int = 5
    seed: int = 7
    blind: Mapping[str, str] = field(default_factory=dict)
    """Readers that are known to err on such a table, each with what is known."""

    def ledger(self) -> Ledger:
        return Ledger(self)

    def columns(self, number: int) -> tuple[Column, ...]:
        return self.stages[min(number, len(self.stages)) - 1]

    def sink_options(self) -> dict[str, object]:
        options: dict[str, object] = {"write.mode": self.mode, **self.options}
        if self.key:
            options["equality.delete.columns"] = ", ".join(self.key)
        return options


class Ledger:
    """The changes of a variant, one epoch after the other, from its seed."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.number = 0
        self.random = Random(f"{variant.name}-{variant.seed}")
        self._keys = self._draw_keys()
        self._by_key: dict[Key, Values] = {}
        self._rows: list[Values] = []

    def next_epoch(self) -> Epoch:
        """The next changes, already part of the truth."""
        self.number += 1
        columns = self.variant.columns(self.number)
        changes = []
        for change in self._draw_changes(columns):
            self._apply(change)  # before the next is drawn: it may depend on whether its key is there
            changes.append(change)
        sent = [*columns] if self.variant.mode == "append" else [*columns, _OP_COLUMN]
        table = table_of(changes, [column.sent_field() for column in sent])
        return Epoch(self.number, table, self.truth(), self.random.randrange(len(changes) + 1))

    def truth(self) -> pa.Table:
        """All rows, with the columns that the table has now."""
        fields = [column.stored_field() for column in self.variant.columns(max(self.number, 1))]
        if self.variant.mode == "changelog":
            fields += [pa.field("_calve_op", pa.string()), pa.field("_calve_time", pa.int64())]
        return table_of([*self._by_key.values(), *self._rows], fields)

    def put(self, row: Values) -> None:
        """Somebody else wrote this row."""
        self._by_key[self._key_of(row)] = row

    def remove(self, row: Values) -> None:
        """Somebody else deleted this row."""
        del self._by_key[self._key_of(row)]

    def rows(self) -> list[Values]:
        """The rows of a table with a key, in no order."""
        return list(self._by_key.values())

    def _draw_keys(self) -> list[Key]:
        columns = {column.name: column for column in self.variant.columns(1)}
        keys: dict[Key, None] = {}
        for _ in range(_DRAWS if self.variant.key else 0):
            keys[tuple(columns[name].draw(self.random) for name in self.variant.key)] = None
        return list(keys)[:_KEYS]

    def _draw_changes(self, columns: tuple[Column, ...]) -> Iterable[Values]:
        for _ in range(_CHANGES):
            row = {column.name: column.draw(self.random) for column in columns}
            if self.variant.key:
                row.update(zip(self.variant.key, self.random.choice(self._keys), strict=True))
            if self.variant.mode == "append":
                yield row
            elif self.random.random() < _DELETE_SHARE:
                yield {**self._only_key(row, columns), OP: self.random.choice(DELETE_WORDS)}
            else:
                yield {**row, OP: self.random.choice(self._words(row))}

    def _words(self, row: Values) -> tuple[str, ...]:
        """A key that is there may be inserted again, unless the source promises that inserts are new."""
        promised = self.variant.options.get("inserts.are.new") == "true"
        return UPSERT_WORDS if promised and self._key_of(row) in self._by_key else INSERT_WORDS + UPSERT_WORDS

    def _only_key(self, row: Values, columns: tuple[Column, ...]) -> Values:
        """What many sources say of a deleted row: its key, and nothing where nothing is required."""
        if self.random.random() < 0.5:
            return row
        bare = {column.name for column in columns if column.nullable and column.name not in self.variant.key}
        return {name: None if name in bare else value for name, value in row.items()}

    def _apply(self, change: Values) -> None:
        row = {name: value for name, value in change.items() if name != OP}
        is_delete = change.get(OP) in DELETE_WORDS
        if self.variant.mode == "append":
            self._rows.append(row)
        elif self.variant.mode == "changelog":
            op = "delete" if is_delete else "insert" if change[OP] in INSERT_WORDS else "upsert"
            self._rows.append({**row, "_calve_op": op, "_calve_time": self.number})
        elif is_delete:
            self._by_key.pop(self._key_of(row), None)
        else:
            self.put(row)

    def _key_of(self, row: Values) -> Key:
        return tuple(row[name] for name in self.variant.key)


_OP_COLUMN = Column(OP, pa.string(), UPSERT_WORDS, nullable=False)


def table_of(rows: Iterable[Values], fields: list[pa.Field]) -> pa.Table:
    """An Arrow table of rows; a column that a row does not have is null."""
    rows = list(rows)
    arrays = [_array([row.get(column.name) for row in rows], column.type) for column in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.UuidType):
        stored = pa.array([None if value is None else value.bytes for value in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(kind, stored)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_decimal(kind):
        values = [Decimal(value) if isinstance(value, int) else value for value in values]
    return pa.array(values, kind)
