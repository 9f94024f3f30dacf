"""A run that is to end at a time of its source: the table is the source then, and the next run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from calve.cli.app import app
from calve.runtime.spark import launch
from calve.runtime.spark.job.run import Ran, Watch, run
from tests.support.changefeed.feed import Changefeed, hlc
from tests.support.changefeed.history import History, Table
from tests.support.changefeed.lake import FilesFlow
from tests.support.pipelines import Pipeline
from tests.support.readers import differences, read_snapshot, rows_of
from tests.support.truth import snapshots_of_main, summary_of

pytestmark = pytest.mark.spark

ORDERS = Table("orders", (("id", "long"), ("status", "string"), ("total", "long")), ("id",))
LIKE = pa.schema([("id", pa.int64()), ("status", pa.string()), ("total", pa.int64())])


@pytest.fixture
def pipeline(spark: Any, lake: Any, tmp_path: Path, table_name: str) -> Pipeline:
    return Pipeline(spark, lake, tmp_path, table_name)


def run_until(pipeline: Pipeline, text: str, until: str, *, once: bool = False) -> Ran:
    job = pipeline.job(text)
    (name,) = job.definitions.sinks
    watch = Watch(reached=lambda progress: progress.ended)
    (ran,) = run([job.prepare(name)], watch, until=until, once=once)
    return ran


def ids(pipeline: Pipeline, duckdb: Any) -> list[int]:
    return sorted(row[0] for row in pipeline.rows(duckdb))


def frontiers(pipeline: Pipeline) -> list[int]:
    snapshots = snapshots_of_main(pipeline.lake.load(pipeline.table))
    return [int(summary_of(one)["calve.frontier"]) for one in snapshots]


@pytest.mark.parametrize(
    "interval",
    [
        pytest.param("", id="resolved"),
        pytest.param("WITH (COMMIT INTERVAL = '1s')", id="interval", marks=pytest.mark.nightly),
    ],
)
def test_p1_a_run_until_a_time_leaves_the_source_at_that_time_and_the_next_one_goes_on_without_new_messages(
    pipeline: Pipeline, lake: Any, tmp_path: Path, table_name: str, duckdb: Any, interval: str
) -> None:
    feed = Changefeed(History.of(11, ORDERS), seed=11, nodes=2)
    files = FilesFlow(pipeline.spark, lake, tmp_path, feed, table_name)
    text = f"""
        CREATE SOURCE orders (id long, status string, total long)
            FROM COCKROACHDB CHANGEFEED (URL = '{files.bucket.as_uri()}', TOPIC = 'orders') KEY (id);
        CREATE SINK s FROM orders {pipeline.into(table_name)} {interval};"""
    files.put(feed.run(6, transactions=20))
    first, second = ((feed.resolved[n] + feed.resolved[n + 1]) // 2 for n in (1, 3))
    for until in (first, second):
        run_until(pipeline, text, hlc(until))
        assert frontiers(pipeline)[-1] == until + 1
    assert pipeline.run(text)["s"].snapshots > 0, "no file is new, and there is more to write"
    assert frontiers(pipeline)[-1] > second + 1
    for snapshot in snapshots_of_main(lake.load(table_name)):
        frontier = int(summary_of(snapshot)["calve.frontier"])
        truth = [
            {name: row[name] for name in LIKE.names} for row in feed.state("orders", frontier - 1).values()
        ]
        wanted = rows_of(pa.Table.from_pylist(truth, schema=LIKE), LIKE)
        shown = read_snapshot(duckdb, lake.at(table_name), snapshot.snapshot_id, like=LIKE)
        assert shown == wanted, f"at {frontier}\n{differences(shown, wanted)}"


@pytest.mark.parametrize("mode", ["MODE APPEND", "KEY (id)"])
def test_rows_that_are_later_are_neither_lost_nor_doubled_whatever_the_mode(
    pipeline: Pipeline, table_name: str, duckdb: Any, mode: str
) -> None:
    """Also where files of batches that are still open were written ahead, by a run that was to go further."""
    text = f"""
        CREATE SOURCE orders (id long, at long) FROM FILES (PATH = 'orders');
        CREATE SINK s FROM orders INTO IT {mode} WITH (SEQUENCE BY = 'at', FRONTIER = 'maximum',
            FRONTIER DELAY = 0, COMMIT INTERVAL = 10, TRIGGER INTERVAL = '100ms');"""
    pipeline.write("orders", "1.json", *({"id": n, "at": n} for n in range(27)))
    run_until(pipeline, text, "13")
    assert ids(pipeline, duckdb) == list(range(14))
    pipeline.run(text)
    assert ids(pipeline, duckdb) == list(range(20)), "of the last ten, more may come"
    pipeline.write("orders", "2.json", *({"id": n, "at": n} for n in range(27, 45)))
    run_until(pipeline, text, "33")
    assert ids(pipeline, duckdb) == list(range(34))
    pipeline.write("orders", "3.json", {"id": 60, "at": 60})
    pipeline.run(text)
    assert ids(pipeline, duckdb) == list(range(45))
    assert frontiers(pipeline) == sorted(set(frontiers(pipeline)))


def test_a_time_without_changes_is_reached_all_the_same(
    pipeline: Pipeline, table_name: str, duckdb: Any
) -> None:
    text = """
        CREATE SOURCE sub (id long, v string) FROM FILES (PATH = 'sub') KEY (id) ENVELOPE materialize;
        CREATE SINK s FROM sub INTO IT;"""
    row = {"mz_timestamp": 10, "mz_progressed": False, "mz_diff": 1, "id": 1, "v": "a"}
    more = {**row, "mz_timestamp": 40, "id": 2}
    pipeline.write("sub", "1.json", row, more, {"mz_timestamp": 50, "mz_progressed": True})
    run_until(pipeline, text, "29")
    assert frontiers(pipeline)[-1] == 30
    assert pipeline.rows(duckdb) == [(1, "a")]


def test_a_run_once_ends_where_its_source_does_though_the_time_is_later(
    pipeline: Pipeline, table_name: str, duckdb: Any
) -> None:
    text = """
        CREATE SOURCE sub (id long, v string) FROM FILES (PATH = 'sub') KEY (id) ENVELOPE materialize;
        CREATE SINK s FROM sub INTO IT;"""
    row = {"mz_timestamp": 10, "mz_progressed": False, "mz_diff": 1, "id": 1, "v": "a"}
    pipeline.write("sub", "1.json", row, {"mz_timestamp": 50, "mz_progressed": True})
    run_until(pipeline, text, "99", once=True)
    assert pipeline.rows(duckdb) == [(1, "a")]


def test_the_command_ends_at_the_time_and_has_nothing_to_do_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    @contextmanager
    def ours(*_: object, **__: object) -> Iterator[object]:
        yield spark

    monkeypatch.setattr(launch, "session", ours)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "feed").mkdir()
    row = {"mz_timestamp": 10, "mz_progressed": False, "mz_diff": 1, "id": 1, "v": "a"}
    lines = [row, {**row, "mz_timestamp": 40, "id": 2}, {"mz_timestamp": 50, "mz_progressed": True}]
    (tmp_path / "feed" / "1.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "pipeline.sql").write_text(
        """CREATE CONNECTION lake TO ICEBERG CATALOG (WAREHOUSE = 'lake');
        CREATE SOURCE feed (id long, v string) FROM FILES (PATH = 'feed') KEY (id) ENVELOPE materialize;
        CREATE SINK s FROM feed INTO ICEBERG CATALOG lake (NAMESPACE = 'shop', TABLE = 'orders');"""
    )

    def said(*words: str) -> Any:
        done = CliRunner().invoke(app, ["run", "--json", *words], env={"CALVE_DEBUG": None})
        assert done.exit_code == 0, done.output
        return [(one["rows"], one["tables"][0]["frontier"]) for one in json.loads(done.stdout)["sinks"]]

    assert said("--until", "20") == [(2, "21")]
    status = CliRunner().invoke(app, ["status", "--json"])
    (sink,) = json.loads(status.stdout)["tables"][0]["sinks"]
    assert sink["stash"]["rows"] == 1, "the pipeline of this folder says where its checkpoint is"
    assert said("--until", "20") == []
    assert said("--once") == [(2, "50")]
    # Nothing changed between 45 and 50, and all that the source has is in the table.
    assert said("--until", "45") == []
