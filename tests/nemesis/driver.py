"""A driver: a process of its own with a Spark session, which runs a query until it is killed or told to end.

    nemesis ──Job, "stop"──▶ driver ──calve.write_stream──▶ table
            ◀──ready, started, micro-batch, trapped, ended──

It starts its session first and waits for its job, so that the nemesis can keep one ready. It says what
happens as lines of JSON on what was its standard output; everything else goes to its log. It dies with the
nemesis, and its JVM dies with it, by the kernel's word: neither needs to be awake to be ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.nemesis.kinds import KINDS, Kind
from tests.nemesis.source import DELAY, PARTITIONS, SPARK_SCHEMA
from tests.nemesis.steps import Steps, install_in_driver, watch_logs
from tests.nemesis.workers import FOLDER

_PR_SET_PDEATHSIG = 1

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # The checker reads in Spark's logs which files each micro-batch had.
    "spark.sql.streaming.minBatchesToRetain": "100000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
KAFKA = "kafka"
_FEED_FILES = 15
"""A round of a changefeed is about ten files."""
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class Job:
    """What a driver does."""

    kind: str
    """Of the table, or KAFKA."""
    source: str
    """A folder, or the address of a broker."""
    checkpoint: str
    catalog: str
    words: dict[str, str]
    """What the catalog is told of."""
    table: str
    files_max: int = 1
    """Files that a micro-batch takes at most."""
    replaces: str | None = None
    """The id of a lost checkpoint that this one goes on for."""
    kafka: dict[str, Any] = field(default_factory=dict)
    """How topics of a broker are read."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a driver starts."""

    folder: str
    """Its traps, its steps and its log."""
    settings: dict[str, str]
    parent: int


class Events:
    """What the nemesis is told."""

    def __init__(self) -> None:
        # A descriptor of its own, which no child inherits: what they print goes to the log.
        self._out = os.dup(1)
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def __call__(self, event: str, **more: Any) -> None:
        line = json.dumps({"event": event, **more}) + "\n"
        with self._lock:
            os.write(self._out, line.encode())


def main() -> None:
    start = Start(**json.loads(sys.argv[1]))
    die_with_parent(start.parent)
    events = Events()
    os.environ[FOLDER] = start.folder
    os.environ["PYSPARK_PYTHON"] = start.settings.pop("python", sys.executable)
    spark = session(start)
    events("ready", jvm=spark.sparkContext._gateway.proc.pid)
    line = sys.stdin.readline()
    if line:
        run(spark, Job(**json.loads(line)), Path(start.folder), events)


def session(start: Start) -> Any:
    """The session of a driver."""
    from pyspark.sql import SparkSession

    jvm_dies_with_us()
    builder = SparkSession.builder.appName("nemesis")
    for name, value in {**SETTINGS, **start.settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    import calve  # noqa: F401 - while it waits, not when it is needed

    return spark


def jvm_dies_with_us() -> None:
    """Let the JVM that Spark starts next be killed when this process is gone, even if it is stopped."""
    import pyspark.java_gateway as gateway

    popen = gateway.Popen

    def dying(command: Any, *, preexec_fn: Callable[[], None], **named: Any) -> Any:
        def prepare() -> None:
            preexec_fn()
            die_with_parent(None)

        return popen(command, preexec_fn=prepare, **named)

    gateway.Popen = dying


def run(spark: Any, job: Job, folder: Path, events: Events) -> None:
    """One query, until it ends."""
    steps = Steps(folder, before_act=lambda name: events("trapped", step=name))
    install_in_driver(steps)
    failed = _tell_errors()
    watch_logs(steps, Path(job.checkpoint))
    try:
        query = _start(spark, job, events)
        events("started", query=query.id)
        threading.Thread(target=_stop_when_told, args=(query,), daemon=True).start()
        query.awaitTermination()
    except Exception as error:  # noqa: BLE001 - whatever ended it is told to the nemesis, which judges it
        name, message = failed or [type(error).__name__, str(error)]
        events("ended", error=name, message=message[:2000])
        os._exit(3)
    _end_jvm(spark)
    events("ended", error=None, message="")
    os._exit(0)


def _end_jvm(spark: Any) -> None:
    """Let the JVM end as it would with a driver that ends: it sees that nobody writes to it any more."""
    process = spark.sparkContext._gateway.proc
    spark.stop()
    process.stdin.close()
    process.wait()


def _start(spark: Any, job: Job, events: Events) -> Any:
    import calve

    class Tell(calve.SinkListener):
        def on_progress(self, progress: Any) -> None:
            events(
                "micro-batch",
                sink=progress.sink_id,
                number=progress.micro_batch,
                frontier=progress.frontier,
                committed=progress.batches_committed,
                generation=progress.generation,
                late=progress.rows_late,
                replayed=progress.rows_replayed,
            )

    kind = KINDS.get(job.kind)
    is_feed = kind is None or kind.is_feed
    writer = (
        (_feed(spark, job) if is_feed else _stream(spark, job))
        .catalog(job.catalog, **job.words)
        .option("checkpointLocation", job.checkpoint)
        .trigger(processingTime="0 seconds")
        .watch(Tell())
    )
    if job.replaces is not None:
        writer = writer.replaces_checkpoint(job.replaces)
    to = writer.to_tables if is_feed else writer.to_table
    return to(f"{job.catalog}.{job.table}")


def _stream(spark: Any, job: Job) -> Any:
    import calve

    kind = KINDS[job.kind]
    frame = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", job.files_max)
    return written(calve.write_stream(columns_of(kind, frame.parquet(job.source))), kind)


def _feed(spark: Any, job: Job) -> Any:
    import calve
    from tests.nemesis.changefeeds import declared

    if job.kind == KAFKA:
        return calve.write_stream(calve.read_stream(spark).kafka(job.source, **job.kafka))
    options = {"files_max": str(_FEED_FILES * job.files_max)}
    feed = calve.read_stream(spark).cockroachdb(job.source, tables=declared(), options=options)
    return calve.write_stream(feed).schema_evolution()


def columns_of(kind: Kind, frame: Any) -> Any:
    """The stream as its kind has it."""
    from pyspark.sql import functions as F

    if kind.frontier != "mark":
        frame = frame.drop("mark", "p")
    if kind.mode == "append":
        frame = frame.drop("op")
    if kind.frontier == "watermark":
        frame = frame.withColumn("ts", F.timestamp_millis("at")).withWatermark("ts", f"{DELAY} milliseconds")
    return frame


def written(writer: Any, kind: Kind) -> Any:
    """How the stream is written, as its kind has it."""
    writer = writer.mode(kind.mode)
    if kind.mode != "append":
        writer = writer.key("id").op("op")
    if kind.is_timed or kind.mode == "upsert":
        writer = writer.sequence_by("ts" if kind.frontier == "watermark" else "at")
    match kind.frontier:
        case "maximum":
            writer = writer.frontier(maximum=True, delay=DELAY)
        case "watermark":
            writer = writer.frontier(watermark=True)
        case "mark":
            writer = writer.frontier(mark="mark", partition="p", partitions=len(PARTITIONS))
    if kind.interval is not None:
        writer = writer.commit_interval(kind.interval)
    if kind.quarantine:
        writer = writer.on_bad_row("quarantine")
    return writer.partitioned_by(*kind.partitioned_by) if kind.partitioned_by else writer


def _tell_errors() -> list[str]:
    """Note the class of what a micro-batch fails with: Spark passes on its text alone."""
    from calve.runtime.spark.feed import FeedRun
    from calve.runtime.spark.pipeline import Pipeline

    failed: list[str] = []

    def note(owner: Any) -> None:
        call = owner.__call__

        def noted(self: Any, frame: Any, micro_batch: int) -> None:
            try:
                call(self, frame, micro_batch)
            except BaseException as error:
                failed[:] = [type(error).__name__, str(error)]
                raise

        owner.__call__ = noted

    note(Pipeline)
    note(FeedRun)
    return failed


def _stop_when_told(query: Any) -> None:
    if sys.stdin.readline():
        query.stop()
    else:
        os._exit(4)


def die_with_parent(parent: int | None) -> None:
    """Be killed when the parent is gone, however it went."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)  # it went before it was asked for


if __name__ == "__main__":
    main()
