"""The coordinator: one run of a sink, from its claim to its last commit.

    open ──▶ claim ──▶ ┌─▶ build ─▶ send ─▶ Landed ──▶ next batches
                       │               └─▶ Conflict, Unknown ─▶ look ─▶ judge ─┐
                       └────────────────── try again ◀─────────────────────────┤
                                                             done, stop, give up

It owns the clock, the attempts and the randomness; it decides nothing: `protocol` does, from what the
table shows. After any answer but Landed the table is read again. Snapshot ids are drawn once for all
attempts of a batch, also when the caller gives up and comes back: an id of ours in the table proves
that the batch is in it (P3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from uuid import UUID

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from calve.model.errors import (
    CatalogError,
    CatalogWithoutTags,
    CommitConflict,
    CommitUnknown,
    Diverged,
    Fenced,
    PremiseBroken,
    StoreError,
)
from calve.model.progress import Progress, claimed_property, tag_name
from calve.protocol.judge import Intent, Look, Verdict, judge
from calve.protocol.retry import Answer, RetryPolicy, Step, next_step
from calve.runtime.clock import Clock, SystemClock
from calve.runtime.foreign import Foreign
from calve.runtime.refusal import refusal
from calve.table.base import Base, last_sequence, read_base, read_progress, tag_snapshot
from calve.table.build import Attempt, Builder, Prepared, Ready
from calve.table.commit import Sent, load, send
from calve.table.lineage import trace
from calve.table.premises import broken

_SNAPSHOT_ID_BITS = 62


@dataclass(frozen=True, slots=True)
class Identity:
    """Which sink this is, and what its times mean."""

    table: tuple[str, ...]
    sink_id: str
    source: str

    @property
    def table_name(self) -> str:
        return ".".join(self.table)


@dataclass(slots=True)
class CommitStats:
    """What commits cost, for metrics and benchmarks."""

    commits: int = 0
    conflicts: int = 0
    unknowns: int = 0
    last_ms: float = 0.0
    last_catalog_ms: float = 0.0


class Coordinator:
    """One run of a sink."""

    def __init__(
        self,
        catalog: Catalog,
        identity: Identity,
        *,
        policy: RetryPolicy | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        halt_on_foreign_rows: bool = False,
    ) -> None:
        self._catalog = catalog
        self._identity = identity
        self._policy = policy or RetryPolicy()
        self._clock = clock or SystemClock()
        self._random = random or Random()
        self._builder = Builder(identity.sink_id)
        self._writer = UUID(int=self._random.getrandbits(128), version=4)
        self._base: Base | None = None
        self._progress: Progress | None = None
        self._held: int | None = None
        self._sequence_seen = 0
        self._doubts: tuple[Prepared, ...] = ()
        self._answer_open = False
        """A commit whose answer was lost may still be under way, and land later."""
        self.foreign = Foreign(identity.table_name, identity.sink_id, halt_on_foreign_rows)
        self.stats = CommitStats()

    @property
    def base(self) -> Base:
        """The table as this run last saw it."""
        assert self._base is not None, "claim first"
        return self._base

    @property
    def progress(self) -> Progress:
        """Where the sink stands, as this run last read or wrote it."""
        assert self._progress is not None, "claim first"
        return self._progress

    def refresh(self) -> Base:
        """Read the table again: the next batch is planned on what is there now. An answer that is older than
        what was seen already, or shows another table, changes nothing: what it means is judged when the
        batch is committed."""
        table = self._load()
        if table.metadata.table_uuid == self.base.metadata.table_uuid:
            self._see_newer(table)
        return self.base

    # -- claim ---------------------------------------------------------------------------------

    def claim(self) -> Progress:
        """Make the sink this run's own. From here on, every commit of an older run is refused (P4)."""
        snapshot_id = self._draw_snapshot_id()
        request: Attempt | None = None
        for attempt in range(1, self._policy.attempts_max + 1):
            if attempt > 1:
                self._pause(attempt - 1)
            table = self._try_load(attempt)
            if table is None or not self._see_newer(table):
                continue
            held = tag_snapshot(table.metadata, self._identity.sink_id)
            shown = self._shown()
            overtaken = request and shown and shown.generation > request.progress.generation
            if (held is not None and held.snapshot_id == snapshot_id) or overtaken:
                # A claim of ours whose answer was lost may have landed before the other: then this run was
                # fenced, and a fenced run never claims again by itself.
                return self._claimed(snapshot_id)
            request = self._claim_attempt(snapshot_id)
            sent = self._send(request)
            if sent.answer is Answer.LANDED:
                # A catalog may take a tag and not keep it: only what a fresh read shows counts. One that is
                # older than the answer (case 25), or of another table, shows nothing: the next round reads
                # again.
                uuid, table = self.base.metadata.table_uuid, self._try_load(attempt)
                if table is not None and table.metadata.table_uuid == uuid and self._see_newer(table):
                    return self._claimed(snapshot_id)
        raise CommitConflict(
            f"the claim of sink {self._identity.sink_id} was not taken in {self._policy.attempts_max} "
            "attempts",
            hint="Is another run of the same sink started again and again? Stop it, then start this one.",
        )

    def _claim_attempt(self, snapshot_id: int) -> Attempt:
        base = self.base
        known = read_progress(base.metadata, self._identity.sink_id)
        if known is not None:
            self._check_resumable(known)
        else:
            self._check_unclaimed()
        progress = (
            replace(known, generation=known.generation + 1, writer=self._writer)
            if known is not None
            else Progress(
                sink_id=self._identity.sink_id,
                frontier=0,
                lower=0,
                generation=1,
                writer=self._writer,
                source=self._identity.source,
            )
        )
        return self._builder.claim(base, progress, snapshot_id, self._clock.now_ms())

    def _check_unclaimed(self) -> None:
        """A table that knows the sink but has no tag lost its progress: it is not begun again by itself."""
        sink_id, metadata = self._identity.sink_id, self.base.metadata
        mark = claimed_property(sink_id)
        if mark in metadata.properties:
            raise Diverged(
                f"{self._identity.table_name} was written by sink {sink_id}, but its tag "
                f"{tag_name(sink_id)} is gone",
                hint="Create the tag again at the sink's last snapshot. To begin again from zero instead, "
                f"use another sink id, or unset the table property {mark}.",
            )

    def _check_resumable(self, known: Progress) -> None:
        if known.source != self._identity.source:
            raise Diverged(
                f"sink {known.sink_id} counts its times as '{known.source}', this run as "
                f"'{self._identity.source}'",
                hint="Run it with the source it was begun with, or start a new sink under another id.",
            )
        lineage = trace(self.base.metadata, known.committed, self.base.io)
        if not lineage.descends:
            raise refusal(Verdict.ROLLED_BACK, self._identity.table_name, known, lower=known.frontier)
        self.foreign.count(lineage)

    def _claimed(self, snapshot_id: int) -> Progress:
        metadata = self.base.metadata
        held = tag_snapshot(metadata, self._identity.sink_id)
        if held is None:
            raise CatalogWithoutTags(
                f"the catalog accepted the claim of {self._identity.table_name} and keeps no tag",
                hint="calve keeps a sink's progress in a tag. Use a catalog that stores Iceberg tags.",
            )
        progress = read_progress(metadata, self._identity.sink_id)
        assert progress is not None
        if held.snapshot_id != snapshot_id:
            raise refusal(Verdict.FENCED, self._identity.table_name, progress, lower=progress.frontier)
        self._progress, self._held = progress, snapshot_id
        return progress

    # -- commit --------------------------------------------------------------------------------

    def commit(self, batches: Sequence[Ready]) -> Progress:
        """Publish batches, each as one snapshot, all in one compare-and-swap.

        Raises `Fenced`, `RolledBack`, `Gap`, `Diverged` or `TableReplaced` for what the table shows,
        `PremiseBroken` if the batches must be written again, `CommitConflict` if they certainly were not
        committed, and `CommitUnknown` if that stayed open: then call again, with the same batches or with
        the same bounds written anew.
        """
        started = self._clock.ticks_ms()
        self.stats.last_catalog_ms = 0.0
        self._check_lineage()
        prepared = self._prepare(batches)
        self._check_premises(prepared)
        attempt = 0
        while True:  # `_settle` gives up when the attempts are used up
            attempt += 1
            request = self._build(prepared)
            self._doubts = (*(doubt for doubt in self._doubts if doubt not in prepared), *prepared)
            sent = self._send(request)
            if sent.answer is Answer.LANDED:
                return self._landed(request.progress, request.tag_snapshot, started)
            if self._settle(prepared, sent, attempt, started):
                return self.progress

    def _check_lineage(self) -> None:
        """The base may have been read without a judgement, after a claim, a lost answer or a refresh: a main
        that was rolled back meanwhile is not built on (case 42)."""
        lineage = trace(self.base.metadata, self.progress.committed, self.base.io)
        if not lineage.descends:
            raise refusal(
                Verdict.ROLLED_BACK, self._identity.table_name, self.progress, lower=self.progress.frontier
            )
        self.foreign.count(lineage)

    def _build(self, prepared: tuple[Prepared, ...]) -> Attempt:
        try:
            return self._group_commit(prepared)
        except StoreError:
            # What the base names may be compacted and expired by now: then the table has moved on.
            seen = self.base.main
            if self._look(prepared) is not Verdict.COMMIT or self.base.main == seen:
                raise
            self._check_premises(prepared)
            return self._group_commit(prepared)

    def _group_commit(self, prepared: tuple[Prepared, ...]) -> Attempt:
        now_ms = self._clock.now_ms()
        return self._builder.group_commit(self.base, prepared, self.progress, self._held_or_fail(), now_ms)

    def _prepare(self, batches: Sequence[Ready]) -> tuple[Prepared, ...]:
        """Manifests and ids for batches; what an earlier call left in doubt keeps its own."""
        known = {id(doubt.ready): doubt for doubt in self._doubts}
        return tuple(
            known.get(id(ready)) or self._builder.prepare(self.base, ready, self._draw_snapshot_id())
            for ready in batches
        )

    def _settle(self, prepared: tuple[Prepared, ...], sent: Sent, attempt: int, started: float) -> bool:
        """After an answer that was not Landed: read and judge until the table tells. True: it is in."""
        while True:
            verdict = self._look(prepared)
            step = next_step(verdict, attempt, self._clock.ticks_ms() - started, self._policy)
            if step is Step.DONE:
                self._adopt(prepared, started)
                return True
            if step is Step.STOP:
                assert verdict is not None
                raise refusal(
                    verdict, self._identity.table_name, self._shown(), lower=prepared[0].ready.batch.lower
                ) from sent.cause
            if step is Step.GIVE_UP:
                # A refusal is certain only where the table was read since and no other answer is open.
                certain = verdict is Verdict.COMMIT and not self._answer_open
                raise self._given_up(prepared, sent, certain=certain)
            self._pause(attempt)
            if step is Step.TRY_AGAIN:
                self._check_premises(prepared)
                return False
            attempt += 1

    def _look(self, prepared: tuple[Prepared, ...]) -> Verdict | None:
        """Read the table and judge; `None` if it cannot be read now."""
        try:
            table = self._load()
            progress = read_progress(table.metadata, self._identity.sink_id)
            lineage = trace(table.metadata, None if progress is None else progress.committed, table.io)
            intent = self._intent(prepared)
            held = tag_snapshot(table.metadata, self._identity.sink_id)
            wanted = frozenset(intent.snapshot_ids)
            look = Look(
                table_uuid=table.metadata.table_uuid,
                last_sequence=last_sequence(table.metadata),
                ours=wanted & {snapshot.snapshot_id for snapshot in table.metadata.snapshots},
                tag_snapshot=None if held is None else held.snapshot_id,
                progress=progress,
                descends=lineage.descends,
            )
            verdict = judge(intent, look)
            if verdict is not Verdict.STALE and verdict is not Verdict.REPLACED:
                self._see(table)
        except (CatalogError, StoreError):
            return None
        if verdict is Verdict.COMMIT:
            self.foreign.count(lineage)
        return verdict

    def _intent(self, prepared: tuple[Prepared, ...]) -> Intent:
        # A batch that was given up in doubt and written again may still land under its first id.
        ids = {item.snapshot_id for item in (*prepared, *self._doubts)}
        return Intent(
            table_uuid=self.base.metadata.table_uuid,
            snapshot_ids=tuple(sorted(ids)),
            lower=prepared[0].ready.batch.lower,
            tag_snapshot=self._held,
            sequence_seen=self._sequence_seen,
        )

    def _adopt(self, prepared: tuple[Prepared, ...], started: float) -> None:
        """A commit of ours is in the table though its answer was lost: go on from what the table says."""
        progress = self._shown()
        upper = prepared[-1].ready.batch.upper
        if progress is not None and progress.writer == self._writer and progress.frontier == upper:
            held = tag_snapshot(self.base.metadata, self._identity.sink_id)
            assert held is not None
            self._landed(progress, held.snapshot_id, started)
            return
        if progress is not None and progress.writer != self._writer and progress.frontier >= upper:
            # It landed, and another run has claimed the sink since: the next commit will find that out.
            last = prepared[-1].snapshot_id
            self._landed(replace(self.progress, frontier=upper, committed=last), last, started)
            return
        raise Diverged(
            f"an earlier commit of {self._identity.table_name} landed with other bounds than "
            f"{prepared[-1].ready.batch}",
            hint="Start the sink again: it goes on from what the table says.",
        )

    def _landed(self, progress: Progress, held: int, started: float) -> Progress:
        self._progress, self._held, self._doubts, self._answer_open = progress, held, (), False
        self.stats.commits += 1
        self.stats.last_ms = self._clock.ticks_ms() - started
        return progress

    def _given_up(
        self, prepared: tuple[Prepared, ...], sent: Sent, *, certain: bool
    ) -> CommitConflict | CommitUnknown:
        bounds = f"[{prepared[0].ready.batch.lower}, {prepared[-1].ready.batch.upper})"
        place = f"{bounds} of {self._identity.table_name}"
        error: CommitConflict | CommitUnknown
        if certain:
            error = CommitConflict(
                f"{place} was not committed: others kept changing the table",
                hint="Commit it again, with fewer writers beside it or more commit attempts. "
                "Its files are kept.",
            )
        else:
            error = CommitUnknown(
                f"{place} may or may not be committed: the catalog did not say ({type(sent.cause).__name__})",
                hint="Commit the same epoch again once the catalog answers. Its files are kept, and it "
                "cannot be committed twice.",
            )
        error.__cause__ = sent.cause
        return error

    def _check_premises(self, prepared: tuple[Prepared, ...]) -> None:
        for item in prepared:
            reasons = broken(item.ready.premises, self.base.metadata, self.base.manifests)
            if reasons:
                raise PremiseBroken(
                    f"{item.ready.batch} of {self._identity.table_name} cannot be committed as it was "
                    "written: " + "; ".join(reasons),
                    hint="The batch must be written again on the table as it is now.",
                )

    # -- the edge ------------------------------------------------------------------------------

    def _send(self, request: Attempt) -> Sent:
        before = self._clock.ticks_ms()
        sent = send(self._catalog, self.base, request)
        if sent.base is not None:
            # Inside of the catalog's time: letting the old metadata go takes milliseconds a thousand
            # snapshots.
            self._base = sent.base
            self._sequence_seen = max(self._sequence_seen, last_sequence(sent.base.metadata))
        self.stats.last_catalog_ms += self._clock.ticks_ms() - before
        match sent.answer:
            case Answer.LANDED:
                pass
            case Answer.CONFLICT:
                self.stats.conflicts += 1
            case Answer.UNKNOWN:
                self.stats.unknowns += 1
                self._answer_open = True
        return sent

    def _load(self) -> Table:
        return load(self._catalog, self._identity.table)

    def _try_load(self, attempt: int) -> Table | None:
        try:
            return self._load()
        except CatalogError:
            if attempt >= self._policy.attempts_max:
                raise
            return None

    def _see(self, table: Table) -> None:
        self._base = read_base(table)
        self._sequence_seen = max(self._sequence_seen, last_sequence(table.metadata))

    def _see_newer(self, table: Table) -> bool:
        """See a table, unless a replica that lags showed it."""
        if self._base is None or table.metadata.table_uuid != self._base.metadata.table_uuid:
            self._sequence_seen = 0
        newer = last_sequence(table.metadata) >= self._sequence_seen
        if newer:
            self._see(table)
        return newer

    def _shown(self) -> Progress | None:
        return read_progress(self.base.metadata, self._identity.sink_id)

    def _held_or_fail(self) -> int:
        if self._held is None:
            raise Fenced(f"{self._identity.table_name} is not claimed by this run", hint="Claim it first.")
        return self._held

    def _pause(self, attempt: int) -> None:
        self._clock.wait_ms(self._policy.backoff_ms(attempt, self._random.random()))

    def _draw_snapshot_id(self) -> int:
        return self._random.getrandbits(_SNAPSHOT_ID_BITS) + 1
