"""The door: what a person asks of a table, with nothing running.

    calve.status("lake.sales.orders")                    ─▶ how each of its sinks is
    calve.history("lake.sales.orders")                   ─▶ its snapshots, and what each of them is
    calve.as_of("lake.sales.orders", "2026-11-17T12:00Z") ─▶ the snapshot that shows the source then

Each takes a table by its name or URL; the functions with `_of` take an address that was found already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from pyiceberg.catalog import Catalog

from calve.model.errors import ConfigError, TableMissing
from calve.model.progress import replay_sink_id
from calve.runtime.addresses import Address, find_address, opened
from calve.runtime.clock import Clock, SystemClock
from calve.runtime.inspect.queries import queries
from calve.runtime.inspect.result import TableAsOf, TableHistory, TableStatus
from calve.runtime.inspect.status import Visit
from calve.runtime.inspect.waits import Checkpoint
from calve.store import Access
from calve.table.as_of import resolve
from calve.table.commit import load
from calve.table.history import SnapshotEntry, entries


def status(
    table: str,
    *,
    sink: str | None = None,
    checkpoint: str | None = None,
    catalog: Mapping[str, Any] | None = None,
) -> TableStatus:
    """How each sink of a table is, as the table itself remembers it. Changes nothing.

    `sink`: one of them, by its `writer.id`. `checkpoint`: the folder of the query's checkpoint, to see what
    waits there. `catalog`: what the catalog is, where it is not configured:
    `{"type": "sql", "uri": …, "warehouse": …}`.
    """
    return status_of(find_address(table, sink, catalog), checkpoint=checkpoint)


def history(
    table: str,
    *,
    sink: str | None = None,
    limit: int | None = None,
    catalog: Mapping[str, Any] | None = None,
) -> TableHistory:
    """The snapshots of a table, newest first: which sink committed each, with which batch, or that somebody
    else did. Changes nothing. `sink`: without those of other sinks. `limit`: the newest alone."""
    return history_of(find_address(table, sink, catalog), limit=limit)


def as_of(
    table: str,
    at: int | str | datetime,
    *,
    sink: str | None = None,
    catalog: Mapping[str, Any] | None = None,
) -> TableAsOf:
    """The newest snapshot of a table that shows only changes at or before a time of the source, and how
    engines read it. `at`: a number, a text as the source prints its times, or a wall time where they are a
    clock; without a zone it is UTC."""
    return as_of_address(find_address(table, sink, catalog), at)


def status_of(address: Address, *, checkpoint: str | None = None, clock: Clock | None = None) -> TableStatus:
    """How the sinks at an address are. A `checkpoint` that is said must be there."""
    folder = checkpoint or address.checkpoint
    beside = None
    if folder is not None:
        beside = Checkpoint(folder, Access.of(address.catalog.reveal()), is_said=checkpoint is not None)
    with _there(address) as catalog:
        return Visit(address, catalog, clock or SystemClock(), beside).look()


def history_of(address: Address, *, limit: int | None = None) -> TableHistory:
    """The snapshots of the table at an address."""
    if limit is not None and limit < 1:
        raise ConfigError(f"limit is {limit}", hint="Give 1 or more, or leave it out.")
    with _there(address) as catalog:
        every = entries(load(catalog, address.identifier).metadata)
    found = [one for one in every if _is_of(one, address.sink_id)]
    if address.sink_id is not None and not any(one.sink_id == address.sink_id for one in found):
        known = sorted({one.sink_id for one in every if one.sink_id is not None})
        raise ConfigError(
            f"no snapshot of {address.table_name} is of sink {address.sink_id!r}",
            hint=f"There are snapshots of: {', '.join(known) or 'none'}.",
        )
    return TableHistory(address.name, tuple(found[:limit]), more=len(found[limit:]) if limit else 0)


def as_of_address(address: Address, at: int | str | datetime) -> TableAsOf:
    """The snapshot at an address that shows the source at a time."""
    with _there(address) as catalog:
        table = load(catalog, address.identifier)
        found = resolve(table, at, address.sink_id)
    snapshot = next(one for one in entries(table.metadata) if one.snapshot_id == found.snapshot_id)
    said = found.meaning.text(found.time) if not isinstance(at, str) else at.strip()
    words = queries(address, table.metadata_location, found.snapshot_id, said)
    return TableAsOf(address.name, found, snapshot.committed_at, words)


@contextmanager
def _there(address: Address) -> Iterator[Catalog]:
    """The catalog of an address, for a while. Who looks at a table may be early; a sink that misses its own
    is told something else."""
    try:
        with opened(address) as catalog:
            yield catalog
    except TableMissing as error:
        raise TableMissing(
            error.message,
            hint="A sink creates its table with the first rows. If it was there before, it was dropped or "
            "renamed: restore it.",
        ) from error


def _is_of(entry: SnapshotEntry, sink_id: str | None) -> bool:
    """Whether a snapshot belongs to the history of a sink: its own, its replays, and what nobody of calve
    wrote."""
    if sink_id is None or entry.sink_id is None:
        return True
    return entry.sink_id in (sink_id, replay_sink_id(sink_id))
