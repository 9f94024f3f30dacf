"""Spool: the changes of an epoch, which may be larger than memory (P9).

    add ─▶ memory ──full──▶ latest of each key ──still full──▶ parts on disk, by key hash
                                                                    │ too large: split again, other seed
    parts ◀──────────────── collapse, one part at a time ◀──────────┘

Guarantee: memory stays under a share of `memory_bytes_max` however many changes and keys an epoch has,
and `parts` gives the net change of every key exactly once. All changes of a key have one hash, so they
meet in one part; a part is written and read in order of arrival, so the last one stays the last.

Changes are reduced to the latest of each key before they are spilled: a key that changes all the time
takes one row of a spill, not a hundred thousand (case 49).

`parts` can be asked again until `clear`: a batch whose premise broke is written again from here.
Rows without a key come back as they came, in pieces. Whatever comes out is in no order that files could
use: the worker arranges it (arrange.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from calve.writer.collapse import Sequence, collapse, latest, ties
from calve.writer.spill import FAN_OUT, Hash, Part, Scratch, SpillFolder, append, gathered, sweep
from calve.writer.transform import hash_keys

__all__ = ["Spool", "owned", "sweep"]

_HELD_SHARE = 5
"""1/5 of the limit waits in memory: reducing it takes a copy and as much again for hashing."""

_PART_SHARE = 10
"""1/10 of the limit is a part: its writer sorts it, splits it by partition and encodes it."""

_SPLITS_MAX = 5
"""16^5 parts; what is still too large then has few keys, and is folded instead of split."""

Finish = Callable[[pa.Table], pa.Table]
"""What is made of all that was kept of some keys."""

_LOOSE_TABLES_MAX = 256
"""So many small tables are joined to one: each has a cost of its own beside its bytes."""


class Spool:
    """The changes of one epoch at a time."""

    def __init__(
        self,
        folder: Path,
        memory_bytes_max: int,
        *,
        key: tuple[str, ...] = (),
        sequence: Sequence = (),
    ) -> None:
        """`folder` is made when something is spilled."""
        self.scratch = Scratch(folder, memory_bytes_max)
        """What the spool may take; the files that its parts go into take it after the spool."""
        self._key = key
        self._sequence = sequence
        self._held_bytes_max = memory_bytes_max // _HELD_SHARE
        self._part_bytes_max = memory_bytes_max // _PART_SHARE
        self._held: list[pa.Table] = []
        self._loose: list[pa.Table] = []
        self._held_bytes = 0
        self._spill: SpillFolder | None = None
        self._spilled: list[Part] = []

    @property
    def held_bytes(self) -> int:
        """Arrow bytes in memory."""
        return self._held_bytes

    @property
    def spilled_rows(self) -> int:
        return sum(part.rows for part in self._spilled)

    def add(self, changes: pa.Table) -> None:
        """Take changes, in order of arrival: conformed rows, with op codes where there is a key."""
        rows_max = _rows_of(changes, self._part_bytes_max)
        for start in range(0, changes.num_rows, rows_max):
            self._hold(owned(changes.slice(start, rows_max)))
            if self._held_bytes > self._held_bytes_max:
                self._reduce()
                if self._held_bytes > self._held_bytes_max // 2:
                    self._move_to_disk()

    def flush(self) -> None:
        """Move what is in memory to disk."""
        self._reduce()
        self._move_to_disk()

    def parts(self) -> Iterator[pa.Table]:
        """The net change of every key (or all rows, where there is no key), a part at a time. A part is
        best dropped before the next is asked for."""
        return self._finished(self._collapsed)

    def ties(self) -> Iterator[pa.Table]:
        """Key and sequence of the changes for which `parts` is refused."""
        return self._finished(lambda changes: ties(changes, self._key, sequence=self._sequence))

    def _finished(self, finish: Finish) -> Iterator[pa.Table]:
        if not self._spilled:
            self._reduce()
            yield from (finish(table) for table in self._held if table.num_rows)
            return
        self.flush()
        for part in self._spilled:
            yield from self._read(part, finish, splits=0)

    def rows(self) -> Iterator[pa.Table]:
        """What was added, reduced but not collapsed: a tie that a later change may still overtake is kept.
        The rows of a key come in their order of arrival."""
        self._reduce()
        yield from (table for part in self._spilled for table in part.tables())
        yield from self._held

    def clear(self) -> None:
        """Forget everything, on disk too. The spool can be used again."""
        self._forget_memory()
        self._spilled = []
        if self._spill is not None:
            self._spill.remove()
            self._spill = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def _hold(self, table: pa.Table) -> None:
        self._loose.append(table)
        self._held_bytes += table.nbytes
        if len(self._loose) >= _LOOSE_TABLES_MAX:
            self._held.append(pa.concat_tables(self._loose).combine_chunks())
            self._loose = []

    def _reduce(self) -> None:
        """Keep only what can still be the last change of its key."""
        tables = self._held + self._loose
        if not tables:
            return
        self._held, self._loose = [pa.concat_tables(tables)], []
        del tables
        if self._key:
            self._held = [latest(self._held[0], self._key, sequence=self._sequence)]
        self._held_bytes = self._held[0].nbytes

    def _move_to_disk(self) -> None:
        if not self._held:
            return
        if self._spill is None:
            self._spill = SpillFolder(self.scratch.folder)
        if not self._spilled:
            self._spilled = [self._spill.part() for _ in range(1 if self._hash(0) is None else FAN_OUT)]
        append(self._held, self._held[0].schema, self._spilled, self._hash(0))
        self._forget_memory()

    def _forget_memory(self) -> None:
        self._held, self._loose, self._held_bytes = [], [], 0
        pa.default_memory_pool().release_unused()

    def _read(self, part: Part, finish: Finish, splits: int) -> Iterator[pa.Table]:
        if not part.rows:
            return
        if not self._key:
            yield from gathered(part.tables(), self._part_bytes_max)
        elif part.arrow_bytes <= self._part_bytes_max:
            yield finish(pa.concat_tables(part.tables()))
        elif splits == _SPLITS_MAX:
            yield finish(self._folded(part))
        else:
            yield from self._split(part, finish, splits + 1)

    def _split(self, part: Part, finish: Finish, splits: int) -> Iterator[pa.Table]:
        """A part that is too large, as smaller ones. Their files last only as long as they are read: the
        part itself stays as it is, so that it can be read again."""
        assert self._spill is not None
        smaller = [self._spill.part() for _ in range(FAN_OUT)]
        try:
            pieces = gathered(part.tables(), self._part_bytes_max)
            append(pieces, part.schema(), smaller, self._hash(splits))
            for one in smaller:
                yield from self._read(one, finish, splits)
                one.remove()
        finally:
            for one in smaller:
                one.remove()

    def _folded(self, part: Part) -> pa.Table:
        """A part read piece by piece, where only the latest change of each key stays in memory."""
        kept: list[pa.Table] = []
        for piece in gathered(part.tables(), self._part_bytes_max):
            kept = [latest(pa.concat_tables([*kept, piece]), self._key, sequence=self._sequence)]
        return kept[0]

    def _collapsed(self, changes: pa.Table) -> pa.Table:
        return collapse(changes, self._key, sequence=self._sequence) if self._key else changes

    def _hash(self, splits: int) -> Hash | None:
        """How rows are told apart; each split has a seed of its own, or it would split nothing."""
        return (lambda rows: hash_keys(rows, self._key, splits + 1)) if self._key else None


def _rows_of(table: pa.Table, bytes_max: int) -> int:
    """How many rows of this table are about so many bytes."""
    return max(1, min(table.num_rows, table.num_rows * bytes_max // max(1, table.nbytes)))


def owned(table: pa.Table) -> pa.Table:
    """The same rows in memory of their own: a slice keeps the whole of what it was cut from alive."""
    if table.get_total_buffer_size() <= table.nbytes * 5 // 4 + 4096:
        return table
    # Two chunks are copied into one. (A schema's own empty table is not made for a uuid inside a struct.)
    return pa.concat_tables([table, table.slice(0, 0)]).combine_chunks()
