"""calve.read(where=…): the rows of `.where(…)`, from fewer files."""

from __future__ import annotations

import random
from typing import Any

import pytest

import calve
from calve.model.errors import BadStatement
from calve.store import local_path
from calve.table.base import live_manifests
from tests.support.keys import delete_by
from tests.support.lake import NAMESPACE, Lake
from tests.support.readers import rows_of
from tests.support.spark import has_iceberg

pytestmark = pytest.mark.spark

needs_iceberg = pytest.mark.skipif(
    not has_iceberg(), reason="Iceberg has no runtime for this release of Spark"
)
SEED = 20_261_118
LEAVES = (
    *("id IN (3, 21, NULL)", "id = 7.5", "id < '12'", "n = 3", "n IS NULL", "NOT n = 1", "s LIKE 'ab%'"),
    *(
        "s > 'ac'",
        "d < DATE '1970-01-01'",
        "d = DATE '2024-02-27' + INTERVAL 1 DAY",
        "at > DATE '2024-02-28'",
    ),
    *("at >= '2024-03-01 00:00:00'", "price <= 2.225", "ratio > 2", "NOT ok", "late IS NULL"),
)


@pytest.fixture(scope="module")
def mixed(lake: Lake, spark: Any) -> str:
    """Files of four specs, with nulls, deleted keys and places, a wider column and a late one."""
    table = lake.full_name("where_mixed")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake.name}.{NAMESPACE}")
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, n INT, s STRING, d DATE, at TIMESTAMP, price DECIMAL(9, 2), "
        "ratio DOUBLE, ok BOOLEAN, u STRING) USING iceberg "
        "TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    )
    fill(spark, table, 0)
    delete_by(spark, table, ["s"], [["ab4"], [None]])
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD days(at)")
    fill(spark, table, 10)
    spark.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD at_day WITH truncate(2, s)")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    fill(spark, table, 20)
    spark.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD s_trunc_2 WITH n")
    for words in ("ALTER COLUMN n TYPE BIGINT", "RENAME COLUMN u TO v", "ADD COLUMN late INT"):
        spark.sql(f"ALTER TABLE {table} {words}")
    fill(spark, table, 30, ", 7")
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
    return table


def fill(spark: Any, table: str, first: int, more: str = "") -> None:
    spark.sql(
        f"INSERT INTO {table} SELECT id, IF(id % 5 = 0, NULL, CAST(id % 5 AS INT)), "
        "IF(id % 7 = 0, NULL, concat(IF(id % 2 = 0, 'ab', 'é日'), id % 5)), "
        "IF(id % 6 = 0, NULL, DATE '2024-02-27' + CAST(id % 4 AS INT) - IF(id % 9 = 0, 20000, 0)), "
        "IF(id % 8 = 0, NULL, TIMESTAMP '2024-02-28 20:00:00Z' + INTERVAL 5 HOUR * (id % 10) "
        "- IF(id % 9 = 0, INTERVAL 20000 DAY, INTERVAL 0 DAY)), CAST(id * 1.1 AS DECIMAL(9, 2)), "
        "IF(id % 4 = 0, double('NaN'), id / 8), id % 3 = 0, IF(id % 2 = 0, NULL, 'b')"
        f"{more} FROM range({first}, {first + 10})"
    )


def filters() -> list[str]:
    """Every leaf once: half of them alone, the others in pairs."""
    chance = random.Random(SEED)
    leaves = chance.sample(LEAVES, len(LEAVES))
    half = len(leaves) // 2
    pairs = zip(leaves[half::2], leaves[half + 1 :: 2], strict=True)
    forms = ("{} AND {}", "{} OR {}", "NOT ({} AND {})", "NOT ({} OR {})")
    return [*leaves[:half], *(chance.choice(forms).format(*pair) for pair in pairs)]


@needs_iceberg
def test_rows_are_those_of_the_filter_after_the_call_whatever_it_is(spark: Any, mixed: str):
    frame = calve.read(spark, mixed)
    files, rows = len(frame.inputFiles()), frame.collect()
    assert len(rows) > 30
    whole = spark.createDataFrame(rows, frame.schema)
    pruned = 0
    for where in filters():
        frame, wanted = calve.read(spark, mixed, where=where), whole.where(where).toArrow()
        assert rows_of(frame.toArrow(), wanted.schema) == rows_of(wanted, wanted.schema), (SEED, where)
        pruned += len(frame.inputFiles()) < files
    assert pruned > len(filters()) // 2, "most of them say something of files"


@pytest.fixture(scope="module")
def daily(lake: Lake, spark: Any) -> str:
    """A file a day, ten days in two manifests."""
    table = lake.full_name("where_daily")
    for version, first in enumerate((0, 5), start=1):
        days = spark.range(first, first + 5, 1, 1).selectExpr("id", "id AS day", "concat('n', id) AS name")
        calve.write(days).mode("append").partitioned_by("day").version(version).to_table(table)
    return table


@pytest.mark.parametrize(
    "where, files",
    [
        ("day = 7", 1),
        ("DAY IN (1, 7) AND name LIKE 'n%'", 2),
        ("id >= 8", 2),
        ("name = 'n3' OR day = 4", 2),
        ("day = 70", 0),
        ("day * 2 = 14", 10),
        ("day = 7 OR rand() < 2", 10),
        ("id % 2 = 0 AND day > 7", 2),
    ],
)
def test_files_that_hold_no_such_row_are_not_opened(spark: Any, daily: str, where: str, files: int):
    assert len(calve.read(spark, daily, where=where).inputFiles()) == files


def test_manifests_that_name_no_such_file_are_not_opened(lake: Lake, spark: Any, daily: str):
    loaded = lake.load("where_daily")
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    manifests = live_manifests(loaded.io, snapshot)
    assert len(manifests) == 2
    gone = local_path(min(manifests, key=lambda one: one["sequence_number"])["manifest_path"])
    content = gone.read_bytes()
    gone.unlink()
    try:
        assert calve.read(spark, daily, where="day = 7").collect() == [(7, 7, "n7")]
        with pytest.raises(calve.FileMissing):
            calve.read(spark, daily, where="day = 3")
    finally:
        gone.write_bytes(content)


@pytest.mark.parametrize(
    "where, words",
    [
        (
            "day = 1 AND nmae = 'x'",
            r"where= cannot be understood: .*`nmae` cannot be resolved.*`name`.* \(line 1, column 13\)\n"
            r"    day = 1 AND nmae = 'x'\n {16}\^",
        ),
        ("day = ", r"where= cannot be read: Syntax error.* \(line 1, column 7\)\n    day =\n {10}\^"),
        ("day", "is not a boolean"),
        ("count(*) > 1", "contains invalid expressions"),
    ],
)
def test_a_mistake_in_a_filter_is_told_by_the_call(spark: Any, daily: str, where: str, words: str):
    with pytest.raises(BadStatement, match=words):
        calve.read(spark, daily, where=where)


def test_a_filter_is_a_text(spark: Any, daily: str):
    with pytest.raises(calve.ConfigError, match="where cannot be a int"):
        calve.read(spark, daily, where=7)  # type: ignore[arg-type]
