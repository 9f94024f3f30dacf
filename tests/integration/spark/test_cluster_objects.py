"""The pipeline on a real cluster, into an object store: executors write there, and need little for it.

    driver ──REST──▶ catalog                executors (pyarrow, obstore) ──S3──▶ data files

The cluster is that of test_cluster.py. Tables are read back by DuckDB over S3, every snapshot of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.nemesis.lakes import LOCATION, RestLake
from tests.nemesis.spark_logs import micro_batches
from tests.support.cluster import WORKER_HOSTS, Application, Cluster, standalone_cluster
from tests.support.readers import DuckReader
from tests.support.servers import moto as at_moto
from tests.support.servers.iceberg_rest import IcebergRest
from tests.support.servers.moto import Moto
from tests.support.servers.seaweedfs import SECRET, TABLE_BUCKET, SeaweedFS
from tests.support.servers.vending import Keys, gate, vending_catalog
from tools.venvs import executor, object_executor

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(600)]

FILES = 4
ROWS = 500
PART_BYTES = 5 * 1024 * 1024
SETTINGS = {
    "spark.locality.wait": "0s",
    "spark.sql.files.openCostInBytes": "1g",  # a task for each file
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="class")
def application(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Application]:
    """One at a time: it takes all of the cluster. Its class says what its executors have."""
    with cluster.submit(request.cls.__name__, SETTINGS, python=request.cls.python()) as started:
        for number in range(len(WORKER_HOSTS)):
            started.wait_for_executor(number)
        yield started


class Job:
    """A folder of rows, and the table of a lake that they go to."""

    def __init__(self, folder: Path, catalog: dict[str, str], table: str, mode: str) -> None:
        self.mode, self.checkpoint = mode, folder / "checkpoint"
        self.source = folder / "source"
        self.source.mkdir()
        self.words: dict[str, Any] = {
            "table": f"lake.{table}",
            "mode": mode,
            "tasks": 2,
            "schema": "id long, seq long, op string, text string",
            "source": self.source.as_uri(),
            "files_per_trigger": 2,
            "checkpoint": str(self.checkpoint),
            "catalog": catalog,
        }

    def deliver(self, text_bytes: int = 20, files: int = FILES, rows: int = ROWS) -> None:
        """The same ids in every file, so that keys meet in the shuffle; a third of them go."""
        random = Random(7)
        for number in range(files):
            table = pa.table(
                {
                    "id": pa.array(range(rows), pa.int64()),
                    "seq": pa.array([number * rows + row for row in range(rows)], pa.int64()),
                    "op": ["delete" if (row + number) % 3 == 0 else "upsert" for row in range(rows)],
                    "text": [random.randbytes(text_bytes // 2).hex() for _ in range(rows)],
                }
            )
            pq.write_table(table, self.source / f"{number}.parquet")

    def truths(self) -> list[Counter[tuple[Any, ...]]]:
        """What each snapshot must show: the rows of the micro-batches up to it."""
        arrived: list[dict[str, Any]] = []
        truths = []
        for names in micro_batches(self.checkpoint):
            for name in names:
                arrived += pq.read_table(self.source / name).to_pylist()
            if self.mode == "append":
                live = arrived
            else:
                last = {row["id"]: row for row in sorted(arrived, key=lambda row: row["seq"])}
                live = [row for row in last.values() if row["op"] != "delete"]
            truths.append(Counter((row["id"], row["seq"], row["text"]) for row in live))
        return truths


def objects_below(lake: RestLake, prefix: str) -> Iterator[str]:
    for listed in obstore.list(lake.object_store(TABLE_BUCKET), prefix):
        for one in listed:
            yield f"s3://{TABLE_BUCKET}/{one['path']}"


class TestWithObstore:
    """Executors that have pyarrow and obstore."""

    python = staticmethod(object_executor)

    @pytest.mark.parametrize("mode", ["append", "upsert"])
    def test_executors_with_pyarrow_and_obstore_write_a_table(
        self, mode: str, application: Application, seaweedfs: SeaweedFS, duckdb: DuckReader, tmp_path: Path
    ) -> None:
        lake = RestLake(seaweedfs, f"cluster_{mode}")
        job = Job(tmp_path, lake.words, f"{lake.namespace}.t", mode)
        job.deliver()
        assert application.ask("write", **job.words) == "written"
        metadata = lake.metadata()
        assert metadata is not None
        lake.open_to_duckdb(duckdb.connection)
        data = [one for one in metadata["snapshots"] if int(one["summary"].get("added-records", 0))]
        named: set[str] = set()
        for snapshot, truth in zip(data, job.truths(), strict=True):
            at = f"'{metadata[LOCATION]}', snapshot_from_id = {snapshot['snapshot-id']}::UBIGINT"
            rows = duckdb.connection.execute(f"SELECT id, seq, text FROM iceberg_scan({at})").fetchall()
            assert Counter(rows) == truth
            files = duckdb.connection.execute(f"SELECT file_path FROM iceberg_metadata({at})").fetchall()
            named |= {path for (path,) in files}
        assert len(data) == FILES // 2
        rows = application.ask("read", table=job.words["table"], catalog=lake.words)
        assert Counter(map(tuple, rows)) == job.truths()[-1], "and executors read it as they wrote it"
        assert named == set(objects_below(lake, f"{lake.namespace}/t/data/"))

    def test_executors_have_what_was_sent_and_nothing_else(self, application: Application) -> None:
        said = application.ask("who", tasks=8)
        assert {one["host"] for one in said} == set(WORKER_HOSTS)
        assert {one["python"] for one in said} == {str(object_executor().parent.parent)}
        assert {tuple(one["can"]) for one in said} == {()}

    def test_case_37_executors_renew_credentials_that_the_catalog_vends(
        self, application: Application, moto: Moto, tmp_path: Path
    ) -> None:
        """The store is slow with the first part of a data file, and its credentials run out meanwhile: the
        upload goes on under new ones."""
        keys = Keys(life_seconds=8)
        slow: list[str] = []

        def wait(key: str, path: str) -> None:
            if ".parquet" in path and "partNumber=1&" in path and not slow:
                slow.append(path.partition("?")[0])
                keys.wait_for_death(int(key.partition("-")[2]))

        warehouse = f"s3://{at_moto.BUCKET}/cluster"
        with (
            IcebergRest.on_s3(warehouse, moto.s3_uri, at_moto.KEY, at_moto.SECRET, at_moto.REGION) as server,
            gate(moto.s3_uri, keys, wait) as store,
            vending_catalog(server.uri, keys, store.uri) as catalog,
        ):
            job = Job(tmp_path, {"type": "rest", "uri": catalog.uri}, "ns.vended", "append")
            job.deliver(text_bytes=10_000, files=1, rows=2_500)
            options = {
                "parquet.row-group.size": "1MB",
                "storage.s3.multipart.part-size-bytes": str(PART_BYTES),
                "storage.s3.multipart.num-threads": "1",
            }
            assert application.ask("write", **job.words, options=options) == "written"
        assert store.refused == [], "no request went out under a dead key"
        (path,) = slow
        used = [
            int(key.partition("-")[2])
            for key, asked in zip(store.keys, store.paths, strict=True)
            if asked.partition("?")[0] == path
        ]
        assert used[0] < used[-1], "the upload began with one key and ended with another"


class TestWithoutObstore:
    """Executors that have pyarrow alone."""

    python = staticmethod(executor)

    def test_an_executor_says_what_to_install(
        self, application: Application, seaweedfs: SeaweedFS, tmp_path: Path
    ) -> None:
        lake = RestLake(seaweedfs, "cluster_without")
        job = Job(tmp_path, lake.words, f"{lake.namespace}.t", "append")
        job.deliver()
        failed = application.ask("write", **job.words)["failed"]
        assert "obstore is not installed" in failed
        assert "pip install obstore, on every executor too" in failed
        assert SECRET not in failed
