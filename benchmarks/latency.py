"""Commit latency on the local SQLite catalog: a new table, and one with 2,000 snapshots, against PyIceberg.

A commit is a small epoch from its first row to its snapshot, against `Table.append` of the same rows. Our own
part is all but the catalog's reading and writing of metadata.json, which grows with the history whoever
commits; it is CPU time, as the files are in memory and there is nothing to wait for. The median is over as
many commits as a merge of manifests takes, so that no length of the manifest list is left out.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from benchmarks.figure import Figure, at_least, at_most
from benchmarks.lake import (
    commit_epoch,
    new_sink,
    plain_catalog,
    small_rows,
    table_with_history,
)
from benchmarks.measure import Took, milliseconds, timed
from benchmarks.place import scratch
from calve import IcebergSink


def run(quick: bool) -> list[Figure]:
    commits, peer_rounds, height = (4, 1, 20) if quick else (96, 8, 2000)
    with scratch() as folder:
        sink = new_sink(folder, "new")
        first = timed(commit_epoch, sink, 0)
        new, new_own = _commits(sink, commits)
        identifier = table_with_history(folder, "old", height)
        old, old_own, peer = _beside_peer(folder, identifier, commits, peer_rounds)
    ratios = [peer_took.wall_s / milliseconds(old) * 1000 for peer_took in peer]
    return [
        Figure(
            "commit on a new table",
            milliseconds(new),
            "ms",
            at_most(100, "ms"),
            note=f"the first, with the table's creation and the claim: {first.wall_s * 1000:.0f} ms",
        ),
        Figure(
            f"commit at {height:,} snapshots",
            milliseconds(old),
            "ms",
            at_least(5),
            milliseconds(peer),
            "PyIceberg append",
            median(ratios),
            f"by CPU time {median(t.cpu_s for t in peer) / median(t.cpu_s for t in old):.1f}×",
        ),
        Figure(
            f"our own part at {height:,} snapshots",
            median(old_own),
            "ms",
            at_most(1.3),
            median(new_own),
            "new table",
            median(old_own) / median(new_own),
            f"on average {sum(old_own) / len(old_own):.2f} ms against {sum(new_own) / len(new_own):.2f} ms",
        ),
    ]


def _commits(sink: IcebergSink, count: int) -> tuple[list[Took], list[float]]:
    """Commits in a row, and our own part of each in milliseconds."""
    took, own = [], []
    for _ in range(count):
        took.append(timed(commit_epoch, sink, sink.frontier()))
        metrics = sink.metrics()
        own.append(metrics.last_commit_ms - metrics.last_catalog_ms)
    return took, own


def _beside_peer(
    folder: Path, identifier: tuple[str, ...], commits: int, rounds: int
) -> tuple[list[Took], list[float], list[Took]]:
    """Ours and PyIceberg's commits in turns, each on a table with the same history."""
    height = len(plain_catalog(folder).load_table(identifier).metadata.snapshots)
    peer_table = plain_catalog(folder).load_table(table_with_history(folder, "peer", height))
    sink = new_sink(folder, identifier[-1])
    ours, own, peer = [], [], []
    for number in range(rounds):
        took, parts = _commits(sink, commits // rounds)
        ours += took
        own += parts
        peer.append(timed(peer_table.append, small_rows(height + number)))
    return ours, own, peer
