"""Copy: the rows of a snapshot of a table, as COPY tells them. In an executor, by psycopg and pyarrow.

The snapshot is one that another connection exported, and holds. Values are text, as the server prints them in
UTC, whatever the role or the database is set to; a null is told from every text.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

TEXT, TEXTS, PADDED_TEXTS = "{}", "to_json({}::text[])", "to_json({})"
"""How a column is asked for: as text; as an array of texts in JSON; the same of texts of a fixed length,
which lose their blanks when they are cast."""

_NULL = "\\N"
_SETTINGS = (
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "3"),
)


@dataclass(frozen=True, slots=True)
class Copy:
    """In an executor: the rows of a snapshot, as COPY tells them."""

    uri: str
    table: str
    columns: tuple[tuple[str, str], ...]
    """Names, and how each is asked for."""
    snapshot: str

    def __repr__(self) -> str:
        return f"<a copy of {self.table}>"

    @property
    def names(self) -> list[str]:
        """Of the columns of its rows. By place: PySpark does not quote names that it hands to Arrow."""
        return [f"column_{place}" for place in range(len(self.columns))]

    def __call__(self, _: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import psycopg
        from psycopg import sql
        from pyarrow import csv

        asked = [sql.SQL(form).format(sql.Identifier(name)) for name, form in self.columns]
        # The name is the server's own text of it, quoted where it must be.
        query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv, NULL '\\N')").format(
            sql.SQL(", ").join(asked), sql.SQL(self.table)
        )
        with psycopg.connect(self.uri) as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self.snapshot)))
            for setting in _SETTINGS:
                cursor.execute("SELECT set_config(%s, %s, true)", setting)
            with cursor.copy(query) as copy:
                yield from _batches(csv, _Stream(copy), self.names)


class _Stream(io.RawIOBase):
    """What COPY sends, as a file."""

    def __init__(self, copy: Any) -> None:
        self._copy, self._left = copy, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = bytes(self._copy.read())
        part, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def _batches(csv: Any, stream: io.RawIOBase, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    buffered = io.BufferedReader(stream, 1 << 20)
    if not buffered.peek(1):
        return
    reader = csv.open_csv(
        buffered,
        read_options=csv.ReadOptions(column_names=list(names)),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[_NULL],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    yield from reader
