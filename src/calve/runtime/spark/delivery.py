"""Delivery: what a source that has positions has delivered, and what it delivers again.

    changes with positions ──▶ at or below the last one of their partition: a replay, left out and counted
                          └──▶ beyond it: new; the greatest is the last one from then on

A connector that restarts emits events again that it had emitted, from some point on, in their order. A
position grows as a partition of the source delivers, so one that was passed was seen. Copies within one
micro-batch are left in: they are the same change twice, and collapse. Where a source does not tell some of
its changes apart (UNKNOWN), those at the last position are taken as new: better one twice than one lost.

A position is of one server. Another one, or one that was restored, begins with lower positions, and to leave
its changes out as replays would lose them. Two signs tell it, and stop the query. A change whose position was
passed is later by the source's clock than all that was delivered: a replay is not, it was among them. Or it
is a row of a snapshot: a snapshot that was broken off is made again, at a later position.

The last position is kept with the latest time: `<position>@<milliseconds>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from calve.model.columns import CLOCK, PARTITION, POSITION, SNAPSHOT_AT, UNKNOWN
from calve.model.errors import Diverged

_AND = "@"


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
    replayed = _replayed(before)
    copied = F.substring(POSITION, SNAPSHOT_AT + 1, 1) == "0"
    rows = (
        frame.groupBy(F.col(PARTITION))
        .agg(
            F.max(POSITION).alias("position"),
            F.max(CLOCK).alias("clock"),
            F.count_if(replayed).alias("replayed"),
            F.count_if(replayed & (copied | _is_later(before))).alias("strange"),
        )
        .collect()
    )
    last = dict(before)
    for row in rows:
        if row["strange"]:
            raise _other_server(row)
        if row["position"] is not None:
            last[row[PARTITION]] = _latest(last.get(row[PARTITION], ""), row)
    return Delivery(before, last, sum(row["replayed"] for row in rows))


def _latest(before: str, row: Any) -> str:
    position, _, clock = before.partition(_AND)
    clocks = [int(one) for one in (clock, row["clock"]) if one not in ("", None)]
    latest = f"{_AND}{max(clocks)}" if clocks else ""
    return max(position, row["position"]) + latest


def _other_server(row: Any) -> Diverged:
    return Diverged(
        f"partition {row[PARTITION]}: {row['strange']:,} events have positions that were passed, and are no "
        "replays: they are rows of a snapshot, or later than all that was read. The connector reads another "
        "server, or one that was restored or reset",
        hint="Nothing was written. Let the connector make a new snapshot, and write it to a new table, with "
        "a new checkpoint.",
    )


def _replayed(before: Mapping[str, str]) -> Column:
    last = _known({name: text.partition(_AND)[0] for name, text in before.items()})
    position = F.col(POSITION)
    seen = F.when(position.endswith(UNKNOWN), position < last).otherwise(position <= last)
    return F.coalesce(seen, F.lit(False))


def _is_later(before: Mapping[str, str]) -> Column:
    """Whether a change is later than all that its partition delivered."""
    clocks = {name: int(text.partition(_AND)[2]) for name, text in before.items() if _AND in text}
    return F.coalesce(F.col(CLOCK) > _known(clocks), F.lit(False))


def _known(values: Mapping[str, str] | Mapping[str, int]) -> Column:
    """What is known of the partition of a change; null where nothing is."""
    if not values:
        return F.lit(None)
    pairs = [F.lit(one) for pair in values.items() for one in pair]
    return F.try_element_at(F.create_map(*pairs), F.col(PARTITION))
