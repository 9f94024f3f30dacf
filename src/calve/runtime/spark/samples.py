"""Samples: the few messages of a micro-batch that are looked at on the driver, to learn their columns.

    messages ──by topic, partition and version of the columns──▶ the first, the last and two more of each

A version is what tells apart messages with other columns (`Envelope.version`): a schema's own number, or what
stands for the names of a message. So a column that one message of a million has is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from calve.envelope.base import Boundaries, Sample


class Sampled(Protocol):
    """What is said of a feed here (`Feed`)."""

    @property
    def tells(self) -> Callable[[Column], Column]: ...

    @property
    def version(self) -> Callable[[Column], Column]: ...

    @property
    def topics(self) -> tuple[str, ...] | None: ...

    @property
    def boundaries(self) -> Boundaries | None: ...


def samples_of(messages: DataFrame, feed: Sampled) -> dict[str, list[Sample]]:
    """By topic, of each partition and each version of the columns the first and the last message that shows
    columns, and two more. A topic that has only other messages has none, and is in it all the same."""
    message = F.struct("offset", "key", "value")
    tells = feed.tells(F.col("value").cast("string"))
    mine = F.col("topic").isNotNull()
    if feed.topics is not None:
        mine = mine & F.col("topic").isin(*feed.topics)
    if feed.boundaries is not None:
        mine = mine & (F.col("topic") != feed.boundaries.topic)
    at = F.when(tells, F.col("offset"))
    any_one = F.when(tells, F.xxhash64("value"))
    rows = (
        messages.where(mine)
        .groupBy("topic", "partition", feed.version(F.col("value")).alias("version"))
        .agg(
            F.min_by(message, at).alias("first"),
            F.max_by(message, at).alias("last"),
            F.min_by(message, any_one).alias("one"),
            F.max_by(message, any_one).alias("other"),
        )
        .collect()
    )
    found: dict[str, list[Sample]] = {row["topic"]: [] for row in rows}
    for row in rows:
        some = (row[which] for which in ("first", "last", "one", "other"))
        looked_at = (
            Sample(row["topic"], row["partition"], one["offset"], _bytes(one["key"]), _bytes(one["value"]))
            for one in some
            if one is not None
        )
        found[row["topic"]] += dict.fromkeys(looked_at)  # one of them may be both first and last
    # In the order of their offsets: a column that changed its type did so once.
    return {
        name: sorted(some, key=lambda one: (one.partition, one.offset or 0)) for name, some in found.items()
    }


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    """PySpark 4.0 has a bytearray for what is binary, and later ones if their session is told so."""
    return None if value is None else bytes(value)
