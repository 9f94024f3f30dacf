"""Forget: the request that takes a sink's progress out of a table. No row and no file of it is touched.

    tag calve-<id>, property calve.fence.<id>, property calve.sink.<id>  ─▶  property calve.dropped.<id>

It stands behind the sink's own fence, so that a run which is at work stops (P4):

- with a tag, it requires the tag as it was read and removes it. Whatever a run has under way requires the tag
  too, and is refused from then on.
- with the fence on main, it puts an empty snapshot on main. A property cannot be required: without it, a
  commit that was built before could land afterwards, and bring the property back with it.

The stone that stays, `calve.dropped.<id>`, keeps the sink from beginning again by itself (P6): its rows are
still there, and a supervisor that starts it again would write them a second time. `stone = None` takes away
that, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from calve.model.progress import DROPPED, claimed_property, dropped_property, fence_property, tag_name
from calve.table.base import Base
from calve.table.refs import AssertTag, move_main
from calve.table.unchanged import unchanged


@dataclass(frozen=True, slots=True)
class Traces:
    """What a table has of a sink beside its snapshots."""

    tag: int | None
    """The snapshot that the sink's tag is at."""
    properties: tuple[str, ...]
    """Those that say where its progress is, and that it was begun."""
    stone: bool
    """It was dropped before."""

    @property
    def words(self) -> tuple[str, ...]:
        """What there is to be removed."""
        return self.properties if self.tag is None else ("tag", *self.properties)


def traces(metadata: TableMetadata, sink_id: str) -> Traces:
    """What a table has of a sink."""
    ref = metadata.refs.get(tag_name(sink_id))
    names = (fence_property(sink_id), claimed_property(sink_id))
    return Traces(
        tag=None if ref is None else ref.snapshot_id,
        properties=tuple(name for name in names if name in metadata.properties),
        stone=dropped_property(sink_id) in metadata.properties,
    )


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What is sent."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]


def forget(base: Base, sink_id: str, stone: str | None, snapshot_id: int, now_ms: int) -> Forgetting:
    """The request that leaves of a sink a stone, or nothing; `snapshot_id` is for a fence on main."""
    metadata, found = base.metadata, traces(base.metadata, sink_id)
    requirements: list[TableRequirement] = [AssertTableUUID(uuid=metadata.table_uuid)]
    updates: list[TableUpdate] = []
    if fence_property(sink_id) in metadata.properties:
        snapshot, _ = unchanged(base, metadata.current_snapshot(), snapshot_id, now_ms, {DROPPED: sink_id})
        main = AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=metadata.current_snapshot_id)
        requirements.append(main)
        updates += (AddSnapshotUpdate(snapshot=snapshot), move_main(metadata, snapshot_id))
    if found.tag is not None:
        requirements.append(AssertTag(ref=tag_name(sink_id), snapshot_id=found.tag))
        updates.append(RemoveSnapshotRefUpdate(ref_name=tag_name(sink_id)))
    gone = list(found.properties)
    if stone is None and found.stone:
        gone.append(dropped_property(sink_id))
    if gone:
        updates.append(RemovePropertiesUpdate(removals=gone))
    if stone is not None:
        updates.append(SetPropertiesUpdate(updates={dropped_property(sink_id): stone}))
    return Forgetting(tuple(requirements), tuple(updates))
