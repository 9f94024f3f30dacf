"""As of: which snapshot shows a source at a time.

    main, newest first    foreign   commit [7, 9)   compaction   commit [4, 7)   foreign    expired …
    shows all before      9         9               7            7               4 (the lower of the next one)

A snapshot with the frontier F shows every change before F, and none from F on. So a time T, which counts
itself in, is shown by the newest snapshot of main with F <= T + 1. Snapshots of others between two commits
show of the sink what the commit below them does: the newest of them is taken, which is the one that was
compacted, and the one that is there when expiry took the commit itself.

Where expiry took it, the next commit above still says how far the table was: batches tile time, so its lower
is the frontier before it (P2). A sink that was dropped and begun again counts anew: its line ends at the
batch that begins at 0, and what is below is of another line.

`resolve` is what readers call; `pick` and `shown` are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table import Table

from calve.model.errors import BadTime, Diverged
from calve.model.meaning import Meaning
from calve.model.progress import Progress
from calve.table.fence import read_progress
from calve.table.history import Kind, SnapshotEntry, entries
from calve.table.lineage import main_line, trace
from calve.table.sinks import choose_sink, dropped, sink_ids


@dataclass(frozen=True, slots=True)
class Shown:
    """A snapshot of main, and how far it shows a sink."""

    snapshot_id: int
    frontier: int


@dataclass(frozen=True, slots=True)
class AsOf:
    """The snapshot that shows a source at a time."""

    sink_id: str
    time: int
    """What was asked for."""
    snapshot_id: int
    frontier: int
    """The snapshot shows every change before it."""
    newest: int
    """How far main is. A time from here on has not come yet: the snapshot shows what there is."""
    source: str
    """What times mean."""

    @property
    def meaning(self) -> Meaning:
        return Meaning(self.source)

    @property
    def reached(self) -> bool:
        """Whether main is past the time."""
        return self.time < self.newest


def resolve(table: Table, at: int | str | datetime, sink_id: str | None = None) -> AsOf:
    """The newest snapshot of main that shows only changes at or before a time of the source.

    `at` is a number, a text as the source prints its times, or a wall time where they are a clock. `sink_id`
    says whose time it is, where several sinks write to the table."""
    name = ".".join(table.name())
    every = entries(table.metadata)
    sink = _sink(table, every, name, sink_id)
    line = _main(table, every)
    found, whole = shown(line, sink, _tip(table, sink, line))
    source = _source(table, every, sink)
    if not found or source is None:
        raise BadTime(
            f"no snapshot of {name} shows anything of sink {sink}",
            hint="It has committed nothing yet, or the table was rolled back behind it, or expiry took all "
            "that says how far it was. `calve status` tells which.",
        )
    meaning = Meaning(source)
    time = meaning.parse(at)
    one = pick(found, time)
    if one is None and not whole:
        one = _kept_by_a_ref(table, every, sink, time)
    if one is None:
        raise _missing(name, sink, meaning, time, found, whole)
    return AsOf(sink, time, one.snapshot_id, one.frontier, found[0].frontier, source)


def pick(found: Sequence[Shown], time: int) -> Shown | None:
    """Of snapshots, newest first, the newest that shows only changes at or before a time."""
    return next((one for one in found if one.frontier <= time + 1), None)


def shown(
    line: Sequence[SnapshotEntry], sink_id: str, tip: int | None = None
) -> tuple[tuple[Shown, ...], bool]:
    """How far each snapshot of main shows a sink, newest first; and whether that is all from the sink's first
    batch on. `tip` is how far main is, where no snapshot of `line` says it."""
    found: list[Shown] = []
    waiting: list[int] = []
    below = tip
    for entry in line:
        waiting.append(entry.snapshot_id)
        if entry.sink_id != sink_id or entry.progress is None:
            continue
        frontier = entry.progress.frontier
        found += (Shown(one, frontier) for one in waiting if frontier)
        waiting = []
        below = entry.progress.lower if entry.kind is Kind.COMMIT else frontier
        if not below:
            return tuple(found), True
    found += (Shown(one, below) for one in waiting if below)
    return tuple(found), False


def _main(table: Table, every: Sequence[SnapshotEntry]) -> tuple[SnapshotEntry, ...]:
    by_id = {entry.snapshot_id: entry for entry in every}
    return tuple(by_id[snapshot.snapshot_id] for snapshot in main_line(table.metadata))


def _sink(table: Table, every: Sequence[SnapshotEntry], name: str, said: str | None) -> str:
    """A sink that was dropped has no progress any more, but its snapshots still say their times."""
    gone = [one for one in dropped(table.metadata) if any(entry.sink_id == one for entry in every)]
    if said in gone:
        return str(said)
    if said is None and len(gone) == 1 and not sink_ids(table.metadata):
        return gone[0]
    return choose_sink(table.metadata, name, said)


def _tip(table: Table, sink_id: str, line: Sequence[SnapshotEntry]) -> int | None:
    """How far main is, by the sink's progress, where no snapshot of main says it any more."""
    if any(entry.sink_id == sink_id and entry.progress is not None for entry in line):
        return None
    progress = _progress(table, sink_id)
    if progress is None or progress.committed is None:
        return None
    lineage = trace(table.metadata, progress.committed, table.io, progress.anchor)
    return progress.frontier if lineage.descends else None


def _source(table: Table, every: Sequence[SnapshotEntry], sink_id: str) -> str | None:
    for entry in every:
        if entry.sink_id == sink_id and entry.progress is not None:
            return entry.progress.source
    progress = _progress(table, sink_id)
    return None if progress is None else progress.source


def _progress(table: Table, sink_id: str) -> Progress | None:
    try:
        return read_progress(table, sink_id)
    except Diverged:  # a tag or a property that was moved by hand: snapshots may still tell
        return None


def _kept_by_a_ref(table: Table, every: Sequence[SnapshotEntry], sink_id: str, time: int) -> Shown | None:
    """A commit that a tag or a branch kept when expiry took those around it. Whether main descends from it,
    older metadata files say."""
    main = {snapshot.snapshot_id for snapshot in main_line(table.metadata)}
    for entry in every:
        if entry.sink_id != sink_id or entry.kind is not Kind.COMMIT or entry.snapshot_id in main:
            continue
        assert entry.progress is not None
        if entry.progress.frontier > time + 1:
            continue
        if trace(table.metadata, entry.snapshot_id, table.io).descends:
            return Shown(entry.snapshot_id, entry.progress.frontier)
    return None


def _missing(
    name: str, sink_id: str, meaning: Meaning, time: int, found: Sequence[Shown], whole: bool
) -> BadTime:
    why = "is before the first snapshot" if whole else "is before the oldest snapshot that expiry left"
    first, last = found[-1].frontier - 1, found[0].frontier - 1
    return BadTime(
        f"{_words(meaning, time)} {why} of sink {sink_id} in {name}",
        hint=f"Times from {_words(meaning, first)} to {_words(meaning, last)} are there.",
    )


def _words(meaning: Meaning, time: int) -> str:
    text, at = meaning.text(time), meaning.at(time)
    return text if at is None or "T" in text else f"{text} ({at:%Y-%m-%d %H:%M:%S} UTC)"
