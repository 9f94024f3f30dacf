"""The feed: the ledger's changes as they arrive, as files of a folder that Spark takes for a stream.

    change ──at its time, or later, or twice──▶ arrivals, minute by minute ──▶ a Parquet file each

A change may be late, and may come again, as with any real source; but none comes more than `DELAY` after its
time. So a frontier that stays so far behind the latest change is never wrong.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from calve.cli.ledger import MINUTE, Change, Ledger, owner_of

DELAY = MINUTE // 2
_SEED = 1850
_LATE_CHANCE = 0.2
_TWICE_CHANCE = 0.05
_EARLIEST_S = 1_000_000_000
"""Spark reads files in the order of their ages: each is dated a second after the one before."""

SCHEMA = pa.schema(
    [
        pa.field("account", pa.int64()),
        pa.field("owner", pa.string()),
        pa.field("balance", pa.int64()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("_op", pa.string()),
    ]
)
SPARK_SCHEMA = "account long, owner string, balance long, at timestamp, _op string"


@dataclass(frozen=True, slots=True)
class Feed:
    """What was delivered."""

    files: int
    changes: int
    late: int
    twice: int
    latest: int
    """The time of the last change."""

    @property
    def last_frontier(self) -> int:
        """How far a table can come that knows the delay, and commits by the minute."""
        return (self.latest - DELAY) // MINUTE * MINUTE


def deliver(ledger: Ledger, folder: Path) -> Feed:
    """Lay the files down."""
    folder.mkdir()
    random = Random(_SEED)
    arrivals: list[tuple[int, Change]] = []
    late = twice = 0
    for change in ledger.changes:
        is_late = random.random() < _LATE_CHANCE
        late += is_late
        arrivals.append((change.at + (random.randrange(1, DELAY) if is_late else 0), change))
        if random.random() < _TWICE_CHANCE:
            twice += 1
            arrivals.append((change.at + random.randrange(1, DELAY), change))
    arrivals.sort(key=lambda arrival: arrival[0])
    start, latest = ledger.changes[0].at, ledger.changes[-1].at
    minutes: dict[int, list[Change]] = {}
    for when, change in arrivals:
        minute = (min(when, latest) - start) // MINUTE  # who is late for the last minute still catches it
        minutes.setdefault(minute, []).append(change)
    for number, changes in minutes.items():
        _lay_down(folder / f"minute-{number:04d}.parquet", changes, _EARLIEST_S + number)
    return Feed(len(minutes), len(arrivals), late, twice, latest)


def _lay_down(path: Path, changes: Sequence[Change], age: int) -> None:
    columns = (
        [change.account for change in changes],
        [owner_of(change.account) for change in changes],
        [change.balance for change in changes],
        [change.at for change in changes],
        [change.op for change in changes],
    )
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    pq.write_table(pa.table(arrays, schema=SCHEMA), path)
    os.utime(path, (age, age))
