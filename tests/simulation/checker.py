"""The checker: told of every change of the table the moment it is applied, it holds the promises against it.

It knows what no client knows: the whole history, whoever expired what. P1 row by row on every snapshot
that main gets, P2 and P3 on bounds and batch ids, P4 on writers and generations, P5 on the files that
live snapshots name, P6 on progress, P7 on the store's counters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from calve.config.sink import FenceKind
from calve.model.batch import Batch, batch_id
from calve.model.progress import Progress
from tests.simulation.ledger import SINK, Ledger, Violation, note_of, progress_of
from tests.simulation.listed import row_is_right, total_is_right
from tests.simulation.reader import DATA_CONTENT, Reader, Rows, last_sequence
from tests.simulation.source import Source
from tests.simulation.store import SimStore


class Checker:
    """Holds the promises against one world."""

    def __init__(self, store: SimStore, source: Source, fence: FenceKind) -> None:
        self.store = store
        self.fence = fence
        self.source = source
        self.reader = Reader(store)
        self.ledger = Ledger()
        self.snapshots_checked = 0

    # -- every change -----------------------------------------------------------------------------

    def applied(self, before: TableMetadata, after: TableMetadata) -> None:
        """A change was applied."""
        known = {snapshot.snapshot_id for snapshot in before.snapshots}
        added = [snapshot for snapshot in after.snapshots if snapshot.snapshot_id not in known]
        self._sequences_grow(before, added)
        self._ids_are_unique(after)
        for snapshot in added:
            if snapshot.snapshot_id in self.ledger.parents and _is_named(snapshot, before, after):
                raise Violation(f"P3: snapshot {snapshot.snapshot_id} was added twice")
            self.ledger.parents[snapshot.snapshot_id] = snapshot.parent_snapshot_id
        ours = [snapshot for snapshot in added if progress_of(snapshot) is not None]
        if not ours:
            for snapshot in added:
                self._foreign(after, snapshot)
        elif self._is_claim(before, after, ours):
            self._claimed(before, after, ours)
        else:
            self._committed(before, after, ours)

    def _sequences_grow(self, before: TableMetadata, added: list[Snapshot]) -> None:
        last = last_sequence(before)
        for snapshot in added:
            # Before main has a snapshot there is no row whose age matters, and a first claim has no parent
            # that a catalog could hold its number against.
            counts = before.current_snapshot_id is not None
            if snapshot.sequence_number is None or (snapshot.sequence_number <= last and counts):
                raise Violation(f"sequence number {snapshot.sequence_number} comes after {last}")
            last = snapshot.sequence_number
            stamp = self.ledger.stamps.get(snapshot.parent_snapshot_id, 0)
            if snapshot.timestamp_ms <= stamp:
                raise Violation(f"timestamp {snapshot.timestamp_ms} comes after its parent's {stamp}")
            self.ledger.stamps[snapshot.snapshot_id] = snapshot.timestamp_ms

    def _ids_are_unique(self, after: TableMetadata) -> None:
        for ids in (
            [spec.spec_id for spec in after.partition_specs],
            [schema.schema_id for schema in after.schemas],
        ):
            if len(ids) != len(set(ids)):
                raise Violation(f"a schema or spec was added twice: {ids}")

    def _foreign(self, after: TableMetadata, snapshot: Snapshot) -> None:
        """Somebody else's: believed, but it may only add rows to what was there, or rewrite it."""
        parent = snapshot.parent_snapshot_id
        rows = self.reader.rows(after, snapshot)
        before = self._content(parent)
        self.ledger.contents[snapshot.snapshot_id] = rows
        if rows != before or parent in self.ledger.foreign:
            self.ledger.foreign.add(snapshot.snapshot_id)
        missing = before - rows
        if missing:
            raise Violation(
                f"P1: a foreign snapshot lost {dict(missing)}: is the simulation's rewrite right?"
            )

    def _is_claim(self, before: TableMetadata, after: TableMetadata, ours: list[Snapshot]) -> bool:
        if self.fence is FenceKind.TAG:
            return before.current_snapshot_id == after.current_snapshot_id
        return [_must(progress_of(one)).committed for one in ours] != [one.snapshot_id for one in ours]

    def _claimed(self, before: TableMetadata, after: TableMetadata, ours: list[Snapshot]) -> None:
        (snapshot,) = ours
        progress = _must(progress_of(snapshot))
        known = self.ledger.progress
        noted = note_of(self.fence, before)
        if known is None:
            if self.ledger.commits or progress.frontier or progress.generation != 1:
                raise Violation(f"P6: a first claim at frontier {progress.frontier}")
        else:
            # A property cannot be required: a claim that was under way when it was removed puts it back.
            if noted is None and (self.fence is FenceKind.TAG or progress.generation == 1):
                if self.ledger.commits:
                    raise Violation("P6: a sink whose tag was gone began again")
                known = replace(known, generation=0)
            elif self.fence is FenceKind.MAIN:
                self._follows(before, known)
            if (progress.frontier, progress.committed) != (known.frontier, known.committed):
                raise Violation(f"P6: a claim moved progress from {known} to {progress}")
            if progress.generation != known.generation + 1:
                raise Violation(f"P4: generation {progress.generation} follows {known.generation}")
        if note_of(self.fence, after) is not None:
            self.ledger.progress, self.ledger.held = progress, snapshot.snapshot_id
            # A first claim shows main; on main, every claim does.
            on_main = noted is None or self.fence is FenceKind.MAIN
            shown = before.current_snapshot_id if on_main else noted
            wanted = Counter() if shown is None else self._content(shown)
            rows = self.reader.rows(after, snapshot)
            if rows != wanted:
                raise Violation(f"a claim changed rows: {dict(rows)} for {dict(wanted)}")
            self.ledger.contents[snapshot.snapshot_id] = rows
            if shown in self.ledger.foreign:
                self.ledger.foreign.add(snapshot.snapshot_id)
            self._manifests_are_right(after, snapshot)

    def _follows(self, before: TableMetadata, known: Progress) -> None:
        """Main descends from what the sink must not lose: its last commit; on main, also its last claim."""
        root = known.committed if self.fence is FenceKind.TAG else self.ledger.held
        if not self.ledger.descends(before.current_snapshot_id, root):
            raise Violation(f"P6: built on a main that does not descend from {root}")

    def _committed(self, before: TableMetadata, after: TableMetadata, ours: list[Snapshot]) -> None:
        known = self.ledger.progress
        if known is None:
            raise Violation("P4: a commit without a claim")
        self._follows(before, known)
        if {after.current_snapshot_id, note_of(self.fence, after)} != {ours[-1].snapshot_id}:
            raise Violation("main and the tag did not move together")
        parent = before.current_snapshot_id
        for snapshot in ours:
            if snapshot.parent_snapshot_id != parent:
                raise Violation(f"snapshot {snapshot.snapshot_id} does not follow {parent}")
            known = self._one_batch(after, snapshot, known)
            parent = snapshot.snapshot_id
        self.ledger.progress, self.ledger.held = known, ours[-1].snapshot_id
        self.ledger.commits += 1

    def _one_batch(self, after: TableMetadata, snapshot: Snapshot, known: Progress) -> Progress:
        progress = _must(progress_of(snapshot))
        if (progress.writer, progress.generation) != (known.writer, known.generation):
            raise Violation(f"P4: run {progress.writer} committed after run {known.writer} had claimed")
        if progress.lower != known.frontier:
            raise Violation(f"P2: a batch begins at {progress.lower}, the frontier was {known.frontier}")
        batch = Batch(progress.lower, progress.frontier)
        if progress.batch_id != batch_id(SINK, after.table_uuid, batch.upper):
            raise Violation(f"P3: {batch} has id {progress.batch_id}")
        if progress.batch_id in self.ledger.batches:
            raise Violation(f"P3: {batch} was committed twice")
        if progress.committed != snapshot.snapshot_id:
            raise Violation(
                f"P6: snapshot {snapshot.snapshot_id} says that {progress.committed} was committed"
            )
        self.ledger.batches[progress.batch_id] = progress.writer
        self._content_is_right(after, snapshot, batch)
        self._manifests_are_right(after, snapshot)
        return progress

    def _content_is_right(self, after: TableMetadata, snapshot: Snapshot, batch: Batch) -> None:
        """P1: the source as of the upper; where others wrote rows, what was there with the batch applied."""
        parent = snapshot.parent_snapshot_id
        net = self.source.net(batch)
        wanted = Counter({row: count for row, count in self._content(parent).items() if row.id not in net})
        wanted.update(self.source.row(key, value) for key, value in net.items() if value is not None)
        rows = self.reader.rows(after, snapshot)
        if parent in self.ledger.foreign:
            self.ledger.foreign.add(snapshot.snapshot_id)
        else:
            state = self.source.state(batch.upper)
            wanted = Counter(self.source.row(key, value) for key, value in state.items())
        if rows != wanted:
            raise Violation(
                f"P1: after {batch} the table has {sorted(map(str, (rows - wanted).elements()))} too many "
                f"and lacks {sorted(map(str, (wanted - rows).elements()))}"
            )
        self.ledger.contents[snapshot.snapshot_id] = rows
        self.snapshots_checked += 1

    def _manifests_are_right(self, after: TableMetadata, snapshot: Snapshot) -> None:
        manifests = self.reader.manifests(snapshot)
        for manifest in manifests:
            row_is_right(manifest)
        files = [file for manifest in manifests for file in manifest.live]
        paths = Counter(file.path for file in files)
        if any(count > 1 for count in paths.values()):
            raise Violation(f"a file stands twice in snapshot {snapshot.snapshot_id}")
        for file in files:
            if not self.store.exists(file.path):
                raise Violation(f"P5: {file.path} is named and not there")
        data = [file for file in files if file.content == DATA_CONTENT]
        total_is_right(snapshot, "total-data-files", len(data))
        total_is_right(snapshot, "total-delete-files", len(files) - len(data))
        total_is_right(snapshot, "total-records", sum(file.records for file in data))
        total_is_right(snapshot, "total-files-size", sum(file.bytes for file in files))

    def _content(self, snapshot_id: int | None) -> Rows:
        return Counter() if snapshot_id is None else self.ledger.contents[snapshot_id]

    # -- at the end -------------------------------------------------------------------------------

    def at_the_end(self, metadata: TableMetadata | None) -> None:
        """P5 on everything that is live, P7 on everything that was done."""
        for act in ("read data", "delete data", "delete metadata"):
            if self.store.counts[act]:
                raise Violation(f"P7, P5: the sink did '{act}' {self.store.counts[act]} times")
        for snapshot in () if metadata is None else metadata.snapshots:
            for manifest in self.reader.manifests(snapshot):
                for path in (snapshot.manifest_list, manifest.path, *(file.path for file in manifest.live)):
                    if not self.store.exists(path):
                        raise Violation(
                            f"P5: {path} is named by live snapshot {snapshot.snapshot_id} and is gone"
                        )


def _must(progress: Progress | None) -> Progress:
    assert progress is not None
    return progress


def _is_named(snapshot: Snapshot, before: TableMetadata, after: TableMetadata) -> bool:
    """Whether anybody reads by it. A catalog that drops tags takes a claim twice, once it is expired: by then
    the sink has refused the catalog, and the claim has no row."""
    moved = after.current_snapshot_id != before.current_snapshot_id
    return moved or any(ref.snapshot_id == snapshot.snapshot_id for ref in after.refs.values())
