"""Where the time of a micro-batch goes: the same stream, cut off after each of its steps.

    append   nothing ─▶ scan ─▶ to Arrow and Python ─▶ Parquet and zstd ─▶ all of calve
    upsert   nothing ─▶ scan ─▶ shuffle by key ─▶ to Arrow and Python ─▶ Parquet and zstd ─▶ all of calve

Every cut is a stream with a `foreachBatch` of its own over the same files, in turns with ours and the peer. A
line tells the time up to its cut; the note, what the step itself adds, and who spent the CPU. What ours adds
to plain Parquet is what it does beside: check rows, collapse keys, roll files, read bounds, fsync, keep
messages, commit. How long ours took for writing, keeping and committing stands in the last note, in its own
words.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figure import Figure
from benchmarks.place import scratch
from benchmarks.spark import append, data, ours, peers
from benchmarks.spark.cuts import APPEND, UPSERT, Cut
from benchmarks.spark.feed import Feed
from benchmarks.spark.meter import TRIGGER, Rounds, Running, Spent, take_turns
from benchmarks.spark.session import spark_session

_WARM_UPS = 2
_KEYS = 1_000_000
_CHANGES = 100_000


def run(quick: bool) -> list[Figure]:
    rounds, warm_ups = (1, 0) if quick else (5, _WARM_UPS)
    figures = []
    with scratch() as folder, spark_session(folder, peers.settings(folder)) as session:
        for shape in data.SHAPES:
            rows = 500 if quick else append.ROWS_A_FILE[shape]
            figures += _append(session, folder, shape, rows, warm_ups, rounds)
        figures += _upsert(session, folder, quick, warm_ups, rounds)
    return figures


def _append(
    session: Any, folder: Path, shape: str, rows_a_file: int, warm_ups: int, rounds: int
) -> list[Figure]:
    files = data.write_files(folder / "source" / shape, data.SHAPES[shape], append.FILES, rows_a_file)
    schema = session.read.parquet(str(files[0])).schema
    each = append.FILES_A_MICRO_BATCH
    streams = [_cut(session, folder, shape, schema, each, name, cut) for name, cut in APPEND.items()]
    watch = ours.Durations()
    streams.append(ours.stream(session, folder, shape, schema, files_a_micro_batch=each, watch=watch))
    streams.append(peers.append(session, folder, shape, schema, each))
    given = [files] * (warm_ups + rounds)
    return _profiled(f"append, {shape}", dict.fromkeys(streams, given), watch, warm_ups, append.FILES // each)


def _upsert(session: Any, folder: Path, quick: bool, warm_ups: int, rounds: int) -> list[Figure]:
    keys, count = (2_000, 200) if quick else (_KEYS, _CHANGES)
    rows = data.write_rows(folder / "rows", keys, keys)
    changes = data.change_rounds(folder / "changes", keys, count, warm_ups + rounds)
    schema = session.read.parquet(str(rows[0])).schema
    streams = [_cut(session, folder, "keyed", schema, 1, name, cut) for name, cut in UPSERT.items()]
    watch = ours.Durations()
    mine = ours.stream(session, folder, "keyed", schema, upsert=True, watch=watch)
    mine.round(rows)
    watch.forget()
    return _profiled("upsert", dict.fromkeys([*streams, mine], changes), watch, warm_ups, 1)


def _profiled(
    what: str,
    streams: Mapping[Running, list[list[Path]]],
    watch: ours.Durations,
    warm_ups: int,
    micro_batches: int,
) -> list[Figure]:
    took = take_turns(streams, warm_ups)
    for stream in streams:
        stream.stop()
    figures, before = [], Spent(0, 0, 0, 0)
    for name, rounds in took.items():
        note = _note(rounds, before)
        if name == ours.NAME:
            note += f"; of which, by its own clock, {_told(watch, warm_ups * micro_batches, micro_batches)}"
        figures.append(Figure(f"{what}: {name}", 1000 * rounds.wall_s, "ms", note=note))
        before = rounds.median
    return figures


def _note(rounds: Rounds, before: Spent) -> str:
    now = rounds.median
    jvm, workers = now.jvm_s - before.jvm_s, now.workers_s - before.workers_s
    return (
        f"{1000 * (now.wall_s - before.wall_s):+,.0f} ms; CPU: JVM {now.jvm_s:.2f} s ({jvm:+.2f}), "
        f"workers {now.workers_s:.2f} s ({workers:+.2f}), driver {now.driver_s:.2f} s"
    )


def _told(watch: ours.Durations, skipped: int, micro_batches: int) -> str:
    """The parts of a round as the sink timed them: medians of its micro-batches, times their number."""
    seen = watch.seen[skipped:]
    names = {name: None for one in seen for name in one}
    return ", ".join(
        f"{name} {micro_batches * median(one.get(name, 0.0) for one in seen):,.0f} ms" for name in names
    )


def _cut(
    session: Any, folder: Path, table: str, schema: Any, files_a_micro_batch: int, name: str, cut: Cut
) -> Running:
    place = folder / f"cut-{table}-{name.replace(' ', '-')}"
    feed, files = Feed(place / "feed"), place / "files"
    files.mkdir()

    def micro_batch(frame: Any, _: int) -> None:
        cut(frame, files)

    def start() -> Any:
        stream = feed.stream(session, schema, files_a_micro_batch).writeStream.foreachBatch(micro_batch)
        stream = stream.option("checkpointLocation", str(place / "checkpoint"))
        return stream.trigger(processingTime=TRIGGER).start()

    return Running(name, feed, start)
