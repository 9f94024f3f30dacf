"""Preview: what a sink would do to its table. Nothing is created, claimed or written.

    config, columns ─┐
                     ├─▶ Preview: the table as it would be, how it differs, where the sink goes on,
    the table, if ───┘   who can read it, what is refused and why

What is refused here is refused by the same checks that a start makes, in the same words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField

from calve.config.sink import Mode, NullKeys, SinkConfig
from calve.model.errors import CalveError, TableDiffers, TableMissing
from calve.model.progress import claimed_property
from calve.runtime.first import wanted_table
from calve.runtime.previewed import Action, ColumnPreview, Preview, Refusal
from calve.runtime.start import check_fence, kind_of
from calve.table.base import read_base
from calve.table.commit import load
from calve.table.create import check_places, differences
from calve.table.evolve import Evolution, evolve
from calve.table.fence import read_progress
from calve.table.layout import describe, from_sort_order, from_spec, to_sort_order, to_spec
from calve.table.lists import Content
from calve.table.plan import Scope, delete_scope, unpartitioned_specs
from calve.table.readers import Answer, Reader, answers, features
from calve.table.schema import to_iceberg


def preview(sink: SinkConfig, columns: pa.Schema | None, source: str, catalog: Catalog | None) -> Preview:
    """What a sink would do to its table. `columns`: those that it brings, where they are known. `catalog`:
    `None`, where it is not there yet either."""
    look = _Look(sink, columns, source)
    try:
        return look.at(None if catalog is None else load(catalog, sink.identifier))
    except TableMissing:
        return look.at(None)
    except CalveError as error:
        return look.refused_by(error)


@dataclass(slots=True)
class _Look:
    sink: SinkConfig
    columns: pa.Schema | None
    source: str
    _refused: list[Refusal] = field(default_factory=list)
    _changes: list[str] = field(default_factory=list)

    def at(self, table: Table | None) -> Preview:
        schema, evolution = self._new() if table is None else self._there(table)
        action = Action.CREATE if table is None else Action.CHANGE if self._changes else Action.NOTHING
        if self.columns is None and table is None:
            action = Action.LEARN
        if self._refused:
            action = Action.REFUSE
        progress = None
        if table is not None:
            with self._collecting():
                progress = read_progress(table, self.sink.sink_id)
        scope = self._scope(table, schema)
        return Preview(
            **self._said(),
            action=action,
            columns=tuple(self._columns(table, schema, evolution)),
            deletes=self._deletes(scope),
            partition=self._partition(table),
            sort=self._sort(table),
            location=self.sink.location or "" if table is None else table.location(),
            properties=self._properties(table),
            resumes=None if progress is None else progress.frontier,
            generation=0 if progress is None else progress.generation,
            readers=tuple(_told(*one) for one in self._readers(scope)),
            changes=tuple(self._changes),
            refused=tuple(self._refused),
        )

    def refused_by(self, error: CalveError) -> Preview:
        with self._collecting():
            raise error
        return Preview(**self._said(), action=Action.REFUSE, refused=tuple(self._refused))

    def _said(self) -> dict[str, Any]:
        sink = self.sink
        return {
            "table": sink.table_name,
            "catalog": f"{sink.catalog.type} {sink.catalog.uri or sink.catalog.warehouse or ''}".strip(),
            "sink_id": sink.sink_id,
            "mode": str(sink.mode),
            "key": sink.key,
            "source": self.source,
        }

    def _properties(self, table: Table | None) -> dict[str, str]:
        """What is set: what was asked for, and the mark of a sink that begins."""
        own = {claimed_property(self.sink.sink_id): kind_of(self.sink)}
        if table is None:
            return dict(self.sink.table_properties) | own
        return {} if own.keys() <= table.metadata.properties.keys() else own

    def _new(self) -> tuple[Schema | None, Evolution | None]:
        """The table that would be created."""
        if self.columns is None:
            return None, None
        with self._collecting():
            wanted = wanted_table(self.sink, self.columns)
            schema = to_iceberg(wanted.schema, wanted.key, null_keys=wanted.null_keys)
            to_spec(wanted.partition or (), schema)
            to_sort_order(wanted.sort or (), schema)
            check_places(wanted)
            self._changes.append(f"{self.sink.table_name} is created")
            return schema, None
        return None, None

    def _there(self, table: Table) -> tuple[Schema | None, Evolution | None]:
        """The table that is there, and what the data asks of it."""
        for one in differences(table.metadata, wanted_table(self.sink, pa.schema([]))):
            self._refused.append(Refusal(TableDiffers.code, str(one), one.hint))
        found = table.metadata.properties.get(claimed_property(self.sink.sink_id))
        if found not in (None, "true", kind_of(self.sink)):
            self._refused.append(
                Refusal(
                    TableDiffers.code,
                    f"sink {self.sink.sink_id} is {found}, and is now asked to be {kind_of(self.sink)}",
                    "Use the mode and key it was begun with, or another sink id ('writer.id').",
                )
            )
        with self._collecting():
            check_fence(self.sink, table)
        if self.columns is None:
            return table.schema(), None
        with self._collecting():
            evolution = evolve(table.metadata, self.columns, allowed=self.sink.schema_evolution)
            if evolution is not None:
                self._changes += evolution.changes
                return evolution.schema, evolution
        return table.schema(), None

    @contextmanager
    def _collecting(self) -> Iterator[None]:
        """What is refused is noted, and the look goes on."""
        try:
            yield
        except CalveError as error:
            self._refused.append(Refusal(error.code, error.message, error.hint))

    def _columns(
        self, table: Table | None, schema: Schema | None, evolution: Evolution | None
    ) -> Iterator[ColumnPreview]:
        before = {} if table is None else {one.field_id: one for one in table.schema().fields}
        for one in () if schema is None else schema.fields:
            change = "" if table is not None and evolution is None else _change(before.get(one.field_id), one)
            yield ColumnPreview(
                one.name, str(one.field_type), one.required, one.name in self.sink.key, change
            )

    def _partition(self, table: Table | None) -> str:
        if table is None:
            return describe(self.sink.partition)
        with self._collecting():
            return describe(from_spec(table.spec(), table.schema()))
        return ""

    def _sort(self, table: Table | None) -> str:
        if table is None:
            return describe(self.sink.sort)
        return describe(from_sort_order(table.sort_order(), table.schema()) or ())

    def _scope(self, table: Table | None, schema: Schema | None) -> Scope:
        """Where deletes will reach, once the table has rows."""
        if self.sink.mode is not Mode.UPSERT or schema is None:
            return Scope.NONE
        if table is None:
            spec = to_spec(self.sink.partition, schema) if not self._refused else None
            if spec is None:
                return Scope.NONE
            bare = frozenset() if spec.fields else frozenset({spec.spec_id})
            return delete_scope(self.sink.key, spec, self.sink.partition, frozenset({spec.spec_id}), bare)
        metadata = table.metadata
        live = frozenset(
            one["partition_spec_id"] for one in read_base(table).manifests if one["content"] == Content.DATA
        )
        return delete_scope(
            self.sink.key,
            metadata.spec(),
            from_spec(metadata.spec(), metadata.schema()),
            live or frozenset({metadata.default_spec_id}),
            unpartitioned_specs(metadata),
        )

    def _deletes(self, scope: Scope) -> str:
        key = ", ".join(self.sink.key)
        match scope:
            case Scope.PARTITION:
                return f"by ({key}), inside the partition of a row: it follows from the key"
            case Scope.GLOBAL:
                return f"by ({key}), in the whole table: where an older row lies does not follow from the key"
        return "none: rows are added, and never replaced" if self.sink.mode is not Mode.UPSERT else ""

    def _readers(self, scope: Scope) -> tuple[tuple[Reader, Answer], ...]:
        return answers(
            features(
                upsert=self.sink.mode is Mode.UPSERT,
                global_deletes=scope is Scope.GLOBAL,
                null_keys=self.sink.null_keys is NullKeys.ALLOW,
            )
        )


def _change(before: NestedField | None, now: NestedField) -> str:
    if before is None:
        return "new"
    if before.field_type != now.field_type:
        return f"was {before.field_type}"
    return "may be null from now on" if before.required and not now.required else ""


def _told(reader: Reader, one: Answer) -> tuple[str, str, str]:
    return str(reader), one.reads.value, one.note
