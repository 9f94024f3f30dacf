"""Others at work: what people and engines do to a table beside the sink, as Iceberg lets them.

They write with an encoder of their own (fastavro from PyIceberg's schemas), commit with PyIceberg's
updates and meet no faults: their job is to be in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)
from pyiceberg.types import LongType, NestedField

from calve.model.progress import fence_property, tag_name
from tests.simulation.catalog import SimCatalog
from tests.simulation.encode import encode_list, encode_manifest, list_row
from tests.simulation.ledger import SINK
from tests.simulation.reader import (
    ADDED,
    DATA_CONTENT,
    DELETED,
    EXISTING,
    File,
    Manifest,
    Reader,
    last_sequence,
)
from tests.simulation.source import Row
from tests.simulation.store import DATA, LOCATION, SimStore
from tests.simulation.worker import BY_REGION, BY_SHARD, UNPARTITIONED, by_partition

_CHOICES = (UNPARTITIONED, BY_REGION, BY_SHARD)


@dataclass(slots=True)
class Foreign:
    """Everybody else."""

    catalog: SimCatalog
    store: SimStore
    reader: Reader
    random: Random
    numbers: Iterable[int]

    @property
    def metadata(self) -> TableMetadata:
        assert self.catalog.current is not None
        return self.catalog.current.metadata

    # -- rows -------------------------------------------------------------------------------------

    def append(self, rows: Sequence[Row]) -> None:
        """A user's INSERT."""
        metadata = self.metadata
        snapshot_id = self._snapshot_id()
        files = self._put(rows, metadata.spec(), snapshot_id, last_sequence(metadata) + 1)
        tip = metadata.current_snapshot()
        kept = () if tip is None else self.reader.manifests(tip)
        self._commit(Operation.APPEND, snapshot_id, [self._manifest(snapshot_id, files), *_rows(kept)])

    def compact(self, partial: bool, since: Snapshot | None = None) -> bool:
        """Rewrite data files with their deletes applied, into the current spec, under the sequence number
        of the snapshot that was read: later deletes still reach the rows. `since` is that snapshot where
        the rewrite took long; if a file that it read is gone by now, it gives up."""
        metadata = self.metadata
        tip = metadata.current_snapshot()
        if tip is None:
            return False
        start = since or tip
        read = self.reader.files(start)
        data = [file for file in read if file.content == DATA_CONTENT]
        now = {file.path for file in self.reader.files(tip)}
        if partial:
            data = self.random.sample(data, len(data) // 2)
        if not data or not {file.path for file in data} <= now:
            return False
        if start is not tip and {file.spec_id for file in data} != {metadata.default_spec_id}:
            # Into another spec, deletes that came since and were scoped to a partition would miss the rows.
            return False
        deletes = [file for file in read if file.content != DATA_CONTENT]
        unpartitioned = {spec.spec_id for spec in metadata.partition_specs if not spec.fields}
        rows = [row for file in data for row in self.reader.surviving(file, deletes, unpartitioned)]
        # A full rewrite of the tip leaves nothing that the deletes could meet: they go.
        gone = {file.path for file in data} | (
            {file.path for file in deletes} if not partial and start is tip else set()
        )
        snapshot_id = self._snapshot_id()
        number = cast(int, start.sequence_number)
        files = self._put(rows, metadata.spec(), snapshot_id, number)
        manifests = [self._manifest(snapshot_id, files)] if files else []
        for manifest in self.reader.manifests(tip):
            touched = any(file.path in gone for file in manifest.live)
            manifests.append(self._without(snapshot_id, manifest, gone) if touched else manifest.row)
        self._commit(Operation.REPLACE, snapshot_id, manifests)
        return True

    # -- refs and snapshots -----------------------------------------------------------------------

    def expire(self, erase_parents: bool) -> None:
        """Keep what a ref points at and nothing else, and remove the files that only the others named."""
        metadata = self.metadata
        kept_ids = {ref.snapshot_id for ref in metadata.refs.values()}
        kept = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in kept_ids]
        expired = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in kept_ids]
        # Removed without RemoveSnapshotsUpdate: Iceberg's Java keeps the parents' ids, PyIceberg erases them.
        snapshots = [
            snapshot.model_copy(update={"parent_snapshot_id": None})
            if erase_parents and snapshot.parent_snapshot_id not in kept_ids
            else snapshot
            for snapshot in kept
        ]
        log = [entry for entry in metadata.snapshot_log if entry.snapshot_id in kept_ids]
        named = self._named(kept)
        for path in self._named(expired) - named:
            self.store.drop(path)
        self.catalog.edit({"snapshots": snapshots, "snapshot_log": log})

    def roll_back(self) -> bool:
        """Take main to an older snapshot that is still there."""
        metadata = self.metadata
        chain = []
        current = metadata.current_snapshot()
        while current is not None and current.parent_snapshot_id is not None:
            current = metadata.snapshot_by_id(current.parent_snapshot_id)
            if current is not None:
                chain.append(current.snapshot_id)
        if not chain:
            return False
        self._move_main(self.random.choice(chain))
        return True

    def restore_main(self, snapshot_id: int) -> None:
        self._move_main(snapshot_id)

    def remove_tag(self) -> None:
        """The sink's tag goes; or, on a catalog without tags, the property in its place."""
        tag, note = tag_name(SINK), fence_property(SINK)
        if note in self.metadata.properties:
            self.catalog.apply((), (RemovePropertiesUpdate(removals=[note]),))
        else:
            self.catalog.apply((), (RemoveSnapshotRefUpdate(ref_name=tag),))

    # -- schema and spec --------------------------------------------------------------------------

    def change_spec(self) -> None:
        self.set_spec(self.random.choice(_CHOICES).fields)

    def set_spec(self, fields: tuple[PartitionField, ...]) -> None:
        metadata = self.metadata
        known = next((spec for spec in metadata.partition_specs if spec.fields == fields), None)
        updates: list[TableUpdate] = []
        if known is None:
            known = PartitionSpec(*fields, spec_id=max(spec.spec_id for spec in metadata.partition_specs) + 1)
            updates.append(AddPartitionSpecUpdate(spec=known))
        self.catalog.apply((), (*updates, SetDefaultSpecUpdate(spec_id=known.spec_id)))

    def change_schema(self) -> None:
        """Add a column, or drop an optional one."""
        optional = [field.name for field in self.metadata.schema().fields if not field.required]
        if optional and self.random.random() < 0.4:
            self.drop_column(self.random.choice(optional))
        else:
            self.add_column()

    def add_column(self) -> None:
        number = self.metadata.last_column_id + 1
        column = NestedField(number, f"f{number}", LongType(), required=False)
        self._set_schema([*self.metadata.schema().fields, column])

    def drop_column(self, name: str) -> None:
        self._set_schema([field for field in self.metadata.schema().fields if field.name != name])

    def _set_schema(self, fields: Sequence[NestedField]) -> None:
        metadata = self.metadata
        current = metadata.schema()
        schema_id = max(schema.schema_id for schema in metadata.schemas) + 1
        schema = Schema(*fields, schema_id=schema_id, identifier_field_ids=current.identifier_field_ids)
        self.catalog.apply((), (AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)))

    # -- how ----------------------------------------------------------------------------------------

    def _snapshot_id(self) -> int:
        return self.random.getrandbits(62) + 1

    def _move_main(self, snapshot_id: int) -> None:
        self.catalog.apply((), (_set_main(snapshot_id),))

    def _named(self, snapshots: Iterable[Snapshot]) -> set[str]:
        paths: set[str] = set()
        for snapshot in snapshots:
            paths.add(snapshot.manifest_list)
            for manifest in self.reader.manifests(snapshot):
                paths.add(manifest.path)
                paths.update(file.path for file in manifest.live)
        return paths

    def _put(self, rows: Sequence[Row], spec: PartitionSpec, snapshot_id: int, sequence: int) -> list[File]:
        files = []
        for partition, part in by_partition(spec, rows).items():
            path = f"{DATA}foreign-{next(iter(self.numbers))}.parquet"
            self.store.put_rows(path, tuple(part))
            size = 4 + len(part)
            own = last_sequence(self.metadata) + 1
            files.append(
                File(
                    ADDED,
                    snapshot_id,
                    sequence,
                    own,
                    DATA_CONTENT,
                    path,
                    spec.spec_id,
                    partition,
                    (),
                    len(part),
                    size,
                )
            )
        return files

    def _without(self, snapshot_id: int, manifest: Manifest, gone: set[str]) -> dict[str, Any]:
        files = [
            file._replace(status=DELETED, snapshot_id=snapshot_id)
            if file.path in gone
            else file._replace(status=EXISTING)
            for file in manifest.live
        ]
        return self._manifest(snapshot_id, files, manifest.row["content"])

    def _manifest(self, snapshot_id: int, files: Sequence[File], content: int = 0) -> dict[str, Any]:
        spec = self.metadata.specs()[files[0].spec_id]
        content_bytes = encode_manifest(self.metadata.schema(), spec, files)
        path = f"{LOCATION}/metadata/foreign-{next(iter(self.numbers))}-m0.avro"
        self.store.put(path, content_bytes)
        return list_row(path, len(content_bytes), spec.spec_id, content, snapshot_id, files) | {
            "sequence_number": last_sequence(self.metadata) + 1
        }

    def _commit(self, operation: Operation, snapshot_id: int, rows: Sequence[dict[str, Any]]) -> None:
        metadata = self.metadata
        sequence = last_sequence(metadata) + 1
        location = f"{LOCATION}/metadata/foreign-{next(iter(self.numbers))}-list.avro"
        self.store.put(location, encode_list(rows))
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=metadata.current_snapshot_id,
            sequence_number=sequence,
            timestamp_ms=max(self.catalog.now_ms(), metadata.last_updated_ms + 1),
            manifest_list=location,
            schema_id=metadata.current_schema_id,
        )
        summary = Summary(operation, **self._totals(snapshot, operation))
        snapshot = snapshot.model_copy(update={"summary": summary})
        self.catalog.apply((), (AddSnapshotUpdate(snapshot=snapshot), _set_main(snapshot_id)))

    def _totals(self, snapshot: Snapshot, operation: Operation) -> dict[str, str]:
        files = self.reader.files(snapshot)
        data = [file for file in files if file.content == DATA_CONTENT]
        added = [file for file in data if file.snapshot_id == snapshot.snapshot_id]
        totals = {
            "added-records": sum(file.records for file in added),
            "total-data-files": len(data),
            "total-delete-files": len(files) - len(data),
            "total-records": sum(file.records for file in data),
            "total-files-size": sum(file.bytes for file in files),
            "total-equality-deletes": sum(file.records for file in files if file.content != DATA_CONTENT),
            "total-position-deletes": 0,
        }
        if operation is Operation.REPLACE:
            totals["removed-equality-delete-files"] = len(files) - len(data)
        return {name: str(count) for name, count in totals.items()}


def _set_main(snapshot_id: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(
        ref_name=MAIN_BRANCH,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def _rows(manifests: Iterable[Manifest]) -> list[dict[str, Any]]:
    return [manifest.row for manifest in manifests]
