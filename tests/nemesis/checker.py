"""The checker: every snapshot of a table against the source as of its frontier.

    lake ──pointer──▶ metadata.json ──snapshots──▶ DuckDB reads each ──▶ equal to the truth (P1, P3, P5)
                                    ──main───────▶ batches tile, uppers grow (P2), once each (P3)
                                    ──all, in the order of their sequence──▶ generations grow (P4)
                                    ──tag────────▶ progress is there, and never goes back (P6)

It knows neither calve nor PyIceberg: a lake for the pointer and the metadata (lakes.py), an engine that we
did not write for the rows. A snapshot is read once, when it is first seen, and compared once more at the end:
a frontier that promised too much is found when what it missed has arrived.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.nemesis.kinds import Kind
from tests.nemesis.lakes import LOCATION, QUARANTINE, TABLE, Lake, sink_id
from tests.nemesis.source import Delivered, Row, difference, in_order


class Violation(AssertionError):
    """A promise is broken."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot as it was read."""

    snapshot_id: int
    frontier: int
    rows: list[Row]
    columns: Mapping[str, bool]
    """Those that are compared, and whether the table had them then; one that it had not is null."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the sink's tag says."""

    frontier: int
    generation: int
    writer: str


class Checker:
    """What was seen of one table so far."""

    def __init__(
        self,
        kind: Kind,
        lake: Lake,
        delivered: Delivered,
        duck: Any,
        micro_batches: Callable[[], Sequence[Sequence[str]]],
        table: str = TABLE,
    ) -> None:
        """`micro_batches`: the files of each of them, for kinds whose time is the micro-batch."""
        self._kind, self._lake, self._delivered, self._duck = kind, lake, delivered, duck
        self._micro_batches = micro_batches
        self.table = table
        lake.open_to_duckdb(duck)
        self.seen: dict[int, Seen] = {}
        self.newest_ms = 0
        """The time of the last snapshot that was read: older ones may be expired."""
        self._main: list[int] = []
        self._batches: set[str] = set()
        self._frontier = 0
        self._claims: list[tuple[int, int, str]] = []
        """Sequence number, generation and writer of every snapshot of the sink."""
        self._tag = Progress(0, 0, "")

    @property
    def sink_id(self) -> str:
        return sink_id(self._lake, self.table)

    @property
    def commits(self) -> int:
        """Batches that are in the table."""
        return len(self._batches)

    def check(self) -> Progress:
        """Look at all that is new, and say where the sink stands."""
        metadata = self._lake.metadata(self.table)
        if metadata is None:
            if self.seen:
                raise Violation("the table is gone")
            return self._tag
        snapshots = sorted(metadata["snapshots"], key=lambda one: one["sequence-number"])
        for snapshot in snapshots:
            if snapshot["snapshot-id"] not in self.seen:
                self._read(metadata, snapshot)
                self.newest_ms = max(self.newest_ms, snapshot["timestamp-ms"])
        self._check_generations(snapshots)
        self._check_main(metadata)
        self._check_progress(metadata)
        if self._kind.quarantine:
            self.check_quarantine(complete=False)
        return self._tag

    def check_quarantine(self, *, complete: bool) -> None:
        """Rows that do not fit are in the table beside, each as often as it was delivered (P8)."""
        metadata = self._lake.metadata(QUARANTINE)
        kept: Counter[int] = Counter()
        if metadata is not None:
            rows = self._duck.execute(f"SELECT row FROM iceberg_scan('{metadata[LOCATION]}')")
            kept = Counter(json.loads(row)["serial"] for (row,) in rows.fetchall())
        truth = self._delivered.misfits()
        if kept - truth or (complete and truth - kept):
            raise Violation(
                f"P8: of {truth.total()} rows that do not fit, the quarantine has {kept.total()}; by serial "
                f"number, too much {dict(kept - truth)}, lost {dict(truth - kept) if complete else '(open)'}"
            )

    def check_again(self) -> None:
        """All that was seen, against all that has arrived since."""
        for seen in self.seen.values():
            self._compare(seen)

    def check_at(self, upper: int) -> None:
        """Compare what the table shows as of a time, which may be the upper of another table's snapshot."""
        seen = max(
            (one for one in self.seen.values() if one.frontier <= upper),
            key=lambda one: one.frontier,
            default=Seen(0, 0, [], {}),
        )
        truth = self._truth(upper)
        if seen.rows != truth:
            raise Violation(
                f"P1: {self.table} is at {seen.frontier} where another table is at {upper}, and is not the "
                f"source then: {difference(seen.rows, truth)}"
            )

    def expected_at_the_end(self) -> int:
        """The frontier behind which everything is, once the stream has ended."""
        if not self._kind.is_timed:
            return len(self._micro_batches())
        return self._delivered.beyond * self._kind.unit

    def all_taken(self) -> bool:
        """Whether Spark has planned every file that was delivered."""
        return {name for names in self._micro_batches() for name in names} == set(self._delivered.files)

    # ---------------------------------------------------------------- what each snapshot shows

    def _read(self, metadata: dict[str, Any], snapshot: dict[str, Any]) -> None:
        said = snapshot["summary"].get("calve.frontier")
        parent = snapshot.get("parent-snapshot-id")
        if said is None and parent is not None and parent not in self.seen:
            raise Violation(f"snapshot {snapshot['snapshot-id']} of somebody else follows an unknown one")
        frontier = int(said) if said is not None else (0 if parent is None else self.seen[parent].frontier)
        schemas = {one["schema-id"]: one["fields"] for one in metadata["schemas"]}
        names = {field["name"] for field in schemas[snapshot["schema-id"]]}
        known = {name: name in names for name in self._delivered.columns}
        columns = ", ".join(f'"{name}"' if there else "NULL" for name, there in known.items())
        scan = f"iceberg_scan('{metadata[LOCATION]}', snapshot_from_id = {snapshot['snapshot-id']}::UBIGINT)"
        rows = in_order(self._duck.execute(f"SELECT {columns} FROM {scan}").fetchall())
        seen = Seen(snapshot["snapshot-id"], frontier, rows, known)
        self._compare(seen)
        self.seen[seen.snapshot_id] = seen

    def _compare(self, seen: Seen) -> None:
        truth = self._truth(seen.frontier)
        if seen.rows != truth:
            raise Violation(
                f"P1: snapshot {seen.snapshot_id} of {self.table} with frontier {seen.frontier} differs from "
                "the source: " + difference(seen.rows, truth)
            )

    def _truth(self, frontier: int) -> list[Row]:
        if self._kind.is_timed:
            # The first time at or after the frontier, in the stream's own unit.
            return self._delivered.rows_before(-(-frontier // self._kind.unit))
        return self._delivered.rows_of(self._micro_batches()[:frontier])

    # ---------------------------------------------------------------- how they follow one another

    def _check_generations(self, snapshots: Sequence[dict[str, Any]]) -> None:
        """Once a run has claimed the sink, nothing of an older run follows (P4)."""
        known = {claim[0] for claim in self._claims}
        for snapshot in snapshots:
            summary = snapshot["summary"]
            if "calve.generation" in summary and snapshot["sequence-number"] not in known:
                self._claims.append(
                    (
                        snapshot["sequence-number"],
                        int(summary["calve.generation"]),
                        summary["calve.writer"],
                    )
                )
        self._claims.sort()
        writers: dict[int, str] = {}
        newest = 0
        for sequence, generation, writer in self._claims:
            if generation < newest:
                raise Violation(
                    f"P4: generation {generation} has a snapshot (sequence number {sequence}) after "
                    f"generation {newest} had claimed the sink"
                )
            if writers.setdefault(generation, writer) != writer:
                raise Violation(f"P4: two runs have generation {generation}")
            newest = generation

    def _check_main(self, metadata: dict[str, Any]) -> None:
        by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata["snapshots"]}
        new = []
        current = metadata.get("refs", {}).get("main", {}).get("snapshot-id")
        while current is not None and current not in self._main:
            if current not in by_id:
                raise Violation(f"main leads to {current}, which was expired before it was seen")
            new.append(by_id[current])
            current = by_id[current].get("parent-snapshot-id")
        if self._main and current != self._main[-1]:
            raise Violation(f"main does not descend from {self._main[-1]}, where it was")
        for snapshot in reversed(new):
            self._main.append(snapshot["snapshot-id"])
            if "calve.frontier" in snapshot["summary"]:
                self._check_batch(snapshot)

    def _check_batch(self, snapshot: dict[str, Any]) -> None:
        summary = snapshot["summary"]
        lower, upper = int(summary["calve.lower"]), int(summary["calve.frontier"])
        if lower != self._frontier or upper <= lower:
            raise Violation(
                f"P2: snapshot {snapshot['snapshot-id']} is the batch [{lower}, {upper}), after frontier "
                f"{self._frontier}"
            )
        if summary["calve.batch-id"] in self._batches:
            raise Violation(f"P3: the batch [{lower}, {upper}) is in the table twice")
        if not self._delivered.may_end_at(upper):
            raise Violation(f"the batch [{lower}, {upper}) ends where the source was never resolved")
        self._batches.add(summary["calve.batch-id"])
        self._frontier = upper

    def _check_progress(self, metadata: dict[str, Any]) -> None:
        tag = metadata.get("refs", {}).get(f"calve-{self.sink_id}")
        if tag is None:
            if self._tag.generation:
                raise Violation("P6: the sink's tag is gone")
            return
        summary = next(
            one["summary"] for one in metadata["snapshots"] if one["snapshot-id"] == tag["snapshot-id"]
        )
        now = Progress(
            int(summary["calve.frontier"]), int(summary["calve.generation"]), summary["calve.writer"]
        )
        if now.frontier != self._frontier:
            raise Violation(
                f"P6: the tag says frontier {now.frontier}, and main has batches up to {self._frontier}"
            )
        if now.frontier < self._tag.frontier or now.generation < self._tag.generation:
            raise Violation(f"P6: progress went back from {self._tag} to {now}")
        self._tag = now
