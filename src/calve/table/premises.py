"""Premises: what the files of a batch took for granted about the table when they were written.

A commit that lost a race is rebuilt on the new parent with the same files, but only while these still
hold. One that broke means: write the batch again, never commit it as it was (case 62).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from calve.model.file import FileClosed, FileKind
from calve.table.lists import Content, ManifestRecord, is_live


class SchemaState(NamedTuple):
    """What the ids of a new schema and of its columns follow from."""

    current_id: int
    last_id: int
    last_column_id: int

    @classmethod
    def of(cls, metadata: TableMetadata) -> SchemaState:
        last_id = max(schema.schema_id for schema in metadata.schemas)
        return cls(metadata.current_schema_id, last_id, metadata.last_column_id)


@dataclass(frozen=True, slots=True)
class Premises:
    """What a batch relied on."""

    schema: Schema
    """The schema that its files were written with."""
    evolved_from: SchemaState | None = None
    """For a batch that brings a schema: the state of the table's schemas that it grew out of."""
    empty: bool = False
    """Deletes were left out because no row could be there."""
    only_spec: int | None = None
    """Deletes reach only files of this spec: every live data file had it."""
    new_spec: int | None = None
    """An id under which the batch adds a partition spec."""
    read_at: int | None = None
    """The snapshot of main whose rows were read to write the batch; 0 where there was none. Nothing else may
    be there when it is committed."""


@dataclass(frozen=True, slots=True)
class Before:
    """What batches of the same commit do before a batch: it stands on them as on the table."""

    data_specs: frozenset[int] = frozenset()
    schema: Schema | None = None
    """The schema that one of them brings."""

    def then(self, files: Iterable[FileClosed], schema: Schema | None) -> Before:
        specs = {file.spec_id for file in files if file.kind is FileKind.DATA}
        return Before(self.data_specs | specs, schema or self.schema)


def broken(
    premises: Premises,
    metadata: TableMetadata,
    manifests: Sequence[ManifestRecord],
    before: Before | None = None,
) -> tuple[str, ...]:
    """The premises that no longer hold, in words; none of them means the files can be committed."""
    before = before or Before()
    data_specs = before.data_specs | {
        manifest["partition_spec_id"]
        for manifest in manifests
        if manifest["content"] == Content.DATA and is_live(manifest)
    }
    reasons = []
    if premises.empty and data_specs:
        reasons.append("the table was empty, and now has rows")
    if premises.only_spec is not None and not data_specs <= {premises.only_spec}:
        reasons.append(f"all files had partition spec {premises.only_spec}, and now some have another")
    if premises.new_spec is not None and premises.new_spec in metadata.specs():
        reasons.append(f"somebody else added a partition spec with id {premises.new_spec}")
    if premises.read_at is not None and premises.read_at != (metadata.current_snapshot_id or 0):
        reasons.append("its rows were read, and the table was changed since")
    if premises.evolved_from is None:
        reasons += _schema_changes(premises.schema, before.schema or metadata.schema())
    elif premises.evolved_from != SchemaState.of(metadata):
        reasons.append("the schema was changed, and this batch changes it too")
    elif before.schema is not None and before.schema != premises.schema:
        reasons.append("an earlier batch of the same commit changes the schema otherwise")
    return tuple(reasons)


def _schema_changes(written: Schema, current: Schema) -> tuple[str, ...]:
    return () if written.schema_id == current.schema_id else unreadable(written, current)


def unreadable(written: Schema, current: Schema, *, new_from: int | None = None) -> tuple[str, ...]:
    """What keeps files of one schema from being read under another, in words. Renames and new optional
    columns do not: files are read by field id. But ids above `new_from` were drawn for columns that the table
    did not have yet: there, another name is another column."""
    old, new = _fields(written), _fields(current)
    reasons = [f"column {old[field_id].name} was dropped" for field_id in old.keys() - new.keys()]
    reasons += [
        f"column {new[field_id].name} is new and required"
        for field_id in new.keys() - old.keys()
        if new[field_id].required
    ]
    for field_id in old.keys() & new.keys():
        if new[field_id].required and not old[field_id].required:
            reasons.append(f"column {new[field_id].name} became required")
        if not _readable(old[field_id], new[field_id]):
            reasons.append(f"column {new[field_id].name} changed its type to {new[field_id].field_type}")
        if new_from is not None and field_id > new_from and old[field_id].name != new[field_id].name:
            reasons.append(f"the id of column {old[field_id].name} belongs to {new[field_id].name} now")
    return tuple(sorted(reasons))


def _fields(schema: Schema) -> dict[int, NestedField]:
    return dict(schema._lazy_id_to_field)


def _readable(old: NestedField, new: NestedField) -> bool:
    if old.field_type == new.field_type:
        return True
    if not (old.field_type.is_primitive and new.field_type.is_primitive):
        # A nested type differs where a field inside it does; each of those is looked at by itself.
        return type(old.field_type) is type(new.field_type)
    try:
        promote(old.field_type, new.field_type)
    except ResolveError:
        return False
    return True
