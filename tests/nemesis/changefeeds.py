"""A CockroachDB changefeed under attack: the generator of tests/support/changefeed, its nemesis turned up.

    History ──▶ Changefeed ──▶ files, in the order in which they appear ──cut anywhere──▶ bucket ──▶ driver
        └──▶ the rows of a table at any time ──▶ checker

A delivery ends in the middle of a round: data files without their RESOLVED file, one of several nodes, half a
session that a restart will send again. A file appears whole, as in an object store; the driver lists while
others appear. The truth is the history, which knows no files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from tests.nemesis.kinds import Kind
from tests.nemesis.source import Delivered, Row, in_order
from tests.support.changefeed.feed import LAYOUTS, QUIET, Changefeed, Nemesis, Write
from tests.support.changefeed.history import History, Table

TABLES = (
    Table(
        "orders",
        (("id", "long"), ("price", "decimal(10,2)"), ("note", "string"), ("day", "date")),
        ("id",),
        ("price", "note", "day"),
    ),
    Table("my-people", (("name", "string"), ("id", "int"), ("points", "long")), ("name", "id"), ("points",)),
)
LATER = {"orders": ("label", "string", "new"), "my-people": ("age", "long", 30)}
"""Columns that tables get while the feed runs, and what old rows have then: the type is guessed from it."""
TURNED_UP = Nemesis(restarts=30, small_files=50, late_files=40)

_FORMATS = (".ndjson", ".ndjson.gz", ".parquet")
_TRANSACTIONS = 12


class ChangefeedTable(Delivered):
    """One table of a changefeed, and what it must show."""

    def __init__(self, kind: Kind, folder: Path, changefeed: Changefeed, table: Table) -> None:
        super().__init__(kind, folder)
        self._changefeed, self._table = changefeed, table

    @property
    def columns(self) -> tuple[str, ...]:
        names = [name for name, _ in self._table.columns]
        if self._table.topic in LATER:
            names.append(LATER[self._table.topic][0])
        return tuple(names)

    @property
    def beyond(self) -> int:
        """The end of the batch that the last change of this table is in: after it there are no snapshots."""
        topic = self._table.topic
        last = max(change.version.time for change in self._changefeed.history.log if change.topic == topic)
        return min(time for time in self._changefeed.resolved if time >= last) + 1

    def rows_before(self, frontier: int) -> list[Row]:
        # A resolved time is inclusive, a frontier is not.
        rows = self._changefeed.state(self._table.topic, frontier - 1).values()
        return in_order(tuple(row.get(name) for name in self.columns) for row in rows)

    def may_end_at(self, upper: int) -> bool:
        return upper - 1 in self._changefeed.resolved


class Bucket:
    """A changefeed, and the files of it that have appeared."""

    def __init__(self, seed: int, kind: Kind, folder: Path) -> None:
        self.folder = folder
        self._random = Random(f"{seed} bucket")
        self._history = History.of(seed, *TABLES)
        self._history.run(20)
        self._feed = Changefeed(
            self._history,
            seed=seed,
            layout=self._random.choice(LAYOUTS),
            kind=self._random.choice(_FORMATS),
            nemesis=TURNED_UP,
        )
        self._later = dict(LATER)
        self._coming: deque[Write] = deque()
        self.tables: Mapping[str, Delivered] = {
            table.topic: ChangefeedTable(kind, folder, self._feed, table) for table in TABLES
        }

    def deliver(self) -> None:
        """Files, with a RESOLVED one among them: there is something to be committed. The last round of them
        may be cut anywhere."""
        resolved = False
        while not resolved:
            if not self._coming:
                self._round()
            for _ in range(self._random.randint(1, len(self._coming)) if self._coming else 0):
                resolved |= self._appear(self._coming.popleft())

    def deliver_rest(self) -> None:
        """All that is under way, and what resolves the last change."""
        self._feed.nemesis = QUIET
        while self._coming or (self._feed.resolved or [0])[-1] < self._history.now:
            if not self._coming:
                self._coming.extend(self._feed.round())
            while self._coming:
                self._appear(self._coming.popleft())

    def _round(self) -> None:
        if self._later and self._random.random() < 0.1:
            topic = self._random.choice(sorted(self._later))
            name, kind, default = self._later.pop(topic)
            self._history.add_column(topic, name, kind, default)
        self._history.run(self._random.randrange(1, _TRANSACTIONS))
        self._coming.extend(self._feed.round())

    def _appear(self, write: Write) -> bool:
        """Put a file into the bucket, all of it at once; whether it is a RESOLVED one."""
        path = self.folder / write.path
        path.parent.mkdir(parents=True, exist_ok=True)
        half = self.folder.parent / "half a file"
        half.write_bytes(write.content)
        half.rename(path)
        return path.suffix == ".RESOLVED"


def declared() -> dict[str, Any]:
    """The tables as their columns are when the changefeed begins."""
    from calve.config.columns import SourceColumn, SourceTable

    return {
        table.topic: SourceTable(
            tuple(SourceColumn(name, kind, name not in table.nullable) for name, kind in table.columns),
            table.key,
        )
        for table in TABLES
    }
