"""Arrangement: the rows of a batch in the order of its files, partition after partition, each sorted.

    add ─▶ waiting ──more than memory holds──▶ sorted run on disk ─┐
              │                                                    ▼
              └── all there is ──▶ sorted ──▶ cut by partition ◀── merged

Guarantee: every row comes out once, all rows of a partition come one after the other, and in the plan's sort
order over all of them; rows that it does not tell apart keep the order in which they were added. So a
partition is one run of files, however often the rows had to go to disk, and only one file is open at a time.
That holds for any partition and any key, as it asks nothing of how rows were cut up before: a key may have
moved between partitions, a partition may be larger than memory, and there may be any number of them.

Memory is a share of the scratch's: what waits is sorted and spilled when it is full, and the chunks of all
runs that are merged take as much (P9). Rows that all fit are never spilled.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from calve.writer.layout import Partitions, Values
from calve.writer.merge import merged, sorted_pieces, write_run
from calve.writer.plan import WritePlan
from calve.writer.spill import Part, Scratch, SpillFolder

_SHARE = 10
"""1/10 of the memory waits, or is merged: sorting it takes a copy, and its files are encoded beside it."""

_ROW_BYTES = 32
"""What a row takes beside its own bytes while it is put into order: keys may be much smaller than that."""


class Arrangement:
    """Rows in, in any order; partitions out. For tables that have partitions or a sort order."""

    def __init__(self, plan: WritePlan, scratch: Scratch) -> None:
        self._partitions = Partitions(plan.partition)
        self._sort = self._partitions.before(plan.sort)
        self._folder = scratch.folder
        self._bytes_max = scratch.memory_bytes_max // _SHARE
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._spill: SpillFolder | None = None
        self._runs: list[Part] = []

    def add(self, rows: pa.Table) -> None:
        """Take rows of the plan's columns; what waited is spilled if both are too many."""
        if not rows.num_rows:
            return
        taken_bytes = rows.nbytes + rows.num_rows * _ROW_BYTES
        if self._waiting and self._waiting_bytes + taken_bytes > self._bytes_max:
            self._move_to_disk()
        self._waiting.append(rows)
        self._waiting_bytes += taken_bytes

    def partitions(self) -> Iterator[tuple[Values, Iterator[pa.Table]]]:
        """Each partition's values and rows. Those of one are read before the next is asked for. To be asked
        once: the rows are gone then."""
        if self._runs:
            tables = self._merged()
        elif self._waiting:
            tables = sorted_pieces(self._sort, self._numbered())
        else:
            return
        runs = (run for table in tables for run in self._partitions.cut(table))
        for number, of_one in groupby(runs, key=itemgetter(0)):
            yield self._partitions[number], (rows for _, rows in of_one)

    def clear(self) -> None:
        """Forget everything, on disk too."""
        self._waiting, self._waiting_bytes, self._runs = [], 0, []
        if self._spill is not None:
            self._spill.remove()
            self._spill = None

    def _merged(self) -> Iterator[pa.Table]:
        if self._waiting:
            self._move_to_disk()
        assert self._spill is not None, "runs are on disk"
        runs, self._runs = self._runs, []
        return merged(self._sort, runs, self._spill, self._bytes_max)

    def _move_to_disk(self) -> None:
        if self._spill is None:
            self._spill = SpillFolder(self._folder)
        rows = self._numbered()
        schema, pieces = rows.schema, sorted_pieces(self._sort, rows)
        del rows  # or it would stay in memory beside the copy that is sorted
        self._runs.append(write_run(pieces, schema, self._spill, self._bytes_max))
        pa.default_memory_pool().release_unused()

    def _numbered(self) -> pa.Table:
        """All that waits, as one table. It waits no longer."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return self._partitions.number(pa.concat_tables(waiting))
