"""The code that goes to executors is whole, needs pyarrow alone, and is the same for the same code."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.model.batch import Batch
from calve.model.file import FileKind
from calve.runtime.spark import ship as room
from calve.runtime.spark.ship import archive, is_local, pack, ship
from calve.store import local_path
from calve.writer.changes import Reading
from calve.writer.messages import Report
from calve.writer.plan import DeleteScope, WritePlan
from calve.writer.task import Slot, TaskPlan, run_task

pytestmark = pytest.mark.spark

# What an executor is: a Python with pyarrow, the archive on its path, and a task as Spark sends it.
EXECUTOR = """
import importlib, pickle, sys, zipfile
from importlib.abc import MetaPathFinder

class PyarrowAlone(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        known = top in sys.stdlib_module_names or top.startswith("_sysconfigdata")
        if not known and top not in ("pyarrow", "calve"):
            raise ModuleNotFoundError(f"an executor has no {name}", name=name)

archive = sys.argv[1]
sys.meta_path.insert(0, PyarrowAlone())
sys.path.insert(0, archive)
for name in zipfile.ZipFile(archive).namelist():
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    try:
        assert importlib.import_module(module).__file__.startswith(archive), module
    except ModuleNotFoundError as error:  # object stores need more; a disk does not
        missing = error.name.partition(".")[0]
        if module == "calve.source.cockroachdb.datasource":  # every executor of Spark has Spark
            assert missing == "pyspark", error.name
        else:
            assert missing in ("obstore", "boto3", "botocore"), (module, error.name)
            assert module.startswith("calve.store."), module
task, rows = pickle.load(sys.stdin.buffer)
for message in task(rows):
    for row in message.to_pylist():
        print(row["kind"], row["body"], sep="\\t")
"""


def field(number: int, name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {b"PARQUET:field_id": str(number).encode()})


def upserts_into(folder: Path) -> TaskPlan:
    schema = pa.schema([field(1, "id", pa.int64(), nullable=False), field(2, "v", pa.string())])
    plan = WritePlan(
        sink_id="sink", data_location=folder.as_uri(), schema=schema, schema_id=0, spec_id=0,
        key=("id",), deletes=DeleteScope.GLOBAL, global_spec_id=0,
    )  # fmt: skip
    reading = Reading(key=("id",), op_column="op", op_required=True)
    return TaskPlan(reading, (Slot(Batch(0, 1), plan),), 0, spill_folder=str(folder))


def test_the_archive_alone_writes_with_nothing_but_pyarrow(tmp_path):
    rows = pa.record_batch(
        {"id": [1, 2, 3], "v": ["a", None, "ß"], "op": ["insert", "delete", "upsert"]},
        schema=pa.schema([("id", pa.int64()), ("v", pa.string()), ("op", pa.string())]),
    )
    sent = pickle.dumps((partial(run_task, upserts_into(tmp_path)), [rows]))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, "-I", "-c", EXECUTOR, str(archive())],
        input=sent, capture_output=True, env=environment, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr.decode()
    lines = (line.partition("\t") for line in ran.stdout.decode().splitlines())
    report = Report.of((kind, body) for kind, _, body in lines)
    assert report.counts.rows == 3
    written = {
        file.kind: pq.read_table(local_path(file.path), partitioning=None).to_pylist()
        for file in report.files
    }
    assert written == {
        FileKind.DATA: [{"id": 1, "v": "a"}, {"id": 3, "v": "ß"}],
        FileKind.EQUALITY_DELETE: [{"id": 1}, {"id": 2}, {"id": 3}],
    }


def test_the_archive_holds_the_rooms_of_executors_and_no_other():
    names = zipfile.ZipFile(io.BytesIO(pack())).namelist()
    source = Path(room.__file__).parents[2]
    expected = ["__init__.py", "source/__init__.py"]
    rooms = ("decode", "model", "reader", "source/cockroachdb", "source/postgres", "store", "writer")
    for each in rooms:
        expected += [str(path.relative_to(source)) for path in (source / each).rglob("*.py")]
    assert names == sorted(f"calve/{name}" for name in expected)


def test_the_same_code_is_the_same_archive(monkeypatch):
    """Whatever the clock says, and the order in which a disk lists its files."""
    first = pack()
    monkeypatch.setattr(time, "localtime", lambda *_: (2001, 1, 1, 0, 0, 0, 0, 1, 0))
    listed = room._modules
    monkeypatch.setattr(room, "_modules", lambda: reversed(list(listed())))
    assert pack() == first


def test_the_archive_is_made_once_a_process():
    assert archive() is archive()
    assert archive().read_bytes() == pack()


def test_nothing_is_sent_where_executors_are_threads_of_the_driver(spark):
    before = (list(spark.sparkContext._python_includes), list(sys.path))
    ship(spark)
    assert (list(spark.sparkContext._python_includes), list(sys.path)) == before


@pytest.mark.parametrize(
    "master, local",
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,4]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://localhost:7077", False),
        ("yarn", False),
        ("k8s://https://host", False),
    ],
)
def test_executors_of_their_own_are_told_from_threads(master, local):
    assert is_local(master) is local
