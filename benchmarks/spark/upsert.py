"""Upsert of 100,000 changes into 10,000,000 rows in one micro-batch, against `foreachBatch` + `MERGE INTO`.

A tenth of the changes are deletes; keys are spread over the whole table. The peers are the two ways in which
Iceberg merges: copy-on-write rewrites every file that has such a key, merge-on-read looks the rows up and
names their positions. Ours reads nothing of the table; so beside it stands the same on 1,000,000 rows, which
must take as long. In the end all tables must hold the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, at_least, at_most
from benchmarks.place import scratch
from benchmarks.spark import data, ours, peers
from benchmarks.spark.meter import Rounds, Running, take_turns
from benchmarks.spark.same import check_same
from benchmarks.spark.session import spark_session

_ROWS_A_FILE = 500_000
_MODES = {"copied": peers.COPY_ON_WRITE, "marked": peers.MERGE_ON_READ}
_WARM_UPS = 2


def run(quick: bool) -> list[Figure]:
    large, small, count, rounds = (20_000, 2_000, 1_000, 1) if quick else (10_000_000, 1_000_000, 100_000, 5)
    warm_ups = 0 if quick else _WARM_UPS
    with scratch() as folder, spark_session(folder, peers.settings(folder)) as session:
        streams: dict[Running, list[list[Path]]] = {}
        for table, keys in (("small", small), ("large", large)):
            changes = data.change_rounds(folder / "changes", keys, count, warm_ups + rounds)
            rows = data.write_rows(folder / "rows" / table, keys, _ROWS_A_FILE)
            streams |= dict.fromkeys(_loaded(session, folder, table, rows), changes)
        took = take_turns(streams, warm_ups)
        for stream in streams:
            stream.stop()
        for table in _MODES:
            check_same(session, folder, "large", peers.full_name(table))
    return _figures(took, count, small, large)


def _loaded(session: Any, folder: Path, table: str, rows: Sequence[Path]) -> list[Running]:
    """Streams whose tables hold the rows: ours, and for the large table the peers'."""
    schema = session.read.parquet(str(rows[0])).schema
    mine = ours.stream(session, folder, table, schema, upsert=True, name=table)
    mine.round(rows)
    if table == "small":
        return [mine]
    return [mine, *(peers.merge(session, folder, name, schema, mode, rows) for name, mode in _MODES.items())]


def _figures(took: dict[str, Rounds], count: int, small: int, large: int) -> list[Figure]:
    mine, at_small = took.pop("large"), took.pop("small")
    better = min(took, key=lambda name: took[name].wall_s)
    what = f"upsert of {count:,} changes into {large:,} rows"
    figures = [
        Figure(
            what,
            1000 * mine.wall_s,
            "ms",
            at_least(10) if name == better else None,
            1000 * peer.wall_s,
            name,
            peer.wall_s / mine.wall_s,
            f"by CPU time {peer.cpu_s / mine.cpu_s:.1f}× ({mine.cpu_s:.1f} s and {peer.cpu_s:.1f} s); "
            f"slowest ÷ fastest round {mine.spread:.2f} and {peer.spread:.2f}",
        )
        for name, peer in took.items()
    ]
    grown = Figure(
        what,
        1000 * mine.wall_s,
        "ms",
        at_most(1.15),
        1000 * at_small.wall_s,
        f"itself, {small:,} rows",
        mine.wall_s / at_small.wall_s,
        f"by CPU time {mine.cpu_s / at_small.cpu_s:.2f}×",
    )
    return [*figures, grown]
