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

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from calve.model.errors import (
    AccessDenied,
    CalveError,
    CatalogError,
    CommitConflict,
    CommitUnknown,
    Diverged,
    Fenced,
    PremiseBroken,
    StoreError,
)
from calve.model.progress import Progress
from calve.protocol.judge import Intent, Look, Verdict, judge
from calve.protocol.retry import Answer, Step, next_step
from calve.runtime.claim import Check, claim
from calve.runtime.hold import Hold
from calve.runtime.refusal import refusal
from calve.table.base import last_sequence
from calve.table.build import Attempt, Prepared, Ready
from calve.table.commit import Sent, may_pass, refuses
from calve.table.premises import Before, broken
from calve.table.sinks import check_not_dropped


@dataclass(slots=True)
class Pending:
    """Batches on their way into the table."""

    prepared: tuple[Prepared, ...]
    started: float
    attempt: int = 0


class Coordinator(Hold):
    """One run of a sink."""

    _progress: Progress | None = None
    _held: int | None = None
    """What this run last claimed or committed."""
    _main_at_claim: int | None = None
    _abandoned: frozenset[int] = frozenset()
    """Snapshot ids of doubts whose rows were given up: they may land, and are then not what was asked."""
    _denied: AccessDenied | None = None
    """The last look was answered that our login is no longer good."""
    _doubts: tuple[Prepared, ...] = ()
    """What was sent and is not known to have landed: it keeps its snapshot ids."""

    @property
    def progress(self) -> Progress:
        """Where the sink stands, as this run last read or wrote it."""
        assert self._progress is not None, "claim first"
        return self._progress

    def claim(self, check: Check | None = None) -> Progress:
        """Make the sink this run's own. From here on, every commit of an older run is refused (P4). `check`
        may refuse the table that is about to be claimed."""
        claimed = claim(self, check)
        self._progress, self._held = claimed.progress, claimed.held
        self._main_at_claim = self.base.main
        return claimed.progress

    def commit(self, batches: Sequence[Ready]) -> Progress:
        """Publish batches, each as one snapshot, all in one compare-and-swap.

        Raises `Fenced`, `RolledBack`, `Gap`, `Diverged` or `TableReplaced` for what the table shows,
        `PremiseBroken` if the batches must be written again, `CommitConflict` if they certainly were not
        committed, and `CommitUnknown` if that stayed open: then call again, with the same batches or with
        the same bounds written anew.
        """
        pending = self.begin_commit(batches)
        while pending is not None:  # `settle` gives up when the attempts are used up
            request = self.build(pending)
            sent = self.send(request)
            if sent.answer is Answer.LANDED:
                self._landed(request.progress, request.held, pending.started)
                break
            if self.settle(pending, request, sent):
                break
        return self.progress

    def begin_commit(self, batches: Sequence[Ready]) -> Pending | None:
        """The first step of a commit: batches that may be sent; `None` if they are in the table already."""
        started = self.clock.ticks_ms()
        self.stats.last_catalog_ms = 0.0
        # The caller may have been interrupted after the base was seen with them, and before that was noted.
        self._take_note({doubt.snapshot_id for doubt in self._doubts} - self._abandoned)
        if batches[-1].batch.upper == self.progress.frontier:
            return None  # they are in the table: the caller was interrupted after they landed (P3)
        self._check_tiling(batches)
        self._check_lineage()
        prepared = self._prepare(batches)
        self._check_premises(prepared)
        return Pending(prepared, started)

    def build(self, pending: Pending) -> Attempt:
        """The request of the next attempt. From here on the batches are in doubt: it is sent."""
        pending.attempt += 1
        prepared = pending.prepared
        request = self._build(prepared)
        self._doubts = (*(doubt for doubt in self._doubts if doubt not in prepared), *prepared)
        return request

    def _check_tiling(self, batches: Sequence[Ready]) -> None:
        """Batches follow the frontier and one another without a gap (P2)."""
        frontier = self.progress.frontier
        for ready in batches:
            lower = ready.batch.lower
            if lower != frontier:
                verdict = Verdict.GAP if lower > frontier else Verdict.DIVERGED
                raise refusal(verdict, self.identity.table_name, self.progress, lower=lower)
            frontier = ready.batch.upper

    def abandon(self) -> None:
        """The rows of what is in doubt are given up: should it land, that is no answer to another commit."""
        self._abandoned |= {doubt.snapshot_id for doubt in self._doubts}

    def resolve(self) -> None:
        """Ask the table about what is in doubt, if anything is: what landed is progress from here on."""
        if self._doubts:
            self.refresh()
            self._take_note({doubt.snapshot_id for doubt in self._doubts})

    def _take_note(self, doubts: Set[int]) -> None:
        """If the base shows that one of these landed, that is progress."""
        held = self.found()
        if held and held.progress.writer == self.writer and held.progress.committed in doubts:
            self._landed(held.progress, held.snapshot_id, self.clock.ticks_ms())

    def _check_lineage(self) -> None:
        """The base may have been read without a judgement, after a claim, a lost answer or a refresh: a main
        that was rolled back meanwhile is not built on (case 42), nor one that another run has claimed."""
        held, lower = self.found(), self.progress.frontier
        if held is None:
            raise self._refusal(Verdict.DIVERGED, lower)
        if held.progress.writer != self.writer:
            raise self._refusal(Verdict.FENCED, lower)
        lineage = self.fence.lineage(self.base.table, held, self._main_at_claim)
        if not lineage.descends:
            raise self._refusal(Verdict.ROLLED_BACK, lower)
        self.foreign.count(lineage)

    def _refusal(self, verdict: Verdict, lower: int) -> CalveError:
        held = self.found()
        if held is None:
            check_not_dropped(self.identity.table_name, self.base.metadata, self.identity.sink_id)
        progress = self.progress if held is None else held.progress
        return refusal(verdict, self.identity.table_name, progress, lower=lower, root=self.fence.root(held))

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
        held = self._held_or_fail()
        return self.builder.group_commit(self.base, prepared, self.progress, held, self.now_ms())

    def _prepare(self, batches: Sequence[Ready]) -> tuple[Prepared, ...]:
        """Manifests and ids for batches; what an earlier call left in doubt keeps its own."""
        known = {id(doubt.ready): doubt for doubt in self._doubts}
        return tuple(
            known.get(id(ready)) or self.builder.prepare(self.base, ready, self.draw_snapshot_id())
            for ready in batches
        )

    def settle(self, pending: Pending, request: Attempt, sent: Sent) -> bool:
        """After an answer that shows nothing of the table: read and judge until the table tells. True: the
        batches are in. False: they are to be sent again."""
        prepared, attempt, started = pending.prepared, pending.attempt, pending.started
        built_on = self.base.metadata.last_updated_ms
        while True:
            verdict = self._look(prepared)
            step = next_step(verdict, attempt, self.clock.ticks_ms() - started, self.policy)
            if step is Step.DONE:
                self._adopt(prepared, started)
                return True
            if step is Step.STOP:
                assert verdict is not None
                raise self._refusal(verdict, prepared[0].ready.batch.lower) from sent.cause
            if step is Step.GIVE_UP:
                # A refusal is certain only where the table shows what it was refused for. One that shows
                # nothing of it, or is older, may come from a replica that lags behind our commit (case 25).
                moved = self.base.metadata.last_updated_ms > built_on and refuses(self.base, request)
                certain = verdict is Verdict.COMMIT and moved and not self.answer_open
                if self._denied is not None:
                    raise self._denied
                raise self._given_up(prepared, sent, certain=certain)
            self.pause(attempt)
            if step is Step.TRY_AGAIN:
                self._check_premises(prepared)
                return False
            attempt += 1

    def _look(self, prepared: tuple[Prepared, ...]) -> Verdict | None:
        """Read the table and judge; `None` if it cannot be read now."""
        try:
            table = self.load()
            held = self.fence.find(table)
            progress = None if held is None else held.progress
            lineage = self.fence.lineage(table, held, self._main_at_claim)
            intent = self._intent(prepared)
            wanted = frozenset(intent.snapshot_ids)
            look = Look(
                table_uuid=table.metadata.table_uuid,
                last_sequence=last_sequence(table.metadata),
                ours=wanted & {snapshot.snapshot_id for snapshot in table.metadata.snapshots},
                held=None if held is None else held.snapshot_id,
                progress=progress,
                descends=lineage.descends,
            )
            verdict = judge(intent, look)
            if verdict is not Verdict.STALE and verdict is not Verdict.REPLACED:
                self.see(table)
        except (CatalogError, StoreError) as error:
            if isinstance(error, AccessDenied):
                if not may_pass(error):
                    raise  # the batch stays in doubt until it is sent again
                self._denied = error
            return None
        self._denied = None
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
            held=self._held,
            sequence_seen=self._sequence_seen,
        )

    def _adopt(self, prepared: tuple[Prepared, ...], started: float) -> None:
        """A commit of ours is in the table though its answer was lost: go on from what the table says."""
        held = self.found()
        progress = None if held is None else held.progress
        upper = prepared[-1].ready.batch.upper
        if progress is not None and progress.committed in self._abandoned:
            raise Diverged(
                f"{self.identity.table_name} has {prepared[-1].ready.batch} as it was written before it was "
                "rolled back: its commit landed after all",
                hint="What was written in its place is not in the table. Start the sink again: it goes on "
                "from what the table says.",
            )
        if held and held.progress.writer == self.writer and held.progress.frontier == upper:
            self._landed(held.progress, held.snapshot_id, started)
            return
        if progress is not None and progress.writer != self.writer and progress.frontier >= upper:
            # It landed, and another run has claimed the sink since: the next commit will find that out.
            last = prepared[-1].snapshot_id
            self._landed(replace(self.progress, frontier=upper, committed=last), last, started)
            return
        raise Diverged(
            f"an earlier commit of {self.identity.table_name} landed with other bounds than "
            f"{prepared[-1].ready.batch}",
            hint="Start the sink again: it goes on from what the table says.",
        )

    def _landed(self, progress: Progress, held: int, started: float) -> Progress:
        self._progress, self._held, self._doubts, self.answer_open = progress, held, (), False
        self.stats.commits += 1
        self.stats.last_ms = self.clock.ticks_ms() - started
        return progress

    def _given_up(
        self, prepared: tuple[Prepared, ...], sent: Sent, *, certain: bool
    ) -> CommitConflict | CommitUnknown:
        bounds = f"[{prepared[0].ready.batch.lower}, {prepared[-1].ready.batch.upper})"
        place = f"{bounds} of {self.identity.table_name}"
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
        before = Before()
        for ready in (item.ready for item in prepared):
            # A batch may have no file and still rely on the table: deletes are left out where it is empty.
            reasons = ready.premises and broken(
                ready.premises, self.base.metadata, self.base.manifests, before
            )
            if reasons:
                raise PremiseBroken(
                    f"{ready.batch} of {self.identity.table_name} cannot be committed as it was "
                    "written: " + "; ".join(reasons),
                    hint="The batch must be written again on the table as it is now.",
                )
            before = before.then(ready.files, ready.schema if ready.brings_schema else None)

    def _held_or_fail(self) -> int:
        if self._held is None:
            raise Fenced(f"{self.identity.table_name} is not claimed by this run", hint="Claim it first.")
        return self._held
