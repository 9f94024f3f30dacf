"""The queries that `calve history --at` prints are pasted into engines, and show the source at that time."""

from __future__ import annotations

from typing import Any

import pytest

import calve
from tests.support.lake import Lake, Published, TableAt, pour
from tests.support.readers import DuckReader, Row, read_snapshot, rows_of
from tests.support.variants import UNPARTITIONED


def as_of(lake: Lake, table: str, epoch: int) -> calve.TableAsOf:
    said = {"type": "sql", "uri": f"sqlite:///{lake.catalog_file}", "warehouse": lake.warehouse}
    return calve.as_of(lake.at(table).name, epoch, catalog=said)


class Pasted:
    """A reader that runs a query as it was printed."""

    name = "pasted"

    def __init__(self, query: str, run: Any) -> None:
        self._query, self._run = query, run

    def read(self, table: TableAt, snapshot_id: int, where: str | None = None) -> Any:
        return self._run(self._query)


def check(lake: Lake, table: str, published: list[Published], engine: str, run: Any) -> None:
    assert len({one.snapshot_id for one in published}) == len(published) > 3
    for one in published:
        found = as_of(lake, table, one.epoch)
        assert found.snapshot_id == one.snapshot_id
        query = found.queries[engine]
        seen: list[Row] = read_snapshot(
            Pasted(query, run), lake.at(table), one.snapshot_id, like=one.truth.schema
        )
        assert seen == rows_of(one.truth, one.truth.schema), f"epoch {one.epoch}: {query}"


@pytest.mark.engines
def test_the_query_for_duckdb_runs_and_shows_the_truth(
    lake: Lake, table_name: str, duckdb: DuckReader
) -> None:
    published = pour(lake, table_name, UNPARTITIONED)
    check(
        lake,
        table_name,
        published,
        "duckdb",
        lambda query: duckdb.connection.execute(query).to_arrow_table(),
    )


@pytest.mark.spark
def test_the_query_for_spark_runs_and_shows_the_truth(lake: Lake, table_name: str, spark: Any) -> None:
    published = pour(lake, table_name, UNPARTITIONED)
    check(lake, table_name, published, "spark", lambda query: spark.sql(query.rstrip(";")).toArrow())


@pytest.mark.spark
def test_the_line_of_python_runs_and_shows_the_truth(lake: Lake, table_name: str, spark: Any) -> None:
    """It says where the catalog is: the name of a connection is known to its pipeline alone."""
    published = pour(lake, table_name, UNPARTITIONED)
    known = {"calve": calve, "spark": spark}
    check(lake, table_name, published, "calve", lambda line: eval(line, known).toArrow())
