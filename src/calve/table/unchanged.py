"""Unchanged: a snapshot that shows what its parent shows, in a manifest list of its own.

It says something of a sink, and changes no row: a claim, and the drop of a sink whose fence is main.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from calve.table.base import Base, last_sequence, live_manifests, summary_texts
from calve.table.lists import ManifestRecord, write_manifest_list
from calve.table.merge import avro_compression
from calve.table.summary import summarize


def unchanged(
    base: Base, parent: Snapshot | None, snapshot_id: int, now_ms: int, says: Mapping[str, str]
) -> tuple[Snapshot, tuple[ManifestRecord, ...]]:
    """A snapshot on a parent, with nothing but what it says; its manifest list is written."""
    metadata = base.metadata
    shown, before = _shown(base, parent)
    parent_id = None if parent is None else parent.snapshot_id
    sequence = last_sequence(metadata) + 1
    location = list_location(metadata, snapshot_id)
    manifests = write_manifest_list(
        base.io,
        location,
        shown,
        snapshot_id=snapshot_id,
        parent_id=parent_id,
        sequence_number=sequence,
        compression=avro_compression(metadata),
    )
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent_id,
        sequence_number=sequence,
        timestamp_ms=timestamp(metadata, now_ms),
        manifest_list=location,
        summary=summarize((), before, says),
        schema_id=metadata.current_schema_id,
    )
    return snapshot, manifests


def _shown(
    base: Base, snapshot: Snapshot | None
) -> tuple[tuple[ManifestRecord, ...], Mapping[str, str] | None]:
    """The live manifests and the summary of a snapshot; those of main are known."""
    if snapshot is None or snapshot.snapshot_id == base.main:
        return base.manifests, base.main_summary
    return live_manifests(base.io, snapshot), summary_texts(snapshot)


def timestamp(metadata: TableMetadata, now_ms: int) -> int:
    """Never before the table's last change, also where this machine's clock is behind."""
    return max(now_ms, metadata.last_updated_ms + 1)


def metadata_location(metadata: TableMetadata, name: str) -> str:
    """Where a file of the table's metadata goes."""
    return load_location_provider(metadata.location, metadata.properties).new_metadata_location(name)


def list_location(metadata: TableMetadata, snapshot_id: int) -> str:
    """A manifest list belongs to one attempt: it is never written twice under one name."""
    return metadata_location(metadata, f"snap-{snapshot_id}-{uuid4()}.avro")
