"""The checker: a table's whole history against the source and against what the runs were told.

    all snapshots, in the order in which the catalog took them ──▶ claims and commits
        claim:  generation + 1, progress as it was, rows as they were           (P4, P6)
        commit: by the run that claimed last (P4), lower = the frontier (P2), a batch once (P3), on main,
                rows = the source as of its frontier and what others inserted (P1), every file there (P5)
    tag ──▶ the last of them (P6)
    acknowledged epochs ──▶ each is the snapshot that the run was told

It reads the table at the server itself, not through the proxy, and shares no code with the sink. Nobody
expires snapshots while it looks: claims, which no branch names, are a part of the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tests.faults.reader import Reader
from tests.faults.source import Row, Source
from tests.support.truth import rows_of, snapshots_of_main, summary_of


class Violation(AssertionError):
    """A promise is broken."""


@dataclass(slots=True)
class Told:
    """What the sink told its callers."""

    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    """Epoch and snapshot id of every commit that was said to be in the table."""
    skipped: list[int] = field(default_factory=list)
    """Epochs that were said to be in the table before."""
    fenced: list[tuple[str, str]] = field(default_factory=list)
    """A writer that was told that another run has claimed the sink, and who held it then."""


@dataclass(frozen=True, slots=True)
class _Progress:
    frontier: int = 0
    committed: str | None = None
    generation: int = 0
    writer: str = ""


class Checker:
    """Holds the promises against one table."""

    def __init__(self, table: Table, source: Source, sink_id: str) -> None:
        self._table = table
        self._source = source
        self._sink_id = sink_id
        self._reader = Reader(table.io)
        self._main = {snapshot.snapshot_id for snapshot in snapshots_of_main(table)}
        self._foreign: dict[int | None, Counter[Row]] = {None: Counter()}
        """By snapshot of main, the rows in it that others inserted."""
        self._batches: dict[str, int] = {}
        self._writers: dict[str, int] = {}
        self._known = _Progress()
        self._last: Snapshot | None = None
        self.commits = self.claims = self.inserts = 0

    def check(self, told: Told) -> None:
        """All promises; raises `Violation` with the first that is broken."""
        sequence = 0
        for snapshot in self._table.metadata.snapshots:
            number = snapshot.sequence_number or 0
            if number < sequence or (number == sequence and self._last is not None and self.commits):
                raise Violation(f"{snapshot.snapshot_id} has sequence number {number} after {sequence}")
            sequence = number
            self._files_are_there(snapshot)
            summary = summary_of(snapshot)
            if summary.get("calve.sink-id") != self._sink_id:
                self._inserted(snapshot)
            elif summary.get("calve.committed") == str(snapshot.snapshot_id):
                self._committed(snapshot, summary)
            else:
                self._claimed(snapshot, summary)
        self._tag_is_right()
        self._was_told(told)
        self._another_reader_agrees()

    # ---------------------------------------------------------------- one snapshot

    def _inserted(self, snapshot: Snapshot) -> None:
        """Somebody else's rows: what was there stays, whatever it is."""
        parent = snapshot.parent_snapshot_id
        before = self._rows_of(parent)
        rows = self._reader.rows(snapshot)
        lost = before - rows
        if lost or snapshot.snapshot_id not in self._main:
            raise Violation(f"P1: the insert {snapshot.snapshot_id} lost {_some(lost)}")
        self._foreign[snapshot.snapshot_id] = self._foreign[parent] + (rows - before)
        self.inserts += 1

    def _claimed(self, snapshot: Snapshot, summary: Mapping[str, str]) -> None:
        said = _progress(summary)
        known = self._known
        if snapshot.snapshot_id in self._main:
            raise Violation(f"the claim {snapshot.snapshot_id} is on main")
        if said.generation != known.generation + 1 or said.writer in self._writers:
            raise Violation(f"P4: generation {said.generation} of {said.writer} follows {known}")
        if (said.frontier, said.committed) != (known.frontier, known.committed):
            raise Violation(f"P6: a claim moved progress from {known} to {said}")
        if self._last is not None and self._reader.rows(snapshot) != self._reader.rows(self._last):
            raise Violation(f"P1: the claim {snapshot.snapshot_id} shows other rows than its tag did")
        self._writers[said.writer] = said.generation
        self._known, self._last = said, snapshot
        self.claims += 1

    def _committed(self, snapshot: Snapshot, summary: Mapping[str, str]) -> None:
        said = _progress(summary)
        known = self._known
        if (said.writer, said.generation) != (known.writer, known.generation):
            raise Violation(
                f"P4: generation {said.generation} committed {snapshot.snapshot_id} after {known.generation} "
                "had claimed the sink"
            )
        lower = int(summary["calve.lower"])
        if lower != known.frontier or said.frontier <= lower:
            raise Violation(f"P2: [{lower}, {said.frontier}) follows the frontier {known.frontier}")
        if self._batches.setdefault(summary["calve.batch-id"], said.frontier) != said.frontier:
            raise Violation(f"P3: the batch up to {said.frontier} has the id of another")
        if snapshot.snapshot_id not in self._main:
            raise Violation(f"P2: [{lower}, {said.frontier}) is not on main")
        parent = snapshot.parent_snapshot_id
        before = None if parent is None else self._table.snapshot_by_id(parent)
        if before is not None and snapshot.timestamp_ms <= before.timestamp_ms:
            raise Violation(f"snapshot {snapshot.snapshot_id} has a time before its parent's")
        self._foreign[snapshot.snapshot_id] = self._foreign[parent]
        self._rows_are_right(snapshot, said.frontier)
        self._known, self._last = said, snapshot
        self.commits += 1

    def _rows_are_right(self, snapshot: Snapshot, frontier: int) -> None:
        rows = self._reader.rows(snapshot)
        wanted = self._source.state(frontier) + self._foreign[snapshot.snapshot_id]
        if rows != wanted:
            raise Violation(
                f"P1: snapshot {snapshot.snapshot_id} at frontier {frontier} has {_some(rows - wanted)} too "
                f"many and lacks {_some(wanted - rows)}"
            )

    def _files_are_there(self, snapshot: Snapshot) -> None:
        gone = self._reader.missing(snapshot)
        if gone:
            raise Violation(f"P5: {snapshot.snapshot_id} names {gone[0]}, which is gone")

    def _rows_of(self, snapshot_id: int | None) -> Counter[Row]:
        snapshot = None if snapshot_id is None else self._table.snapshot_by_id(snapshot_id)
        return Counter() if snapshot is None else self._reader.rows(snapshot)

    # ---------------------------------------------------------------- the whole

    def _tag_is_right(self) -> None:
        tag = self._table.metadata.refs.get(f"calve-{self._sink_id}")
        if self._last is None:
            if tag is not None:
                raise Violation("P6: there is a tag and no claim")
            return
        if tag is None or tag.snapshot_id != self._last.snapshot_id:
            raise Violation(f"P6: the tag is {tag}, the sink's last snapshot {self._last.snapshot_id}")

    def _was_told(self, told: Told) -> None:
        frontiers = {
            snapshot.snapshot_id: summary_of(snapshot).get("calve.frontier")
            for snapshot in self._table.metadata.snapshots
            if snapshot.snapshot_id in self._main
        }
        for epoch, snapshot_id in told.acknowledged:
            if frontiers.get(snapshot_id) != str(epoch + 1):
                raise Violation(
                    f"P3: epoch {epoch} was acknowledged as snapshot {snapshot_id}, which main does not have"
                )
        ids = Counter(epoch for epoch, _ in told.acknowledged)
        for epoch, count in ids.items():
            if count > 1:
                raise Violation(f"P3: epoch {epoch} was acknowledged {count} times")
        for epoch in told.skipped:
            if epoch >= self._known.frontier:
                raise Violation(f"P6: epoch {epoch} was skipped at frontier {self._known.frontier}")
        for writer, holder in told.fenced:
            if writer == holder:
                raise Violation(f"P4: {writer} was told that it is fenced, and holds the sink")

    def _another_reader_agrees(self) -> None:
        """The slow reader of all tests, on what main shows at last."""
        current = self._table.current_snapshot()
        if current is None or not self._table.location().startswith("file:"):
            return  # it reads local files alone
        slow = Counter((row["id"], row["v"]) for row in rows_of(self._table))
        if slow != self._reader.rows(current):
            raise Violation("two readers of one snapshot differ")


def _progress(summary: Mapping[str, str]) -> _Progress:
    return _Progress(
        int(summary["calve.frontier"]),
        summary.get("calve.committed"),
        int(summary["calve.generation"]),
        summary["calve.writer"],
    )


def _some(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows)[:5]
