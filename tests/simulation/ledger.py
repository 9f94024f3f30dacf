"""The ledger: what the checker knows of one table, for ever, whoever expired what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from calve.config.sink import FenceKind
from calve.model.progress import Progress, fence_property, tag_name
from tests.simulation.reader import Rows

SINK = "sim.table"


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Ledger:
    """What the checker knows of one table, for ever."""

    parents: dict[int, int | None] = field(default_factory=dict)
    stamps: dict[int | None, int] = field(default_factory=dict)
    contents: dict[int, Rows] = field(default_factory=dict)
    foreign: set[int] = field(default_factory=set)
    """Snapshots with rows in them or below them that the sink did not write."""
    batches: dict[UUID, UUID] = field(default_factory=dict)
    """Who committed a batch."""
    progress: Progress | None = None
    held: int | None = None
    """The sink's last claim or commit."""
    commits: int = 0

    def descends(self, main: int | None, committed: int | None) -> bool:
        while main is not None and main != committed:
            main = self.parents[main]
        return committed is None or main == committed


def note_of(fence: FenceKind, metadata: TableMetadata) -> int | None:
    """The sink's last claim or commit, as the table itself notes it."""
    if fence is FenceKind.TAG:
        ref = metadata.refs.get(tag_name(SINK))
        return None if ref is None else ref.snapshot_id
    noted = metadata.properties.get(fence_property(SINK))
    return None if noted is None else int(noted)


def progress_of(snapshot: Snapshot) -> Progress | None:
    """What a snapshot of the sink says; `None` for somebody else's."""
    summary: Mapping[str, str] = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return Progress.from_summary(summary) if summary.get("calve.sink-id") == SINK else None
