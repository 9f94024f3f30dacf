"""What is answered of a table. Values for programs; `to_json` has times as text, because they have up to 38
digits, and many readers of JSON keep only 53 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from calve.model.meaning import Meaning
from calve.model.progress import Progress
from calve.table.as_of import AsOf
from calve.table.history import SnapshotEntry


class SinkCondition(StrEnum):
    """Whether a sink can go on, as far as its table tells."""

    WELL = "well"
    NEW = "new"  # it was claimed, and has committed nothing
    ROLLED_BACK = "rolled back"  # main does not descend from its last commit
    UNPROVEN = "unproven"  # expiry cut the chain, and nothing tells whether main descends from it
    LOST = "lost"  # it was here, and its progress is gone or cannot be read


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that a person should look at."""

    words: str
    hint: str


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of main."""

    rows: int | None = None
    """In data files: what deletes take away is not subtracted. `None` where no summary says it."""
    data: int | None = None
    equality_deletes: int = 0
    """Delete files by key, which wait for conversion."""
    position_deletes: int = 0
    """Delete files by place, and deletion vectors."""


@dataclass(frozen=True, slots=True)
class Stashed:
    """What waits beside a checkpoint."""

    checkpoint: str | None
    """The id of its query."""
    micro_batch: int | None = None
    """The last one that something was kept of."""
    rows: int = 0
    segments: int = 0
    bytes: int = 0
    least: int | None = None
    """The time of the first row that waits."""
    files_of_open_batches: int = 0
    """Outboxes with files that are written and wait for their batch to close."""
    ready: bool = False
    """A micro-batch is written that the table does not have yet."""
    closed: int = 0
    """The source has come so far: no change before it waits. The table's own frontier is where the last
    change was, and may be behind."""


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """A sink, as its table shows it."""

    sink_id: str
    condition: SinkCondition
    kind: str = ""
    """What it makes of changes, such as `upsert (id)`."""
    fence: str = "tag"
    progress: Progress | None = None
    committed_at: datetime | None = None
    """When its last batch was committed."""
    held_since: datetime | None = None
    """When its last claim or commit was made."""
    lag_ms: int | None = None
    """How far its frontier is behind the clock, where times are a clock."""
    foreign_snapshots: int = 0
    """Of others on main, since its last commit."""
    foreign_rows: int = 0
    quarantined: int | None = None
    """Rows that wait in its quarantine; `None` where it has none."""
    stashed: Stashed | None = None
    """`None` where no checkpoint was named."""
    remarks: tuple[Remark, ...] = ()

    @property
    def frontier(self) -> int | None:
        """Every change before it is in the table; `None` before the first commit."""
        return self.progress.frontier if self.progress is not None and self.progress.frontier else None

    @property
    def meaning(self) -> Meaning:
        """What its times are."""
        return Meaning("" if self.progress is None else self.progress.source)

    @property
    def frontier_at(self) -> datetime | None:
        """The frontier as a point in time, where times are a clock."""
        return None if self.frontier is None else self.meaning.at(self.frontier)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "sink_id": self.sink_id,
            "condition": str(self.condition),
            "kind": self.kind,
            "fence": self.fence,
            **self._progress_json(),
            "committed_at": _iso(self.committed_at),
            "held_since": _iso(self.held_since),
            "lag_ms": self.lag_ms,
            "foreign_snapshots": self.foreign_snapshots,
            "foreign_rows": self.foreign_rows,
            "quarantined": self.quarantined,
            "stash": None if self.stashed is None else _stash_json(self.stashed),
            "remarks": [asdict(one) for one in self.remarks],
        }

    def _progress_json(self) -> dict[str, Any]:
        if self.progress is None:
            return {}
        frontier = self.frontier
        return {
            "source": self.progress.source,
            "lower": str(self.progress.lower),
            "frontier": None if frontier is None else str(frontier),
            "frontier_text": None if frontier is None else self.meaning.text(frontier),
            "frontier_at": _iso(self.frontier_at),
            "generation": self.progress.generation,
            "writer": str(self.progress.writer),
            "batch_id": None if self.progress.batch_id is None else str(self.progress.batch_id),
            "last_snapshot_id": self.progress.committed,
            "positions": dict(self.progress.positions),
        }


def _stash_json(stashed: Stashed) -> dict[str, Any]:
    least = None if stashed.least is None else str(stashed.least)
    return asdict(stashed) | {"least": least, "closed": str(stashed.closed)}


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table and its sinks."""

    table: str
    snapshot_id: int | None
    """Main."""
    snapshot_at: datetime | None
    files: TableFiles
    sinks: tuple[SinkStatus, ...]
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Sinks that were dropped, and what was noted of each."""
    remarks: tuple[Remark, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "table": self.table,
            "snapshot_id": self.snapshot_id,
            "snapshot_at": _iso(self.snapshot_at),
            "rows_in_data_files": self.files.rows,
            "data_files": self.files.data,
            "equality_delete_files": self.files.equality_deletes,
            "position_delete_files": self.files.position_deletes,
            "sinks": [one.to_json() for one in self.sinks],
            "dropped": dict(self.dropped),
            "remarks": [asdict(one) for one in self.remarks],
        }


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The snapshots of a table, newest first."""

    table: str
    entries: tuple[SnapshotEntry, ...]
    more: int = 0
    """Older ones that a limit left out."""

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "table": self.table,
            "snapshots": [one.to_json() for one in self.entries],
            "more": self.more,
        }


@dataclass(frozen=True, slots=True)
class TableAsOf:
    """The snapshot that shows a source at a time, and how to read it."""

    table: str
    found: AsOf
    committed_at: datetime
    queries: Mapping[str, str]
    """By engine: duckdb, spark, trino, calve."""

    @property
    def snapshot_id(self) -> int:
        return self.found.snapshot_id

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        found, meaning = self.found, self.found.meaning
        return {
            "table": self.table,
            "sink_id": found.sink_id,
            "snapshot_id": found.snapshot_id,
            "committed_at": _iso(self.committed_at),
            "time": str(found.time),
            "frontier": str(found.frontier),
            "frontier_text": meaning.text(found.frontier),
            "frontier_at": _iso(meaning.at(found.frontier)),
            "reached": found.reached,
            "source": found.source,
            "queries": dict(self.queries),
        }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
