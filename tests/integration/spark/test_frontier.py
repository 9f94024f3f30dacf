"""What may move the frontier of a stream, and what may not: marks of nobody, and rows that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from calve.model.errors import BadRow
from tests.support.flow import Flow
from tests.support.lake import Lake
from tests.support.readers import DuckReader

pytestmark = [pytest.mark.spark]

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("lsn", pa.int64()), ("_op", pa.string())])
MARKED = SCHEMA.append(pa.field("p", pa.string())).append(pa.field("resolved", pa.int64()))
UPSERT = {"mode": "upsert", "key": ("id",), "sequence_by": ("lsn",), "op_column": "_op"}
MAXIMUM = {"time_column": "lsn", "frontier": "maximum", "frontier_delay": 2}
MARKS = {
    "time_column": "lsn",
    "frontier": "mark",
    "mark_column": "resolved",
    "partition_column": "p",
    "partitions": 2,
}


@pytest.fixture
def flow(spark: Any, lake: Lake, table_name: str, tmp_path: Path) -> Callable[..., Flow]:
    def make(schema: pa.Schema, **stream: Any) -> Flow:
        return Flow(spark, lake, table_name[-60:], tmp_path, schema, dict(UPSERT), stream)

    return make


def change(id_: int, lsn: int, op: str | None = "u", **more: Any) -> dict[str, Any]:
    return {"id": id_, "v": f"v{lsn}", "lsn": lsn, "_op": op, **more}


def test_a_mark_of_no_partition_stops_the_query_before_it_moves_the_frontier(
    flow: Callable[..., Flow], duckdb: DuckReader
) -> None:
    one = flow(MARKED, **MARKS)
    one.put(change(1, 1, p="a"), {"p": "a", "resolved": 5})
    one.run()
    one.put({"p": None, "resolved": 3})
    with pytest.raises(BadRow, match="does not say of which partition"):
        one.run()
    assert one.shown() == []


def test_a_partition_may_be_called_null(flow: Callable[..., Flow], duckdb: DuckReader) -> None:
    one = flow(MARKED, **MARKS)
    one.put(
        change(1, 1, p="a"), change(2, 2, p="null"), {"p": "a", "resolved": 5}, {"p": "null", "resolved": 4}
    )
    one.run()
    assert one.check(duckdb) == [(0, 4)]


@pytest.mark.parametrize(
    "op", ["bogus", *(pytest.param(one, marks=pytest.mark.nightly) for one in (None, "t"))]
)
def test_a_row_that_is_refused_for_its_op_says_nothing_of_how_far_the_stream_is(
    flow: Callable[..., Flow], duckdb: DuckReader, op: str | None
) -> None:
    one = flow(SCHEMA, **MAXIMUM, on_bad_row="quarantine")
    one.put(change(1, 10))
    bad = change(2, 10**12, op)
    one.put(bad)
    one.put(change(3, 11), change(4, 12))
    one.put(change(5, 30))
    told = one.run()
    assert [progress.rows_late for progress in told] == [0, 0, 0, 0]
    assert sum(progress.rows_quarantined for progress in told) == 1
    one.check(duckdb, without=[bad])
    assert one.shown()[-1].upper <= 30
    assert {row["id"] for row in one.truth_at(one.shown()[-1].upper, [bad])} == {1, 3, 4}
