"""A simulated worker: plans a batch as the sink does, and reports real `FileClosed` messages of fake files.

Where deletes reach is decided by `calve.table.plan.delete_scope`, what the batch took for granted stands
in its premises; only the Parquet is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField

from calve.model.batch import Batch
from calve.model.file import FileClosed, FileKind
from calve.table.base import Base
from calve.table.build import Ready
from calve.table.layout import from_spec
from calve.table.lists import Content, is_live
from calve.table.plan import Scope, delete_scope, global_spec, unpartitioned_specs
from calve.table.premises import Premises, SchemaState
from tests.simulation.source import Row, Source
from tests.simulation.store import DATA, SimStore

NAMES = {1: "id", 2: "region", 3: "shard", 4: "val"}
UNPARTITIONED = PartitionSpec()
BY_REGION = PartitionSpec(
    PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="region")
)
BY_SHARD = PartitionSpec(
    PartitionField(source_id=3, field_id=1000, transform=IdentityTransform(), name="shard")
)


def table_schema() -> Schema:
    return Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "region", IntegerType(), required=True),
        NestedField(3, "shard", IntegerType(), required=True),
        NestedField(4, "val", LongType(), required=False),
        schema_id=0,
    )


def live_specs(base: Base) -> frozenset[int]:
    """The specs of the base's live data files."""
    return frozenset(
        manifest["partition_spec_id"]
        for manifest in base.manifests
        if manifest["content"] == Content.DATA and is_live(manifest)
    )


@dataclass(frozen=True, slots=True)
class Worker:
    """Writes the files of batches."""

    store: SimStore
    source: Source
    step: Callable[[str], None]
    """Told before every file, so that a crash can come between."""
    numbers: Iterable[int]

    def write_group(self, base: Base, bounds: Iterable[Batch], *, evolve: bool) -> list[Ready]:
        """Batches that are to be committed together, each planned on what the ones before it leave."""
        specs = live_specs(base)
        group = []
        for batch in bounds:
            ready = self._write(base.metadata, batch, specs, evolve)
            specs |= {file.spec_id for file in ready.files if file.kind is FileKind.DATA}
            group.append(ready)
        return group

    def _write(self, metadata: TableMetadata, batch: Batch, specs: frozenset[int], evolve: bool) -> Ready:
        spec, schema = metadata.spec(), _evolved(metadata) if evolve else metadata.schema()
        key = tuple(NAMES[field_id] for field_id in self.source.key_ids)
        scope = delete_scope(key, spec, from_spec(spec, schema), specs, unpartitioned_specs(metadata))
        net = self.source.net(batch)
        rows = [self.source.row(id_, value) for id_, value in net.items() if value is not None]
        files = self._files(batch, FileKind.DATA, schema, spec, rows)
        added: PartitionSpec | None = None
        if scope is not Scope.NONE:
            where = spec
            if scope is Scope.GLOBAL:
                wanted = global_spec(metadata)
                where = PartitionSpec(spec_id=wanted.spec_id)
                added = None if wanted.exists else where
            keys = [self.source.row(id_, -1) for id_ in net]
            files += self._files(batch, FileKind.EQUALITY_DELETE, schema, where, keys)
        premises = Premises(
            schema,
            evolved_from=SchemaState.of(metadata) if evolve else None,
            empty=scope is Scope.NONE,
            only_spec=spec.spec_id if scope is Scope.PARTITION and spec.fields else None,
            new_spec=None if added is None else added.spec_id,
        )
        relies = premises if net or evolve else None
        return Ready(batch, tuple(files), schema, relies, brings_schema=evolve, brings_spec=added)

    def _files(
        self, batch: Batch, kind: FileKind, schema: Schema, spec: PartitionSpec, rows: list[Row]
    ) -> list[FileClosed]:
        deletes = kind is FileKind.EQUALITY_DELETE
        return [
            FileClosed(
                batch=batch,
                worker="w0",
                path=self._put(kind, part),
                kind=kind,
                schema_id=schema.schema_id,
                spec_id=spec.spec_id,
                partition=partition,
                record_count=len(part),
                file_bytes=4 + len(part),
                equality_ids=self.source.key_ids if deletes else (),
            )
            for partition, part in by_partition(spec, rows).items()
        ]

    def _put(self, kind: FileKind, rows: list[Row]) -> str:
        path = f"{DATA}{kind.value}-{next(iter(self.numbers))}.parquet"
        self.step(f"file {path.rpartition('/')[2]}")
        self.store.put_rows(path, tuple(rows))
        return path


def counter() -> Iterable[int]:
    return count(1)


def by_partition(spec: PartitionSpec, rows: Iterable[Row]) -> Mapping[tuple[int, ...], list[Row]]:
    """Rows by the values of a spec's fields."""
    parts: dict[tuple[int, ...], list[Row]] = defaultdict(list)
    for row in rows:
        parts[tuple(row.field(field.source_id) for field in spec.fields)].append(row)
    return parts


def _evolved(metadata: TableMetadata) -> Schema:
    """The table's schema with one column more."""
    current = metadata.schema()
    new = NestedField(
        metadata.last_column_id + 1, f"c{metadata.last_column_id + 1}", LongType(), required=False
    )
    schema_id = max(schema.schema_id for schema in metadata.schemas) + 1
    return Schema(
        *current.fields, new, schema_id=schema_id, identifier_field_ids=current.identifier_field_ids
    )
