"""Delivery: what a source that has positions has delivered, and what it delivers again.

    changes with positions ──▶ at or below the last one of their partition: a replay, left out and counted
                          └──▶ beyond it: new; the greatest is the last one from then on

A connector that restarts emits events again that it had emitted, from some point on, in their order. A
position grows as a partition of the source delivers, so one that was passed was seen. Copies within one
micro-batch are left in: they are the same change twice, and collapse. Where a source does not tell some of
its changes apart (UNKNOWN), those at the last position are taken as new: better one twice than one lost.

Rows of a snapshot are never emitted again as they were: a snapshot that was broken off is made again, at a
later position. Where some come with a position that was passed, positions are those of another server, and to
leave them out would lose them: the query stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from calve.model.columns import PARTITION, POSITION, SNAPSHOT_AT, UNKNOWN
from calve.model.errors import Diverged


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a micro-batch delivers, beside what was delivered before."""

    before: Mapping[str, str]
    last: Mapping[str, str]
    """The last position of each partition, after the micro-batch."""
    replayed: int

    def fresh(self, frame: DataFrame) -> DataFrame:
        """The rows that were not delivered before. A row without a position may be anything but a replay."""
        return frame.where(~_replayed(self.before)) if self.replayed else frame


def delivery(frame: DataFrame, before: Mapping[str, str]) -> Delivery:
    """Look at the positions of a micro-batch."""
    rows = (
        frame.groupBy(F.col(PARTITION))
        .agg(
            F.max(POSITION).alias("last"),
            F.count_if(_replayed(before)).alias("replayed"),
            F.count_if(_replayed(before) & _is_copied()).alias("copied"),
        )
        .collect()
    )
    for row in rows:
        if row["copied"]:
            raise Diverged(
                f"partition {row[PARTITION]}: {row['copied']:,} rows of a snapshot have positions that were "
                "passed: the connector reads another server, or one that was restored",
                hint="Nothing was written. The new snapshot has all rows that there are: write it to a new "
                "table, with a new checkpoint.",
            )
    last = dict(before)
    for row in rows:
        if row["last"] is not None:
            last[row[PARTITION]] = max(row["last"], last.get(row[PARTITION], ""))
    return Delivery(before, last, sum(row["replayed"] for row in rows))


def _is_copied() -> Column:
    """Whether a change is a row of a snapshot, by its position: a snapshot that is made again has a later
    one."""
    return F.substring(POSITION, SNAPSHOT_AT + 1, 1) == "0"


def _replayed(before: Mapping[str, str]) -> Column:
    if not before:
        return F.lit(False)
    pairs = [F.lit(text) for pair in before.items() for text in pair]
    last = F.try_element_at(F.create_map(*pairs), F.col(PARTITION))
    position = F.col(POSITION)
    seen = F.when(position.endswith(UNKNOWN), position < last).otherwise(position <= last)
    return F.coalesce(seen, F.lit(False))
