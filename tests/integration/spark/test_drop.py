"""A sink that is dropped under a query, and a query that comes back with its old checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import calve
from calve.model.errors import Diverged
from calve.runtime.addresses import Address
from calve.runtime.inspect.door import status_of
from tests.support.flow import Flow
from tests.support.lake import NAMESPACE, Lake
from tests.support.readers import DuckReader

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("lsn", pa.int64()), ("_op", pa.string())])
UPSERT = {"mode": "upsert", "key": ("id",), "sequence_by": ("lsn",), "op_column": "_op"}
APPEND = {"mode": "append"}
MAXIMUM = {"time_column": "lsn", "frontier": "maximum", "frontier_delay": 2}
STREAMS = [pytest.param({}, id="numbered"), pytest.param(MAXIMUM, id="timed", marks=pytest.mark.nightly)]

MakeFlow = Callable[..., Flow]


@pytest.fixture
def flow(spark: Any, lake: Lake, table_name: str, tmp_path: Path) -> MakeFlow:
    def make(sink: dict[str, Any] = APPEND, schema: pa.Schema = SCHEMA, **stream: Any) -> Flow:
        return Flow(spark, lake, table_name[-60:], tmp_path, schema, dict(sink), stream)

    return make


def put(flow: Flow, micro_batches: int, first: int = 0) -> None:
    for number in range(first, first + micro_batches):
        flow.put(*({"id": at, "v": "x", "lsn": at, "_op": "I"} for at in range(number * 4, number * 4 + 4)))


def drop(flow: Flow, **how: Any) -> calve.Dropped:
    catalog = flow.config().sink.catalog
    said = {"type": "sql", "uri": catalog.reveal()["uri"], "warehouse": catalog.warehouse}
    return calve.drop_sink(f"{flow.lake.name}.{NAMESPACE}.{flow.table}", catalog=said, **how)


@pytest.mark.parametrize("stream", STREAMS)
def test_p4_a_query_whose_sink_is_dropped_stops_at_its_next_commit(
    flow: MakeFlow, stream: dict[str, Any]
) -> None:
    one = flow(**stream)
    put(one, 3)
    with pytest.raises(Diverged, match="was dropped"):
        one.run(within={1: lambda: drop(one)})
    assert len(one.shown()) == 1


@pytest.mark.parametrize("forget", [False, True], ids=["dropped", "forgotten"])
def test_p6_a_query_with_the_old_checkpoint_is_refused_and_writes_nothing(
    flow: MakeFlow, forget: bool
) -> None:
    """Also where Spark sends the first micro-batch again, before which nothing was kept: it is in the table,
    and only the checkpoint still knows that."""
    one = flow()
    put(one, 1)
    one.run()
    before = one.shown()
    done = drop(one, forget=forget)
    assert f"the checkpoint of query {one.query_id}" in done.stays
    one.forget_commit(0)
    reason = "was written from this checkpoint, and has no progress" if forget else "was dropped"
    with pytest.raises(Diverged, match=reason):
        one.run()
    put(one, 1, first=1)
    with pytest.raises(Diverged, match=reason):
        one.run()
    assert one.shown() == before


def test_with_a_new_checkpoint_a_sink_that_was_forgotten_begins_from_zero(
    flow: MakeFlow, duckdb: DuckReader
) -> None:
    """In upsert mode the rows that are there are replaced: the table is right all the same."""
    one = flow(UPSERT)
    put(one, 2)
    one.run()
    drop(one)
    one.lose_checkpoint()
    with pytest.raises(Diverged, match="was dropped"):
        one.run()
    drop(one, forget=True)
    one.run()
    assert one.lake.progress(one.table).generation == 1
    found = duckdb.read(one.lake.at(one.table), one.shown()[-1].snapshot_id)
    assert sorted(found["id"].to_pylist()) == list(range(8))


def test_status_says_what_waits_beside_the_checkpoint(flow: MakeFlow) -> None:
    one = flow(UPSERT, **MAXIMUM)
    put(one, 2)
    one.run()
    config = one.config().sink
    found = status_of(Address(config.catalog, config.identifier), checkpoint=str(one.place))
    (sink,) = found.sinks
    assert sink.stashed is not None
    assert sink.frontier == 5
    assert (sink.stashed.checkpoint, sink.stashed.micro_batch, sink.stashed.ready) == (one.query_id, 1, False)
    assert (sink.stashed.rows, sink.stashed.least) == (3, 5), "5, 6 and 7 wait for the frontier"
    files = (one.place / "calve" / "segments").glob("1-*/*.parquet")  # those of the one before are kept
    on_disk = sum(path.stat().st_size for path in files)
    assert sink.stashed.bytes == on_disk > 0
    assert sink.remarks == ()
