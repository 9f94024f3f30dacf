"""Manifests: the files that snapshots add, from messages alone (P7), and those of another run.

    FileClosed ─▶ entries ─┐
                           ├─▶ manifest (one a content and spec) ─▶ its row for a manifest list
    entries of several ────┘

Sequence numbers are left null in new entries: a reader takes the manifest's, which stands in the
manifest list. Delete files stand in delete manifests: in a data manifest their keys would be read as rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import StructType

from calve.model.file import FileClosed
from calve.table.avro import AvroSchema, container, raw_records
from calve.table.entries import DELETED, Entry, PartitionEncoder, encode_file, entry_schema, inherit
from calve.table.lists import Content, ManifestRecord, live_rows, new_row, put
from calve.table.partitions import merge_summaries, summarize


@dataclass(frozen=True, slots=True)
class Shape:
    """What all manifests of one schema, spec and content share."""

    schema: Schema
    spec: PartitionSpec
    content: Content
    compression: str = "gzip"

    @property
    def partition_type(self) -> StructType:
        return self.spec.partition_type(self.schema)

    @property
    def avro_schema(self) -> AvroSchema:
        return entry_schema(self.partition_type)

    @property
    def metadata(self) -> dict[str, str]:
        fields = [field.model_dump(mode="json", by_alias=True) for field in self.spec.fields]
        return {
            "schema": self.schema.model_dump_json(),
            "schema-id": str(self.schema.schema_id),
            "partition-spec": json.dumps(fields),
            "partition-spec-id": str(self.spec.spec_id),
            "format-version": "2",
            "content": "data" if self.content is Content.DATA else "deletes",
        }


def added_manifest(
    io_: FileIO, location: str, shape: Shape, snapshot_id: int, files: Sequence[FileClosed]
) -> tuple[ManifestRecord, tuple[Entry, ...]]:
    """Write the manifest of files that a snapshot adds; its row for the list, and its entries."""
    encode_partition = PartitionEncoder(shape.partition_type)
    entries: list[Entry] = []

    def encoded() -> Iterator[bytes]:
        # One by one, so that what is encoded is compressed while the next is on its way.
        for file in files:
            entries.append(Entry(snapshot_id, None, None, encode_file(file, encode_partition)))
            yield entries[-1].encode()

    length = _write(io_, location, shape, encoded())
    rows = sum(file.record_count for file in files)
    record = new_row(location, length, shape.content, shape.spec.spec_id, snapshot_id)
    record |= {"added_files_count": len(files), "added_rows_count": rows}
    record["partitions"] = summarize(shape.partition_type, {file.partition for file in files})
    return record, tuple(entries)


def merged_manifest(
    io_: FileIO,
    location: str,
    shape: Shape,
    snapshot_id: int,
    inputs: Sequence[ManifestRecord],
    entries: Sequence[Entry],
) -> ManifestRecord:
    """Write one manifest with the live entries of several; its row for the list."""
    length = _write(io_, location, shape, (entry.encode() for entry in entries))
    record = new_row(location, length, shape.content, shape.spec.spec_id, snapshot_id)
    record["min_sequence_number"] = min(cast(int, entry.sequence_number) for entry in entries)
    record["existing_files_count"] = len(entries)
    record["existing_rows_count"] = sum(live_rows(manifest) for manifest in inputs)
    record["partitions"] = merge_summaries(
        shape.partition_type, [manifest["partitions"] for manifest in inputs]
    )
    return record


def read_entries(io_: FileIO, manifest: ManifestRecord, shape: Shape) -> tuple[Entry, ...] | None:
    """The live entries of a manifest, with the numbers that they inherit; `None` if it was written with
    another Avro schema than this release writes, so that its bytes cannot be copied."""
    with io_.new_input(manifest["manifest_path"]).open() as stream:
        schema, records = raw_records(stream.read())
    if _comparable(schema) != _comparable(shape.avro_schema):
        return None
    return tuple(
        inherit(record, encoded, manifest) for record, encoded in records if record["status"] != DELETED
    )


def _comparable(schema: AvroSchema) -> str:
    return json.dumps(
        {key: value for key, value in schema.items() if not key.startswith("__")}, sort_keys=True
    )


def _write(io_: FileIO, location: str, shape: Shape, records: Iterable[bytes]) -> int:
    content = container(shape.avro_schema, shape.metadata, shape.compression, records)
    put(io_, location, content)
    return len(content)


def by_manifest(files: Iterable[FileClosed]) -> dict[tuple[Content, int], list[FileClosed]]:
    """Files by what their manifest must be: content and spec id, in a stable order."""
    groups: dict[tuple[Content, int], list[FileClosed]] = {}
    for file in files:
        groups.setdefault((Content.of(file), file.spec_id), []).append(file)
    return dict(sorted(groups.items()))
