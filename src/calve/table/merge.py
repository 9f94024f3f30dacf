"""Merge: own manifests that grew too many become one, in the commit that finds them so.

A sink that commits every second adds 86,400 manifests a day, and every manifest list names them all.
Manifests of one content and spec are merged in tiers, as a log-structured store does: as soon as the
table's `commit.manifest.min-count-to-merge` of about the same size are there, they become one of the
next tier. So each entry is copied once a tier, not once a merge, and commits stay as fast as the first.

Only manifests that this sink wrote are touched; others belong to whoever wrote them. What this run wrote
itself is not read again, within `_REMEMBERED_BYTES`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from pyiceberg.io import FileIO
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import StructType

from calve.model.errors import ConfigError
from calve.table.entries import Entry, settled
from calve.table.lists import Content, ManifestRecord, is_assigned, live_files
from calve.table.manifests import Shape, merged_manifest, read_entries

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
        # To the end: the manifests of a sink `a-1` also begin as those of a sink `a`.
        self._own = re.compile(re.escape(self._prefix) + r"[0-9]+-(m[0-9]+|merged-[0-9a-f-]{36})\.avro")
        self._entries: OrderedDict[str, _Remembered] = OrderedDict()
        self._bytes = 0
        self._apart: set[str] = set()
        """Own manifests whose partition values have another type by now: their entries cannot be copied."""
        self._made: dict[tuple[str, ...], ManifestRecord] = {}
        self._made_for: int | None = None

    def name(self, snapshot_id: int, number: int) -> str:
        """A manifest's file name, by which this sink knows it again."""
        return f"{self._prefix}{snapshot_id}-m{number}.avro"

    def remember(self, location: str, shape: Shape, entries: tuple[Entry, ...]) -> None:
        """Keep what was just written; the oldest goes first when the memory for it is used up."""
        self._entries[location] = _Remembered(shape.partition_type, entries)
        self._bytes += _size(entries)
        while self._bytes > _REMEMBERED_BYTES:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= _size(oldest.entries)

    def merged(
        self, io: FileIO, metadata: TableMetadata, manifests: tuple[ManifestRecord, ...], snapshot_id: int
    ) -> tuple[ManifestRecord, ...]:
        """The manifests with full tiers merged. The same tier is merged once, whatever is retried."""
        properties = metadata.properties
        if properties.get(_ENABLED, "true").lower() == "false":
            return manifests
        if self._made_for != snapshot_id:
            self._made, self._made_for = {}, snapshot_id
        count = max(2, _number(properties, _MIN_COUNT, _MIN_COUNT_DEFAULT))
        target = _number(properties, _TARGET_BYTES, _TARGET_BYTES_DEFAULT)
        for tier in self._tiers(manifests, count, target):
            shape = _shape(metadata, tier[0])
            inputs = {} if shape is None else self._copyable(io, tier, shape)
            if shape is not None and len(inputs) >= count:
                record = self._merge(io, metadata, shape, inputs, snapshot_id)
                manifests = (record, *(kept for kept in manifests if kept["manifest_path"] not in inputs))
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
        path: str = manifest["manifest_path"]
        is_named_so = self._own.fullmatch(path.rpartition("/")[2]) is not None
        return is_named_so and is_assigned(manifest) and path not in self._apart

    def _copyable(
        self, io: FileIO, tier: list[ManifestRecord], shape: Shape
    ) -> dict[str, tuple[ManifestRecord, tuple[Entry, ...]]]:
        """The manifests of a tier whose entries can be copied as bytes, by path."""
        found: dict[str, tuple[ManifestRecord, tuple[Entry, ...]]] = {}
        for manifest in tier:
            path = manifest["manifest_path"]
            entries = self._entries_of(io, manifest, shape)
            if entries is None:
                self._apart.add(path)
            else:
                found[path] = (manifest, entries)
        return found

    def _merge(
        self,
        io: FileIO,
        metadata: TableMetadata,
        shape: Shape,
        inputs: Mapping[str, tuple[ManifestRecord, tuple[Entry, ...]]],
        snapshot_id: int,
    ) -> ManifestRecord:
        paths = tuple(inputs)
        if paths in self._made:
            return self._made[paths]
        manifests = [manifest for manifest, _ in inputs.values()]
        entries = tuple(entry for _, found in inputs.values() for entry in found)
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_metadata_location(f"{self._prefix}{snapshot_id}-merged-{uuid4()}.avro")
        record = merged_manifest(io, location, shape, snapshot_id, manifests, entries)
        self.remember(location, shape, entries)
        self._made[paths] = record
        return record

    def _entries_of(self, io: FileIO, manifest: ManifestRecord, shape: Shape) -> tuple[Entry, ...] | None:
        known = self._entries.get(manifest["manifest_path"])
        if known is None:
            return read_entries(io, manifest, shape)
        # A column that was promoted since has longer values in its partitions: bytes of both do not mix.
        return settled(known.entries, manifest) if known.partition == shape.partition_type else None


@dataclass(frozen=True, slots=True)
class _Remembered:
    """The entries of a manifest, and the type that their partition values have."""

    partition: StructType
    entries: tuple[Entry, ...]


def _shape(metadata: TableMetadata, manifest: ManifestRecord) -> Shape | None:
    """How manifests like this one are written now; `None` where a column of their partition was dropped."""
    spec, schema = metadata.specs()[manifest["partition_spec_id"]], metadata.schema()
    if any(schema.find_column_name(field.source_id) is None for field in spec.fields):
        return None
    return Shape(schema, spec, Content(manifest["content"]), avro_compression(metadata))


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise ConfigError(
            f"the table property {name!r} is {text!r}, not a number", hint="Set it anew, or remove it."
        ) from None


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
