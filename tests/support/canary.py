"""A driver with secrets in its settings, run for what it leaves: tests/integration/spark/test_secrets.py.

    python -m tests.support.canary ◀── a line of JSON: the catalog, the source, where to put things

It writes a table with a row that does not fit, plays its last micro-batch again, and then meets a store that
denies its tasks to write. It talks as much as it can: logs at their lowest level, plans, progress, errors.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.eventLog.compress": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.log.level": "INFO",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    logging.basicConfig(level=logging.DEBUG)
    # At its lowest level py4j prints the wire between Python and the JVM, tasks and all.
    logging.getLogger("py4j").setLevel(logging.INFO)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("canary")
    settings = {**SETTINGS, "spark.eventLog.dir": asked["events"]}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for run in ("first", "replay"):
        write(spark, asked, "kept", run)
        commits = Path(asked["checkpoints"], "kept", "commits")
        last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
        for entry in (last, last.with_name(f".{last.name}.crc")):
            entry.unlink()  # Spark takes the micro-batch for one that did not end
    write(spark, asked, "denied", "denied")
    read(spark, asked)
    spark.stop()


def write(spark: Any, asked: Mapping[str, Any], table: str, run: str) -> None:
    import calve

    frame = spark.readStream.schema("id long, at long, op string, v string").option("maxFilesPerTrigger", 1)
    writer = (
        calve.write_stream(frame.parquet(asked["source"]))
        .mode("upsert")
        .key("id")
        .op("op")
        .sequence_by("at")
        .frontier(maximum=True, delay=100)
        .on_bad_row("quarantine")
        .catalog("lake", **asked["catalog"])
        .options(**asked["options"])
        .option("checkpointLocation", str(Path(asked["checkpoints"], table)))
        .trigger(availableNow=True)
        .watch(Tell())
    )
    print(f"RUN {run}: {writer!r}", flush=True)
    query = None
    try:
        query = writer.to_table(f"lake.{asked['namespace']}.{table}")
        query.awaitTermination()
        print(f"RUN {run}: ended", flush=True)
    except Exception as error:  # noqa: BLE001 - all that it says is looked at
        traceback.print_exc()
        print(f"RUN {run}: failed: {error!r} {error}", flush=True)
    if query is not None:
        query.explain(extended=True)
        print(query.exception(), query.lastProgress, query.status, flush=True)


def read(spark: Any, asked: Mapping[str, Any]) -> None:
    """What was written, and what a query says of itself; then the same with a login that is refused."""
    import calve

    table = f"lake.{asked['namespace']}.kept"
    frame = calve.read(spark, table, catalog=asked["catalog"])
    frame.explain(extended=True)
    print(f"READ {sorted(tuple(row) for row in frame.collect())}", flush=True)
    wrong = {**asked["catalog"], "s3.secret-access-key": asked["catalog"]["s3.secret-access-key"] + "-not"}
    try:
        calve.read(spark, table, catalog=wrong).collect()
    except Exception as error:  # noqa: BLE001 - all that it says is looked at
        traceback.print_exc()
        print(f"READ failed: {error!r} {error}", flush=True)


def Tell() -> Any:
    import calve

    class Listener(calve.SinkListener):
        def on_progress(self, progress: Any) -> None:
            print(f"PROGRESS {progress!r}", flush=True)

    return Listener()


if __name__ == "__main__":
    main()
