"""The door: what a person asks of the rows that do not fit. One process, no Spark: they are few.

    calve.list_quarantine("lake.sales.orders")      ─▶ the rows that wait, and why
    calve.replay_quarantine("lake.sales.orders")    ─▶ those that fit by now are in the table, once

The catalog is found as for a stream, but for the Spark session: in the call, in PyIceberg's configuration, or
embedded in a local folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyiceberg.catalog import Catalog

from calve.config.sink import SinkConfig
from calve.model.errors import ConfigError, TableMissing
from calve.model.progress import claimed_property
from calve.runtime.addresses import Address, find_address, opened
from calve.runtime.clock import SystemClock
from calve.runtime.replay.candidates import Fix, Mended
from calve.runtime.replay.kept import read_kept
from calve.runtime.replay.names import quarantine_config, sink_of
from calve.runtime.replay.result import Quarantined, Replayed
from calve.runtime.replay.round import How, Replaying
from calve.table.base import read_base
from calve.table.commit import load
from calve.table.fence import fence_kind

_ABSENT = ("hold", "insert")


def list_quarantine(
    table: str, *, sink: str | None = None, catalog: Mapping[str, Any] | None = None
) -> tuple[Quarantined, ...]:
    """The rows that wait in the quarantine of a table, in the order in which they came. Changes nothing.

    `sink`: the stream's `writer.id`, where several write to the table. `catalog`: what the catalog is, where
    it is not configured: `{"type": "sql", "uri": …, "warehouse": …}`.
    """
    return list_at(find_address(table, sink, catalog))


def list_at(address: Address) -> tuple[Quarantined, ...]:
    """The rows that wait in the quarantine of the table at an address."""
    with opened(address) as lake:
        found = _with_sink(address, lake)
        if found is None:
            return ()
        target = read_base(load(lake, found.identifier))
        quarantine = read_base(load(lake, quarantine_config(found).identifier))
        return tuple(Quarantined.of(entry) for entry in read_kept(found, target, quarantine).waiting)


def replay_quarantine(
    table: str,
    *,
    fix: Fix | None = None,
    absent: str = "hold",
    newest: bool = False,
    sink: str | None = None,
    catalog: Mapping[str, Any] | None = None,
) -> Replayed:
    """Put the rows of a quarantine that fit by now into the table that they were meant for, exactly once.

    `fix` mends them first: it is given Arrow tables of rows as the stream had them, and gives back as many,
    in the same order. Upsert: `absent="insert"` also puts in rows whose key is not in the table, and
    `newest=True` puts rows in as new changes, whatever the table has.
    """
    return replay_at(find_address(table, sink, catalog), fix=fix, absent=absent, newest=newest)


def replay_at(
    address: Address, *, fix: Fix | None = None, absent: str = "hold", newest: bool = False
) -> Replayed:
    """The same, for the table at an address."""
    if absent not in _ABSENT:
        raise ConfigError(f"absent cannot be {absent!r}", hint=f"It is one of: {', '.join(_ABSENT)}.")
    with opened(address) as lake:
        found = _with_sink(address, lake)
        if found is None:
            return Replayed(address.table_name, None, 0, 0, ())
        how = How(newest=newest, insert_absent=absent == "insert")
        return Replaying(found, lake, SystemClock(), how, Mended(fix)).run()


def waiting_rows(config: SinkConfig, catalog: Catalog) -> int | None:
    """How many rows of a sink wait in the quarantine; `None` if it has none."""
    beside = quarantine_config(config)
    try:
        table = load(catalog, beside.identifier)
    except TableMissing:
        return None
    if claimed_property(beside.sink_id) not in table.metadata.properties:
        return None
    return len(read_kept(config, read_base(load(catalog, config.identifier)), read_base(table)).waiting)


def _with_sink(address: Address, catalog: Catalog) -> SinkConfig | None:
    """The stream's sink; `None` if the table has no quarantine. A table that is not there is an error."""
    config, said = replace(address, sink_id=None).sink, address.sink_id
    load(catalog, config.identifier)
    try:
        quarantine = load(catalog, quarantine_config(config).identifier)
    except TableMissing:
        return None
    found = config.replace(sink_id=sink_of(quarantine.metadata, config.table_name, said))
    # What the stream was told of its catalog holds for replays too.
    return found.replace(fence=fence_kind(quarantine.metadata, quarantine_config(found).sink_id))
