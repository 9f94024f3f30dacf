"""Engines skip files by our bounds, counts and partition values, and lose no row by it.

Each table has many small files with narrow bounds that meet at their edges: texts that differ behind their
sixteenth character, negative decimals, days before 1970, NaN, both zeros. A file that is skipped wrongly is a
row that is missing from a query's answer, and nothing else would tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tests.support.lake import Lake
from tests.support.probes import Dialect, probes
from tests.support.readers import (
    DuckReader,
    Reader,
    SailReader,
    SparkReader,
    differences,
    read_snapshot,
    rows_of,
)
from tests.support.variants import LEDGER, TRUNCATED, required
from tests.support.workload import OP, Column, Values, Variant, table_of

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

ROWS = 30
ROWS_OF_EPOCH = 3
COLUMNS = tuple(TRUNCATED if column.name == "amount" else column for column in LEDGER)
NAMED = tuple(required(column) if column.name == "name" else column for column in COLUMNS)

BEFORE_1970 = {"duckdb": "DuckDB 1.5 skips days and months of timestamps before 1970"}


def table(name: str, partition: str = "", **more: Any) -> Variant:
    # Iceberg's Spark reader looks for zero in a dictionary and does not find minus zero, also in tables that
    # it wrote itself: the column of scores has no dictionary.
    options = {"parquet.dictionary": "id, region, name, amount, day, moment, instant, count"}
    if partition:
        options["partition.spec"] = partition
    columns = NAMED if "key" in more else COLUMNS
    return Variant(
        f"filter_{name}", (columns,), options, mode="upsert" if "key" in more else "append", **more
    )


TABLES = (
    table("plain"),
    table("many", "bucket(3, name), truncate(2, region), truncate(50, amount), month(day), hour(moment)"),
    table("days", "day(instant), month(moment)", blind=BEFORE_1970),
    table("values", "day, count"),
    table("upsert", "truncate(16, name)", key=("name",)),
    table("upsert_global", "year(moment)", key=("name",)),
)


def sorted_rows(columns: tuple[Column, ...]) -> list[Values]:
    """Rows in which every column ascends, so that files have narrow bounds; nulls stand at the end."""

    def value(column: Column, place: int) -> Any:
        pool = column.pool if column.name == "score" else sorted(column.pool)
        wanted = [*pool, None] if column.nullable else [*pool]
        return wanted[place * len(wanted) // ROWS]

    return [{column.name: value(column, place) for column in columns} for place in range(ROWS)]


def epochs(variant: Variant) -> Iterator[list[Values]]:
    """The rows, a few at a time; in upsert mode each then comes a second time, later ones first."""
    rows = sorted_rows(variant.stages[0])
    parts = [rows[start : start + ROWS_OF_EPOCH] for start in range(0, ROWS, ROWS_OF_EPOCH)]
    yield from parts
    if variant.key:
        for part in reversed(parts[::2]):
            yield [{**row, "region": "moved", "count": None} for row in part]


def fill(lake: Lake, variant: Variant) -> list[Values]:
    """Write the table; its rows, as a dictionary by key knows them."""
    fields = [column.sent_field() for column in variant.stages[0]]
    kept: dict[Any, Values] = {}
    with lake.sink(variant.name, variant) as sink:
        for number, rows in enumerate(epochs(variant), start=1):
            sink.begin_epoch(number)
            sink.write_batch(table_of(rows, fields))
            sink.commit_epoch(number)
            for place, row in enumerate(rows):
                kept[tuple(row[name] for name in variant.key) or (number, place)] = row
    return list(kept.values())


@pytest.fixture(scope="module", params=TABLES, ids=lambda variant: variant.name)
def variant(request: pytest.FixtureRequest) -> Variant:
    return request.param


@pytest.fixture(scope="module")
def rows(lake: Lake, variant: Variant) -> list[Values]:
    return fill(lake, variant)


def check_probes(
    reader: Reader, dialect: Dialect, lake: Lake, variant: Variant, rows: list[Values], count: int
) -> None:
    at, head = lake.at(variant.name), lake.head(variant.name).snapshot_id
    fields = [column.stored_field() for column in variant.stages[0]]
    schema = pa.schema(fields)
    for probe in probes(rows, Random(variant.name), count):
        where = probe.sql(dialect)
        seen = read_snapshot(reader, at, head, like=schema, where=where)
        truth = rows_of(table_of([row for row in rows if probe.holds(row)], fields), schema)
        assert seen == truth, f"{reader.name}, WHERE {where}: {differences(seen, truth)}"


@pytest.mark.spark
def test_spark_loses_no_row_to_our_bounds(lake: Lake, variant: Variant, rows: list[Values], spark: Any):
    check_probes(SparkReader(spark), Dialect.SPARK, lake, variant, rows, count=12)


@pytest.mark.engines
def test_sail_loses_no_row_to_our_bounds(lake: Lake, variant: Variant, rows: list[Values], sail: SailReader):
    check_probes(sail, Dialect.SPARK, lake, variant, rows, count=120)


@pytest.mark.engines
def test_duckdb_loses_no_row_to_our_bounds(
    lake: Lake, variant: Variant, rows: list[Values], duckdb: DuckReader
):
    if "duckdb" in variant.blind:
        pytest.skip(variant.blind["duckdb"])
    check_probes(duckdb, Dialect.DUCKDB, lake, variant, rows, count=80)


def test_the_rows_stand_at_the_edges_that_are_probed():
    rows = sorted_rows(NAMED)
    assert len({row["name"] for row in rows}) == len(NAMED[2].pool)
    assert {OP, *rows[0]} == {OP, *(column.name for column in NAMED)}
