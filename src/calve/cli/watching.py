"""Watching: what a person sees of sinks at work, and what they did in the end.

    after each micro-batch ──▶ a terminal: a line for each sink, written over
                           └─▶ elsewhere: a line now and then, for a log

Lines go to stderr: stdout is for the result. `--quiet` leaves them out.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from calve.cli.console import manner, note, show, show_table
from calve.cli.terms import duration, short_time
from calve.model.meaning import Meaning

if TYPE_CHECKING:
    from calve.runtime.spark.job.run import Ran, RanTable

NOTE_SECONDS = 10.0
"""Between two lines of a sink, where there is no terminal."""
_COLUMNS = 80


class Lines:
    """A line for each sink, at the bottom of a terminal. Queries tell of themselves on threads of their
    own."""

    def __init__(self, sinks: Sequence[str], stream: TextIO) -> None:
        self._texts = dict.fromkeys(sinks, "waits for rows …")
        self._width = max(map(len, sinks), default=0)
        self._stream = stream
        self._drawn = 0
        self._lock = threading.Lock()

    def say(self, sink: str, text: str) -> None:
        """What is new of a sink."""
        with self._lock:
            self._texts[sink] = text
            self._draw()

    def draw(self) -> None:
        with self._lock:
            self._draw()

    def clear(self) -> None:
        """Leave the terminal as it was."""
        with self._lock:
            self._stream.write(self._up() + "\x1b[J")
            self._stream.flush()
            self._drawn = 0

    def _draw(self) -> None:
        """What wraps would not be written over by the next one: it is cut."""
        room = (os.get_terminal_size(self._stream.fileno()).columns or _COLUMNS) - 1
        lines = [f"{sink:<{self._width}}  {text}"[:room] for sink, text in self._texts.items()]
        self._stream.write(self._up() + "".join(f"\x1b[2K{line}\r\n" for line in lines))
        self._stream.flush()
        self._drawn = len(lines)

    def _up(self) -> str:
        return f"\r\x1b[{self._drawn}A" if self._drawn else "\r"


class Notes:
    """Lines of a log, not more of them than a person can read."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()

    def say(self, sink: str, text: str) -> None:
        """What is new of a sink, unless something was said a moment ago."""
        with self._lock:
            now = self._ticks()
            if now - self._last.get(sink, -NOTE_SECONDS) < NOTE_SECONDS:
                return
            self._last[sink] = now
        note(f"{sink}: {text}")


@contextmanager
def watching(sinks: Sequence[str]) -> Iterator[Callable[[Ran], None]]:
    """Who is told of micro-batches, for a while."""
    if manner().quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        notes = Notes()
        yield lambda ran: notes.say(ran.sink, so_far(ran))
        return
    lines = Lines(sinks, sys.stderr)
    lines.draw()
    try:
        yield lambda ran: lines.say(ran.sink, so_far(ran))
    finally:
        lines.clear()


def so_far(ran: Ran) -> str:
    """What a sink has done, in a line."""
    parts = [_many(ran.rows, "row"), _many(ran.snapshots, "snapshot")]
    last = ran.last
    if last is not None and last.frontier:
        parts.append(f"frontier {short_time(Meaning(last.source), last.frontier)}")
    if last is not None and last.lag_ms is not None:
        parts.append(f"{duration(last.lag_ms)} behind")
    if last is not None and last.held_by:
        parts.append(f"held by {last.held_by}")
    if last is not None and last.rows_stashed:
        parts.append(f"{last.rows_stashed:,} wait")
    if ran.quarantined:
        parts.append(f"{ran.quarantined:,} in quarantine")
    return " · ".join(parts)


def show_ran(ran: Sequence[Ran]) -> None:
    """What sinks did."""
    quarantined = any(one.quarantined for one in ran)
    headings = ("sink", "table", "rows", "snapshots", *(("quarantined",) if quarantined else ()), "frontier")
    rows = []
    for one in ran:
        for table in one.tables.values():
            counts = (table.rows, table.snapshots, *((table.quarantined,) if quarantined else ()))
            rows.append((one.sink, table.table, *(f"{count:,}" for count in counts), _frontier(table)))
    if rows:
        show_table(headings, rows, right=("rows", "snapshots", "quarantined"))
    idle = [one.sink for one in ran if not one.tables]
    if idle:
        show(f"Nothing was written for {', '.join(idle)}.")


def _frontier(table: RanTable) -> str:
    last = table.last
    return "" if last is None or not last.frontier else short_time(Meaning(last.source), last.frontier)


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
