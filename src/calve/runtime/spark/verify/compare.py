"""Compare: two frames with the same columns, as bags of rows.

    left, right ──union, group by all columns──▶ rows that one side has more often ──by key──▶ differences

Equal rows meet in one group, however often they come: a doubled row is a difference, and so is a row that
differs in one column. A null equals a null, a NaN a NaN. Maps are compared by their entries, whatever the
order. Rows stay on Spark; only the differences that are shown come to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.model.errors import SchemaMismatch
from calve.runtime.spark.frame import quoted

_LEFT, _RIGHT = "__calve_left", "__calve_right"


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that the two sides do not agree on."""

    key: dict[str, Any]
    left: dict[str, Any] | None
    """`None`: it is not there."""
    right: dict[str, Any] | None
    columns: tuple[str, ...] = ()
    """Where it is on both sides: what differs."""
    times: int = 0
    """How often the right has a row of this key that the left has not as often."""

    def to_json(self) -> dict[str, Any]:
        sides = {"source": self.left, "table": self.right}
        return {"key": self.key, **sides, "columns": list(self.columns), "times": self.times}


@dataclass(frozen=True, slots=True)
class Compared:
    """What two frames have in common, and what not."""

    rows_left: int
    rows_right: int
    missing: int
    """Keys (rows, where there is no key) that the left alone has."""
    extra: int
    """… that the right alone has."""
    different: int
    """Keys that both have, with other values."""
    doubled: int
    """Keys that the right has more often than once."""
    differences: tuple[Difference, ...] = ()
    """The first of them, by key."""

    @property
    def equal(self) -> bool:
        return not (self.missing or self.extra or self.different or self.doubled)


def compare(left: DataFrame, right: DataFrame, key: Sequence[str], limit: int = 10) -> Compared:
    """Compare two frames. The columns are the right one's; a column that the left lacks is refused."""
    columns = right.columns
    if lacking := [name for name in columns if name not in left.columns]:
        raise SchemaMismatch(
            f"the source has no column {lacking[0]!r}, which the table has",
            hint="A column that the source lost since can be left out with a view; it cannot be compared.",
        )
    counted = [
        _comparable(frame, right.schema).withColumns({_LEFT: F.lit(ours), _RIGHT: F.lit(1 - ours)})
        for frame, ours in ((left, 1), (right, 0))
    ]
    sums = [F.sum(name).alias(name) for name in (_LEFT, _RIGHT)]
    bag = counted[0].unionByName(counted[1]).groupBy(*map(quoted, columns)).agg(*sums)
    unequal = F.col(_LEFT) != F.col(_RIGHT)
    # Where all is well, one pass tells it, and nothing is kept.
    total = bag.agg(*sums, F.count_if(unequal)).first()
    assert total is not None
    rows_left, rows_right, groups = (int(one or 0) for one in total)
    if not groups:
        return Compared(rows_left, rows_right, 0, 0, 0, 0)
    differ = bag.where(unequal).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counts = _counts(differ, key).first()
        shown = _first(differ, key or columns, columns, limit)
    finally:
        differ.unpersist()
    assert counts is not None
    missing, extra, different, doubled = (int(one or 0) for one in counts)
    return Compared(rows_left, rows_right, missing, extra, different, doubled, shown)


def _counts(differ: DataFrame, key: Sequence[str]) -> DataFrame:
    more_left, more_right = F.col(_LEFT) > F.col(_RIGHT), F.col(_RIGHT) > F.col(_LEFT)
    if not key:
        return differ.agg(
            F.sum(F.when(more_left, F.col(_LEFT) - F.col(_RIGHT))),
            F.sum(F.when(more_right, F.col(_RIGHT) - F.col(_LEFT))),
            F.lit(0),
            F.lit(0),
        )
    by_key = differ.groupBy(*map(quoted, key)).agg(
        F.max(F.col(_LEFT) > 0).alias("l"), F.max(F.col(_RIGHT) > 0).alias("r"), F.sum(_RIGHT).alias("n")
    )
    doubled = F.col("n") > 1
    return by_key.agg(
        F.count_if(F.col("l") & ~F.col("r")),
        F.count_if(~F.col("l") & F.col("r") & ~doubled),
        F.count_if(F.col("l") & F.col("r") & ~doubled),
        F.count_if(doubled),
    )


def _first(
    differ: DataFrame, key: Sequence[str], columns: Sequence[str], limit: int
) -> tuple[Difference, ...]:
    """The first differences, by key. Of a key there may be two rows, one of each side, or more."""
    order = [*map(quoted, key), F.col(_LEFT).desc()]
    rows = [row.asDict(recursive=True) for row in differ.orderBy(*order).limit(2 * limit).collect()]
    found: dict[str, Difference] = {}
    for row in rows:
        said = {name: row[name] for name in key}
        values = {name: row[name] for name in columns}
        known = found.get(repr(said))
        left = values if row[_LEFT] > row[_RIGHT] else known.left if known else None
        right = values if row[_RIGHT] > row[_LEFT] else known.right if known else None
        # By what they look like: a NaN is not equal to itself.
        other = tuple(one for one in columns if left and right and repr(left[one]) != repr(right[one]))
        times = int(row[_RIGHT]) + (known.times if known else 0)
        found[repr(said)] = Difference(said, left, right, other, times)
    return tuple(found.values())[:limit]


def _comparable(frame: DataFrame, like: T.StructType) -> DataFrame:
    """The columns of `like`, in its types and in forms that can be grouped by."""
    return frame.select(
        *(
            _form(F.col(quoted(field.name)).cast(field.dataType), field.dataType).alias(field.name)
            for field in like
        )
    )


def _form(column: Column, kind: T.DataType) -> Column:
    """A value in a form that can be grouped by: a map is its entries, in order."""
    match kind:
        case T.MapType():
            entries = F.transform(
                F.map_entries(column),
                lambda one: F.struct(
                    _form(one["key"], kind.keyType).alias("key"),
                    _form(one["value"], kind.valueType).alias("value"),
                ),
            )
            return F.array_sort(entries)
        case T.ArrayType() if _has_map(kind):
            return F.transform(column, lambda one: _form(one, kind.elementType))
        case T.StructType() if _has_map(kind):
            parts = [_form(column[field.name], field.dataType).alias(field.name) for field in kind]
            return F.when(column.isNotNull(), F.struct(*parts))
    return column


def _has_map(kind: T.DataType) -> bool:
    match kind:
        case T.MapType():
            return True
        case T.ArrayType():
            return _has_map(kind.elementType)
        case T.StructType():
            return any(_has_map(field.dataType) for field in kind)
    return False
