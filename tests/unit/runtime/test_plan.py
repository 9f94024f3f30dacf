"""The plan of an epoch: the table's word, unless the user said otherwise; and what the batch relies on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from calve import SinkConfig
from calve.runtime.plan import EpochPlan, epoch_plan
from calve.table.base import read_base
from calve.table.evolve import evolve
from calve.writer.plan import DeleteScope, MetricsMode
from tests.support.sinks import Warehouse, commit

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def plan_of(warehouse: Warehouse, epochs: Any = 1, **options: Any) -> EpochPlan:
    given = warehouse.options(write_mode="upsert", equality_delete_columns="id", **options)
    with warehouse.upsert(**options) as sink:
        sink.begin_epoch(0)
        sink.write_batch(ROWS)
        if epochs:
            sink.commit_epoch(0)
    return epoch_plan(SinkConfig.from_options(given), read_base(warehouse.load()), None)


def test_an_empty_table_needs_no_deletes_and_the_batch_relies_on_that(warehouse: Warehouse) -> None:
    plan = plan_of(warehouse, epochs=0)
    assert plan.write.deletes is DeleteScope.NONE
    assert plan.premises.empty


def test_scoped_deletes_rely_on_there_being_one_spec(warehouse: Warehouse) -> None:
    plan = plan_of(warehouse, partition_spec="bucket(2, id)")
    assert plan.write.deletes is DeleteScope.PARTITION
    assert (plan.premises.only_spec, plan.premises.empty, plan.brings_spec) == (0, False, None)


def test_global_deletes_bring_the_spec_that_the_table_lacks(warehouse: Warehouse) -> None:
    plan = plan_of(warehouse, partition_spec="v")
    assert plan.write.deletes is DeleteScope.GLOBAL
    assert plan.brings_spec is not None
    assert plan.brings_spec.spec_id == plan.write.global_spec_id == plan.premises.new_spec == 1
    assert plan.brings_spec.fields == ()
    with warehouse.upsert() as sink:
        commit(sink, 1, ROWS)
    config = SinkConfig.from_options(warehouse.options(write_mode="upsert", equality_delete_columns="id"))
    later = epoch_plan(config, read_base(warehouse.load()), None)
    assert (later.write.global_spec_id, later.brings_spec, later.premises.new_spec) == (1, None, None)


def test_an_append_has_no_key_and_relies_on_the_schema_alone(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
    plan = epoch_plan(SinkConfig.from_options(warehouse.options()), read_base(warehouse.load()), None)
    assert (plan.write.key, plan.write.deletes) == ((), DeleteScope.NONE)
    assert (plan.premises.empty, plan.premises.only_spec, plan.premises.evolved_from) == (False, None, None)


def test_settings_are_the_users_before_the_tables(warehouse: Warehouse) -> None:
    table = {
        "table_prop_write_target-file-size-bytes": "1000000",
        "table_prop_write_parquet_compression-codec": "gzip",
        "table_prop_write_metadata_metrics_default": "counts",
    }
    plan = plan_of(warehouse, **table)
    assert (plan.write.settings.target_file_bytes, plan.write.settings.compression) == (1_000_000, "gzip")
    assert plan.write.metrics[2].mode is MetricsMode.COUNTS
    assert plan.write.metrics[1].mode is MetricsMode.TRUNCATE, "readers skip deletes by the bounds of keys"
    options = {"target.file.size": "2MB", "parquet.compression": "snappy"}
    config = SinkConfig.from_options(warehouse.options() | options)
    explicit = epoch_plan(config, read_base(warehouse.load()), None).write.settings
    assert (explicit.target_file_bytes, explicit.compression) == (2 * 1024 * 1024, "snappy")


def test_an_evolution_is_brought_along_and_relied_upon(warehouse: Warehouse) -> None:
    plan_of(warehouse)
    base = read_base(warehouse.load())
    evolution = evolve(base.metadata, ROWS.append_column("w", pa.array([1, 2])).schema, allowed=True)
    config = SinkConfig.from_options(warehouse.options(write_mode="upsert", equality_delete_columns="id"))
    plan = epoch_plan(config, base, evolution)
    assert plan.brings_schema
    assert plan.write.schema.names == ["id", "v", "w"]
    assert plan.premises.evolved_from is not None
    assert plan.premises.evolved_from.last_column_id == 2
