"""Status: how each sink of a table is, by what the table itself remembers.

    table ─▶ progress ─▶ frontier, lag, last batch
        └──▶ lineage ──▶ can it go on? what did others commit since?
        └──▶ history ──▶ rewrites that took deletes away
    its quarantine ────▶ rows that wait         a checkpoint, where one is named ─▶ rows that wait for a batch

It is a look at one moment, and changes nothing. What is wrong with one part of the answer is a remark in it,
and does not keep the others back: whoever asks how a sink is does so because something is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from calve.model.errors import ConfigError, StoreError, TableError
from calve.model.meaning import Meaning
from calve.model.progress import Progress, claimed_property
from calve.protocol.judge import Verdict
from calve.runtime.addresses import Address
from calve.runtime.clock import Clock
from calve.runtime.foreign import Foreign
from calve.runtime.inspect.files import table_files
from calve.runtime.inspect.result import Remark, SinkCondition, SinkStatus, TableStatus
from calve.runtime.inspect.waits import Checkpoint
from calve.runtime.refusal import refusal
from calve.runtime.replay.door import waiting_rows
from calve.table.commit import load
from calve.table.fence import Fence, Held, fence_kind, make_fence
from calve.table.history import entries
from calve.table.sinks import choose_sink, dropped, sink_ids

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class Visit:
    """One look at a table."""

    address: Address
    catalog: Catalog
    clock: Clock
    checkpoint: Checkpoint | None = None

    def look(self) -> TableStatus:
        """The table and its sinks; of a sink that was said, that one alone."""
        table = load(self.catalog, self.address.identifier)
        metadata = table.metadata
        wanted: Sequence[str] = sink_ids(metadata)
        if self.address.sink_id is not None:
            wanted = (choose_sink(metadata, self.address.table_name, self.address.sink_id),)
        main = metadata.current_snapshot()
        return TableStatus(
            table=self.address.name,
            snapshot_id=None if main is None else main.snapshot_id,
            snapshot_at=None if main is None else _at(main),
            files=table_files(table),
            sinks=tuple(self._sink(table, sink_id) for sink_id in wanted),
            dropped=dropped(metadata),
            remarks=_rewrites(table),
        )

    def _sink(self, table: Table, sink_id: str) -> SinkStatus:
        found = _held(table, self.address.table_name, sink_id)
        at_table = _at_table(table, found, self.address.table_name, self.clock.now_ms())
        progress = None if found.held is None else found.held.progress
        config = replace(self.address, sink_id=sink_id).sink.replace(fence=found.kind)
        remarks = list(at_table.remarks)
        waiting = stashed = None
        try:
            waiting = waiting_rows(config, self.catalog)
        except TableError as error:
            remarks.append(Remark(f"the quarantine: {error.message}", error.hint))
        if self.checkpoint is not None and (self.checkpoint.is_said or sink_id == self.address.sink.sink_id):
            try:
                stashed, odd = self.checkpoint.look(sink_id, progress)
                remarks += odd
            except (ConfigError, StoreError) as error:
                if self.checkpoint.is_said:
                    raise
                remarks.append(Remark(f"the checkpoint: {error.message}", error.hint))
        return replace(at_table, quarantined=waiting, stashed=stashed, remarks=tuple(remarks))


@dataclass(frozen=True, slots=True)
class _Found:
    """What a table shows of a sink's progress."""

    fence: Fence
    kind: str
    held: Held | None = None
    remarks: tuple[Remark, ...] = field(default_factory=tuple)


def _held(table: Table, table_name: str, sink_id: str) -> _Found:
    kind = fence_kind(table.metadata, sink_id)
    fence = make_fence(kind, sink_id)
    try:
        held = fence.find(table)
        if held is None:
            fence.check_begin(table_name, table.metadata)
    except TableError as error:  # not a store that is away: that says nothing of the sink
        return _Found(fence, kind, None, (Remark(error.message, error.hint),))
    return _Found(fence, kind, held)


def _at_table(table: Table, found: _Found, table_name: str, now_ms: int) -> SinkStatus:
    """All that follows from the table alone."""
    sink_id, held = found.fence.sink_id, found.held
    status = SinkStatus(
        sink_id=sink_id,
        condition=SinkCondition.LOST,
        kind=table.metadata.properties.get(claimed_property(sink_id), ""),
        fence=found.kind,
        remarks=found.remarks,
    )
    if held is None:
        return status
    progress = held.progress
    condition, remarks = _condition(table, found.fence, held, table_name)
    foreign = _foreign(table, found.fence, held, table_name)
    committed = None if progress.committed is None else table.metadata.snapshot_by_id(progress.committed)
    return replace(
        status,
        condition=condition,
        progress=progress,
        committed_at=None if committed is None else _at(committed),
        held_since=_at(held.snapshot),
        lag_ms=_lag_ms(progress, now_ms),
        foreign_snapshots=foreign.snapshots,
        foreign_rows=foreign.rows,
        remarks=remarks,
    )


def _condition(
    table: Table, fence: Fence, held: Held, table_name: str
) -> tuple[SinkCondition, tuple[Remark, ...]]:
    descends = fence.lineage(table, held, table.metadata.current_snapshot_id).descends
    if descends:
        new = held.progress.committed is None
        return SinkCondition.NEW if new else SinkCondition.WELL, ()
    error = refusal(
        Verdict.ROLLED_BACK,
        table_name,
        held.progress,
        lower=held.progress.frontier,
        root=fence.root(held),
    )
    if descends is None:
        words = f"whether main of {table_name} descends from snapshot {fence.root(held)} is in no metadata"
        hint = "Expiry took the snapshots between, and the metadata files that had them: a run stops here. "
        return SinkCondition.UNPROVEN, (Remark(words, hint + error.hint),)
    return SinkCondition.ROLLED_BACK, (Remark(error.message, error.hint),)


def _foreign(table: Table, fence: Fence, held: Held, table_name: str) -> Foreign:
    """What others committed to main since, as the sink itself counts it. Before its first commit nothing is
    counted: what is there may be older than the sink."""
    foreign = Foreign(table_name, fence.sink_id, halt=False)
    if held.progress.committed is not None:
        foreign.count(fence.lineage(table, held, table.metadata.current_snapshot_id))
    return foreign


def _rewrites(table: Table) -> tuple[Remark, ...]:
    """Rewrites of main that took equality deletes away, as far back as the table remembers."""
    ids = [str(one.snapshot_id) for one in entries(table.metadata) if one.on_main and one.dropped_deletes]
    if not ids:
        return ()
    shown = ", ".join(ids[:_SHOWN_MAX]) + (f" and {len(ids) - _SHOWN_MAX} more" if ids[_SHOWN_MAX:] else "")
    return (
        Remark(
            f"another engine rewrote files and removed equality deletes (snapshot {shown})",
            "A partial rewrite can bring deleted rows back: verify the table against its source.",
        ),
    )


def _lag_ms(progress: Progress, now_ms: int) -> int | None:
    return Meaning(progress.source).lag_ms(progress.frontier, now_ms) if progress.frontier else None


def _at(snapshot: Snapshot) -> datetime:
    return _1970 + timedelta(milliseconds=snapshot.timestamp_ms)
