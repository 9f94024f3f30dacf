"""A round: one replay, from a look at both tables to its two commits.

    look ─▶ sort ─▶ nothing to do: nothing is changed
              └──▶ claim both ─▶ look ─▶ sort ─▶ put back what stays ─▶ write and commit what goes in
                                  ▲                                          │ the table was changed since
                                  └──────────────────────────────────────────┘

Guarantee (P3, P8): every row of the quarantine goes into the table at most once, and waits until it does, or
is superseded, whoever is killed wherever.

- Killed before rows are put back: nothing has happened.
- Killed between the two commits: the quarantine is one replay ahead of the table. The next one goes on under
  the same number and the same bounds, without the rows that were put back. Should one of the others not fit
  any more, it is put back too: nothing is stuck.
- Killed after both: the table's progress says how far the quarantine is replayed.

Of two replays at once the first is fenced by the claims of the second (P4). The stream goes on meanwhile: its
sinks are others, and what it adds to the quarantine is newer than the bounds. Where the rows of the table
decided what goes in, the commit lands only on the very snapshot that was read (a premise), or all is looked
at again.
"""

from __future__ import annotations

import logging
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyiceberg.catalog import Catalog

from calve.config.sink import Mode, SinkConfig
from calve.model.batch import Batch
from calve.model.errors import CommitConflict, ConfigError, PremiseBroken
from calve.protocol.readmit import Rules
from calve.runtime.clock import Clock
from calve.runtime.coordinator import Coordinator
from calve.runtime.plan import EpochPlan, epoch_plan
from calve.runtime.replay.candidates import Desk, Mended, Sorted
from calve.runtime.replay.kept import Entry, Kept, read_kept
from calve.runtime.replay.names import REPLAY_SOURCE, ReadAs, again_config
from calve.runtime.replay.result import Quarantined, Replayed
from calve.runtime.start import claim_table
from calve.store import store_for
from calve.table.base import Base, read_base
from calve.table.build import Ready
from calve.table.commit import load
from calve.table.fence import read_progress
from calve.writer.quarantine import write_entries
from calve.writer.spill import Scratch
from calve.writer.worker import write_batch_files

_log = logging.getLogger("calve.replay")

_TRIES_MAX = 20
"""How often all is looked at again because the table changed meanwhile: a stream commits beside a replay."""
_MEMORY_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class How:
    """What a person says of a replay."""

    newest: bool = False
    """Upsert: rows go in as new changes, whatever the table has."""
    insert_absent: bool = False
    """Upsert: rows go in also where their key is not in the table."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Both tables as they were seen, and what that means for the rows."""

    kept: Kept
    desk: Desk
    sorted: Sorted

    @property
    def idle(self) -> bool:
        """Whether a replay would change nothing."""
        return not (self.kept.round.resumed or self.sorted.applied or self.sorted.superseded)


@dataclass(slots=True)
class Replaying:
    """One replay."""

    config: SinkConfig
    """Of the stream's sink: its table and its id."""
    catalog: Catalog
    clock: Clock
    how: How
    mended: Mended
    _worker: str = field(default_factory=lambda: uuid.uuid4().hex[:16])

    def run(self) -> Replayed:
        """Replay once; what came of it."""
        quarantine = again_config(self.config).identifier
        target = read_base(load(self.catalog, self.config.identifier))
        seen = self._see(target, read_base(load(self.catalog, quarantine)))
        if seen.idle:
            return self._nothing(seen)
        into = claim_table(seen.desk.config, self.catalog, self.clock, source=REPLAY_SOURCE)
        again = claim_table(again_config(self.config), self.catalog, self.clock, source=REPLAY_SOURCE)
        for _ in range(_TRIES_MAX):
            # What the first look showed may have been another replay's to do: from the claims on, it is ours.
            seen = self._see(into.base, again.base)
            if seen.idle:
                return self._nothing(seen)
            try:
                self._put_back(seen, again)
                return self._put_in(seen, into)
            except PremiseBroken as broken:
                _log.info("%s; the replay looks again", broken.message)
                into.refresh()
                again.refresh()
        raise CommitConflict(
            f"{self.config.table_name} changed {_TRIES_MAX} times before a replay could be committed",
            hint="The stream commits too often beside it. Replay again, or while the stream rests.",
        )

    def _see(self, target: Base, quarantine: Base) -> Seen:
        kept = read_kept(self.config, target, quarantine)
        # A stream may have been told other things over time. What it said last counts for all rows.
        read_as = (
            ReadAs.from_json(kept.taken[-1]["read_as"])
            if kept.taken
            else ReadAs.of_table(target.metadata, self.config.sink_id)
        )
        rules = self._rules(read_as, target) if kept.taken else Rules()
        desk = Desk(read_as.target(self.config), read_as, rules)
        return Seen(kept, desk, desk.sort(kept.taken, self.mended, target))

    def _rules(self, read_as: ReadAs, target: Base) -> Rules:
        if Mode(read_as.mode) is not Mode.UPSERT:
            return Rules(insert_absent=True)
        columns = set(target.metadata.schema().column_names)
        if not self.how.newest and not (read_as.sequence_by and columns >= set(read_as.sequence_by)):
            raise ConfigError(
                f"{self.config.table_name} does not say how old its rows are, so nobody can tell whether a "
                "replayed change is older than the row that is there",
                hint="Give the stream .sequence_by(…), whose columns are in the table. Or replay with "
                "--newest (newest=True): then they are new changes, on top of all that was written since.",
            )
        progress = read_progress(target.table, self.config.sink_id)
        stream = 0 if progress is None else progress.frontier
        return Rules(stream, newest=self.how.newest, insert_absent=self.how.insert_absent)

    def _put_back(self, seen: Seen, again: Coordinator) -> None:
        """What stays, with the reason why, under the replay's number."""
        stays, kept = seen.sorted.stays, seen.kept
        if not stays:
            return
        entries = [
            entry | {"reason": why.message, "hint": why.hint, "replay": kept.round.number}
            for entry in kept.taken
            if (why := stays.get(entry["id"])) is not None
        ]
        plan = epoch_plan(again_config(self.config), again.base, None)
        lower = again.progress.frontier
        batch = Batch(lower, max(lower + 1, kept.round.number))
        files = write_entries(plan.write, batch, self._worker, entries)
        positions = kept.round.again_positions(kept.tables)
        again.commit([Ready(batch, tuple(files), plan.schema, plan.premises, positions=positions)])

    def _put_in(self, seen: Seen, into: Coordinator) -> Replayed:
        """What goes in; without any row, the table still learns how far the quarantine is replayed."""
        kept, rows = seen.kept, seen.sorted.rows
        batch = Batch(into.progress.frontier, kept.round.number)
        positions = kept.round.target_positions(kept.tables)
        ready = Ready(batch, (), into.base.metadata.schema(), None, positions=positions)
        if rows is not None:
            plan = self._plan(seen.desk, into.base)
            store = store_for(plan.write.data_location, plan.write.access)
            scratch = Scratch(_spill_folder(), _MEMORY_BYTES)
            files = write_batch_files(plan.write, store, batch, self._worker, [rows], scratch)
            ready = replace(
                ready,
                files=tuple(files),
                schema=plan.schema,
                premises=plan.premises,
                brings_spec=plan.brings_spec,
            )
        progress = into.commit([ready])
        applied, superseded = seen.sorted.applied, seen.sorted.superseded
        _log.info("replay %s of %s: %s in", kept.round.number, self.config.table_name, applied)
        left = _left(kept, seen.sorted, kept.round.number)
        name = self.config.table_name
        return Replayed(name, kept.round.number, applied, superseded, left, progress.committed)

    def _plan(self, desk: Desk, base: Base) -> EpochPlan:
        plan = epoch_plan(desk.config, base, None)
        if not desk.looks_at_rows:
            return plan
        return replace(plan, premises=replace(plan.premises, read_at=base.main or 0))

    def _nothing(self, seen: Seen) -> Replayed:
        return Replayed(self.config.table_name, None, 0, 0, _left(seen.kept, seen.sorted, None))


def _left(kept: Kept, done: Sorted, number: int | None) -> tuple[Quarantined, ...]:
    """What waits after a replay, with the reasons that it found."""
    stays: Sequence[Entry] = [
        entry
        | {"reason": done.stays[entry["id"]].message, "hint": done.stays[entry["id"]].hint}
        | ({} if number is None else {"replay": number})
        for entry in kept.taken
        if entry["id"] in done.stays
    ]
    every = sorted((*stays, *kept.others), key=lambda one: (one["batch"], one["id"]))
    return tuple(Quarantined.of(entry) for entry in every)


def _spill_folder() -> Path:
    return Path(tempfile.gettempdir()) / "calve-spill"
