"""Layout: how a table's rows are cut into partitions and sorted inside files, as plain values.

What a user writes (`day(ts), bucket(16, id)`) is parsed in `config`; `table` turns it into Iceberg's
spec and order; `writer` applies it to Arrow columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from calve.model.errors import BadPartition


class TransformKind(Enum):
    """Iceberg's partition transforms: seven, and void."""

    IDENTITY = "identity"
    BUCKET = "bucket"
    TRUNCATE = "truncate"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    VOID = "void"


_WITH_WIDTH = frozenset({TransformKind.BUCKET, TransformKind.TRUNCATE})
WIDTH_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform and, for bucket and truncate, its width."""

    kind: TransformKind
    width: int | None = None

    def __post_init__(self) -> None:
        if (self.width is not None) != (self.kind in _WITH_WIDTH):
            raise BadPartition(
                f"{self.kind.value} with width {self.width}",
                hint="bucket(n, column) and truncate(width, column) take a number, the others take none.",
            )
        if self.width is not None and not 1 <= self.width <= WIDTH_MAX:
            raise BadPartition(
                f"{self.kind.value}({self.width}, …) is outside 1 … {WIDTH_MAX}",
                hint="Give a positive number of buckets or a positive width.",
            )

    def __str__(self) -> str:
        """Iceberg's own spelling: `bucket[16]`, `day`."""
        return self.kind.value if self.width is None else f"{self.kind.value}[{self.width}]"


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a partition spec: a transform of a top-level column."""

    column: str
    transform: Transform

    def __str__(self) -> str:
        width = "" if self.transform.width is None else f"{self.transform.width}, "
        return f"{self.transform.kind.value}({width}{self.column})"


@dataclass(frozen=True, slots=True)
class SortField:
    """One column of a sort order."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        direction = "desc" if self.descending else "asc"
        return f"{self.column} {direction} nulls {'first' if self.nulls_first else 'last'}"
