"""Base: a table as it was last read, or as the catalog answered our own commit. Attempts build on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.snapshots import Snapshot

from calve.table.lists import ManifestRecord, is_live, read_manifest_list


@dataclass(frozen=True, slots=True)
class Base:
    """A table's metadata, and main's live manifests and summary."""

    table: Table
    manifests: tuple[ManifestRecord, ...]
    main_summary: Mapping[str, str] | None
    """`None` before the first snapshot."""

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    @property
    def io(self) -> FileIO:
        return self.table.io

    @property
    def main(self) -> int | None:
        return self.metadata.current_snapshot_id


def read_base(table: Table) -> Base:
    """The base of a table that was just loaded: one manifest list is read."""
    main = table.metadata.current_snapshot()
    if main is None:
        return Base(table, (), None)
    return Base(table, live_manifests(table.io, main), summary_texts(main))


def live_manifests(io: FileIO, snapshot: Snapshot) -> tuple[ManifestRecord, ...]:
    """The manifests of a snapshot that name a live file."""
    return tuple(filter(is_live, read_manifest_list(io, snapshot.manifest_list)))


def last_sequence(metadata: TableMetadata) -> int:
    """The greatest sequence number that the table has given; format version 1 has none."""
    return 0 if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number


def summary_texts(snapshot: Snapshot) -> dict[str, str]:
    """A snapshot's summary as plain text."""
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)
