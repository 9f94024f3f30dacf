"""Merge: rows that were sorted a piece at a time, sorted as a whole, in bounded memory (P9).

    run ─▶ chunk ─┐
    run ─▶ chunk ─┼─▶ least of the chunks' last rows ─▶ all rows up to it, sorted ─▶ table, table, …
    run ─▶ chunk ─┘

Guarantee: the tables that come out, one after the other, are all rows of all runs in the sort order; rows
that it does not tell apart come in the order of their runs. That holds because a run is sorted: what is
still on disk of it comes after the last row of its chunk. So whatever stands up to the least of these last
rows can be given away, and each row is sorted just once, among those it is given away with.

Chunks of all runs together take `bytes_max`. Where there are too many runs for that, or rows so large that
their chunks are, some are merged into longer runs on disk first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing

import pyarrow as pa

from calve.writer.order import Sort, order_of, rows_until, taken
from calve.writer.spill import Part, SpillFolder, append

_FAN_IN = 64
"""Runs that are merged at once: each is an open file and two chunks in memory."""
_CHUNK_BYTES_MIN = 128 * 1024
"""Below that the cost of a chunk is not its bytes."""
_PIECES = 8
"""Rows are put into their order in so many pieces: at once would be a copy of all, and each costs a call
for every column."""


def sorted_pieces(sort: Sort, rows: pa.Table) -> Iterator[pa.Table]:
    """Rows in their order, a piece at a time; what stands in order is not copied."""
    order = order_of(sort, rows)
    if order is None:
        yield rows
        return
    rows = rows.combine_chunks()
    step = -(-rows.num_rows // _PIECES)
    for start in range(0, rows.num_rows, step):
        yield taken(rows, order.slice(start, step))


def write_run(tables: Iterable[pa.Table], schema: pa.Schema, folder: SpillFolder, bytes_max: int) -> Part:
    """Rows that stand in order, on disk, in chunks of which two for each of many runs are `bytes_max`."""
    chunk_bytes = max(_CHUNK_BYTES_MIN, bytes_max // (2 * _FAN_IN))
    parts = [folder.part()]
    append((chunk for rows in tables for chunk in _chunks(rows, chunk_bytes)), schema, parts, None)
    return parts[0]


def _chunks(rows: pa.Table, bytes_max: int) -> Iterator[pa.Table]:
    """Rows cut in half until they are small enough, down to single ones: they may differ in size by much."""
    if rows.num_rows < 2 or rows.nbytes <= bytes_max:
        yield rows
        return
    middle = rows.num_rows // 2
    yield from _chunks(rows.slice(0, middle), bytes_max)
    yield from _chunks(rows.slice(middle), bytes_max)


def merged(sort: Sort, runs: list[Part], folder: SpillFolder, bytes_max: int) -> Iterator[pa.Table]:
    """All rows of the runs in their order. The files of the runs go as they are read."""
    while _together(runs, bytes_max) < len(runs):
        runs = _fewer(sort, runs, folder, bytes_max)
    return _merge(sort, runs, bytes_max)


def _together(runs: list[Part], bytes_max: int) -> int:
    """How many of the first runs can be merged at once: two at least."""
    taken_bytes = 0
    for count, run in enumerate(runs):
        taken_bytes += 2 * run.chunk_bytes_max
        if count >= 2 and (taken_bytes > bytes_max or count >= _FAN_IN):
            return count
    return len(runs)


def _fewer(sort: Sort, runs: list[Part], folder: SpillFolder, bytes_max: int) -> list[Part]:
    """The same rows in fewer runs: neighbours are merged, and no more of them than must be."""
    longer: list[Part] = []
    while runs:
        spare = len(longer) + len(runs) - _together(longer + runs, bytes_max)
        if not spare:
            break
        group = runs[: min(_together(runs, bytes_max), spare + 1)]
        runs = runs[len(group) :]
        if len(group) > 1:
            tables = _merge(sort, group, bytes_max)
            longer.append(write_run(tables, group[0].schema(), folder, bytes_max))
        else:
            longer += group
    return longer + runs


def _merge(sort: Sort, runs: list[Part], bytes_max: int) -> Iterator[pa.Table]:
    with ExitStack() as opened:
        sources = [_Source(run, bytes_max // (2 * len(runs)), opened) for run in runs]
        while sources := [source for source in sources if source.fill()]:
            yield _next_rows(sort, sources)
    for run in runs:
        run.remove()


class _Source:
    """A run that is read chunk by chunk."""

    def __init__(self, run: Part, bytes_wanted: int, opened: ExitStack) -> None:
        self._tables = opened.enter_context(closing(run.tables()))
        self._bytes_wanted = bytes_wanted
        self.rows = next(self._tables)
        self._unread_rows = run.rows - self.rows.num_rows
        self._bytes = self.rows.nbytes

    @property
    def has_more(self) -> bool:
        """Whether rows of the run are still on disk."""
        return self._unread_rows > 0

    def fill(self) -> bool:
        """Read on until enough rows are in memory; whether there are any.

        What is left of a chunk is filled up before it is used up. Else the run that is at its chunk's end
        would hold all others back, and a few rows would come out at a time."""
        while self.has_more and (self._bytes < self._bytes_wanted or not self.rows.num_rows):
            chunk = next(self._tables)
            self._unread_rows -= chunk.num_rows
            self._bytes += chunk.nbytes
            self.rows = pa.concat_tables([self.rows, chunk]) if self.rows.num_rows else chunk
        return self.rows.num_rows > 0

    def take(self, count: int) -> pa.Table:
        """The first rows, which are no longer here then."""
        first, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        self._bytes = self.rows.nbytes
        return first


def _next_rows(sort: Sort, sources: list[_Source]) -> pa.Table:
    """The rows that nothing on disk comes before, in their order."""
    pieces = [sources[place].take(count) for place, count in _ready_rows(sort, sources)]
    rows = pa.concat_tables(pieces) if len(pieces) > 1 else pieces[0]
    order = order_of(sort, rows)
    return rows if order is None else taken(rows, order)


def _ready_rows(sort: Sort, sources: list[_Source]) -> Iterator[tuple[int, int]]:
    """The sources whose first rows can be given away, and how many of them."""
    keys = [source.rows.select(list(dict.fromkeys(field.column for field in sort))) for source in sources]
    unread = [place for place, source in enumerate(sources) if source.has_more]
    if not unread:
        yield from ((place, source.rows.num_rows) for place, source in enumerate(sources))
        return
    lasts = pa.concat_tables([keys[place].slice(keys[place].num_rows - 1) for place in unread])
    least = _places(sort, lasts)[0]
    bound, end = unread[least], lasts.slice(least, 1)
    # Rows equal to the bound come before it from earlier runs, and after it from later ones.
    firsts = [key.slice(0, 1) for key in keys]
    heads = _places(sort, pa.concat_tables([*firsts[: bound + 1], end, *firsts[bound + 1 :]]))
    reached = heads[: heads.index(bound + 1)]
    for place in sorted(head if head <= bound else head - 1 for head in reached):
        if place == bound:
            yield place, sources[place].rows.num_rows
        else:
            yield place, rows_until(sort, keys[place], end, ties=place < bound)


def _places(sort: Sort, rows: pa.Table) -> list[int]:
    order = order_of(sort, rows)
    return list(range(rows.num_rows)) if order is None else order.to_pylist()
