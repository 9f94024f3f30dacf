"""The plan of a table: where files go, how they look, and how far deletes reach."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField as OrderField
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import AddPartitionSpecUpdate
from pyiceberg.transforms import BucketTransform

from calve.model.errors import BadKey
from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.table.create import Wanted, create_table
from calve.table.evolve import evolve
from calve.table.layout import to_spec
from calve.table.plan import GlobalSpec, Scope, TablePlan, delete_scope, table_plan
from calve.table.properties import Metrics
from calve.table.schema import to_iceberg
from calve.writer.plan import ColumnMode, DeleteScope, FileSettings, MetricsMode, WritePlan

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.string())])
ICEBERG = to_iceberg(SCHEMA)
BUCKET = PartitionField("id", Transform(TransformKind.BUCKET, 16))
DAY = PartitionField("ts", Transform(TransformKind.DAY))
VOID = PartitionField("v", Transform(TransformKind.VOID))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return SqlCatalog("calve", uri="sqlite:///:memory:", warehouse=str(tmp_path))


def make(catalog: Catalog, **wanted) -> Table:
    return create_table(catalog, ("n", "t"), Wanted(SCHEMA, **wanted))


def scope(
    key: tuple[str, ...], partition: tuple[PartitionField, ...], live: set[int], unpartitioned=()
) -> Scope:
    spec = PartitionSpec(*to_spec(partition, ICEBERG).fields, spec_id=3)
    bare = frozenset(unpartitioned) | (frozenset() if partition else {3})
    return delete_scope(key, spec, partition, frozenset(live), bare)


@pytest.mark.parametrize(
    "key, partition, live, unpartitioned, expected",
    [
        ((), (DAY,), {3}, (), Scope.NONE),  # rows without identity
        (("id",), (DAY,), set(), (), Scope.NONE),  # no row at all
        (("id",), (), {3}, (), Scope.PARTITION),  # one partition, the whole table
        (("id",), (), {3, 1}, (1,), Scope.PARTITION),  # all live specs are unpartitioned
        (("id",), (), {3, 0}, (), Scope.GLOBAL),  # partitioned files from before
        (("id",), (BUCKET,), {3}, (), Scope.PARTITION),  # the key says the bucket
        (("id", "ts"), (DAY, BUCKET), {3}, (), Scope.PARTITION),
        (("id",), (BUCKET, VOID), {3}, (), Scope.PARTITION),  # a void field is always null
        (("id",), (DAY,), {3}, (), Scope.GLOBAL),  # a key may move to another day
        (("id",), (DAY, BUCKET), {3}, (), Scope.GLOBAL),
        (("id",), (BUCKET,), {3, 0}, (), Scope.GLOBAL),  # a row may lie under the old spec
        (("id",), (BUCKET,), {0}, (0,), Scope.GLOBAL),
    ],
)
def test_case_67_deletes_reach_wherever_an_older_row_of_the_key_may_lie(
    key, partition, live, unpartitioned, expected
) -> None:
    assert scope(key, partition, live, unpartitioned) is expected


@given(
    st.sets(st.sampled_from(["id", "ts", "v"]), min_size=1),
    st.sets(st.sampled_from([BUCKET, DAY, VOID]), min_size=1),
    st.sets(st.integers(0, 4), min_size=1),
)
def test_p1_a_delete_is_scoped_only_where_the_key_alone_says_the_partition(key, partition, live) -> None:
    if scope(tuple(key), tuple(partition), live) is Scope.PARTITION:
        assert live == {3}
        assert all(field.column in key for field in partition if field is not VOID)
    else:
        assert live != {3} or any(field.column not in key for field in partition - {VOID})


def test_a_plan_says_all_that_the_table_says(catalog: Catalog, tmp_path: Path) -> None:
    by_ts = SortField("ts", descending=True, nulls_first=False)
    table = make(
        catalog,
        key=("id",),
        partition=(DAY, BUCKET),
        sort=(by_ts,),
        properties={"write.metadata.metrics.default": "none", "write.target-file-size-bytes": "1000"},
    )
    plan = table_plan(table.metadata, table.schema(), key=("id",), live_specs=frozenset({0}))
    assert plan.data_location == f"file://{tmp_path}/n/t/data"
    assert plan.schema.field("id").metadata == {b"PARQUET:field_id": b"1"}
    assert not plan.schema.field("id").nullable
    assert (plan.schema_id, plan.spec_id) == (0, 0)
    assert plan.partition == (DAY, BUCKET)
    assert plan.partition_names == ("ts_day", "id_bucket")
    assert (plan.sort, plan.sort_order_id) == ((by_ts,), 1)
    assert plan.deletes is Scope.GLOBAL
    assert plan.global_spec == GlobalSpec(1, exists=False)
    assert plan.metrics == {1: Metrics(), 2: Metrics(), 3: Metrics("none")}
    assert plan.settings == {"target_file_bytes": 1000}


def test_a_plan_becomes_the_writers_plan_by_name(catalog: Catalog) -> None:
    table = make(
        catalog, key=("id",), partition=(DAY,), properties={"write.parquet.compression-codec": "gzip"}
    )
    plan = table_plan(table.metadata, table.schema(), key=("id",), live_specs=frozenset({0}))
    written = as_write_plan(plan)
    assert written.deletes is DeleteScope.GLOBAL
    assert written.global_spec_id == 1
    assert written.metrics[3] == ColumnMode(MetricsMode.TRUNCATE, 16)
    assert written.settings == FileSettings(compression="gzip", compression_level=None)


def as_write_plan(plan: TablePlan) -> WritePlan:
    """What `runtime` does with a plan: the two rooms do not know one another."""
    return WritePlan(
        sink_id="orders",
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
            leaf: ColumnMode(MetricsMode(kept.mode), kept.length) for leaf, kept in plan.metrics.items()
        },
        settings=FileSettings(**plan.settings),
    )


def test_every_scope_is_one_that_the_writer_knows() -> None:
    assert {scope.value for scope in Scope} == {scope.value for scope in DeleteScope}


def test_a_global_spec_that_is_there_is_used_again(catalog: Catalog) -> None:
    table = make(catalog, partition=(DAY,))
    plan = table_plan(table.metadata, table.schema(), key=("id",), live_specs=frozenset({0}))
    assert plan.global_spec is not None
    spec = PartitionSpec(spec_id=plan.global_spec.spec_id)
    catalog.commit_table(table, (), (AddPartitionSpecUpdate(spec=spec),))
    again = catalog.load_table(("n", "t"))
    assert again.metadata.default_spec_id == 0
    plan = table_plan(again.metadata, again.schema(), key=("id",), live_specs=frozenset({0}))
    assert plan.global_spec == GlobalSpec(1, exists=True)


def test_case_62_a_partition_that_was_dropped_makes_deletes_global_under_the_current_spec(
    catalog: Catalog,
) -> None:
    table = make(catalog, partition=(BUCKET,))
    with table.update_spec() as update:
        update.remove_field("id_bucket")
    assert table.spec().fields == UNPARTITIONED_PARTITION_SPEC.fields
    plan = table_plan(table.metadata, table.schema(), key=("id",), live_specs=frozenset({0}))
    assert plan.deletes is Scope.GLOBAL
    assert plan.global_spec == GlobalSpec(table.spec().spec_id, exists=True)


def test_an_empty_table_needs_no_deletes_and_no_global_spec(catalog: Catalog) -> None:
    table = make(catalog, partition=(DAY,))
    plan = table_plan(table.metadata, table.schema(), key=("id",))
    assert plan.deletes is Scope.NONE
    assert plan.global_spec is None


def test_a_plan_can_be_made_for_the_schema_that_a_commit_is_about_to_bring(catalog: Catalog) -> None:
    table = make(catalog)
    evolution = evolve(table.metadata, SCHEMA.append(pa.field("n", pa.int32())), allowed=True)
    assert evolution is not None
    plan = table_plan(table.metadata, evolution.schema)
    assert plan.schema_id == 1
    assert plan.schema.field("n").metadata == {b"PARQUET:field_id": b"4"}
    assert 4 in plan.metrics


def test_an_order_that_cannot_be_followed_is_not_claimed(catalog: Catalog) -> None:
    catalog.create_namespace("n")
    order = SortOrder(OrderField(1, BucketTransform(4)))
    table = catalog.create_table(("n", "t"), ICEBERG, sort_order=order)
    plan = table_plan(table.metadata, table.schema())
    assert (plan.sort, plan.sort_order_id) == ((), None)


def test_data_goes_where_the_table_says(catalog: Catalog) -> None:
    table = make(catalog, properties={"write.data.path": "/elsewhere/"})
    assert table_plan(table.metadata, table.schema()).data_location == "file:///elsewhere"


def test_a_key_that_the_table_lacks_is_refused(catalog: Catalog) -> None:
    table = make(catalog)
    with pytest.raises(BadKey):
        table_plan(table.metadata, table.schema(), key=("nope",))
