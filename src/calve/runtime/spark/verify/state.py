"""State: the rows of a source as of a time, folded from all its changes.

    changes ──before the time──▶ the last of each key ──not a delete──▶ rows

The last is the one with the greatest time, then order; where these are equal, a row that came beats one that
went, as in a set with weights. Nothing of the sink's own collapse is used.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from calve.model.columns import OP, ORDER, POSITION, RESERVED, TIME
from calve.model.errors import ConfigError
from calve.runtime.spark.frame import quoted

_DELETES = ("D", "-D", "-U", "d", "delete")


def folded(changes: DataFrame, key: Sequence[str], upper: int | None) -> DataFrame:
    """The rows that decoded changes lead to: all of them, or those before a time."""
    known = changes.where(F.col(OP).isNotNull())
    if upper is not None:
        known = known.where(F.col(TIME) < F.lit(str(upper)).cast("decimal(38,0)"))
    order = [name for name in (TIME, POSITION, ORDER) if name in changes.columns]
    rows = [name for name in changes.columns if not name.startswith(RESERVED)]
    return last_of(known, key, order, OP, rows)


def last_of(
    changes: DataFrame, key: Sequence[str], order: Sequence[str], op: str | None, rows: Sequence[str]
) -> DataFrame:
    """The last row of each key, if it is there after its last change."""
    live = F.lit(True) if op is None else ~F.col(quoted(op)).cast("string").isin(*_DELETES)
    if op is not None and dict(changes.dtypes)[op] in ("tinyint", "smallint", "int", "bigint"):
        live = F.col(quoted(op)) > 0
    last = F.max_by(
        F.struct(live.alias("live"), F.struct(*map(quoted, rows)).alias("row")),
        F.struct(*map(quoted, order), live.alias("live")),
    )
    grouped = changes.groupBy(*map(quoted, key)).agg(last.alias("last"), F.count(F.lit(1)).alias("count"))
    if not order and grouped.where(F.col("count") > 1).take(1):
        raise ConfigError(
            "a key has several changes, and nothing says which of them is the last",
            hint="Name the columns that order them: WITH (SEQUENCE BY = 'lsn').",
        )
    return grouped.where("last.live").select("last.row.*")
