"""Peak memory of a Python worker, 10,000,000 changes in one micro-batch (P9).

The kernel keeps the greatest resident size of every process; a thread asks for that of Spark's Python
workers until the micro-batch is over, so that one that ended in between is not missed. All files, the spill's
too, go to the disk: what is spilled to a folder in memory would be memory all the same. The table has rows
already, so that a delete is written for every key; there are half as many keys as changes, so that there is
something to collapse.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figure import Figure, at_most
from benchmarks.spark import data, ours
from benchmarks.spark.meter import descendants, read_proc
from benchmarks.spark.session import CORES, spark_session

_LIMIT_MB = 512
_CHANGES_A_FILE = 500_000
_LOOK_S = 0.2


def run(quick: bool) -> list[Figure]:
    count = 20_000 if quick else 10_000_000
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as named, spark_session(Path(named)) as session:
        folder = Path(named)
        first = data.write_rows(folder / "rows", 1_000, 1_000)
        schema = session.read.parquet(str(first[0])).schema
        stream = ours.stream(session, folder, "memory", schema, upsert=True)
        stream.round(first)
        changes = data.many_changes(folder / "changes", count // 2, count, _CHANGES_A_FILE)
        with watched() as peaks:
            took = stream.round(changes)
        stream.stop()
    return [
        Figure(
            f"peak memory of a Python worker, one micro-batch of {count:,} changes",
            max(peaks.values()),
            "MB",
            at_most(_LIMIT_MB, "MB"),
            note=f"{CORES} tasks at a time, {len(peaks)} workers: "
            f"{', '.join(f'{peak:.0f}' for peak in sorted(peaks.values()))} MB; "
            f"{took.wall_s:.1f} s, {took.cpu_s:.1f} s of CPU",
        )
    ]


@contextmanager
def watched() -> Iterator[dict[int, float]]:
    """The greatest size of each Python worker that is there while the block runs, by its process."""
    peaks: dict[int, float] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_S):
            peaks.update(_workers_mb())

    looking = threading.Thread(target=look, name="memory of workers")
    looking.start()
    try:
        yield peaks
    finally:
        over.set()
        looking.join()
        peaks.update(_workers_mb())


def _workers_mb() -> Iterator[tuple[int, float]]:
    """Workers are what the daemon of PySpark forked; the driver has others for itself."""
    for process in descendants(os.getpid()):
        if "pyspark.daemon" not in (read_proc(process, "cmdline") or ""):
            continue
        for line in (read_proc(process, "status") or "").splitlines():
            if line.startswith("VmHWM"):
                yield process, int(line.split()[1]) / 1024
