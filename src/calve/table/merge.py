"""Merge: own manifests that grew too many become one, in the commit that finds them so.

A sink that commits every second adds 86,400 manifests a day, and every manifest list names them all.
Manifests of one content and spec are merged in tiers, as a log-structured store does: as soon as the
table's `commit.manifest.min-count-to-merge` of about the same size are there, they become one of the
next tier. So each entry is copied once a tier, not once a merge, and commits stay as fast as the first.

Only manifests that this sink wrote are touched; others belong to whoever wrote them. What this run wrote
itself is not read again, within `_REMEMBERED_BYTES`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from uuid import uuid4

from pyiceberg.io import FileIO
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata

from calve.table.manifests import (
    Content,
    Entry,
    ManifestRecord,
    Shape,
    is_assigned,
    live_files,
    merged_manifest,
    read_entries,
    settled,
)

_REMEMBERED_BYTES = 32 * 1024 * 1024
_ENABLED = "commit.manifest-merge.enabled"
_MIN_COUNT = "commit.manifest.min-count-to-merge"
_MIN_COUNT_DEFAULT = 100
_TARGET_BYTES = "commit.manifest.target-size-bytes"
_TARGET_BYTES_DEFAULT = 8 * 1024 * 1024


class Merger:
    """Merges the manifests of one sink."""

    def __init__(self, sink_id: str) -> None:
        self._prefix = f"calve-{sink_id}-"
        self._entries: OrderedDict[str, tuple[Entry, ...]] = OrderedDict()
        self._bytes = 0
        self._made: dict[tuple[str, ...], ManifestRecord] = {}
        self._made_for: int | None = None

    def name(self, snapshot_id: int, number: int) -> str:
        """A manifest's file name, by which this sink knows it again."""
        return f"{self._prefix}{snapshot_id}-m{number}.avro"

    def remember(self, location: str, entries: tuple[Entry, ...]) -> None:
        """Keep what was just written; the oldest goes first when the memory for it is used up."""
        self._entries[location] = entries
        self._bytes += _size(entries)
        while self._bytes > _REMEMBERED_BYTES:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= _size(oldest)

    def merged(
        self, io: FileIO, metadata: TableMetadata, manifests: tuple[ManifestRecord, ...], snapshot_id: int
    ) -> tuple[ManifestRecord, ...]:
        """The manifests with full tiers merged. The same tier is merged once, whatever is retried."""
        properties = metadata.properties
        if properties.get(_ENABLED, "true").lower() == "false":
            return manifests
        if self._made_for != snapshot_id:
            self._made, self._made_for = {}, snapshot_id
        count = max(2, int(properties.get(_MIN_COUNT, _MIN_COUNT_DEFAULT)))
        target = int(properties.get(_TARGET_BYTES, _TARGET_BYTES_DEFAULT))
        for tier in self._tiers(manifests, count, target):
            record = self._merge(io, metadata, tier, snapshot_id)
            if record is not None:
                paths = {manifest["manifest_path"] for manifest in tier}
                manifests = (record, *(kept for kept in manifests if kept["manifest_path"] not in paths))
        return manifests

    def _tiers(
        self, manifests: Sequence[ManifestRecord], count: int, target_bytes: int
    ) -> list[list[ManifestRecord]]:
        tiers: dict[tuple[int, int, int], list[ManifestRecord]] = {}
        for manifest in manifests:
            if self._is_own(manifest) and manifest["manifest_length"] < target_bytes:
                tier = (
                    manifest["content"],
                    manifest["partition_spec_id"],
                    _height(live_files(manifest), count),
                )
                tiers.setdefault(tier, []).append(manifest)
        return [tier for tier in tiers.values() if len(tier) >= count]

    def _is_own(self, manifest: ManifestRecord) -> bool:
        name: str = manifest["manifest_path"].rpartition("/")[2]
        return name.startswith(self._prefix) and is_assigned(manifest)

    def _merge(
        self, io: FileIO, metadata: TableMetadata, tier: list[ManifestRecord], snapshot_id: int
    ) -> ManifestRecord | None:
        paths = tuple(manifest["manifest_path"] for manifest in tier)
        if paths in self._made:
            return self._made[paths]
        spec = metadata.specs()[tier[0]["partition_spec_id"]]
        compression = avro_compression(metadata)
        shape = Shape(metadata.schema(), spec, Content(tier[0]["content"]), compression)
        entries: list[Entry] = []
        for manifest in tier:
            found = self._entries_of(io, manifest, shape)
            if found is None:
                return None
            entries += found
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_metadata_location(f"{self._prefix}{snapshot_id}-merged-{uuid4()}.avro")
        record = merged_manifest(io, location, shape, snapshot_id, tier, entries)
        self.remember(location, tuple(entries))
        self._made[paths] = record
        return record

    def _entries_of(self, io: FileIO, manifest: ManifestRecord, shape: Shape) -> tuple[Entry, ...] | None:
        known = self._entries.get(manifest["manifest_path"])
        if known is None:
            return read_entries(io, manifest, shape)
        return settled(known, manifest)


def avro_compression(metadata: TableMetadata) -> str:
    """The codec that the table asks for its Avro files."""
    return metadata.properties.get("write.avro.compression-codec", "gzip")


def _height(files: int, count: int) -> int:
    height = 0
    while files >= count:
        files //= count
        height += 1
    return height


def _size(entries: tuple[Entry, ...]) -> int:
    return sum(len(entry.data_file) + 64 for entry in entries)
