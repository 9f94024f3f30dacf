"""TablePlan: all that a table says of how its files are to be written. Pure, from metadata alone.

    TableMetadata, schema, key, live specs ──table_plan──▶ TablePlan ──runtime──▶ the writer's WritePlan

The rooms `table` and `writer` do not know one another. So a plan here has the names and values of a
WritePlan, without its class, and `runtime` hands the one to the other.

**Where deletes reach.** An equality delete meets only older rows of its own spec and partition, unless its
spec is unpartitioned: then it meets all older rows. It may be scoped to a partition only where the older
row of a key cannot lie anywhere else: the partition follows from the key alone, and every live data file
has this spec. Everywhere else the delete is global. A delete that is too wide costs readers time; one that
is too narrow leaves two rows of a key (P1).

What a plan took for granted, the live specs above all, are premises of the batch that is written by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from calve.model.layout import PartitionField, SortField, TransformKind
from calve.table.layout import from_sort_order, from_spec
from calve.table.location import as_uri
from calve.table.properties import (
    FileProperties,
    Metrics,
    check_dictionary,
    column_metrics,
    file_properties,
)
from calve.table.schema import check_key, to_arrow


class Scope(Enum):
    """Where equality deletes reach; the values are those of the writer's DeleteScope."""

    NONE = "none"  # no older row can exist: rows have no key, or the table has no row
    PARTITION = "partition"  # an older row of a key lies in the same partition of the same spec
    GLOBAL = "global"  # it may lie anywhere


@dataclass(frozen=True, slots=True)
class GlobalSpec:
    """The unpartitioned spec that global deletes are written under."""

    spec_id: int
    exists: bool
    """False: the commit that needs it adds it, as `PartitionSpec(spec_id=spec_id)`."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What a table says to its writers. Fields that WritePlan has as well mean the same there."""

    data_location: str
    schema: pa.Schema
    schema_id: int
    spec_id: int
    partition: tuple[PartitionField, ...]
    partition_names: tuple[str, ...]
    sort: tuple[SortField, ...]
    sort_order_id: int | None
    key: tuple[str, ...]
    deletes: Scope
    global_spec: GlobalSpec | None = None
    """Only where deletes are global."""
    metrics: Mapping[int, Metrics] = field(default_factory=dict)
    settings: FileProperties = field(default_factory=FileProperties)


def table_plan(
    metadata: TableMetadata,
    schema: Schema,
    *,
    key: tuple[str, ...] = (),
    live_specs: frozenset[int] = frozenset(),
    explicit: FileProperties | None = None,
) -> TablePlan:
    """The plan for files of `schema`: the table's current one, or the one that it is about to get.

    `live_specs` are the spec ids of the manifests with live data files; none means that the table has no row.
    It is so for one batch only: in a group commit, the batches after the first have older rows before them.
    """
    check_key(schema, key)
    settings = file_properties(metadata.properties, explicit)
    check_dictionary(settings.get("dictionary", True), schema)
    spec = metadata.spec()
    partition = from_spec(spec, schema)
    order = metadata.sort_order()
    sort = from_sort_order(order, schema) or ()
    deletes = delete_scope(key, spec, partition, live_specs, unpartitioned_specs(metadata))
    bounded = frozenset(key) | frozenset(sorted_by.column for sorted_by in sort)
    return TablePlan(
        data_location=data_location(metadata),
        schema=to_arrow(schema),
        schema_id=schema.schema_id,
        spec_id=spec.spec_id,
        partition=partition,
        partition_names=tuple(spec_field.name for spec_field in spec.fields),
        sort=sort,
        sort_order_id=order.order_id if sort else None,
        key=key,
        deletes=deletes,
        global_spec=global_spec(metadata) if deletes is Scope.GLOBAL else None,
        metrics=column_metrics(metadata.properties, schema, bounded),
        settings=settings,
    )


def delete_scope(
    key: tuple[str, ...],
    spec: PartitionSpec,
    partition: tuple[PartitionField, ...],
    live_specs: frozenset[int],
    unpartitioned: frozenset[int],
) -> Scope:
    """Where the deletes of a batch must reach. Pure.

    That a source's inserts are new is no matter of scope: its upserts and deletes still meet older rows.
    """
    if not key or not live_specs:
        return Scope.NONE
    if spec.spec_id in unpartitioned:
        # Such a delete is global by its nature. It is called so only where it meets partitioned files.
        return Scope.PARTITION if live_specs <= unpartitioned else Scope.GLOBAL
    sources = {by.column for by in partition if by.transform.kind is not TransformKind.VOID}
    if sources <= set(key) and live_specs <= {spec.spec_id}:
        return Scope.PARTITION
    return Scope.GLOBAL


def unpartitioned_specs(metadata: TableMetadata) -> frozenset[int]:
    """The ids of the table's specs without a field. A spec of void fields alone is not counted: readers
    do not agree on whether it is unpartitioned."""
    return frozenset(spec.spec_id for spec in metadata.partition_specs if not spec.fields)


def global_spec(metadata: TableMetadata) -> GlobalSpec:
    """The spec for global deletes: the current one, else the oldest, else a new one without a field."""
    unpartitioned = unpartitioned_specs(metadata)
    if metadata.default_spec_id in unpartitioned:
        return GlobalSpec(metadata.default_spec_id, exists=True)
    if unpartitioned:
        return GlobalSpec(min(unpartitioned), exists=True)
    return GlobalSpec(max(spec.spec_id for spec in metadata.partition_specs) + 1, exists=False)


def data_location(metadata: TableMetadata) -> str:
    """The folder for data files: the table's own choice, or `data` under its location."""
    return as_uri(metadata.properties.get("write.data.path") or f"{metadata.location.rstrip('/')}/data")
