"""1,000 micro-batches of 1,000 changes in a row: the last hundred against the first hundred.

A file is a micro-batch; all files are there from the start. Every micro-batch is a snapshot, with a data file
and a delete file a task. A stream of its own warms the JVM up first, or the first hundred would be slow for
another reason. Spark's own log of the files that it has read grows with them: beside the time of the whole
micro-batch stands that of `addBatch`, which is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.figure import Figure, at_most
from benchmarks.place import scratch
from benchmarks.spark import data, ours
from benchmarks.spark.feed import Feed
from benchmarks.spark.meter import cpu_seconds
from benchmarks.spark.session import spark_session

_CHANGES = 1_000
_KEYS = 100_003


def run(quick: bool) -> list[Figure]:
    count, ends, warm_up = (6, 2, 1) if quick else (1_000, 100, 150)
    with scratch() as folder, spark_session(folder) as session:
        _micro_batches(session, folder, "warm_up", warm_up)
        progress, cpu_s = _micro_batches(session, folder, "long_run", count)
    first, last = (_took_ms(part, "triggerExecution") for part in (progress[:ends], progress[-ends:]))
    ours_first, ours_last = (_took_ms(part, "addBatch") for part in (progress[:ends], progress[-ends:]))
    by_cpu = _between(cpu_s, count - ends, count) / max(_between(cpu_s, 0, ends), 0.001)
    return [
        Figure(
            f"a micro-batch of {_CHANGES:,} changes, the last {ends} of {count:,}",
            mean(last),
            "ms",
            at_most(1.3),
            mean(first),
            f"itself, the first {ends}",
            mean(last) / mean(first),
            f"means; medians {median(last):.0f} and {median(first):.0f} ms; by CPU time {by_cpu:.2f}×; "
            f"addBatch {mean(ours_last):.0f} and {mean(ours_first):.0f} ms, "
            f"{mean(ours_last) / mean(ours_first):.2f}×",
        )
    ]


def _micro_batches(
    session: Any, folder: Path, table: str, count: int
) -> tuple[list[dict[str, Any]], dict[int, float]]:
    """What Spark says of each micro-batch, and the CPU time that was spent when some of them ended."""
    files = data.change_rounds(folder / "changes", _KEYS, _CHANGES, count)
    schema = session.read.parquet(str(files[0][0])).schema
    feed = Feed(folder / f"feed-{table}")
    feed.add([file for one in files for file in one])
    stream = feed.stream(session, schema, files_a_micro_batch=1)
    cpu_s = {0: cpu_seconds()}
    query = ours.to_table(stream, folder, table, upsert=True, available_now=True)
    while not query.awaitTermination(0.2):  # raises what stopped the query
        done = (query.lastProgress or {"batchId": -1})["batchId"] + 1
        cpu_s[done] = cpu_seconds()
    cpu_s[count] = cpu_seconds()
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    if len(progress) != count:
        raise RuntimeError(f"{len(progress)} micro-batches of {count} had rows")
    return progress, cpu_s


def _took_ms(progress: Sequence[dict[str, Any]], what: str) -> list[float]:
    return [one["durationMs"][what] for one in progress]


def _between(cpu_s: dict[int, float], lower: int, upper: int) -> float:
    """CPU time of a micro-batch on average, from the samples nearest to the bounds."""
    start, end = (min(cpu_s, key=lambda done: abs(done - bound)) for bound in (lower, upper))
    return (cpu_s[end] - cpu_s[start]) / max(end - start, 1)
