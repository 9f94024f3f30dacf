"""The one Spark session of a test process, with Iceberg's runtime on its class path where there is one.

A process holds one session, because a second one would share the first one's JVM and settings. It starts
small: two threads, no user interface, a compiler and a collector that are quick to warm up.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

JARS = Path(os.environ.get("CALVE_TEST_JARS") or Path(__file__).resolve().parents[2] / ".jars")
"""Jars for the class path. Other releases of PySpark have folders of their own, which may be empty, because
Iceberg has no runtime for each of them."""

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    # Iceberg 1.11 keeps the deletes of a file as the schema of its first query has them: after a key column
    # became a long, a session that read the table before misses deletes of negative keys.
    "spark.sql.iceberg.executor-cache.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def has_iceberg() -> bool:
    """Whether sessions have Iceberg's runtime: if not, tables are read by other engines."""
    return any(JARS.glob("iceberg-spark-runtime-*.jar"))


def jar_settings() -> dict[str, str]:
    """What puts the jars into a session."""
    jars = sorted(JARS.glob("*.jar"))
    if not jars and "CALVE_TEST_JARS" not in os.environ:
        raise FileNotFoundError(f"no jar in {JARS.name}/: run `make jars`")
    settings = {"spark.jars": ",".join(map(str, jars))} if jars else {}
    if bundles := sorted(JARS.glob("rest/iceberg-aws-bundle-*.jar")):
        # Iceberg's runtime has no AWS in it. Not in spark.jars, because those are copied for every session.
        settings["spark.driver.extraClassPath"] = str(bundles[0])
    if has_iceberg():
        settings["spark.sql.extensions"] = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    return settings


def start_session(folder: Path) -> Any:
    """A session whose own files stay in `folder`."""
    # Otherwise Spark's workers take the python3 that stands first on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("calve tests")
    for name, value in {**SETTINGS, **jar_settings()}.items():
        builder = builder.config(name, value)
    session = builder.config("spark.sql.warehouse.dir", folder.as_uri()).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
