"""P10 and case 58 on Spark and S3: secrets of catalog and store go into a run, and come out nowhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.nemesis.lakes import QUARANTINE, RestLake
from tests.support.servers.seaweedfs import SECRET, TABLE_BUCKET, SeaweedFS
from tests.support.servers.vending import denying
from tests.support.silence import silent

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Left:
    """What a run left behind."""

    folder: Path
    lake: RestLake
    said: str
    denied: list[str]


@pytest.fixture(scope="module")
def left(seaweedfs: SeaweedFS, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    folder = tmp_path_factory.mktemp("canary")
    lake = RestLake(seaweedfs, "canary")
    for name in ("source", "events", "checkpoints"):
        (folder / name).mkdir()
    rows = [(1, 100, "U", "a"), (2, 150, "?", "a row that does not fit"), (1, 200, "U", "b")]
    deliver(folder / "source" / "0.parquet", *rows)
    deliver(folder / "source" / "1.parquet", (3, 400, "U", "c"), (1, 450, "D", None), (4, 1000, "U", "d"))
    with denying(seaweedfs.s3_uri, "/denied/data/", SECRET) as store:
        asked = {
            "catalog": {**lake.words, "s3.endpoint": store.uri},
            "options": {"storage.s3.secret-access-key": SECRET, "storage.s3.endpoint": store.uri},
            "namespace": lake.namespace,
            "source": str(folder / "source"),
            "events": (folder / "events").as_uri(),
            "checkpoints": str(folder / "checkpoints"),
        }
        ran = subprocess.run(
            [sys.executable, "-m", "tests.support.canary"],
            cwd=ROOT,
            input=json.dumps(asked) + "\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout[-4000:]
        yield Left(folder, lake, ran.stdout, store.refused)


def deliver(path: Path, *rows: tuple[int, int, str, str | None]) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("op", pa.string()), ("v", pa.string())])
    pq.write_table(
        pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema), path
    )


def test_the_run_did_what_it_should(left: Left) -> None:
    """Otherwise nothing of the rest would tell anything."""
    assert "RUN first: ended" in left.said
    assert "RUN replay: ended" in left.said
    assert left.denied
    failed = left.said.partition("RUN denied: failed: ")[2]
    assert "the store denies to write" in failed
    assert "Not with ***" in failed
    assert "READ [(3, 400, 'c')]" in left.said
    assert "READ failed: AccessDenied" in left.said
    quarantine = left.lake.metadata("kept__quarantine")
    assert quarantine is not None
    assert quarantine["snapshots"]


def test_no_secret_is_in_what_driver_tasks_and_spark_say(left: Left) -> None:
    silent(left.said.encode(), "the log")


def test_no_secret_is_in_the_event_log(left: Left) -> None:
    (events,) = (left.folder / "events").iterdir()
    content = events.read_bytes()
    assert b"SparkListenerSQLExecutionStart" in content
    silent(content, "the event log")


def test_no_secret_is_beside_the_checkpoint(left: Left) -> None:
    found = [path for path in (left.folder / "checkpoints").rglob("*") if path.is_file()]
    names = {path.relative_to(left.folder / "checkpoints").parts[1:3] for path in found}
    assert {("calve", "stash"), ("calve", "segments")} <= names
    for path in found:
        silent(path.read_bytes(), path)


def test_no_secret_is_in_the_tables(left: Left) -> None:
    tables = ("kept", f"kept{QUARANTINE.removeprefix('t')}", "denied")
    for table in tables:
        silent(json.dumps(left.lake.metadata(table)).encode(), table)
    store = left.lake.object_store(TABLE_BUCKET)
    objects = [one["path"] for listed in obstore.list(store, f"{left.lake.namespace}/") for one in listed]
    assert {path.rpartition(".")[2] for path in objects} >= {"parquet", "avro", "json"}
    for path in objects:
        silent(obstore.get(store, path).bytes().to_bytes(), path)
