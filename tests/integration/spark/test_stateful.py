"""Streams of which Spark keeps state: a micro-batch that is not written again is still evaluated for Spark.

Killed between the table's commit and Spark's own commit log, the next run skips the micro-batch, or publishes
files that are there. Spark checks that the state of every micro-batch was brought forward, and stops if not.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from calve.runtime.spark.pipeline import Pipeline
from tests.support.flow import Crash, Flow, Row
from tests.support.lake import Lake
from tests.support.readers import DuckReader, read_snapshot, rows_of
from tests.support.workload import table_of

pytestmark = [pytest.mark.spark]

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
START = datetime(2026, 11, 15, tzinfo=UTC)
TIMED = {"time_column": "ts", "frontier": "watermark"}


def once(frame: Any) -> Any:
    return frame.withWatermark("ts", "10 seconds").dropDuplicates(["id", "ts"])


@pytest.fixture(params=["numbered", "timed"])
def flow(request: pytest.FixtureRequest, spark: Any, lake: Lake, table_name: str, tmp_path: Path) -> Flow:
    stream = TIMED if request.param == "timed" else {}
    return Flow(spark, lake, table_name[-60:], tmp_path, SCHEMA, {"mode": "append"}, stream, transform=once)


BY_DAY_IN_TIME = pytest.mark.parametrize(
    "flow", [pytest.param("numbered", marks=pytest.mark.nightly), "timed"], indirect=True
)


def put(flow: Flow, *seconds: int) -> None:
    """Each row comes twice."""
    rows: list[Row] = [{"id": second, "ts": START + timedelta(seconds=second)} for second in seconds]
    flow.put(*rows, *rows)
    flow.sent[-1] = rows


def check(flow: Flow, reader: DuckReader) -> None:
    """Every snapshot by its time. Where micro-batches are the time, Spark adds some without a file: then all
    rows must be there in the end, once."""
    if flow.stream:
        flow.check(reader)
        return
    truth = rows_of(table_of([row for rows in flow.sent for row in rows], list(SCHEMA)), SCHEMA)
    last = flow.shown()[-1].snapshot_id
    assert read_snapshot(reader, flow.lake.at(flow.table), last, like=SCHEMA) == truth


def test_case_5_a_stateful_micro_batch_that_landed_goes_on_at_once(flow: Flow, duckdb: DuckReader) -> None:
    for at in (0, 20, 40):
        put(flow, at, at + 1)
    flow.run()
    before = flow.shown()
    flow.forget_commit(len(list((flow.place / "commits").glob("[0-9]*"))) - 1)
    flow.run()
    assert flow.shown() == before
    put(flow, 60, 100)
    put(flow, 200)
    flow.run()
    check(flow, duckdb)
    assert len(flow.shown()) > len(before)


@BY_DAY_IN_TIME
def test_case_3_files_of_a_stateful_micro_batch_are_published_by_the_next_run(
    flow: Flow, duckdb: DuckReader
) -> None:
    put(flow, 0, 1)
    put(flow, 20, 21)
    flow.run()
    put(flow, 40, 41)
    with pytest.raises(Crash):
        flow.run(crash_at="target: commit")
    flow.run()
    put(flow, 60, 100)
    put(flow, 200)
    flow.run()
    check(flow, duckdb)


@BY_DAY_IN_TIME
def test_a_micro_batch_that_is_written_is_not_evaluated_once_more_for_spark(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(Pipeline, "_let_spark_know", lambda _, run, frame: told.append(run))
    put(flow, 0, 1)
    put(flow, 20, 21)
    flow.run()
    assert told == []
    assert flow.shown()
