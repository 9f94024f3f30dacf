"""History: the snapshots of a table by what their summaries say. Pure, from metadata alone.

    summary                                              kind
    calve.sink-id, calve.committed = the snapshot's id   commit: a batch [lower, frontier) of a sink
    calve.sink-id, another one or none                   claim: a run made the sink its own, no row changed
    calve.dropped                                        drop: a sink was dropped, no row changed
    none of ours, operation replace                      rewrite: a compaction, the same rows in other files
    none of ours                                         foreign: somebody else's rows

Expiry takes snapshots away, and nothing here brings them back: what is listed is what can be read.

Not here: which of them shows a source's time (as_of.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from calve.model.errors import Diverged
from calve.model.meaning import Meaning
from calve.model.progress import DROPPED, SINK_ID, Progress
from calve.table.base import summary_texts
from calve.table.lineage import known_ancestors

_1970 = datetime(1970, 1, 1, tzinfo=UTC)


class Kind(StrEnum):
    """What a snapshot is."""

    COMMIT = "commit"
    CLAIM = "claim"
    DROP = "drop"
    REWRITE = "rewrite"
    FOREIGN = "foreign"
    UNREADABLE = "unreadable"  # it carries a sink's name, and what it says of it cannot be read


@dataclass(frozen=True, slots=True)
class Counts:
    """What a snapshot added and took away, as its summary has it."""

    rows_added: int = 0
    rows_removed: int = 0
    """With the files that held them."""
    keys_deleted: int = 0
    """Equality deletes: each takes the rows of a key, if there are any."""
    places_deleted: int = 0
    """Position deletes: each takes a row."""
    data_files_added: int = 0
    data_files_removed: int = 0
    delete_files_added: int = 0
    delete_files_removed: int = 0
    equality_delete_files_removed: int = 0


_COUNTS = {
    "rows_added": "added-records",
    "rows_removed": "deleted-records",
    "keys_deleted": "added-equality-deletes",
    "places_deleted": "added-position-deletes",
    "data_files_added": "added-data-files",
    "data_files_removed": "deleted-data-files",
    "delete_files_added": "added-delete-files",
    "delete_files_removed": "removed-delete-files",
    "equality_delete_files_removed": "removed-equality-delete-files",
}


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A snapshot of a table."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_at: datetime
    kind: Kind
    operation: str
    counts: Counts
    on_main: bool
    """Main is at it, or descends from it, as far as the metadata tells."""
    refs: tuple[str, ...] = ()
    """The branches and tags that are at it."""
    sink_id: str | None = None
    progress: Progress | None = None
    """What a commit or a claim says of its sink."""

    @property
    def dropped_deletes(self) -> bool:
        """Whether it is a rewrite that took equality deletes away: if it did not apply each of them to the
        whole table, rows are back that they had deleted."""
        return self.kind is Kind.REWRITE and self.counts.equality_delete_files_removed > 0

    def to_json(self) -> dict[str, Any]:
        """For programs. Times are text: they have up to 38 digits."""
        body: dict[str, Any] = {
            "snapshot_id": self.snapshot_id,
            "parent_id": self.parent_id,
            "sequence_number": self.sequence_number,
            "committed_at": self.committed_at.isoformat(),
            "kind": str(self.kind),
            "operation": self.operation,
            "on_main": self.on_main,
            "refs": list(self.refs),
            "sink_id": self.sink_id,
            **asdict(self.counts),
        }
        return body if self.progress is None else body | _told(self.progress)


def _told(progress: Progress) -> dict[str, Any]:
    meaning = Meaning(progress.source)
    at = meaning.at(progress.frontier) if progress.frontier else None
    return {
        "lower": str(progress.lower),
        "frontier": str(progress.frontier),
        "frontier_text": meaning.text(progress.frontier),
        "frontier_at": None if at is None else at.isoformat(),
        "batch_id": None if progress.batch_id is None else str(progress.batch_id),
        "generation": progress.generation,
        "writer": str(progress.writer),
        "source": progress.source,
    }


def entries(metadata: TableMetadata) -> tuple[SnapshotEntry, ...]:
    """All snapshots that the table still has, newest first."""
    main = known_ancestors(metadata)
    refs: dict[int, list[str]] = {}
    for name, ref in sorted(metadata.refs.items()):
        refs.setdefault(ref.snapshot_id, []).append(name)
    found = [_entry(one, main, refs.get(one.snapshot_id, [])) for one in metadata.snapshots]
    # Tables of format version 1 have no sequence numbers; of those that share a millisecond, the later stands
    # behind in the metadata.
    order = {one.snapshot_id: place for place, one in enumerate(metadata.snapshots)}
    found.sort(key=lambda one: (one.sequence_number, one.committed_at, order[one.snapshot_id]))
    return tuple(reversed(found))


def _entry(snapshot: Snapshot, main: Set[int], refs: list[str]) -> SnapshotEntry:
    texts = summary_texts(snapshot)
    operation = None if snapshot.summary is None else snapshot.summary.operation
    kind, progress = _kind(snapshot, texts, operation)
    return SnapshotEntry(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        committed_at=_1970 + timedelta(milliseconds=snapshot.timestamp_ms),
        kind=kind,
        operation="" if operation is None else operation.value,
        counts=Counts(**{name: _number(texts.get(key)) for name, key in _COUNTS.items()}),
        on_main=snapshot.snapshot_id in main,
        refs=tuple(refs),
        sink_id=texts.get(SINK_ID, texts.get(DROPPED)),
        progress=progress,
    )


def _kind(
    snapshot: Snapshot, texts: Mapping[str, str], operation: Operation | None
) -> tuple[Kind, Progress | None]:
    if DROPPED in texts:
        return Kind.DROP, None
    if SINK_ID not in texts:
        return (Kind.REWRITE if operation is Operation.REPLACE else Kind.FOREIGN), None
    try:
        progress = Progress.from_summary(texts)
    except Diverged:
        return Kind.UNREADABLE, None
    return (Kind.COMMIT if progress.committed == snapshot.snapshot_id else Kind.CLAIM), progress


def _number(text: str | None) -> int:
    """A count of a summary. What another engine wrote there may be anything."""
    return int(text) if text is not None and text.isdecimal() else 0
