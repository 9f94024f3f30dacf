"""100 batches that are ready at once: one group commit against a hundred single ones.

Catching up costs one request to the catalog, not one a batch. On SQLite the request is quick and the table's
metadata is read and written once in place of a hundred times; against a catalog that takes 100 ms to answer
the requests are nearly all there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyiceberg.catalog import Catalog

from benchmarks.figure import Figure, at_least
from benchmarks.lake import catalog, coordinator, new_table, ready_batches
from benchmarks.measure import duel
from benchmarks.place import scratch
from calve.runtime.coordinator import Coordinator

_ANSWER_S = 0.1


class SlowCatalog:
    """A catalog that takes its time for every request; whatever is asked of it, another one answers."""

    def __init__(self, answers: Catalog) -> None:
        self._answers = answers

    def load_table(self, identifier: Any) -> Any:
        time.sleep(_ANSWER_S)
        return self._answers.load_table(identifier)

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        time.sleep(_ANSWER_S)
        return self._answers.commit_table(table, requirements, updates)


def run(quick: bool) -> list[Figure]:
    count, rounds = (5, 1) if quick else (100, 5)
    return [
        _figure(f"{count} batches in one commit, SQLite", count, rounds, lambda answers: answers, 5),
        _figure(
            f"{count} batches in one commit, a catalog of {_ANSWER_S * 1000:.0f} ms",
            count,
            1 if quick else 2,
            lambda answers: SlowCatalog(answers),  # type: ignore[arg-type, return-value]
            10,
        ),
    ]


def _figure(what: str, count: int, rounds: int, door: Callable[[Catalog], Catalog], bound: float) -> Figure:
    with scratch() as folder:
        opened = catalog(folder)
        runs = [
            _run(opened, door, f"{who}_{number}") for who in ("group", "single") for number in range(rounds)
        ]
        grouped, single = runs[:rounds], runs[rounds:]
        outcome = duel(
            rounds,
            lambda number: grouped[number].commit(ready_batches(grouped[number], count)),
            lambda number: _one_by_one(single[number], count),
        )
    return Figure(
        what,
        outcome.ours_s * 1000,
        "ms",
        at_least(bound),
        outcome.peer_s * 1000,
        f"{count} commits",
        outcome.speedup,
        f"by CPU time {outcome.speedup_cpu:.1f}×",
    )


def _run(opened: Catalog, door: Callable[[Catalog], Catalog], table: str) -> Coordinator:
    """A run on a new table; that it is claimed is no part of the time."""
    return coordinator(door(opened), new_table(opened, table))


def _one_by_one(run: Coordinator, count: int) -> None:
    for ready in ready_batches(run, count):
        run.commit([ready])
