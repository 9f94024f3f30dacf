"""The fence of a sink: what keeps an overtaken run out (P4), and where the table keeps progress (P6).

            a claim                          a commit                    progress is in the summary of
    tag     the tag alone: held ─▶ claim     main and tag ─▶ commit      the snapshot that the tag names
    main    main: parent ─▶ claim            main ─▶ commit              the snapshot that a property names

A fence knows what an attempt requires and what it moves beside its snapshots; nothing else knows of tags.
Every attempt requires the table's uuid, every commit that main is its parent.

`tag` is the fence that everybody should have. The tag must be as this run last moved it: a run that another
has overtaken can change nothing, whatever main does.

`main` is for catalogs that lose tags. A claim is an empty snapshot on main, and every claim and commit writes
its snapshot's id into the property `calve.fence.<sink id>`, in the same request. A run that was overtaken is
refused because main moved; when it looks again, the property names another run's snapshot. A property cannot
be required. So a main that is rolled back would give a second chance to requests that were built on the very
snapshot that it comes back to, and are still under way: these are refused for their sequence number alone, by
catalogs that check it (docs/decisions/0018).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from calve.config.sink import FenceKind
from calve.model.errors import CalveError, CatalogWithoutTags, Diverged, TableDiffers
from calve.model.progress import SINK_ID, Progress, claimed_property, fence_property, tag_name
from calve.table.base import summary_texts
from calve.table.lineage import Lineage, known_ancestors, look_up, since, trace
from calve.table.refs import AssertTag, move_main, move_tag
from calve.table.sinks import check_not_dropped


@dataclass(frozen=True, slots=True)
class Held:
    """A sink's last claim or commit, as a table shows it."""

    snapshot: Snapshot
    progress: Progress

    @property
    def snapshot_id(self) -> int:
        return self.snapshot.snapshot_id


@dataclass(frozen=True, slots=True)
class Moves:
    """What an attempt requires of the table for the fence's sake, and what it moves."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]


class Fence(ABC):
    """The fence of one sink."""

    claims_main: ClassVar[bool]
    """Whether a claim is a snapshot of main."""

    def __init__(self, sink_id: str) -> None:
        self.sink_id = sink_id

    @abstractmethod
    def find(self, table: Table) -> Held | None:
        """The sink's last claim or commit; `None` where the table shows none."""

    @abstractmethod
    def check_begin(self, table_name: str, metadata: TableMetadata) -> None:
        """Refuse to begin a sink that was begun before, and shows no progress (P6)."""

    @abstractmethod
    def not_kept(self, table_name: str) -> CalveError:
        """The error where a catalog took a claim and shows nothing of it."""

    @abstractmethod
    def root(self, held: Held | None) -> int | None:
        """The snapshot that main must descend from; `None` while there is nothing to lose."""

    def lineage(self, table: Table, held: Held | None, start: int | None) -> Lineage:
        """What lies between the root and main; where there is none, between `start` and main."""
        root = self.root(held)
        if held is None or root is None:
            return since(table.metadata, start, table.io)
        return trace(table.metadata, root, table.io, held.progress.anchor)

    def grows_from(self, metadata: TableMetadata, held: Held | None) -> Snapshot | None:
        """The parent of a claim, whose content it shows."""
        # A snapshot without a parent may have any sequence number, and would take the table's own back
        # where somebody committed since the base was read: a first claim follows main.
        return metadata.current_snapshot() if self.claims_main or held is None else held.snapshot

    def of_claim(self, metadata: TableMetadata, held: Held | None, snapshot_id: int) -> Moves:
        """Of a claim, where `held` is what was found."""
        requirements = self._required(metadata, None if held is None else held.snapshot_id)
        updates: tuple[TableUpdate, ...] = (self._noted(metadata, snapshot_id),)
        if self.claims_main:
            updates += (move_main(metadata, snapshot_id),)
        if self.claims_main or held is None:
            requirements += (_main_is(metadata),)
        return Moves(requirements, updates)

    def of_commit(self, metadata: TableMetadata, held: int, snapshot_id: int) -> Moves:
        """Of a commit, where `held` is what this run last claimed or committed."""
        return Moves(
            (*self._required(metadata, held), _main_is(metadata)),
            (move_main(metadata, snapshot_id), self._noted(metadata, snapshot_id)),
        )

    @abstractmethod
    def _required(self, metadata: TableMetadata, held: int | None) -> tuple[TableRequirement, ...]:
        """What every attempt requires."""

    @abstractmethod
    def _noted(self, metadata: TableMetadata, snapshot_id: int) -> TableUpdate:
        """The note of the sink's last claim or commit, which `find` reads."""


class TagFence(Fence):
    """The tag `calve-<sink id>` is at the sink's last claim or commit."""

    claims_main = False

    def find(self, table: Table) -> Held | None:
        ref = table.metadata.refs.get(tag_name(self.sink_id))
        snapshot = None if ref is None else table.metadata.snapshot_by_id(ref.snapshot_id)
        return None if snapshot is None else Held(snapshot, Progress.from_summary(summary_texts(snapshot)))

    def check_begin(self, table_name: str, metadata: TableMetadata) -> None:
        check_not_dropped(table_name, metadata, self.sink_id)
        mark = claimed_property(self.sink_id)
        if fence_property(self.sink_id) in metadata.properties:
            raise TableDiffers(
                f"sink {self.sink_id} of {table_name} was begun with fence = 'main', and is now asked to "
                "keep its progress in a tag",
                hint="Set fence = 'main', or use another sink id.",
            )
        if mark in metadata.properties:
            raise Diverged(
                f"{table_name} was written by sink {self.sink_id}, but its tag {tag_name(self.sink_id)} is "
                "gone",
                hint="Create the tag again at the sink's last snapshot; where the catalog keeps no tags, set "
                "fence = 'main'. To begin again from zero instead, use another sink id, or unset the table "
                f"property {mark}.",
            )

    def not_kept(self, table_name: str) -> CalveError:
        return CatalogWithoutTags(
            f"the catalog accepted the claim of {table_name} and keeps no tag",
            hint="calve keeps a sink's progress in a tag. Use a catalog that stores Iceberg tags, or set "
            "fence = 'main': docs/sink.md says what then holds.",
        )

    def root(self, held: Held | None) -> int | None:
        return None if held is None else held.progress.committed

    def _required(self, metadata: TableMetadata, held: int | None) -> tuple[TableRequirement, ...]:
        return (
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertTag(ref=tag_name(self.sink_id), snapshot_id=held),
        )

    def _noted(self, metadata: TableMetadata, snapshot_id: int) -> TableUpdate:
        return move_tag(metadata, self.sink_id, snapshot_id)


class MainFence(Fence):
    """The property `calve.fence.<sink id>` names the sink's last claim or commit. Main descends from it."""

    claims_main = True

    def __init__(self, sink_id: str) -> None:
        super().__init__(sink_id)
        self._last: Snapshot | None = None
        """What was found last: where expiry took it out of the metadata, older files are read once."""

    def find(self, table: Table) -> Held | None:
        place, name = ".".join(table.name()), fence_property(self.sink_id)
        if tag_name(self.sink_id) in table.metadata.refs:
            raise TableDiffers(
                f"sink {self.sink_id} of {place} was begun with a tag, and is now asked to do without",
                hint="Leave fence = 'tag' as it was, or use another sink id. docs/sink.md says how a sink is "
                "taken from the one to the other.",
            )
        named = table.metadata.properties.get(name)
        if named is None:
            return None
        snapshot = self._look_up(table, int(named)) if named.isdecimal() else None
        texts = {} if snapshot is None else summary_texts(snapshot)
        if snapshot is None or texts.get(SINK_ID) != self.sink_id:
            raise Diverged(
                f"the progress of sink {self.sink_id} in {place} is in snapshot {named}, which is not the "
                "sink's, or is expired and in no metadata file that is left",
                hint="It does not begin again by itself. Put back the snapshot, or the property "
                f"{name} if it was changed by hand; or use another sink id. Keep snapshots and metadata "
                "files for longer than a sink rests.",
            )
        return Held(snapshot, Progress.from_summary(texts))

    def _look_up(self, table: Table, snapshot_id: int) -> Snapshot | None:
        if self._last is None or self._last.snapshot_id != snapshot_id:
            self._last = look_up(table.metadata, snapshot_id, table.io)
        return self._last

    def check_begin(self, table_name: str, metadata: TableMetadata) -> None:
        check_not_dropped(table_name, metadata, self.sink_id)
        mark, name = claimed_property(self.sink_id), fence_property(self.sink_id)
        if mark in metadata.properties and not self._only_claimed(metadata):
            raise Diverged(
                f"{table_name} was written by sink {self.sink_id}, but neither its tag nor its property "
                f"{name} is there",
                hint=f"Set {name} to the id of the sink's last snapshot on main. To begin again from zero "
                f"instead, use another sink id, or unset the table property {mark}.",
            )

    def _only_claimed(self, metadata: TableMetadata) -> bool:
        """Whether all that is known of the sink is a claim beside main, as a run with a tag leaves it in a
        catalog that loses tags. A claim on main proves nothing: commits on it may be rolled back and gone."""
        texts = {snapshot.snapshot_id: summary_texts(snapshot) for snapshot in metadata.snapshots}
        ours = {one: text for one, text in texts.items() if text.get(SINK_ID) == self.sink_id}
        beside = ours.keys().isdisjoint(known_ancestors(metadata))
        return bool(ours) and beside and not any(map(_has_committed, ours.values()))

    def not_kept(self, table_name: str) -> CalveError:
        return Diverged(
            f"the catalog accepted the claim of {table_name} and shows no property "
            f"{fence_property(self.sink_id)}",
            hint="With fence = 'main' a property of the table says where a sink's progress is. Use a catalog "
            "that stores such properties.",
        )

    def root(self, held: Held | None) -> int | None:
        # A claim too: a main that was taken back behind it lets an older run in again.
        return None if held is None else held.snapshot_id

    def _required(
        self,
        metadata: TableMetadata,
        held: int | None,  # noqa: ARG002 (main is required, by claims and by commits)
    ) -> tuple[TableRequirement, ...]:
        # No word of a tag, not even that there is none: such a catalog may know no other ref than main.
        return (AssertTableUUID(uuid=metadata.table_uuid),)

    def _noted(self, metadata: TableMetadata, snapshot_id: int) -> TableUpdate:  # noqa: ARG002 (a tag's age)
        return SetPropertiesUpdate(updates={fence_property(self.sink_id): str(snapshot_id)})


_FENCES = {FenceKind.TAG: TagFence, FenceKind.MAIN: MainFence}


def make_fence(kind: FenceKind, sink_id: str) -> Fence:
    """The fence that a sink was told to have."""
    return _FENCES[kind](sink_id)


def fence_kind(metadata: TableMetadata, sink_id: str) -> FenceKind:
    """The fence that a sink was begun with, as the table shows it; a tag where it shows none."""
    has_tag = tag_name(sink_id) in metadata.refs
    return FenceKind.MAIN if fence_property(sink_id) in metadata.properties and not has_tag else FenceKind.TAG


def read_progress(table: Table, sink_id: str) -> Progress | None:
    """What a table says of a sink, whichever fence that has (P6)."""
    held = make_fence(fence_kind(table.metadata, sink_id), sink_id).find(table)
    return None if held is None else held.progress


def _has_committed(texts: Mapping[str, str]) -> bool:
    progress = Progress.from_summary(texts)
    return progress.committed is not None or progress.frontier > 0


def _main_is(metadata: TableMetadata) -> TableRequirement:
    return AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=metadata.current_snapshot_id)
