"""Append of a stream of files, against Spark's own `writeStream.format("iceberg").toTable`, in three shapes.

Narrow numbers, 1 KB rows of words, and 100 columns. A round is a set of Parquet files that a stream takes in
several micro-batches, each a snapshot. Both streams get the same files in turns; throughput is rows over the
time of the micro-batches. In the end both tables must hold the same rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, at_least
from benchmarks.place import scratch
from benchmarks.spark import data, ours, peers
from benchmarks.spark.meter import Rounds, take_turns
from benchmarks.spark.same import check_same
from benchmarks.spark.session import spark_session

FILES, FILES_A_MICRO_BATCH = 8, 2
ROWS_A_FILE = {"numbers": 500_000, "words": 32_000, "wide": 25_000}
_TITLES = {"numbers": "narrow numbers", "words": "rows of 1 KB of words", "wide": "100 columns"}
_WARM_UPS = 2


def run(quick: bool) -> list[Figure]:
    rounds = 1 if quick else 5
    figures = []
    with scratch() as folder, spark_session(folder, peers.settings(folder)) as session:
        for shape in data.SHAPES:
            rows_a_file = 500 if quick else ROWS_A_FILE[shape]
            warm_ups = 0 if quick else _WARM_UPS
            figures.append(_figure(session, folder, shape, rows_a_file, rounds, warm_ups))
    best = max(figure.ratio or 0 for figure in figures)
    return [
        *figures,
        Figure("the best of the three", best, "×", at_least(1.2), note="≥ 1.2 × on one of them"),
    ]


def _figure(session: Any, folder: Path, shape: str, rows_a_file: int, rounds: int, warm_ups: int) -> Figure:
    files = data.write_files(folder / "source" / shape, data.SHAPES[shape], FILES, rows_a_file)
    schema = session.read.parquet(str(files[0])).schema
    mine = ours.stream(session, folder, shape, schema, files_a_micro_batch=FILES_A_MICRO_BATCH)
    peer = peers.append(session, folder, shape, schema, FILES_A_MICRO_BATCH)
    given = [files] * (warm_ups + rounds)
    took = take_turns({mine: given, peer: given}, warm_ups)
    mine.stop()
    peer.stop()
    check_same(session, folder, shape, peers.full_name(shape))
    rows = FILES * rows_a_file
    return _told(f"append of {rows:,} rows, {_TITLES[shape]}", rows, took[mine.name], took[peer.name])


def _told(what: str, rows: int, mine: Rounds, peer: Rounds) -> Figure:
    return Figure(
        what,
        rows / mine.wall_s,
        "rows/s",
        at_least(1.0),
        rows / peer.wall_s,
        "writeStream",
        peer.wall_s / mine.wall_s,
        f"by CPU time {peer.cpu_s / mine.cpu_s:.2f}× ({mine.cpu_s:.1f} s and {peer.cpu_s:.1f} s); "
        f"slowest ÷ fastest round {mine.spread:.2f} and {peer.spread:.2f}",
    )
