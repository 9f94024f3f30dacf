"""At: which snapshot is meant, and which columns its rows have.

    at  None                 main as it is now
        123, "snapshot:123"  a snapshot by its id
        "eod"                a tag or a branch by its name
        "2026-11-17T12:00:00Z", "1698775840453391000.0000000001", "17"   a time of the source
        "tag:eod", "branch:audit", "time:17"   the same, where a text alone could mean something else

`snapshot_at` is the one place that says what `at` may be. A number is an id, and a text is a name if the
table has it, else a time. A time is shown by the newest snapshot with only changes at or before it
(as_of.py); one that the table has not come to yet is refused, because nobody knows what the source is then.

main and other branches are read with the table's columns as they are now. A snapshot and a tag are of the
past: they are read with the columns of their time, as Iceberg's own engines do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from calve.config.units import nearest
from calve.model.errors import BadTime, ConfigError, SnapshotMissing
from calve.table.as_of import resolve
from calve.table.sinks import sink_ids

_LAST = 3
_WORDS = re.compile(r"(snapshot|tag|branch|time):(.*)", re.DOTALL)
_TIME = re.compile(r"[0-9][0-9./:TtZz+ -]*", re.ASCII)
"""How a time of a source may look: an HLC, an LSN, a wall time, a number."""
_TAKES = (
    "Give a snapshot's id, the name of a tag or branch, a time of the source, or 'snapshot:<id>', "
    "'tag:<name>', 'branch:<name>', 'time:<time>'."
)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A snapshot that does not move any more, whatever is committed."""

    snapshot: Snapshot | None
    """`None`: the table has no snapshot yet."""
    schema: Schema


def snapshot_at(table: Table, at: int | str | datetime | None, sink_id: str | None = None) -> Pinned:
    """The snapshot that is meant. `sink_id`: whose time a time is, where several sinks write to the table."""
    metadata = table.metadata
    name = ".".join(table.name())
    match at:
        case None:
            return Pinned(metadata.current_snapshot(), metadata.schema())
        case bool():
            raise _no_word(at)
        case int():
            return _by_id(metadata, name, at)
        case datetime():
            return _by_time(table, name, at, sink_id)
        case str():
            return _by_text(table, name, at, sink_id)
    raise _no_word(at)


def _by_time(table: Table, name: str, at: int | str | datetime, sink_id: str | None) -> Pinned:
    found = resolve(table, at, sink_id)
    if not found.reached:
        newest = found.meaning.text(found.newest)
        raise BadTime(
            f"{name} has not come to {found.meaning.text(found.time)} yet: it shows all before {newest}",
            hint="Ask for an earlier time, or leave it out for what there is now.",
        )
    return _by_id(table.metadata, name, found.snapshot_id)


def _by_text(table: Table, name: str, at: str, sink_id: str | None) -> Pinned:
    metadata = table.metadata
    if at in metadata.refs:
        return _by_ref(metadata, at)
    if (said := _WORDS.fullmatch(at)) is None:
        if _TIME.fullmatch(at.strip()) and sink_ids(metadata):
            return _by_time(table, name, at, sink_id)
        raise _no_ref(metadata, name, "tag or branch", at)
    kind, word = said.groups()
    if kind == "time":
        return _by_time(table, name, word, sink_id)
    if kind == "snapshot":
        if not word.strip().isdecimal():
            raise ConfigError(f"at={at!r} names no snapshot: an id is a number", hint=_TAKES)
        return _by_id(metadata, name, int(word))
    found = metadata.refs.get(word)
    if found is None or found.snapshot_ref_type is not SnapshotRefType(kind):
        raise _no_ref(metadata, name, kind, word)
    return _by_ref(metadata, word)


def _by_ref(metadata: TableMetadata, ref: str) -> Pinned:
    found = metadata.refs[ref]
    snapshot = metadata.snapshot_by_id(found.snapshot_id)
    if snapshot is None:
        raise SnapshotMissing(
            f"{ref!r} points at the snapshot {found.snapshot_id}, which the table does not have",
            hint="The table's metadata is wrong: point the tag or branch at a snapshot that is there.",
        )
    is_branch = found.snapshot_ref_type is SnapshotRefType.BRANCH
    return Pinned(snapshot, metadata.schema() if is_branch else _schema_of(metadata, snapshot))


def _by_id(metadata: TableMetadata, name: str, id_: int) -> Pinned:
    snapshot = metadata.snapshot_by_id(id_)
    if snapshot is None:
        raise SnapshotMissing(f"{name} has no snapshot {id_}", hint=_snapshots(metadata))
    return Pinned(snapshot, _schema_of(metadata, snapshot))


def _schema_of(metadata: TableMetadata, snapshot: Snapshot) -> Schema:
    found = None if snapshot.schema_id is None else metadata.schema_by_id(snapshot.schema_id)
    return metadata.schema() if found is None else found


def _snapshots(metadata: TableMetadata) -> str:
    if not metadata.snapshots:
        return "The table has no snapshot yet."
    last = sorted(metadata.snapshots, key=lambda one: one.timestamp_ms, reverse=True)[:_LAST]
    ids = ", ".join(str(one.snapshot_id) for one in last)
    return f"The last ones are {ids}; older ones may have expired."


def _no_ref(metadata: TableMetadata, table: str, kind: str, name: str) -> SnapshotMissing:
    wanted = [SnapshotRefType.TAG, SnapshotRefType.BRANCH] if " " in kind else [SnapshotRefType(kind)]
    names = sorted(ref for ref, one in metadata.refs.items() if one.snapshot_ref_type in wanted)
    near = nearest(name, names)
    if near is not None:
        hint = f"Did you mean {near!r}?"
    elif names:
        hint = f"There are: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}."
    else:
        hint = "The table has none."
    if name.isdecimal():
        hint += f" A snapshot's id is given as a number, at={name}."
    elif name == MAIN_BRANCH:
        hint = "The table has no snapshot yet."
    return SnapshotMissing(f"{table} has no {kind} {name!r}", hint=hint)


def _no_word(at: object) -> ConfigError:
    return ConfigError(f"at cannot be {at!r}, which is a {type(at).__name__}", hint=_TAKES)
