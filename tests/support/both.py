"""Both: what calve.read and Iceberg's own runtime see of the same snapshot, side by side."""

from __future__ import annotations

from typing import Any

import calve
from tests.support.readers import Row, differences, rows_of


def snapshots_of(spark: Any, table: str) -> list[int]:
    """All snapshots that a table has, the oldest first."""
    rows = spark.sql(
        f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at, snapshot_id"
    ).collect()
    return [row[0] for row in rows]


def same_rows(spark: Any, table: str, at: int | None = None, where: str | None = None) -> list[Row]:
    """The rows of a snapshot, or of main, which both must see alike: values, columns and types."""
    version = "" if at is None else f" VERSION AS OF {at}"
    theirs = spark.sql(f"SELECT * FROM {table}{version}")
    ours = calve.read(spark, table, at=at)
    assert ours.schema.simpleString() == theirs.schema.simpleString()
    if where is not None:
        ours, theirs = ours.where(where), theirs.where(where)
    expected = theirs.toArrow()
    seen, truth = rows_of(ours.toArrow(), expected.schema), rows_of(expected, expected.schema)
    assert seen == truth, f"{table} at {at}: {differences(seen, truth)}"
    if where is not None:
        pruned = rows_of(calve.read(spark, table, at=at, where=where).toArrow(), expected.schema)
        assert pruned == truth, f"{table} at {at} where {where}: {differences(pruned, truth)}"
    return seen


def same_everywhere(spark: Any, table: str) -> list[Row]:
    """The same of every snapshot; the rows of main."""
    found = snapshots_of(spark, table)
    assert found
    for snapshot in found:
        same_rows(spark, table, snapshot)
    return same_rows(spark, table)
