"""Claim: a run makes a sink its own, before it has written a row.

It adds one snapshot that changes no row, with the generation after the last and the run's own uuid, and moves
the sink's fence to it (table/fence.py), under the requirement that nobody else did: every commit of an older
run is refused from then on (P4). A sink whose progress is lost, rolled back or of another
source is refused: it is never begun again from zero by itself (P6).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyiceberg.table import Table

from calve.model.errors import CommitConflict, CommitUnknown, Diverged, TableDiffers
from calve.model.progress import Progress, claimed_property
from calve.protocol.judge import Verdict
from calve.protocol.retry import Answer
from calve.runtime.hold import Hold
from calve.runtime.refusal import refusal
from calve.table.build import Attempt
from calve.table.commit import Sent, said
from calve.table.fence import Held


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a run holds from its claim on."""

    progress: Progress
    held: int


Check = Callable[[Table], None]
"""Raises if a table, as it is read for the claim, is not what the run takes it for."""


def claim(hold: Hold, check: Check | None = None) -> Claimed:
    """Make the sink this run's own. From here on, every commit of an older run is refused (P4).

    `check` looks at the very table that the claim is built on: between an earlier look and the claim another
    run may have committed."""
    snapshot_id = hold.draw_snapshot_id()
    request: Attempt | None = None
    last: Sent | None = None
    for attempt in range(1, hold.policy.attempts_max + 1):
        if attempt > 1:
            hold.pause(attempt - 1)
        table = hold.try_load(attempt)
        if table is None or not hold.see_newer(table):
            continue
        held = hold.found()
        overtaken = request and held and held.progress.generation > request.progress.generation
        if (held is not None and held.snapshot_id == snapshot_id) or overtaken:
            # A claim of ours whose answer was lost may have landed before the other: then this run was
            # fenced, and a fenced run never claims again by itself.
            return _claimed(hold, snapshot_id)
        if check is not None:
            check(hold.base.table)
        request = _claim_attempt(hold, snapshot_id)
        last = sent = hold.send(request)
        if sent.answer is Answer.LANDED:
            # A catalog may take a tag and not keep it: only what a fresh read shows counts. One that is
            # older than the answer (case 25), or of another table, shows nothing: the next round reads
            # again.
            uuid, table = hold.base.metadata.table_uuid, hold.try_load(attempt)
            if table is not None and table.metadata.table_uuid == uuid and hold.see_newer(table):
                return _claimed(hold, snapshot_id)
    raise _not_taken(hold, last)


def _not_taken(hold: Hold, last: Sent | None) -> CommitConflict | CommitUnknown:
    name, attempts = hold.identity.sink_id, hold.policy.attempts_max
    cause = None if last is None else last.cause
    answer = "" if cause is None else f"; the last was answered {said(cause)}"
    if last is not None and last.answer is Answer.UNKNOWN:
        return CommitUnknown(
            f"the claim of sink {name} may or may not be taken after {attempts} attempts{answer}",
            hint="Start the run again: it claims anew, whatever became of this one. Is the catalog well?",
        )
    return CommitConflict(
        f"the claim of sink {name} was not taken in {attempts} attempts{answer}",
        hint="Is another run of the same sink started again and again? Stop it, then start this one. If not, "
        "look at what the catalog says.",
    )


def _claim_attempt(hold: Hold, snapshot_id: int) -> Attempt:
    base = hold.base
    held = hold.found()
    if held is not None:
        _check_resumable(hold, held)
        known = held.progress
        anchor = None if hold.fence.claims_main else _anchor(known, base.main)
        progress = replace(known, generation=known.generation + 1, writer=hold.writer, anchor=anchor)
    else:
        hold.fence.check_begin(hold.identity.table_name, base.metadata)
        progress = Progress(
            sink_id=hold.identity.sink_id,
            frontier=0,
            lower=0,
            generation=1,
            writer=hold.writer,
            source=hold.identity.source,
        )
    return hold.builder.claim(base, progress, snapshot_id, hold.now_ms(), hold.identity.kind or "true")


def _anchor(known: Progress, main: int | None) -> int | None:
    """Main as it was found to descend from the sink's last commit."""
    return main if known.committed is not None and main != known.committed else None


def _check_resumable(hold: Hold, held: Held) -> None:
    known = held.progress
    mark = claimed_property(hold.identity.sink_id)
    kind = hold.base.metadata.properties.get(mark)
    if hold.identity.kind is not None and kind not in (None, "true", hold.identity.kind):
        raise TableDiffers(
            f"sink {known.sink_id} of {hold.identity.table_name} is {kind}, and is now asked to be "
            f"{hold.identity.kind}",
            hint="Use the mode and key it was begun with, or another sink id. If the table fits the new one, "
            f"set its property {mark} to {hold.identity.kind!r}.",
        )
    if known.source != hold.identity.source:
        raise Diverged(
            f"sink {known.sink_id} counts its times as '{known.source}', this run as "
            f"'{hold.identity.source}'",
            hint="Run it with the source it was begun with, or start a new sink under another id.",
        )
    lineage = hold.fence.lineage(hold.base.table, held, hold.base.main)
    if not lineage.descends:
        raise refusal(
            Verdict.ROLLED_BACK,
            hold.identity.table_name,
            known,
            lower=known.frontier,
            root=hold.fence.root(held),
        )
    hold.foreign.count(lineage)


def _claimed(hold: Hold, snapshot_id: int) -> Claimed:
    held = hold.found()
    if held is None:
        raise hold.fence.not_kept(hold.identity.table_name)
    if held.snapshot_id != snapshot_id:
        progress = held.progress
        raise refusal(Verdict.FENCED, hold.identity.table_name, progress, lower=progress.frontier)
    return Claimed(held.progress, snapshot_id)
