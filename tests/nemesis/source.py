"""The source: a stream of changes from a seed, as files, and what a table must show of it.

    changes in the order of their times ──each with a delay, some twice──▶ arrivals ──cut──▶ files ──▶ folder

A change is delivered at most `DELAY` after its time, counted in the stream's own time: so a frontier that is
the greatest time less `DELAY` is right however Spark cuts the files into micro-batches. Marks promise no more
than what was delivered; replays of what lies far below them come again. A third of all changes hit three hot
keys. Two changes never have the same time, so that the last one of a key is always known.

The truth is folded from the rows in plain Python. It shares nothing with the code under test.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.nemesis.kinds import Kind
from tests.nemesis.lakes import TABLE

Row = tuple[Any, ...]

DELAY = 600
SPAN = 400
"""The stream's time that a file is about."""
PARTITIONS = ("a", "b")

_STEP = 10
_KEYS = 60
_HOT_KEYS = 3
_REGIONS = ("north", "south", "west")
_STRAGGLES = DELAY * 9 // 10
_REPLAYS = DELAY * 12
_FIRST_MTIME_S = 1_700_000_000

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("v", pa.string()),
        ("region", pa.string()),
        ("at", pa.int64()),
        ("serial", pa.int64()),
        ("op", pa.string()),
        ("p", pa.string()),
        ("mark", pa.int64()),
    ]
)
BAD_OP = "?"
"""The op of a row that fits nowhere."""

SPARK_SCHEMA = "id long, v string, region string, at long, serial long, op string, p string, mark long"


@dataclass(frozen=True, slots=True)
class Change:
    """A change as its source made it. Its serial number is its identity."""

    serial: int
    id: int
    at: int
    op: str
    v: str | None
    region: str | None

    @property
    def fits(self) -> bool:
        return self.op != BAD_OP

    @property
    def partition(self) -> str:
        return PARTITIONS[self.id % len(PARTITIONS)]

    def row(self) -> dict[str, Any]:
        names = ("id", "v", "region", "at", "serial", "op")
        return {name: getattr(self, name) for name in names} | {"p": self.partition, "mark": None}


@dataclass(frozen=True, slots=True)
class File:
    """What is delivered at once."""

    changes: tuple[Change, ...]
    marks: tuple[tuple[str, int], ...] = ()

    def table(self) -> pa.Table:
        rows = [change.row() for change in self.changes]
        rows += [{"p": partition, "mark": time} for partition, time in self.marks]
        return pa.Table.from_pylist(rows, schema=SCHEMA)


@dataclass(order=True, slots=True)
class _Arrival:
    position: int
    tie: float
    change: Change = field(compare=False)
    first: bool = field(compare=False)


class Source:
    """A stream without an end; `rest` gives it one."""

    def __init__(self, seed: int, kind: Kind) -> None:
        self.kind = kind
        self._random = Random(f"{seed} {kind.name}")
        self._next = 0
        self._end = 0
        self._pending: list[_Arrival] = []

    def next_file(self) -> File:
        """The next changes that arrive, and what the partitions say then."""
        self._end += SPAN
        while self._next * _STEP < self._end:
            self._make()
        changes = []
        while self._pending and self._pending[0].position < self._end:
            changes.append(heapq.heappop(self._pending).change)
        return File(tuple(changes), tuple(self._marks(self._next * _STEP)))

    def rest(self) -> list[File]:
        """All that is under way, and then what closes every batch with a change in it."""
        beyond = self._next * _STEP
        left = [heapq.heappop(self._pending) for _ in range(len(self._pending))]
        files = [File(tuple(arrival.change for arrival in left))] if left else []
        if self.kind.frontier == "mark":
            files.append(File((), tuple((partition, beyond) for partition in PARTITIONS)))
        elif self.kind.is_timed:
            # Twice: a watermark is what the micro-batch before has seen.
            reach = beyond + 2 * DELAY + 2 * (self.kind.interval or 0)
            files += [File((Change(-1 - n, -1, reach + n, "I", "end", "north"),)) for n in (0, 1)]
        return files

    def _make(self) -> None:
        random, number = self._random, self._next
        self._next += 1
        at = number * _STEP + random.randrange(_STEP)
        hot = random.random() < 1 / 3
        id_ = random.randrange(_HOT_KEYS if hot else _KEYS)
        op = random.choice(("I", "U", "U", "U", "D"))
        if self.kind.quarantine and random.random() < 0.1:
            op = BAD_OP
        bare = op == "D" and random.random() < 0.5 and self.kind.mode == "upsert"
        change = Change(
            number,
            id_,
            at,
            op,
            None if bare else f"v{number}-{random.randrange(1000)}",
            None if bare else random.choice(_REGIONS),
        )
        delay = random.randrange(_STRAGGLES) if random.random() < 0.4 else 0
        self._send(at + delay, change, first=True)
        reach = _REPLAYS if self.kind.frontier in ("mark", "none") else _STRAGGLES
        while random.random() < 0.15:
            self._send(at + delay + random.randrange(max(reach - delay, 1)), change, first=False)

    def _send(self, position: int, change: Change, *, first: bool) -> None:
        heapq.heappush(self._pending, _Arrival(position, self._random.random(), change, first))

    def _marks(self, beyond: int) -> Iterable[tuple[str, int]]:
        if self.kind.frontier != "mark":
            return
        for partition in PARTITIONS:
            if self._random.random() < 0.3:
                continue  # it says nothing this time
            on_the_way = [
                arrival.change.at
                for arrival in self._pending
                if arrival.first and arrival.change.partition == partition
            ]
            promise = min(on_the_way, default=beyond)
            yield partition, promise
            if self._random.random() < 0.2:
                yield partition, max(0, promise - self._random.randrange(DELAY))  # an old word again


class Delivered:
    """The files that a stream has brought so far: into a folder, and for the truth."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.files: dict[str, File] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, file: File) -> None:
        """Make a file visible, all of it at once. Files are read in the order of their times of change."""
        name = f"{len(self.files):06d}.parquet"
        hidden = self.folder / f".{name}.tmp"
        pq.write_table(file.table(), hidden)
        moment = _FIRST_MTIME_S + len(self.files)
        os.utime(hidden, (moment, moment))
        self.files[name] = file
        hidden.rename(self.folder / name)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that are compared."""
        return self.kind.columns

    def may_end_at(self, upper: int) -> bool:
        """Whether a batch may end at a time."""
        return upper > 0

    @property
    def beyond(self) -> int:
        """A time after that of every change; the ones that only close batches do not count."""
        return max((change.at for change in self._changes() if change.id >= 0), default=-1) + 1

    def rows_before(self, frontier: int) -> list[Row]:
        """What a table shows that has everything before a frontier, in the stream's own time."""
        return self._fold([change for change in self._changes() if change.fits and change.at < frontier])

    def misfits(self) -> Counter[int]:
        """The rows that do not fit by their serial numbers, and how often each was delivered."""
        return Counter(change.serial for change in self._changes() if not change.fits)

    def rows_of(self, micro_batches: Iterable[Iterable[str]]) -> list[Row]:
        """What a table shows after micro-batches, each given by the names of its files."""
        state: dict[int, Row] = {}
        appended: list[Row] = []
        for names in micro_batches:
            changes = [change for name in names for change in self.files[name].changes]
            if self.kind.mode == "append":
                appended += (self._row(change) for change in changes)
                continue
            for change in sorted(changes, key=lambda one: one.at):
                self._apply(state, change)
        return in_order([*state.values(), *appended])

    def _fold(self, changes: list[Change]) -> list[Row]:
        if self.kind.mode == "append":
            return in_order(self._row(change) for change in changes)
        once = {change.serial: change for change in changes}.values()
        if self.kind.mode == "changelog":
            return in_order(self._row(change) for change in once)
        state: dict[int, Row] = {}
        for change in sorted(once, key=lambda one: one.at):
            self._apply(state, change)
        return in_order(state.values())

    def _apply(self, state: dict[int, Row], change: Change) -> None:
        if change.op == "D":
            state.pop(change.id, None)
        else:
            state[change.id] = self._row(change)

    def _row(self, change: Change) -> Row:
        row = (change.id, change.v, change.region, change.at, change.serial)
        words = {"I": "insert", "U": "upsert", "D": "delete"}
        return (*row, words[change.op]) if self.kind.mode == "changelog" else row

    def _changes(self) -> Iterable[Change]:
        return (change for file in self.files.values() for change in file.changes)


class Stream:
    """A source, and what it has delivered."""

    def __init__(self, seed: int, kind: Kind, folder: Path) -> None:
        self._source, self._delivered = Source(seed, kind), Delivered(kind, folder)
        self.folder = folder
        self.tables: Mapping[str, Delivered] = {TABLE: self._delivered}
        """What each table must show."""

    def deliver(self) -> None:
        """One more file."""
        self._delivered.add(self._source.next_file())

    def deliver_rest(self) -> None:
        """All that is under way, and the end."""
        for file in self._source.rest():
            self._delivered.add(file)


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def difference(seen: list[Row], truth: list[Row]) -> str:
    """What is lost, too much or doubled, for people."""
    count: dict[Row, int] = {}
    for row in seen:
        count[row] = count.get(row, 0) + 1
    for row in truth:
        count[row] = count.get(row, 0) - 1
    extra = {row: n for row, n in count.items() if n > 0}
    lost = {row: -n for row, n in count.items() if n < 0}
    return f"{len(seen)} rows, {len(truth)} expected; lost {_some(lost)}; too much {_some(extra)}"


def _some(rows: Mapping[Row, int]) -> str:
    shown = [f"{row} × {n}" if n > 1 else str(row) for row, n in sorted(rows.items(), key=repr)[:5]]
    return f"{len(rows)} ({', '.join(shown)})" if rows else "none"
