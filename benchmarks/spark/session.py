"""A Spark session as a user would start it on two cores, with Iceberg's runtime for the peers.

Us and the peers share it: the same JVM, the same settings, the same heap. No flag is set that only makes a
test quick. What stands under `PYTHON` is what the documentation recommends to people who use calve; it does
not concern a query without Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

JARS = Path(__file__).resolve().parents[2] / ".jars"
CORES = 2

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.streaming.numRecentProgressUpdates": "5000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

PYTHON = {"spark.python.unix.domain.socket.enabled": "true"}


@contextmanager
def spark_session(folder: Path, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[Any]:
    """A session in a JVM of its own, which has ended when the block has. Its files stay in `folder`."""
    jars = sorted(JARS.glob("*.jar"))
    if not jars:
        raise FileNotFoundError(f"no jar in {JARS.name}/: run `make jars`")
    # Otherwise Spark's workers take the python3 that stands first on the path.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{CORES}]").appName("calve benchmarks")
    settings = {
        **SETTINGS,
        **PYTHON,
        "spark.jars": ",".join(map(str, jars)),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": (folder / "spark-warehouse").as_uri(),
        **more,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        _end(session)


def _end(session: Any) -> None:
    """Stop the session and its JVM: PySpark keeps the JVM for a next session, which would find it warm."""
    from pyspark import SparkContext

    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when its parent lets go of this pipe
    gateway.proc.wait(timeout=60)
    SparkContext._gateway = SparkContext._jvm = None
