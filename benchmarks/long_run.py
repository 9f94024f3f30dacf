"""10,000 commits in a row, maintenance off: does our own part of a commit grow with the history?

The full run goes through the sink, files and all, against a catalog in this process whose own part does not
grow (light.py): with PyIceberg's SQL catalog, which reads and writes all of metadata.json each time, it would
take hours. Beside it, the same on the real SQLite catalog at three heights, made by group commits.

A window of 100 commits holds one merge of 100 manifests, wherever it begins. Medians are compared; the
averages, which hold the merges too, stand in the note. All of it is CPU time.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import cast

from pyiceberg.catalog import Catalog

from benchmarks.figure import Figure, at_most
from benchmarks.lake import catalog, commit_epoch, coordinator, grow, new_sink, new_table
from benchmarks.light import LightCatalog
from benchmarks.place import scratch
from calve import IcebergSink

_TARGET = at_most(1.5)


def run(quick: bool) -> list[Figure]:
    commits, after, window = (30, 5, 10) if quick else (10_000, 1_000, 100)
    heights = (10, 20) if quick else (1_000, 5_000, 10_000)
    return [_in_a_row(commits, after, window), *_at_heights(heights, 5 if quick else 30)]


def _in_a_row(commits: int, after: int, window: int) -> Figure:
    with scratch() as folder:
        opened = catalog(folder)
        light = LightCatalog(opened, new_table(opened, "row"))
        sink = new_sink(folder, "row", catalog=cast(Catalog, light))
        own = [_own_part(sink) for _ in range(commits)]
    first, last = own[after : after + window], own[-window:]
    return Figure(
        f"our own part, commits {commits - window:,} to {commits:,}",
        median(last),
        "ms",
        _TARGET,
        median(first),
        f"commits {after:,} to {after + window:,}",
        median(last) / median(first),
        f"on average, with merges: {fmean(last):.2f} ms against {fmean(first):.2f} ms; "
        f"the slowest of all: {max(own):.0f} ms",
    )


def _at_heights(heights: tuple[int, ...], samples: int) -> list[Figure]:
    """On SQLite, the first height is what the others are compared with."""
    figures: list[Figure] = []
    with scratch() as folder:
        opened = catalog(folder)
        identifier = new_table(opened, "high")
        for height in heights:
            run = coordinator(opened, identifier)
            grow(run, height)
            sink = new_sink(folder, "high", catalog=opened)
            _own_part(sink)  # merges what the growing left
            own = median(_own_part(sink) for _ in range(samples))
            base = figures[0].ours if figures else None
            figures.append(
                Figure(
                    f"the same on SQLite at {height:,} snapshots",
                    own,
                    "ms",
                    None if base is None else _TARGET,
                    base,
                    "" if base is None else f"at {heights[0]:,}",
                    None if base is None else own / base,
                    f"the catalog's part: {sink.metrics().last_catalog_ms:.0f} ms",
                )
            )
    return figures


def _own_part(sink: IcebergSink) -> float:
    """Commit one small epoch; all of the commit but the catalog's part, in milliseconds."""
    commit_epoch(sink, sink.frontier())
    metrics = sink.metrics()
    return metrics.last_commit_ms - metrics.last_catalog_ms
