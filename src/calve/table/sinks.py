"""Sinks: which of them a table knows, and by what. Pure, from metadata alone.

    property calve.sink.<id>     it was begun here                 ┐
    property calve.fence.<id>    its progress, where main is fence ├─▶ sink_ids
    tag calve-<id>               its progress                      ┘
    property calve.dropped.<id>  it was dropped                    ──▶ dropped

A sink of replays is no sink of its own for a person: it writes rows of another one's quarantine.
"""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata

from calve.model.errors import ConfigError, Diverged
from calve.model.progress import (
    SINK_ID,
    claimed_property,
    dropped_property,
    fence_property,
    replay_sink_id,
    tag_name,
)
from calve.table.base import summary_texts


def sink_ids(metadata: TableMetadata) -> tuple[str, ...]:
    """The sinks that have progress in a table, or should have; sorted."""
    marks = {*_named(metadata, claimed_property("")), *_named(metadata, fence_property(""))}
    found = marks | {one for one in _tagged(metadata) if one not in marks}
    return tuple(sorted(found - {replay_sink_id(one) for one in found}))


def dropped(metadata: TableMetadata) -> dict[str, str]:
    """The sinks that were dropped, and what was noted of each."""
    start = dropped_property("")
    return {one: metadata.properties[start + one] for one in sorted(_named(metadata, start))}


def choose_sink(metadata: TableMetadata, table_name: str, said: str | None) -> str:
    """The sink that was said, or the only one that there is."""
    known = sink_ids(metadata)
    if said is not None:
        if said in known:
            return said
        gone = dropped(metadata)
        was = f" (it was dropped: {gone[said]})" if said in gone else ""
        raise ConfigError(
            f"{table_name} has no sink {said!r}{was}", hint=f"There are: {', '.join(known) or 'none'}."
        )
    if len(known) > 1:
        raise ConfigError(
            f"several sinks write to {table_name}: {', '.join(known)}",
            hint="Say which one is meant: --sink, or sink=….",
        )
    if not known:
        raise ConfigError(
            f"no sink of calve has written to {table_name}",
            hint="Is it the right table? A sink leaves its mark with its first claim.",
        )
    return known[0]


def check_not_dropped(table_name: str, metadata: TableMetadata, sink_id: str) -> None:
    """Refuse a sink that a person dropped: its rows are still there (P6)."""
    noted = metadata.properties.get(dropped_property(sink_id))
    if noted is not None:
        raise Diverged(
            f"sink {sink_id} of {table_name} was dropped ({noted}); its rows are still in the table",
            hint="It does not begin again by itself. If it is to write everything from the beginning on top "
            "of what is there, say so: calve drop --forget. Or use another sink id ('writer.id').",
        )


def _named(metadata: TableMetadata, start: str) -> set[str]:
    return {name.removeprefix(start) for name in metadata.properties if name.startswith(start)}


def _tagged(metadata: TableMetadata) -> set[str]:
    """Of tags alone those that are at a snapshot of their sink: others may have such names too."""
    start, found = tag_name(""), set()
    for name, ref in metadata.refs.items():
        snapshot = metadata.snapshot_by_id(ref.snapshot_id) if name.startswith(start) else None
        if snapshot is not None and summary_texts(snapshot).get(SINK_ID) == name.removeprefix(start):
            found.add(name.removeprefix(start))
    return found
