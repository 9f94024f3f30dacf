"""Racers: processes that are started once and begin whatever they are told at the same moment.

They are forked from one process that has imported the sink: eight imports of their own would take longer than
all races together.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from threading import Barrier, BrokenBarrierError
from types import TracebackType
from typing import Any, Self

_WAIT_S = 100
_IMPORTED = [
    "calve.runtime.sink",
    "calve.table.catalogs.sql",
    "obstore.store",
    "psycopg",
    "pyarrow.parquet",
    "pyiceberg.catalog.rest",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "tests.conformance.test_races",
]
_start: Barrier | None = None


class Racers:
    """As many processes as race. One task each, and none is done before all have begun."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_IMPORTED)
        self.count = count
        self._start = context.Barrier(count)
        self._pool = ProcessPoolExecutor(count, context, initializer=_remember, initargs=(self._start,))

    def race(self, task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What the task returned in each process; it calls `together` where all wait for one another."""
        assert len(arguments) == self.count
        self._start.reset()
        return [done.result(_WAIT_S) for done in [self._pool.submit(task, *one) for one in arguments]]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()


def together() -> None:
    """In a racer: wait until all racers are here."""
    assert _start is not None
    try:
        _start.wait(_WAIT_S)
    except BrokenBarrierError as error:
        raise AssertionError("a racer did not come") from error


def _remember(start: Barrier) -> None:
    global _start
    _start = start
