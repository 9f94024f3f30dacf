"""Lineage: does main descend from what this sink committed last, and what did others commit since?

Progress is trusted only while main grows out of it. A user's rollback, or CREATE OR REPLACE, takes main
elsewhere while the tag stays: going on from there would publish a state with a hole (case 42).

Snapshots name their parents. Where expiry took a snapshot of the chain out of the metadata, its parent
is looked up in the older metadata files that the table still lists. A chain that stays open is no
proof: the answer is then `None`, and the sink stops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyiceberg.exceptions import ValidationError
from pyiceberg.io import FileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from calve.model.errors import StoreError


@dataclass(frozen=True, slots=True)
class Lineage:
    """What lies between a sink's last commit and main."""

    descends: bool | None
    """`None` where expiry cut the chain and no older metadata file closes it."""
    foreign: tuple[Snapshot, ...] = ()
    """Snapshots on main since, newest first, as far as they are still known."""


def trace(metadata: TableMetadata, committed: int | None, io: FileIO, anchor: int | None = None) -> Lineage:
    """The lineage of main down to `committed`, or to an anchor that is known to descend from it; a sink that
    has committed nothing has nothing to lose."""
    main = metadata.current_snapshot_id
    if committed is None or main == committed:
        return Lineage(descends=True)
    if main is None:
        return Lineage(descends=False)
    return _walk(main, {committed, anchor}, _Chain(metadata, io))


def since(metadata: TableMetadata, start: int | None, io: FileIO) -> Lineage:
    """What came to main after `start`, or at all if there was nothing: for a sink that has committed nothing
    yet, which descends from whatever is there."""
    main = metadata.current_snapshot_id
    if main is None or main == start:
        return Lineage(descends=True)
    return Lineage(descends=True, foreign=_walk(main, {start}, _Chain(metadata, io)).foreign)


def main_line(metadata: TableMetadata) -> tuple[Snapshot, ...]:
    """Main and its ancestors, newest first, as far as the current metadata has them."""
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    found: list[Snapshot] = []
    current = metadata.current_snapshot_id
    while current is not None and (snapshot := known.pop(current, None)) is not None:
        found.append(snapshot)
        current = snapshot.parent_snapshot_id
    return tuple(found)


def known_ancestors(metadata: TableMetadata) -> frozenset[int]:
    """The ids of main and its ancestors, as far as the current metadata has them."""
    return frozenset(snapshot.snapshot_id for snapshot in main_line(metadata))


def look_up(metadata: TableMetadata, snapshot_id: int, io: FileIO) -> Snapshot | None:
    """A snapshot, also one that is expired and stands only in an older metadata file that is still there."""
    return _Chain(metadata, io).find(snapshot_id)


def _walk(main: int, ends: set[int | None], chain: _Chain) -> Lineage:
    foreign: list[Snapshot] = []
    current: int | None = main
    seen: set[int] = set()
    while current is not None and current not in seen:
        if current in ends:
            return Lineage(descends=True, foreign=tuple(foreign))
        seen.add(current)
        snapshot = chain.find(current)
        if snapshot is None:
            return Lineage(descends=None, foreign=tuple(foreign))
        foreign.append(snapshot)
        current = chain.parent(snapshot)
    return Lineage(descends=False, foreign=tuple(foreign))


class _Chain:
    """Snapshots by id: of the current metadata, and of older metadata files once they are needed."""

    def __init__(self, metadata: TableMetadata, io: FileIO) -> None:
        self._known: dict[int, Snapshot] = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        self._io = io
        self._older = self._older_snapshots(metadata)

    def find(self, snapshot_id: int) -> Snapshot | None:
        while snapshot_id not in self._known:
            older = next(self._older, None)
            if older is None:
                return None
            for known_id, snapshot in older.items():
                self._learn(known_id, snapshot)
        return self._known[snapshot_id]

    def parent(self, snapshot: Snapshot) -> int | None:
        """The parent's id. Some expiry erases it together with the parent, so that a cut chain looks
        like a first snapshot: then the older files are asked before it is believed."""
        while snapshot.parent_snapshot_id is None:
            older = next(self._older, None)
            if older is None:
                return None
            for known_id, known in older.items():
                self._learn(known_id, known)
            snapshot = self._known[snapshot.snapshot_id]
        return snapshot.parent_snapshot_id

    def _learn(self, snapshot_id: int, snapshot: Snapshot) -> None:
        known = self._known.get(snapshot_id)
        if known is None or known.parent_snapshot_id is None:
            self._known[snapshot_id] = snapshot

    def _older_snapshots(self, metadata: TableMetadata) -> Iterator[Mapping[int, Snapshot]]:
        for entry in reversed(metadata.metadata_log):
            file = self._io.new_input(entry.metadata_file)
            try:
                # Old metadata files are removed as new ones come. One that is gone, or is no metadata, proves
                # nothing: the walk goes on without it, and an open chain stops the sink. One that cannot be
                # read just now is no proof either way, and is an error.
                if not file.exists():
                    continue
                older = FromInputFile.table_metadata(file)
            except ValidationError:
                continue
            except OSError as error:
                raise StoreError(
                    f"cannot read {entry.metadata_file}: {error}", hint="Try again when the store answers."
                ) from error
            yield {snapshot.snapshot_id: snapshot for snapshot in older.snapshots}
