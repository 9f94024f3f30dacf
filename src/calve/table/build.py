"""Build: the request that moves a table, from batches whose files are closed.

    Ready ──prepare──▶ Prepared ──group_commit──▶ Attempt (requirements, updates)
                                                     ▲
                             claim ──────────────────┘

A group commit publishes several batches in one compare-and-swap, each as its own snapshot with its own
sequence number, because equality deletes reach only older sequence numbers. A claim adds a snapshot
with its parent's own content: no row of the table changes.

Every attempt stands behind the fence (fence.py): what landed cannot land twice (P3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from calve.model.batch import Batch, batch_id
from calve.model.file import FileClosed
from calve.model.progress import Progress, claimed_property
from calve.table.base import Base, last_sequence, summary_texts
from calve.table.fence import Fence
from calve.table.lists import ManifestRecord, write_manifest_list
from calve.table.manifests import Shape, added_manifest, by_manifest
from calve.table.merge import Merger, avro_compression
from calve.table.premises import Premises
from calve.table.summary import summarize
from calve.table.unchanged import list_location, metadata_location, timestamp, unchanged


@dataclass(frozen=True, slots=True)
class Ready:
    """A batch whose files are closed."""

    batch: Batch
    files: tuple[FileClosed, ...]
    schema: Schema
    """What the files were written with: the table's schema, or the one that this batch brings along."""
    premises: Premises | None
    """What the files rely on; a batch that had no change relies on nothing."""
    brings_schema: bool = False
    """The table gets `schema` in this commit."""
    brings_spec: PartitionSpec | None = None
    """A spec that the files need and the table lacks: the unpartitioned one, for global deletes."""
    positions: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    """What the snapshot says beside the sink's own keys, such as `crdb.resolved_hlc`."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that can be sent again and again: its manifests are written, its snapshot id is drawn."""

    ready: Ready
    snapshot_id: int
    manifests: tuple[ManifestRecord, ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is sent, and what the table is if it lands."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    progress: Progress
    held: int
    """The sink's last claim or commit, as the next attempt will find it."""
    manifests: tuple[ManifestRecord, ...]
    """Of main."""
    main_summary: Mapping[str, str] | None


class Builder:
    """Builds the attempts of one run of a sink. It remembers only what it wrote, to not read it again."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._merger = Merger(fence.sink_id)

    def prepare(self, base: Base, ready: Ready, snapshot_id: int) -> Prepared:
        """Write the manifests of a batch, once for all attempts."""
        metadata = base.metadata
        specs = metadata.specs()
        if ready.brings_spec is not None:
            specs = specs | {ready.brings_spec.spec_id: ready.brings_spec}
        records = []
        for number, ((content, spec_id), files) in enumerate(by_manifest(ready.files).items()):
            shape = Shape(ready.schema, specs[spec_id], content, avro_compression(metadata))
            location = metadata_location(metadata, self._merger.name(snapshot_id, number))
            record, entries = added_manifest(base.io, location, shape, snapshot_id, files)
            self._merger.remember(location, shape, entries)
            records.append(record)
        return Prepared(ready, snapshot_id, tuple(records))

    def group_commit(
        self, base: Base, prepared: Sequence[Prepared], progress: Progress, held: int, now_ms: int
    ) -> Attempt:
        """Publish batches on the base's main; `held` is what this run last claimed or committed."""
        metadata = base.metadata
        merged = self._merger.merged(base.io, metadata, base.manifests, prepared[0].snapshot_id)
        tip = _Tip(
            base.main,
            merged,
            base.main_summary,
            last_sequence(metadata),
            timestamp(metadata, now_ms),
            progress,
        )
        updates: list[TableUpdate] = []
        schema_id = metadata.current_schema_id
        for item in prepared:
            updates += (update for update in _brought(item.ready, metadata) if update not in updates)
            if item.ready.brings_schema:
                schema_id = item.ready.schema.schema_id
            tip, snapshot = tip.extend(base, item, schema_id)
            updates.append(AddSnapshotUpdate(snapshot=snapshot))
        assert tip.snapshot_id is not None
        moves = self._fence.of_commit(metadata, held, tip.snapshot_id)
        requirements = (
            *moves.requirements,
            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
            AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
            AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
            AssertDefaultSortOrderId(default_sort_order_id=metadata.default_sort_order_id),
        )
        updates += moves.updates
        return Attempt(
            requirements, tuple(updates), tip.progress, tip.snapshot_id, tip.manifests, tip.summary
        )

    def claim(
        self, base: Base, progress: Progress, snapshot_id: int, now_ms: int, kind: str = "true"
    ) -> Attempt:
        """Make the sink this run's own: `progress` already carries its generation and writer. The first one
        leaves a mark with the sink's kind in the table's properties."""
        metadata = base.metadata
        held = self._fence.find(base.table)
        parent = self._fence.grows_from(metadata, held)
        snapshot, manifests = unchanged(base, parent, snapshot_id, now_ms, progress.to_summary())
        moves = self._fence.of_claim(metadata, held, snapshot_id)
        updates = (AddSnapshotUpdate(snapshot=snapshot), *moves.updates)
        if held is None:
            updates += (SetPropertiesUpdate(updates={claimed_property(self._fence.sink_id): kind}),)
        shown: Mapping[str, str] | None = summary_texts(snapshot)
        if not self._fence.claims_main:
            manifests, shown = base.manifests, base.main_summary
        return Attempt(moves.requirements, updates, progress, snapshot_id, manifests, shown)


@dataclass(frozen=True, slots=True)
class _Tip:
    """The end of the chain of snapshots that a group commit builds."""

    snapshot_id: int | None
    manifests: tuple[ManifestRecord, ...]
    summary: Mapping[str, str] | None
    sequence: int
    timestamp_ms: int
    progress: Progress

    def extend(self, base: Base, item: Prepared, schema_id: int) -> tuple[_Tip, Snapshot]:
        """The chain with one batch more: its manifest list is written."""
        location = list_location(base.metadata, item.snapshot_id)
        sequence = self.sequence + 1
        manifests = write_manifest_list(
            base.io,
            location,
            (*item.manifests, *self.manifests),
            snapshot_id=item.snapshot_id,
            parent_id=self.snapshot_id,
            sequence_number=sequence,
            compression=avro_compression(base.metadata),
        )
        progress = _advance(self.progress, item, base.metadata)
        summary = summarize(item.ready.files, self.summary, {**item.ready.summary, **progress.to_summary()})
        snapshot = Snapshot(
            snapshot_id=item.snapshot_id,
            parent_snapshot_id=self.snapshot_id,
            sequence_number=sequence,
            timestamp_ms=self.timestamp_ms,
            manifest_list=location,
            summary=summary,
            schema_id=schema_id,
        )
        tip = _Tip(
            item.snapshot_id, manifests, summary_texts(snapshot), sequence, self.timestamp_ms + 1, progress
        )
        return tip, snapshot


def _brought(ready: Ready, metadata: TableMetadata) -> list[TableUpdate]:
    """What a batch changes of the table beside its rows."""
    updates: list[TableUpdate] = []
    if ready.brings_spec is not None:
        updates.append(AddPartitionSpecUpdate(spec=ready.brings_spec))
    if ready.brings_schema:
        if all(known.schema_id != ready.schema.schema_id for known in metadata.schemas):
            updates.append(AddSchemaUpdate(schema_=ready.schema))
        updates.append(SetCurrentSchemaUpdate(schema_id=ready.schema.schema_id))
    return updates


def _advance(progress: Progress, item: Prepared, metadata: TableMetadata) -> Progress:
    batch = item.ready.batch
    return replace(
        progress,
        lower=batch.lower,
        frontier=batch.upper,
        batch_id=batch_id(progress.sink_id, metadata.table_uuid, batch.upper),
        committed=item.snapshot_id,
        anchor=None,
        positions=item.ready.positions or progress.positions,
    )
