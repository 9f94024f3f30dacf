"""Sift: rows that fit apart from rows that do not, at the cost of the few that do not.

A kernel that meets a bad row refuses the whole table. So the table is cut in halves until the bad row stands
alone: rows that fit are still read many at a time, and the search costs as much as a few more reads for each
row that does not. The rows that fit stay in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from calve.model.columns import RAW
from calve.model.errors import BadRow
from calve.model.file import FileClosed
from calve.writer.changes import TIME_COLUMN
from calve.writer.conform import shown

_COLUMNS_SHOWN = 8


class Taker(Protocol):
    """Where rows go that do not fit."""

    @property
    def rows(self) -> int:
        """How many were kept."""
        ...

    def take(self, rows: pa.Table, why: BadRow) -> None:
        """Keep the rows, or raise `why`."""
        ...

    def close(self) -> list[FileClosed]:
        """The files in which they were kept."""
        ...


class Misfits:
    """The first row that does not fit is the end of it."""

    rows = 0

    def take(self, rows: pa.Table, why: BadRow) -> None:
        raise BadRow(f"{why.message} ({describe(rows)})", hint=why.hint)

    def close(self) -> list[FileClosed]:
        return []


def sift(rows: pa.Table, read: Callable[[pa.Table, int], pa.Table], bad: Taker) -> Iterator[pa.Table]:
    """What `read` makes of the rows that fit; it is given rows and the place of the first of them. The others
    go to `bad`."""
    waiting = [(0, rows)]
    while waiting:
        start, part = waiting.pop()
        try:
            fitting = read(part, start)
        except BadRow as why:
            if part.num_rows == 1:
                bad.take(part, why)
                continue
            half = part.num_rows // 2
            waiting += [(start + half, part.slice(half)), (start, part.slice(0, half))]
        else:
            if fitting.num_rows:
                yield fitting


def describe(rows: pa.Table) -> str:
    """The first of the rows, for people: its first columns, each cut to a length that a log can bear."""
    if RAW in rows.column_names and rows[RAW][0].is_valid:
        return f"the message: {shown(rows[RAW], 0)}"
    names = [name for name in rows.column_names if name != TIME_COLUMN]
    text = ", ".join(f"{name} = {shown(rows.column(name), 0)}" for name in names[:_COLUMNS_SHOWN])
    return text + (", …" if len(names) > _COLUMNS_SHOWN else "")
