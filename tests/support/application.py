"""An application on a cluster: the driver's side of tests/support/cluster.py.

    spark-submit application.py <commands>       a line of JSON each, done one after the other

It says `ANSWER <number> <JSON>` on a line of its own when a command is done. `write` runs the pipeline as a
person would, over the files of a folder; `read` tells the rows of a table; `who` asks the executors what they
are.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from pyspark.sql import SparkSession

import calve


def write(spark: SparkSession, asked: dict[str, Any]) -> str:
    """Write all that a folder holds; the snapshot that the sink ended with is found in the table."""
    rows = spark.readStream.schema(asked["schema"]).option("maxFilesPerTrigger", asked["files_per_trigger"])
    writer = (
        calve.write_stream(rows.parquet(asked["source"]))
        .mode(asked["mode"])
        .catalog("lake", **asked["catalog"])
        .options(**asked.get("options", {}))
        .option("checkpointLocation", asked["checkpoint"])
        .trigger(availableNow=True)
    )
    if asked["mode"] == "upsert":
        writer = writer.key("id").op("op").sequence_by("seq").tasks(asked["tasks"])
    query = writer.to_table(asked["table"])
    query.awaitTermination()
    return "written"


def read(spark: SparkSession, asked: dict[str, Any]) -> list[Any]:
    """The rows of main, by calve.read."""
    frame = calve.read(spark, asked["table"], catalog=asked["catalog"])
    return [[row.id, row.seq, row.text] for row in frame.collect()]


def who(spark: SparkSession, asked: dict[str, Any]) -> list[Any]:
    """What executors are, and what they can import."""
    tasks = spark.range(asked["tasks"], numPartitions=asked["tasks"])
    return [json.loads(row.said) for row in tasks.mapInArrow(_say, "said string").collect()]


def _say(record_batches: Any) -> Any:
    import importlib.util
    import os
    import sys

    import pyarrow as pa

    list(record_batches)
    can = [name for name in ("numpy", "pandas", "pydantic", "pyiceberg") if importlib.util.find_spec(name)]
    found = importlib.util.find_spec("calve")
    said = {
        "host": os.environ.get("SPARK_LOCAL_IP"),
        "python": sys.prefix,
        "can": can,
        "calve": None if found is None else found.origin,
    }
    yield pa.record_batch({"said": [json.dumps(said)]})


def main() -> None:
    spark = SparkSession.builder.appName("calve on a cluster").getOrCreate()
    acts = {"write": write, "read": read, "who": who}
    with open(sys.argv[1], encoding="utf-8") as commands:
        for line in iter(commands.readline, ""):
            asked = json.loads(line)
            try:
                answer: Any = acts[asked["do"]](spark, asked)
            except Exception as error:  # noqa: BLE001 (the test is told)
                traceback.print_exc()
                answer = {"failed": f"{type(error).__name__}: {error}"}
            print(f"ANSWER {asked['number']} {json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main()
