"""The door on a real session: five lines write a table, and a wrong call starts nothing and makes nothing.

`lake` is found as the session spells it for Iceberg's own runtime. Tables are read back by DuckDB.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calve
from calve.model.errors import BadKey, BadName, BadRow, CalveError, ConfigError, SchemaMismatch, TableDiffers
from tests.support.lake import NAMESPACE, Lake
from tests.support.spark import has_iceberg

pytestmark = pytest.mark.spark

ORDERS = "id long, name string, lsn long, ts timestamp, _op string"
ROWS = [
    (1, "one", 10, "2026-01-01 00:00:01", "insert"),
    (2, "two", 11, "2026-01-01 00:00:02", "insert"),
    (1, "won", 12, "2026-01-01 00:00:03", "update"),
    (2, None, 13, "2026-01-01 00:00:04", "delete"),
]
OLD = "4e0f2a1c-9d5b-4f0e-8c57-0d3e8a9b1c2d"


@pytest.fixture(scope="module")
def orders(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of changes."""
    folder = tmp_path_factory.mktemp("orders") / "rows"
    frame = spark.createDataFrame(ROWS, "id long, name string, lsn long, ts string, _op string")
    frame.withColumn("ts", frame.ts.cast("timestamp")).coalesce(1).write.parquet(str(folder))
    return folder


@pytest.fixture
def changes(spark: Any, orders: Path) -> Any:
    return spark.readStream.schema(ORDERS).parquet(str(orders))


@pytest.fixture
def rows(spark: Any, orders: Path) -> Any:
    return spark.read.parquet(str(orders))


@pytest.fixture
def name(table_name: str) -> str:
    return f"lake.{NAMESPACE}.{table_name}"


def read(duckdb: Any, lake: Lake, table: str) -> list[dict[str, Any]]:
    at = lake.at(table)
    found = duckdb.read(at, lake.head(table).snapshot_id).to_pylist()
    return sorted(found, key=lambda row: (row["id"], row["lsn"]))


def exists(lake: Lake, table: str) -> bool:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        lake.load(table)
    except NoSuchTableError:
        return False
    return True


class Watcher(calve.SinkListener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[calve.SinkProgress] = []

    def on_progress(self, progress: calve.SinkProgress) -> None:
        self.seen.append(progress)


def test_five_lines_upsert_a_stream_into_a_table_that_the_session_knows(
    changes, lake, name, table_name, tmp_path, duckdb
):
    watcher = Watcher()
    query = (
        calve.write_stream(changes)
        .mode("upsert").key("id").op("_op").sequence_by("lsn")
        .partitioned_by("day(ts)", "bucket(16, id)")
        .option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
        .query_name(table_name).watch(watcher)
        .to_table(name)
    )  # fmt: skip
    assert query.name == table_name
    query.awaitTermination()
    assert query.exception() is None
    found = read(duckdb, lake, table_name)
    assert [(row["id"], row["name"], row["lsn"]) for row in found] == [(1, "won", 12)]
    assert [str(field.transform) for field in lake.load(table_name).spec().fields] == ["day", "bucket[16]"]
    assert calve.progress(query) == watcher.seen[-1]
    assert watcher.seen[-1].rows == len(ROWS)


def test_a_bounded_frame_is_one_batch_and_a_version_is_written_once(rows, lake, name, table_name, duckdb):
    first = calve.write(rows).version(20261115).to_table(name)
    assert (first.epoch, first.skipped, first.rows) == (20261115, False, len(ROWS))
    for version in (20261115, 20261114):
        assert calve.write(rows).version(version).to_table(name).skipped
    assert len(read(duckdb, lake, table_name)) == len(ROWS)
    assert calve.write(rows).version(20261116).to_table(name).snapshot_id == lake.head(table_name).snapshot_id
    assert len(read(duckdb, lake, table_name)) == 2 * len(ROWS)


def test_a_named_query_has_its_checkpoint_where_the_session_puts_it(
    spark, changes, name, table_name, tmp_path
):
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        with pytest.raises(ConfigError, match="has no name"):
            calve.write_stream(changes).to_table(name)
        writer = calve.write_stream(changes).query_name(table_name).trigger(availableNow=True)
        writer.to_table(name).awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert (tmp_path / table_name / "commits" / "0").exists()


@pytest.mark.skipif(not has_iceberg(), reason="Iceberg has no runtime for this release of Spark")
def test_a_jdbc_catalog_of_the_first_schema_version_is_written_and_read(spark, rows, tmp_path):
    """Iceberg's own default is V0, which has no column for views."""
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{tmp_path}/v0.db",
        ".warehouse": str(tmp_path / "w"),
        ".cache-enabled": "false",
    }
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.old{key}", value)
    try:
        spark.sql("CREATE NAMESPACE old.s")
        spark.sql("CREATE TABLE old.s.o (id bigint, name string) TBLPROPERTIES ('format-version'='2')")
        calve.write(rows.select("id", "name")).to_table("old.s.o")
        calve.write(rows.select("id", "name")).to_table("old.s.new")
        assert spark.table("old.s.o").count() == spark.table("old.s.new").count() == len(ROWS)
    finally:
        for key in settings:
            spark.conf.unset(f"spark.sql.catalog.old{key}")


def test_a_stream_and_a_bounded_frame_have_a_door_each(changes, rows):
    with pytest.raises(ConfigError, match="this one is bounded") as refused:
        calve.write_stream(rows)
    assert "calve.write(" in refused.value.hint
    with pytest.raises(ConfigError, match="this one is a stream") as refused:
        calve.write(changes)
    assert "calve.write_stream(" in refused.value.hint


def test_a_watermark_of_spark_is_found_on_its_column(changes, name, tmp_path):
    def asked(frame: Any) -> Any:
        writer = calve.write_stream(frame).option("checkpointLocation", str(tmp_path / "c"))
        return writer.sequence_by("ts").frontier(watermark=True)._asked(name).config

    assert asked(changes.withWatermark("ts", "1 second")).time_column == "ts"
    with pytest.raises(ConfigError, match="'ts' has none"):
        asked(changes)


WRONG = {
    "a key that the stream lacks": (lambda w: w.mode("upsert").key("idd"), BadKey, "'id'"),
    "an op that the stream lacks": (lambda w: w.mode("upsert").key("id").op("opp"), ConfigError, "'_op'"),
    "a sequence that it lacks": (lambda w: w.mode("upsert").key("id").sequence_by("x"), BadKey, "are: id"),
    "no key": (lambda w: w.mode("upsert"), BadKey, "key"),
    "a partition of a wrong type": (lambda w: w.partitioned_by("day(name)"), CalveError, "day"),
    "real-time mode": (lambda w: w.trigger(realTime="1 minute"), ConfigError, "foreachBatch"),
    "another catalog": (lambda w: w.catalog("lak"), ConfigError, "'lak'"),
    "Spark's spelling": (lambda w: w.toTable, ConfigError, ".to_table"),
    "an option that is none": (lambda w: w.option("target.filesize", "1"), ConfigError, "target.file.size"),
    "words for a number": (
        lambda w: w.sequence_by("lsn").frontier(maximum=True, delay="1 second"), ConfigError, "units"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_starts_no_query_and_makes_nothing(
    spark, changes, lake, name, table_name, tmp_path, case
):
    act, kind, told = WRONG[case]
    with pytest.raises(kind) as refused:
        act(calve.write_stream(changes).option("checkpointLocation", str(tmp_path / "c"))).to_table(name)
    assert told in str(refused.value)
    assert spark.streams.active == []
    assert not exists(lake, table_name)
    assert not (tmp_path / "c").exists()


def test_columns_that_spark_cannot_tell_apart_are_refused(changes, name, tmp_path):
    doubled = changes.selectExpr("id", "name", "lsn AS ID")
    with pytest.raises(BadName, match="'id' and 'ID'"):
        calve.write_stream(doubled).option("checkpointLocation", str(tmp_path / "c")).to_table(name)


def test_a_table_that_is_there_and_does_not_fit_is_refused_before_the_query_starts(
    spark, changes, rows, lake, name, table_name, tmp_path
):
    calve.write(rows.select("id", "name")).to_table(name)
    before = lake.progress(table_name)
    writer = calve.write_stream(changes).option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(SchemaMismatch, match="'lsn' is new"):
        writer.to_table(name)
    with pytest.raises(TableDiffers, match="key: found none"):
        writer.mode("upsert").key("id").to_table(name)
    assert spark.streams.active == []
    assert lake.progress(table_name) == before


def test_what_spark_itself_refuses_starts_nothing_and_claims_nothing(
    spark, changes, lake, name, table_name, tmp_path
):
    """An aggregate without a watermark has no rows that are ever final: Spark says so before it starts."""
    from pyspark.errors import AnalysisException

    counted = changes.groupBy("id").count()
    with pytest.raises(AnalysisException):
        calve.write_stream(counted).option("checkpointLocation", str(tmp_path / "c")).to_table(name)
    assert spark.streams.active == []
    assert not exists(lake, table_name)


def test_a_trigger_that_spark_does_not_take_is_told_in_our_words(spark: Any, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load()
    writer = calve.write_stream(stream).option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(ConfigError, match="1 parsec") as refused:
        writer.trigger(processingTime="1 parsec").to_table("lake.n.t")
    assert "30 seconds" in refused.value.hint


def test_a_row_that_does_not_fit_a_bounded_write_is_told_by_its_version(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = spark.createDataFrame([(1, "a"), (None, "b")], "id long, v string")
    with pytest.raises(BadRow, match=r"^version 7: .*the key is null"):
        calve.write(frame).mode("upsert").key("id").version(7).to_table("lake.n.t")
