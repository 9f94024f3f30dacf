"""Progress of real queries: each micro-batch is told, sinks of one session keep apart, counts are right."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import calve
from calve.cli.words import told
from calve.model.errors import BadRow, CatalogError
from calve.runtime.coordinator import Coordinator
from tests.support.flow import Flow, Log
from tests.support.lake import NAMESPACE, Lake

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("lsn", pa.int64()), ("_op", pa.string())])
UPSERT = {"mode": "upsert", "key": ("id",), "sequence_by": ("lsn",), "op_column": "_op"}
TIMED = {"time_column": "lsn", "frontier": "maximum", "frontier_delay": 2, "commit_interval": 10}

Make = Callable[..., Flow]


@pytest.fixture
def flow(spark: Any, lake: Lake, table_name: str, tmp_path: Path) -> Make:
    def make(name: str = "", sink: dict[str, Any] = UPSERT, **stream: Any) -> Flow:
        table = f"{table_name[-50:]}{name}"
        return Flow(spark, lake, table, tmp_path / table, SCHEMA, dict(sink), stream)

    return make


def change(id_: int | None, lsn: int, op: str = "u") -> dict[str, Any]:
    return {"id": id_, "v": "x", "lsn": lsn, "_op": op}


def write(flow: Flow) -> Any:
    """By the door, as a user would."""
    return (
        calve.write_stream(flow.frame())
        .mode("upsert").key("id").op("_op").sequence_by("lsn")
        .option("checkpointLocation", str(flow.folder / flow.checkpoint))
        .trigger(availableNow=True)
    )  # fmt: skip


def test_a_listener_and_the_log_see_each_micro_batch(flow: Make, caplog) -> None:
    one, log = flow(), Log()
    one.put(change(1, 1), change(2, 2))
    one.put(change(1, 3), change(2, 4, "D"), change(3, 5))
    one.put(change(1, 6))
    with caplog.at_level(logging.INFO, "calve.progress"):
        query = write(one).watch(log).to_table(f"lake.{NAMESPACE}.{one.table}")
        query.awaitTermination()
    assert [(told.micro_batch, told.rows, told.batches_committed) for told in log.seen] == [
        (0, 2, 1),
        (1, 3, 1),
        (2, 1, 1),
    ]
    assert [told.last_snapshot_id for told in log.seen] == [shown.snapshot_id for shown in one.shown()]
    assert [told.frontier for told in log.seen] == [1, 2, 3]
    assert {(told.query_id, told.table, told.source) for told in log.seen} == {
        (query.id, f"{NAMESPACE}.{one.table}", "micro-batch")
    }
    first, second, _ = log.seen
    assert (first.files, first.delete_files) == (_added(one, 0, "data"), 0)
    assert (second.files, second.delete_files) == (_added(one, 1, "data"), _added(one, 1, "delete"))
    assert second.bytes == sum(_sizes(one)) - first.bytes - log.seen[2].bytes
    assert all(told.durations_ms["total"] >= told.durations_ms["write"] > 0 for told in log.seen)
    lines = [record.getMessage() for record in caplog.records if record.name == "calve.progress"]
    assert [calve.SinkProgress.from_json(line) for line in lines] == log.seen
    assert calve.progress(query) == log.seen[-1]


def test_several_sinks_in_one_session_keep_apart(flow: Make) -> None:
    sinks = [flow("_a"), flow("_b")]
    logs = [Log(), Log()]
    for number, one in enumerate(sinks):
        for lsn in range(number + 1):
            one.put(change(1, lsn), change(2, lsn))
    queries = [
        write(one).watch(log).to_table(f"lake.{NAMESPACE}.{one.table}")
        for one, log in zip(sinks, logs, strict=True)
    ]
    for query in queries:
        query.awaitTermination()
    for number, (one, log, query) in enumerate(zip(sinks, logs, queries, strict=True)):
        assert [told.micro_batch for told in log.seen] == list(range(number + 1))
        assert {(told.table, told.query_id) for told in log.seen} == {(f"{NAMESPACE}.{one.table}", query.id)}
        assert calve.progress(query) == log.seen[-1]


def test_another_query_has_no_progress_here(spark, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = rate.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        assert calve.progress(query) is None
    finally:
        query.stop()


def test_open_batches_are_counted_as_far_as_the_latest_row_of_the_stash(flow: Make) -> None:
    one = flow(**TIMED)
    one.put(change(1, 5), change(2, 11))  # frontier 9: nothing is closed
    one.put(change(1, 13), change(2, 31))  # frontier 29: [0, 20) is closed
    one.put(change(1, 42))  # frontier 40: [20, 40) has a change, [40, 50) is open
    told = one.run()
    assert [(p.batches_closed, p.batches_committed, p.batches_open) for p in told] == [
        (0, 0, 2),
        (2, 2, 2),
        (2, 1, 1),
    ]
    assert [(p.rows_stashed, p.stash_segments) for p in told] == [(2, 1), (1, 1), (1, 1)]
    assert [p.frontier for p in told] == [0, 20, 40]


def test_open_batches_without_an_interval_are_one(flow: Make) -> None:
    one = flow(time_column="lsn", frontier="maximum", frontier_delay=2)
    one.put(change(1, 5), change(2, 11))
    one.put(change(1, 9), change(2, 12))
    told = one.run()
    assert [(p.batches_open, p.frontier) for p in told] == [(1, 9), (1, 10)]


def test_open_batches_of_an_append_are_counted_by_their_files(flow: Make) -> None:
    one = flow(sink={"mode": "append"}, **TIMED)
    one.put(change(1, 5), change(2, 31))
    one.put(change(3, 36))
    one.put(change(4, 52))
    told = one.run()
    assert [(p.batches_committed, p.batches_open) for p in told] == [(1, 2), (0, 1), (1, 1)]
    assert [p.stash_segments for p in told] == [0, 0, 0]


def test_a_run_that_commits_what_an_earlier_one_had_closed_tells_its_files(flow: Make, monkeypatch) -> None:
    """Rows are counted when they are written: that was another run's."""
    one = flow()
    one.put(change(1, 1), change(2, 2))
    commit = Coordinator.commit

    def lost(*_: object) -> None:
        raise CatalogError("the catalog is away", hint="Wait.")

    monkeypatch.setattr(Coordinator, "commit", lost)
    with pytest.raises(CatalogError):
        one.run()
    monkeypatch.setattr(Coordinator, "commit", commit)
    (told,) = one.run()
    assert (told.micro_batch, told.batches_committed, told.generation) == (0, 1, 2)
    assert (told.files, told.bytes) == (_added(one, 0, "data"), sum(_sizes(one)))
    assert told.rows == 0
    assert "write" not in told.durations_ms


def test_a_micro_batch_that_is_in_the_table_already_is_told_as_such(flow: Make) -> None:
    one = flow()
    one.put(change(1, 1), change(2, 2))
    one.run()
    one.put(change(1, 3))
    one.forget_commit(0)
    again, second = one.run()
    assert (again.micro_batch, again.batches_committed, again.files) == (0, 0, 0)
    assert again.frontier == 1
    assert (second.micro_batch, second.rows, second.batches_committed) == (1, 1, 1)


def test_a_query_that_fails_tells_its_listeners_why(flow: Make, caplog) -> None:
    one, log = flow(), Log()
    one.put(change(1, 1), change(None, 2))
    with caplog.at_level(logging.ERROR, "calve.progress"):
        query = write(one).watch(log).to_table(f"lake.{NAMESPACE}.{one.table}")
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination()
    assert log.seen == []
    (error,) = log.errors
    assert "id" in error
    assert isinstance(told(raised.value), BadRow)  # so it is told by the command line, in its own words
    assert str(told(raised.value)) == error
    (line,) = [record.getMessage() for record in caplog.records if record.name == "calve.progress"]
    assert json.loads(line)["error"] == error
    assert json.loads(line)["event"] == "stopped"


def _added(flow: Flow, place: int, kind: str) -> int:
    return int(flow.shown()[place].summary.get(f"added-{kind}-files", "0"))


def _sizes(flow: Flow) -> list[int]:
    """Of all files that the table has."""
    sizes = []
    folder = Path(flow.load().location().removeprefix("file://")) / "data"
    for path in folder.rglob("*.parquet"):
        assert pq.read_metadata(path).num_rows > 0
        sizes.append(path.stat().st_size)
    return sizes
