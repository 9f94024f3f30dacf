"""The pipeline on a real cluster: tasks fail, executors die, twins run, and each row is there once (P1, P3).

The cluster has a master and two workers as processes of their own, on two addresses. Executors have pyarrow
and what the driver sends them. Tables are read back by DuckDB, in this process, which has no Spark.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calve
from tests.support.cluster import WORKER_HOSTS, Application, Cluster, standalone_cluster
from tests.support.gates import Gates
from tests.support.lake import NAMESPACE, Lake
from tests.support.readers import DuckReader
from tools.venvs import executor

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(600)]

FILES = 4
ROWS = 2_000
COLUMNS = {"append": "id long, text string", "upsert": "id long, seq long, op string, text string"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gates]:
    made = Gates(tmp_path_factory.mktemp("gates"))
    yield made
    made.close()


SETTINGS = {
    "spark.locality.wait": "0s",  # tasks wait for nothing that they could be near to: both executors get some
    "spark.sql.files.openCostInBytes": "1g",  # a task for each file
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.25",
}


@pytest.fixture(scope="class")
def application(
    request: pytest.FixtureRequest, cluster: Cluster, gates: Gates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Application]:
    """One at a time: it takes all of the cluster."""
    settings = {**gates.settings(), **SETTINGS, **request.cls.more}
    options = []
    if request.cls.by_py_files:
        package = shutil.make_archive(
            str(tmp_path_factory.mktemp("package") / "calve-all"), "zip", Path(calve.__file__).parents[1]
        )
        options = ["--py-files", package]
    with cluster.submit(request.cls.__name__, settings, options) as started:
        for number in range(len(WORKER_HOSTS)):
            started.wait_for_executor(number)
        yield started


class Job:
    """A folder of rows, and the table that they go to."""

    def __init__(self, lake: Lake, folder: Path, table: str, mode: str, *, files: int, tasks: int) -> None:
        self.lake, self.table, self.mode = lake, table, mode
        source = folder / "source"
        source.mkdir(parents=True)
        self.sent = [rows_of_file(mode, number) for number in range(FILES)]
        for number, rows in enumerate(self.sent):
            pq.write_table(rows, source / f"{number}.parquet")
        self.words = {
            "table": f"{lake.name}.{NAMESPACE}.{table}",
            "mode": mode,
            "tasks": tasks,
            "schema": COLUMNS[mode],
            "source": source.as_uri(),
            "files_per_trigger": files,
            "checkpoint": str(folder / "checkpoint"),
            "catalog": {"type": "sql", "uri": f"sqlite:///{lake.catalog_file}", "warehouse": lake.warehouse},
        }

    @property
    def truth(self) -> Counter[tuple[Any, ...]]:
        rows = [row for table in self.sent for row in table.to_pylist()]
        if self.mode == "append":
            return Counter((row["id"], row["text"]) for row in rows)
        last: dict[int, dict[str, Any]] = {}
        for row in sorted(rows, key=lambda row: row["seq"]):
            last[row["id"]] = row
        return Counter((row["id"], row["seq"], row["text"]) for row in last.values() if row["op"] != "delete")

    def check(self, duckdb: DuckReader) -> None:
        """The table shows each row once, and nothing else."""
        seen = duckdb.read(self.lake.at(self.table), self.lake.head(self.table).snapshot_id).to_pylist()
        names = ("id", "text") if self.mode == "append" else ("id", "seq", "text")
        rows = Counter(tuple(row[name] for name in names) for row in seen)
        assert rows - self.truth == Counter(), "rows that are too much"
        assert self.truth - rows == Counter(), "rows that are lost"

    def orphans(self) -> set[str]:
        """Data files on the disk that no snapshot names."""
        table = self.lake.load(self.table)
        named = {path.removeprefix("file://") for path in table.inspect.all_files()["file_path"].to_pylist()}
        data = Path(table.location().removeprefix("file://")) / "data"
        return {str(path) for path in data.rglob("*.parquet")} - named


def rows_of_file(mode: str, number: int) -> pa.Table:
    """The same ids in every file of an upsert, so that keys meet in the shuffle; a third of them go."""
    count = range(ROWS)
    if mode == "append":
        ids = [number * ROWS + row for row in count]
        return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {row} " * 5 for row in ids]})
    return pa.table(
        {
            "id": pa.array(count, pa.int64()),
            "seq": pa.array([number * ROWS + row for row in count], pa.int64()),
            "op": ["delete" if (row + number) % 3 == 0 else "upsert" for row in count],
            "text": [f"file {number}, row {row}" for row in count],
        }
    )


@pytest.fixture
def job(lake: Lake, tmp_path: Path, table_name: str, request: pytest.FixtureRequest) -> Job:
    mode, files, tasks = request.param
    return Job(lake, tmp_path, table_name, mode, files=files, tasks=tasks)


both_modes = pytest.mark.parametrize(
    "job", [("append", 2, 2), ("upsert", 2, 2)], indirect=True, ids=lambda job: job[0]
)


class TestExecutors:
    """One application, whose tasks fail and whose executors die. It sends its code by itself."""

    more: ClassVar[dict[str, str]] = {}
    by_py_files = False

    @both_modes
    def test_executors_with_pyarrow_alone_write_a_table(self, application, duckdb, job):
        assert application.ask("write", **job.words) == "written"
        job.check(duckdb)
        assert job.orphans() == set()

    def test_executors_have_what_was_sent_and_nothing_else(self, application):
        said = application.ask("who", tasks=8)
        assert {one["host"] for one in said} == set(WORKER_HOSTS)
        assert {one["python"] for one in said} == {str(executor().parent.parent)}
        assert {tuple(one["can"]) for one in said} == {()}
        assert all(re.search(r"/calve-[^/]+\.zip/calve/__init__\.py$", one["calve"]) for one in said)

    @both_modes
    def test_a_task_that_fails_is_run_again(self, application, gates, duckdb, job):
        """The disk fails twice, when a file was written and is not closed."""
        broken = gates.fail(job.table, "written", places=2)
        assert application.ask("write", **job.words) == "written"
        failed = {broken.arrived().path for _ in range(2)}
        job.check(duckdb)
        assert job.orphans() == failed

    @both_modes
    def test_an_executor_is_killed_in_a_write(self, application, cluster, gates, duckdb, job):
        held = gates.hold(job.table, "written")
        told = application.tell("write", **job.words)
        victim = held.arrived(told.ended)
        kill(cluster, application, victim.executor)
        assert told.answer() == "written"
        job.check(duckdb)
        assert victim.path in job.orphans()

    @pytest.mark.parametrize("job", [("upsert", FILES, 4)], indirect=True, ids=["upsert"])
    def test_shuffle_files_die_with_their_executor(self, application, cluster, gates, duckdb, job):
        """Two of four tasks have what they need and wait in their write. Then one executor dies, and what it
        had shuffled is gone: the other two tasks cannot fetch it, and the stage before is run again."""
        held = gates.hold(job.table, "created", places=2)
        told = application.tell("write", **job.words)
        victim, survivor = held.arrived(told.ended), held.arrived(told.ended)
        assert victim.host != survivor.host
        kill(cluster, application, victim.executor)
        held.open()
        assert told.answer() == "written"
        application.log.wait_for("FetchFailed", 1)
        job.check(duckdb)
        assert victim.path in job.orphans()


class TestTwins:
    """One application that runs slow tasks twice. It was given all of its code by --py-files."""

    more: ClassVar[dict[str, str]] = SPECULATION
    by_py_files = True

    @both_modes
    def test_of_speculative_twins_one_counts(self, application, gates, duckdb, job):
        """A task is slow on one host; its twin on the other overtakes it."""
        slow = gates.hold(job.table, "written", host=WORKER_HOSTS[1])
        told = application.tell("write", **job.words)
        loser = slow.arrived(told.ended)
        assert told.answer() == "written"
        slow.open()  # if it lives, it finishes its file after the commit
        application.log.wait_for("as speculatable", 1)
        job.check(duckdb)
        assert loser.path in job.orphans()


def kill(cluster: Cluster, application: Application, pid: int) -> None:
    """Kill an executor, and wait until the one that the cluster starts in its place is known."""
    executors = cluster.executors()
    victim = next(one for one in executors if one.pid == pid)
    victim.kill()
    application.wait_for_executor(max(one.number for one in executors) + 1)
