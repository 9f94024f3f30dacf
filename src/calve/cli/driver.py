"""A run of the demo: a Spark driver, in a process of its own, that streams the feed into the table.

    python -m calve.cli.driver <folder> <file descriptor>

It knows nothing of kills. It tells which files it makes in the table's folder, and what became of each
micro-batch, and goes on. When its parent is gone, its standard input ends, and it ends itself and its JVM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import calve
from calve.cli.feed import DELAY, SPARK_SCHEMA

CATALOG, NAMESPACE, TABLE = "calve", "bank", "accounts"
WAREHOUSE, FEED, CHECKPOINT, SCRATCH = "warehouse", "feed", "checkpoint", "scratch"

_SESSION = {
    "spark.driver.bindAddress": "127.0.0.1",
    # Quick to start, rather than quick for hours. And no file of the JVM's own outside of our folder.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Teller(calve.SinkListener):
    """Tells the parent."""

    def __init__(self, messages: Connection) -> None:
        self._messages = messages

    def on_progress(self, progress: calve.SinkProgress) -> None:
        self.tell("progress", progress.to_json())

    def on_stopped(self, table: str, error: str) -> None:
        self.tell("stopped", f"{table}: {error}")

    def tell(self, event: str, text: str) -> None:
        self._messages.send_bytes(json.dumps([event, text]).encode())

    def tell_files(self, folder: Path) -> None:
        """Say of every file that this process makes in a folder, from now on, that it is about to be made."""
        place = f"{folder}{os.sep}"

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event != "open":
                return
            path, _, flags = arguments
            if not isinstance(path, str | os.PathLike) or not flags & os.O_CREAT:
                return
            if (name := os.fspath(path)).startswith(place):
                self.tell("file", name.removeprefix(place))

        sys.addaudithook(hook)


def run(folder: Path, teller: Teller) -> None:
    """Stream all that is there, a file a micro-batch."""
    teller.tell_files(folder / WAREHOUSE / NAMESPACE / TABLE)
    spark = session(folder / SCRATCH)
    try:
        feed = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1)
        query = (
            calve.write_stream(feed.parquet(str(folder / FEED)))
            .mode("upsert")
            .key("account")
            .op("_op")
            .sequence_by("at")
            .partitioned_by("bucket(4, account)")
            .frontier(maximum=True, delay=DELAY)
            .commit_interval("1 minute")
            .catalog(CATALOG, type="sql", warehouse=str(folder / WAREHOUSE))
            .option("checkpointLocation", str(folder / CHECKPOINT))
            .trigger(availableNow=True)
            .watch(teller)
            .to_table(f"{CATALOG}.{NAMESPACE}.{TABLE}")
        )
        query.awaitTermination()
    finally:
        spark.stop()


def session(scratch: Path) -> Any:
    """Spark on the cores of this machine; what it leaves when it is killed lies in `scratch`."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers take the python3 that is first on the path
    builder = SparkSession.builder.master("local[*]").appName("calve demo")
    for name, value in {**_SESSION, "spark.local.dir": str(scratch)}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def end_with_parent() -> None:
    """End this process group when standard input ends: nobody is left to kill it, or to hear of it."""

    def wait() -> None:
        os.read(0, 1)  # not by sys.stdin, whose lock a thread must not hold when Python ends
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main(folder: str, descriptor: str) -> None:
    end_with_parent()
    teller = Teller(Connection(int(descriptor), readable=False))
    try:
        run(Path(folder), teller)
    except calve.CalveError as error:  # before there was a query; later ones are told by `on_stopped`
        teller.tell("stopped", str(error))
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
