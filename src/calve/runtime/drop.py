"""Drop: a sink is forgotten. Its progress leaves the table in one commit; the table and its rows stay.

    look ─▶ what there is to remove ─▶ send ─▶ Landed
      ▲                                   └──▶ Conflict, Unknown ─▶ look again: gone, or once more
      └───────────────────────────────────────────────────────────────┘

Guarantee: a run that is at work is fenced, because the commit stands behind the sink's own fence
(table/forget.py); and a run that is started afterwards, with the old checkpoint or without one, is refused:
a stone stays in the table, and the sink never begins from zero by itself (P6). `forget=True` takes away the
stone as well, for whoever wants just that; even then a query with the old checkpoint is refused, because it
remembers that the table had progress (runtime/spark/target.py).

To send it twice is harmless: what is gone is gone, so an answer that was lost is found out by a look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from calve.model.errors import (
    CommitConflict,
    CommitUnknown,
    ConfigError,
    StoreError,
    TableError,
    TableMissing,
)
from calve.model.progress import (
    Progress,
    claimed_property,
    dropped_property,
    replay_sink_id,
    tag_name,
)
from calve.protocol.replay import CHECKPOINT
from calve.protocol.retry import Answer, RetryPolicy
from calve.runtime.addresses import Address, find_address, opened
from calve.runtime.clock import Clock, SystemClock
from calve.runtime.replay.names import quarantine_config
from calve.table.base import read_base
from calve.table.commit import Sent, load, said, send_changes
from calve.table.fence import read_progress
from calve.table.forget import forget as forgetting
from calve.table.forget import traces
from calve.table.sinks import choose_sink, dropped, sink_ids

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_SNAPSHOT_ID_BITS = 62


@dataclass(frozen=True, slots=True)
class Dropped:
    """What became of a sink."""

    table: str
    sink_id: str
    removed: tuple[str, ...]
    """What the table had of it, and has no more; nothing where progress was kept."""
    stays: tuple[str, ...]
    frontier: int | None = None
    """How far it was."""
    forgotten: bool = False
    """It may begin again, from zero."""

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        frontier = None if self.frontier is None else str(self.frontier)
        return {**asdict(self), "frontier": frontier}


def drop_sink(
    table: str,
    *,
    sink: str | None = None,
    keep_progress: bool = False,
    forget: bool = False,
    catalog: Mapping[str, Any] | None = None,
) -> Dropped:
    """Forget a sink: its progress is taken out of the table, whose rows stay as they are. A run that is at
    work stops at its next commit, and one that is started later is refused.

    `keep_progress`: change nothing, and say what there is. `forget`: the sink may begin again under the same
    id, from zero, on top of the rows that are there. `sink` and `catalog` as for `calve.status`.
    """
    address = find_address(table, sink, catalog)
    with opened(address) as lake:
        return Drop(address, lake, forget=forget, keep_progress=keep_progress).run()


class Drop:
    """The drop of one sink."""

    def __init__(
        self,
        address: Address,
        catalog: Catalog,
        *,
        forget: bool = False,
        keep_progress: bool = False,
        clock: Clock | None = None,
        policy: RetryPolicy | None = None,
        random: Random | None = None,
    ) -> None:
        if forget and keep_progress:
            raise ConfigError(
                "a sink cannot be forgotten and keep its progress", hint="Say one of the two, or neither."
            )
        self._address = address
        self._catalog = catalog
        self._forget = forget
        self._keep_progress = keep_progress
        self._clock = clock or SystemClock()
        self._policy = policy or RetryPolicy()
        self._random = random or Random()

    def look(self) -> Dropped:
        """What `run` would answer. Nothing is changed."""
        table = self._load()
        return self._said(table, self._sink(table))

    def run(self) -> Dropped:
        """Take the sink's progress out of the table, unless it is to be kept."""
        table = self._load()
        sink_id = self._sink(table)
        done, stone = self._said(table, sink_id), self._stone(table, sink_id)
        if self._keep_progress:
            return done
        last: Sent | None = None
        for attempt in range(1, self._policy.attempts_max + 1):
            last = self._send(table, sink_id, stone)
            if last.answer is Answer.LANDED:
                return done
            self._clock.wait_ms(self._policy.backoff_ms(attempt, self._random.random()))
            table = self._load()
            if not self._is_there(table, sink_id):
                return done
        raise _given_up(done, last, self._policy.attempts_max)

    def _load(self) -> Table:
        return load(self._catalog, self._address.identifier)

    def _sink(self, table: Table) -> str:
        """One that was dropped before is a sink here, if even its stone is to go."""
        metadata, said = table.metadata, self._address.sink_id
        gone = dropped(metadata) if self._forget else {}
        if said in gone:
            return str(said)
        if said is None and len(gone) == 1 and not sink_ids(metadata):
            return next(iter(gone))
        return choose_sink(metadata, self._address.table_name, said)

    def _is_there(self, table: Table, sink_id: str) -> bool:
        found = traces(table.metadata, sink_id)
        return bool(found.words) or (self._forget and found.stone)

    def _send(self, table: Table, sink_id: str, stone: str | None) -> Sent:
        snapshot_id = self._random.getrandbits(_SNAPSHOT_ID_BITS) + 1
        request = forgetting(read_base(table), sink_id, stone, snapshot_id, self._clock.now_ms())
        return send_changes(self._catalog, table, request.requirements, request.updates)

    def _stone(self, table: Table, sink_id: str) -> str | None:
        if self._forget:
            return None
        kind = table.metadata.properties.get(claimed_property(sink_id), "a sink")
        now = _1970 + timedelta(milliseconds=self._clock.now_ms())
        return f"{kind}, {now:%Y-%m-%dT%H:%M:%SZ}"

    def _said(self, table: Table, sink_id: str) -> Dropped:
        found, progress = traces(table.metadata, sink_id), _progress(table, sink_id)
        removed = [] if found.tag is None else [f"tag {tag_name(sink_id)}"]
        removed += (f"property {name}" for name in found.properties)
        if self._forget and found.stone:
            removed.append(f"property {dropped_property(sink_id)}")
        return Dropped(
            table=self._address.name,
            sink_id=sink_id,
            removed=() if self._keep_progress else tuple(removed),
            stays=tuple(self._stays(table, sink_id, progress)),
            frontier=None if progress is None else progress.frontier,
            forgotten=self._forget,
        )

    def _stays(self, table: Table, sink_id: str, progress: Progress | None) -> list[str]:
        address = replace(self._address, sink_id=sink_id)
        stays = [f"the table {address.table_name} with its rows and snapshots"]
        if traces(table.metadata, replay_sink_id(sink_id)).words:
            stays.append(f"how far its quarantine was replayed ({replay_sink_id(sink_id)})")
        beside = quarantine_config(address.sink)
        try:
            load(self._catalog, beside.identifier)
            stays.append(f"its quarantine {beside.table_name}")
        except TableMissing:
            pass  # it has none
        checkpoint = None if progress is None else progress.positions.get(CHECKPOINT)
        if checkpoint is not None:
            stays.append(f"the checkpoint of query {checkpoint}")
        return stays


def _progress(table: Table, sink_id: str) -> Progress | None:
    try:
        return read_progress(table, sink_id)
    except (StoreError, TableError):
        return None  # it cannot be read; it is to go all the same


def _given_up(done: Dropped, last: Sent | None, attempts: int) -> CommitConflict | CommitUnknown:
    cause = None if last is None else last.cause
    answer = "" if cause is None else f"; the last was answered {said(cause)}"
    if last is not None and last.answer is Answer.UNKNOWN:
        return CommitUnknown(
            f"sink {done.sink_id} of {done.table} may or may not be dropped in {attempts} attempts{answer}",
            hint="Drop it again once the catalog answers: to do it twice changes nothing.",
        )
    return CommitConflict(
        f"sink {done.sink_id} of {done.table} was not dropped in {attempts} attempts{answer}",
        hint="Its run commits too often beside it. Stop it, then drop the sink.",
    )
