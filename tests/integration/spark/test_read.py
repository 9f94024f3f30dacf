"""calve.read as a person meets it: what it costs, what it leaves alone, what it says when it cannot."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import calve
from calve.model.errors import CatalogError
from calve.runtime.spark import native
from calve.store import local_path
from calve.table.live import FileContent
from calve.table.scan import plan_scan
from tests.support.both import same_rows
from tests.support.keys import delete_by
from tests.support.lake import NAMESPACE, Lake, pour
from tests.support.spark import has_iceberg
from tests.support.variants import SCOPED, UNPARTITIONED
from tests.support.workload import Variant

pytestmark = pytest.mark.spark

NO_RUNTIME = "Iceberg has no runtime for this release of Spark"
needs_iceberg = pytest.mark.skipif(not has_iceberg(), reason=NO_RUNTIME)


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def scans_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.fixture(scope="module")
def appended(lake: Lake) -> str:
    """Three files that no delete reaches, of keys that do not meet."""
    with lake.sink("appended", Variant("appended", UNPARTITIONED.stages, mode="append")) as sink:
        for number in range(3):
            sink.begin_epoch(number + 1)
            ids = pa.array(range(number * 100, number * 100 + 100), pa.int64())
            names = pa.array([f"name {one}" for one in range(100)])
            sink.write_batch(pa.table({"id": ids, "name": names}))
            sink.commit_epoch(number + 1)
    return lake.full_name("appended")


@pytest.fixture(scope="module")
def upserted(lake: Lake) -> str:
    pour(lake, "upserted", UNPARTITIONED, epochs=3)
    return lake.full_name("upserted")


def test_columns_and_filters_reach_the_reader_of_files(spark: Any, appended: str):
    frame = calve.read(spark, appended).where("id = 7 AND name LIKE 'name%'").select("name")
    scan = scans_of(frame)
    assert "ReadSchema: struct<id:bigint,name:string>" in scan
    assert "EqualTo(id,7)" in scan
    assert "StringStartsWith(name,name)" in scan
    assert "Union" not in scan
    assert frame.collect() == [("name 7",)]
    assert calve.read(spark, appended).select("id").where("id > 1000").count() == 0


def test_files_that_no_delete_reaches_pay_for_no_join(lake: Lake, spark: Any, appended: str, upserted: str):
    assert "Join" not in plan_of(calve.read(spark, appended))
    table = lake.load("upserted")
    plan = plan_scan(table.io, table.metadata, table.current_snapshot())
    free = [file for file in plan.data if not plan.of(file)]
    assert 0 < len(free) < len(plan.data)
    text = plan_of(calve.read(spark, upserted))
    assert text.count("LeftAnti") == 1
    assert "LeftOuter" not in text, "files are told apart by their sizes"


def test_files_of_one_size_and_very_many_files_are_told_apart_by_their_paths(
    spark: Any, upserted: str, monkeypatch: pytest.MonkeyPatch
):
    wanted = sorted(map(repr, calve.read(spark, upserted).collect()))
    monkeypatch.setattr(native, "_BY_SIZE_MAX", 1)
    frame = calve.read(spark, upserted)
    assert plan_of(frame).count("LeftOuter") == 2, "the tags of data files, and those of delete files"
    assert sorted(map(repr, frame.collect())) == wanted
    monkeypatch.setattr(native, "_hash", lambda _: F.lit(7).cast("long"))  # two paths of one hash
    assert sorted(map(repr, calve.read(spark, upserted).collect())) == wanted


def test_a_filter_reaches_files_on_both_sides_of_the_join(spark: Any, upserted: str):
    scan = scans_of(calve.read(spark, upserted).where("id = 3").select("name"))
    assert scan.count("EqualTo(id,3)") == 3, "files with deletes, files without, and the deletes themselves"


def test_nothing_is_read_before_a_query_runs(spark: Any, upserted: str):
    context = spark.sparkContext
    context.setJobGroup("before", "nothing may run")
    try:
        frame = calve.read(spark, upserted)
        assert context.statusTracker().getJobIdsForGroup("before") == []
        frame.collect()
        assert context.statusTracker().getJobIdsForGroup("before") != []
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def test_the_session_stays_as_it_was(spark: Any, upserted: str):
    before = dict(spark.conf.getAll)
    frame = calve.read(spark, upserted)
    frame.count()
    assert dict(spark.conf.getAll) == before
    assert SparkSession.getActiveSession() is not None
    assert SparkSession.getActiveSession()._jsparkSession.equals(spark._jsparkSession)
    assert frame.sparkSession is spark
    assert frame.join(spark.range(3), "id").count() <= 3, "it is a frame of the session as any other"
    assert all(not field.metadata for field in frame.schema), "nothing of how it was read shows"


def test_a_missing_file_is_told_whatever_the_session_says(lake: Lake, spark: Any, table_name: str):
    pour(lake, table_name, UNPARTITIONED, epochs=2)
    frame = calve.read(spark, lake.full_name(table_name))
    table = lake.load(table_name)
    gone = plan_scan(table.io, table.metadata, table.current_snapshot()).data[0]
    local_path(gone.path).unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match=r"(?s)FILE_NOT_EXIST|does not exist"):
            frame.collect()
        with pytest.raises(calve.FileMissing, match=Path(gone.path).name):
            calve.read(spark, lake.full_name(table_name)).collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_a_frame_shows_its_snapshot_whatever_is_committed_later(lake: Lake, spark: Any, table_name: str):
    ledger = SCOPED.ledger()
    with lake.sink(table_name, SCOPED) as sink:
        frames = []
        for _ in range(2):
            epoch = ledger.next_epoch()
            sink.begin_epoch(epoch.number)
            sink.write_batch(epoch.changes)
            sink.commit_epoch(epoch.number)
            frames.append((calve.read(spark, lake.full_name(table_name)), epoch.truth.num_rows))
    assert [frame.count() for frame, _ in frames] == [rows for _, rows in frames]


def test_a_table_without_a_snapshot_has_its_columns_and_no_row(lake: Lake, spark: Any, table_name: str):
    with lake.catalog() as catalog:
        catalog.create_namespace_if_not_exists(NAMESPACE)
        schema = pa.schema([pa.field("id", pa.int64()), pa.field("u", pa.uuid())])
        catalog.create_table((NAMESPACE, table_name), schema)
    frame = calve.read(spark, lake.full_name(table_name))
    assert frame.collect() == []
    assert frame.schema.simpleString() == "struct<id:bigint,u:string>"
    with pytest.raises(calve.SnapshotMissing, match=r"(?s)has no snapshot 7.*has no snapshot yet"):
        calve.read(spark, lake.full_name(table_name), at=7)


# ---------------------------------------------------------------- what is not there


def test_a_table_that_is_not_there_is_answered_with_the_nearest(lake: Lake, spark: Any, appended: str):
    with pytest.raises(calve.TableMissing, match=rf"Did you mean {NAMESPACE}\.appended\?"):
        calve.read(spark, lake.full_name("apended"))
    with pytest.raises(calve.TableMissing, match=f"In {NAMESPACE} there are: "):
        calve.read(spark, lake.full_name("xyz"))
    with pytest.raises(calve.TableMissing, match="No table is known in nowhere"):
        calve.read(spark, f"{lake.name}.nowhere.t")


def test_a_snapshot_that_is_not_there_is_answered_with_the_last_ones(lake: Lake, spark: Any, appended: str):
    last = [snapshot.snapshot_id for snapshot in lake.load("appended").metadata.snapshots][-1]
    with pytest.raises(calve.SnapshotMissing, match=f"(?s)has no snapshot 12.*The last ones are .*{last}"):
        calve.read(spark, appended, at=12)


def test_what_is_no_session_is_refused(appended: str):
    with pytest.raises(calve.ConfigError, match="was given a str in place of a session"):
        calve.read("spark", appended)


# ---------------------------------------------------------------- equality deletes of others


@needs_iceberg
def test_keys_of_others_delete_as_their_own_reader_says(lake: Lake, spark: Any):
    """By several sets of columns, by floats, by nulls, and by a column that was dropped since."""
    table = lake.full_name("keyed_by_others")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake.name}.{NAMESPACE}")
    spark.sql(
        f"CREATE TABLE {table} (id INT, name STRING, ratio DOUBLE, old STRING, s STRUCT<x: INT>) "
        "USING iceberg"
    )
    rows = "(1, 'a', 0.0D, 'x'), (2, NULL, -0.0D, 'y'), (3, 'c', double('NaN'), NULL), (4, 'd', 1.5D, 'z')"
    spark.sql(f"INSERT INTO {table} SELECT *, NULL FROM VALUES {rows}")
    delete_by(spark, table, ["ratio"], [[-0.0]])
    assert [row[0] for row in same_rows(spark, table)] == [1, 3, 4]
    delete_by(spark, table, ["ratio"], [[math.nan]])
    assert [row[0] for row in same_rows(spark, table)] == [1, 4]
    spark.sql(f"INSERT INTO {table} SELECT *, NULL FROM VALUES {rows}")
    delete_by(spark, table, ["name"], [[None], ["a"]])
    delete_by(spark, table, ["old", "id"], [["z", 4], [None, 4]])
    assert [row[0] for row in same_rows(spark, table)] == [3]
    spark.sql(f"INSERT INTO {table} SELECT *, NULL FROM VALUES {rows}")
    delete_by(spark, table, ["old"], [["y"]])
    spark.sql(f"ALTER TABLE {table} DROP COLUMN old")
    assert sorted(row[0] for row in calve.read(spark, table).collect()) == [1, 3, 3, 4]
    if not spark.version.startswith("4.0."):  # whose runtime of Iceberg does not find the column any more
        same_rows(spark, table)
    spark.sql(f"ALTER TABLE {table} ADD COLUMN old BIGINT")  # where Iceberg's reader fails: two of a name
    assert sorted(row[0] for row in calve.read(spark, table).collect()) == [1, 3, 3, 4]


@needs_iceberg
def test_deletes_that_cannot_match_are_not_part_of_the_plan(lake: Lake, spark: Any):
    table = lake.full_name("keyed_apart")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake.name}.{NAMESPACE}")
    spark.sql(f"CREATE TABLE {table} (id INT) USING iceberg")
    spark.range(0, 10, 1, 1).select(F.col("id").cast("int")).writeTo(table).append()
    delete_by(spark, table, ["id"], [[50], [60]])
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    first = 10_000_000_000  # no int any more
    spark.range(first, first + 10, 1, 1).writeTo(table).append()
    delete_by(spark, table, ["id"], [[first + 5]])
    loaded = lake.load("keyed_apart")
    plan = plan_scan(loaded.io, loaded.metadata, loaded.current_snapshot())
    assert [file.content for file in plan.deletes] == [FileContent.KEYS]
    assert [len(list(plan.of(file))) for file in sorted(plan.data, key=lambda one: one.sequence)] == [0, 1]
    assert len(same_rows(spark, table)) == 19


@needs_iceberg
def test_a_key_is_deleted_in_the_partition_of_its_delete_alone(lake: Lake, spark: Any):
    """Others write such deletes by keys that do not say in which partition a row is."""
    table = lake.full_name("keyed_in_partitions")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake.name}.{NAMESPACE}")
    spark.sql(f"CREATE TABLE {table} (id INT, region STRING) USING iceberg PARTITIONED BY (region)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'eu'), (2, 'eu'), (1, 'us'), (2, 'us'), (1, NULL)")
    delete_by(spark, table, ["id"], [[1]], "region=eu")
    delete_by(spark, table, ["id"], [[2]], "region=us")
    assert same_rows(spark, table) == [(1, "us"), (1, None), (2, "eu")]


def test_to_read_makes_no_catalog_where_there_is_none(spark: Any, tmp_path: Path):
    # Its type is said as well: the session may know another catalog of that name.
    said = {"type": "sql", "warehouse": str(tmp_path / "lake")}
    with pytest.raises(CatalogError, match="there is no catalog at"):
        calve.read(spark, "lake.shop.orders", catalog=said)
    assert list(tmp_path.iterdir()) == []
