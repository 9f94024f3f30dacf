"""The table's plan and the user's settings, as the writer's plan; and what a batch then relies on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from calve.config.sink import Mode, SinkConfig
from calve.store import Access
from calve.table.base import Base
from calve.table.evolve import Evolution
from calve.table.fileio import access_of
from calve.table.lists import Content
from calve.table.plan import Scope, TablePlan, table_plan
from calve.table.premises import Premises, SchemaState
from calve.table.properties import FileProperties
from calve.writer.plan import ColumnMode, DeleteScope, FileSettings, MetricsMode, WritePlan


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """How the files of an epoch are written, and what its commit brings along and relies on."""

    write: WritePlan
    schema: Schema
    premises: Premises
    brings_schema: bool
    brings_spec: PartitionSpec | None


def epoch_plan(
    config: SinkConfig, base: Base, evolution: Evolution | None, *, older_rows: bool = False
) -> EpochPlan:
    """The plan for an epoch on the table as it is now, with the schema that its data needs. `older_rows`: the
    same commit has batches before it, so that the table is not empty for this one."""
    metadata = base.metadata
    schema = metadata.schema() if evolution is None else evolution.schema
    live = frozenset(
        manifest["partition_spec_id"] for manifest in base.manifests if manifest["content"] == Content.DATA
    )
    if older_rows:
        live |= {metadata.default_spec_id}
    key = config.key if config.mode is Mode.UPSERT else ()
    plan = table_plan(metadata, schema, key=key, live_specs=live, explicit=_explicit(config))
    added = None
    if plan.global_spec is not None and not plan.global_spec.exists:
        added = PartitionSpec(spec_id=plan.global_spec.spec_id)
    premises = Premises(
        schema=schema,
        evolved_from=None if evolution is None else SchemaState.of(metadata),
        empty=bool(key) and plan.deletes is Scope.NONE,
        only_spec=plan.spec_id if plan.deletes is Scope.PARTITION and plan.partition else None,
        new_spec=None if added is None else added.spec_id,
    )
    write = _write_plan(config, plan, access_of(base.io))
    return EpochPlan(write, schema, premises, evolution is not None, added)


def _write_plan(config: SinkConfig, plan: TablePlan, access: Access) -> WritePlan:
    return WritePlan(
        sink_id=config.sink_id,
        data_location=plan.data_location,
        schema=plan.schema,
        schema_id=plan.schema_id,
        spec_id=plan.spec_id,
        partition=plan.partition,
        partition_names=plan.partition_names,
        sort=plan.sort,
        sort_order_id=plan.sort_order_id,
        key=plan.key,
        deletes=DeleteScope(plan.deletes.value),
        global_spec_id=None if plan.global_spec is None else plan.global_spec.spec_id,
        metrics={
            leaf: ColumnMode(MetricsMode(metrics.mode), metrics.length)
            for leaf, metrics in plan.metrics.items()
        },
        settings=FileSettings(**plan.settings),
        access=access,
    )


def _explicit(config: SinkConfig) -> FileProperties:
    """What the user set; what was left open is the table's to say."""
    given = {name: getattr(config.parquet, name) for name in config.parquet.model_fields_set}
    explicit = cast(FileProperties, given)
    if "target_file_bytes" in config.model_fields_set:
        explicit["target_file_bytes"] = config.target_file_bytes
    return explicit
