"""SourceTable: the columns of a table at its source, and its key. Types are texts in Iceberg's notation.

    declared (a column list, CREATE TABLE) ─┐
    learnt from messages ───────────────────┼─▶ SourceTable ─▶ what an envelope decodes messages as
    inferred, each with a warning ──────────┘

`boolean, int, long, float, double, decimal(p,s), date, time, timestamp, timestamptz, string, uuid, binary,
list<T>, map<K,V>, struct<a: T, b: T>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from calve.config.types import canonical
from calve.config.units import nearest
from calve.model.columns import RESERVED
from calve.model.errors import About, BadKey, BadName


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column."""

    name: str
    type: str
    """In Iceberg's notation, canonical."""
    required: bool = False
    is_json: bool = False
    """A text that is JSON, any value of it. A source sends it as the value itself, and a text among them has
    no other sign than that it was declared so."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", canonical(self.type))


@dataclass(frozen=True, slots=True)
class SourceTable:
    """The columns of a table, in their order, and its key."""

    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    """Columns whose type nobody said: it was inferred from values."""
    before_key: int = 0
    """How many values CockroachDB writes before those of the key, in the keys of its messages: a shard, a
    region."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        for name in names:
            if names.count(name) > 1 or name.startswith(RESERVED):
                what = "stands twice" if names.count(name) > 1 else f"begins with {RESERVED!r}, as ours do"
                raise BadName(
                    f"the column {name!r} of the source {what}",
                    hint="Rename it at the source.",
                    about=About("columns", name),
                )
        self._check_case(names)
        for name in self.key:
            if name not in names:
                near = nearest(name, names)
                raise BadKey(
                    f"the key names {name!r}, which is not among the columns: {', '.join(names)}",
                    hint=f"Did you mean {near}?" if near else "Name columns of the table.",
                    about=About("key", name),
                )

    @staticmethod
    def _check_case(names: Sequence[str]) -> None:
        seen: dict[str, str] = {}
        for name in names:
            if (other := seen.setdefault(name.casefold(), name)) != name:
                raise BadName(
                    f"the columns {other!r} and {name!r} of the source differ in capital letters alone: "
                    "Spark and most engines see one name",
                    hint="Rename one of them at the source, or leave it out there (CREATE CHANGEFEED … AS "
                    "SELECT, Debezium's column.exclude.list).",
                    about=About("columns", name),
                )

    @classmethod
    def of(cls, columns: object, key: Sequence[str] = ()) -> SourceTable:
        """From a column list: `"id long primary key, total decimal(10,2) not null"`, a mapping of names to
        types, or pairs of them."""
        from calve.config.ddl.lists import read_columns

        found, marked = read_columns(columns)
        return cls(tuple(found), tuple(key) or marked)

    @classmethod
    def from_create_table(
        cls,
        text: str,
        *,
        table: str | None = None,
        dialect: Literal["cockroachdb", "postgresql"] | None = None,
        types: Mapping[str, str] | None = None,
        key: Sequence[str] = (),
    ) -> SourceTable:
        """From a CREATE TABLE of CockroachDB or PostgreSQL. `table` names one of several; `dialect` says how
        wide an INT is (64 bits where nothing is said, which holds both); `types` says what single columns
        shall be."""
        from calve.config.ddl.create import read_create_table

        created = read_create_table(text, table, dialect, types or {})
        named = tuple(key) or created.key
        columns = [column for column in created.columns if not column.is_virtual or column.name in named]
        return cls(
            tuple(
                SourceColumn(one.name, one.type, one.required or one.name in named, one.is_json)
                for one in columns
            ),
            named,
            before_key=0 if key else created.before_key,
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> SourceColumn:
        """A column by its name."""
        return next(column for column in self.columns if column.name == name)
