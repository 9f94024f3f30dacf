"""Rows: the plan of a snapshot as a frame.

    data files ─┬─ that no delete reaches ─────────────────────────────────────────┐
                ├─ with equality deletes ─▶ anti-join by key, newer alone ─────────┼─▶ union ─▶ frame
                └─ with deleted places ───▶ a filter or an anti-join by place ─────┘

Files are read by Spark's own reader where it reaches them, else by pyarrow in executors. Those that the same
kinds of deletes reach are read together, so that only rows that a delete may take pay for its join. Deletes
stay in executors, too: a file of keys is read as a frame, and of each key the newest delete counts.

A row is deleted by a key if the newest delete of its key is newer than the row's own file. Both numbers are
tags of files, joined to their rows. A null equals a null, NaN equals NaN, and -0.0 is not 0.0: as Iceberg's
own reader compares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

from pyiceberg.types import DoubleType, FloatType, NestedField
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.model.columns import RESERVED
from calve.runtime.spark.carried import Carried, places_in
from calve.runtime.spark.deleted import DeletedPlaces
from calve.runtime.spark.native import PLACE, Native
from calve.runtime.spark.shapes import Naming, has_uuid, own_name, shown, shown_field
from calve.table.live import FileContent, LiveFile, Scope
from calve.table.scan import Keys, ScanPlan

_SEQUENCE, _SCOPE, _FILE = RESERVED + "sequence", RESERVED + "scope", RESERVED + "number"
_NEWEST, _IN = RESERVED + "newest", RESERVED + "in"


@dataclass(frozen=True, slots=True)
class _Class:
    """What data files have in common that are read together."""

    native: bool
    keys: frozenset[Keys] = frozenset()
    places: bool = False
    """Whether deleted places are joined; pyarrow leaves them out by itself."""

    @property
    def tags(self) -> tuple[str, ...]:
        """What must be known of each file."""
        scoped = any(not keys.everywhere for keys in self.keys)
        wanted = ((_SEQUENCE, bool(self.keys)), (_SCOPE, scoped), (_FILE, self.places))
        return tuple(tag for tag, is_wanted in wanted if is_wanted)


@dataclass(frozen=True)
class Rows:
    """Reads a plan."""

    spark: SparkSession
    plan: ScanPlan
    native: Native | None
    """`None`: nothing in the table is for Spark's own reader."""
    carried: Carried
    _scopes: dict[Scope, int] = field(default_factory=dict)
    _places: dict[str, tuple[LiveFile, ...]] = field(default_factory=dict)
    """Of each data file that has deleted places, where these stand."""
    _joined: dict[Keys, DataFrame] = field(default_factory=dict)

    def frame(self) -> DataFrame:
        """The rows of the snapshot. Nothing is read yet."""
        groups: defaultdict[_Class, list[LiveFile]] = defaultdict(list)
        for file in self.plan.data:
            deletes = self.plan.of(file)
            if deletes.positions:
                self._places[file.path] = deletes.positions
            native = self._is_native(file)
            same = _Class(native, frozenset(deletes.keys), native and bool(deletes.positions))
            groups[same].append(file)
        parts = [self._part(same, files) for same, files in groups.items()]
        return reduce(DataFrame.union, parts, self._empty())

    def _empty(self) -> DataFrame:
        """No rows, in the user's session. A union has the session, the names and the metadata of its first
        part; this one costs nothing, because Spark finds out that it is empty before it begins."""
        schema = T.StructType([shown_field(one) for one in self.plan.schema.fields])
        return self.spark.createDataFrame([], schema).where(F.lit(False))

    def _part(self, same: _Class, files: Sequence[LiveFile]) -> DataFrame:
        frame = self._read(files, self._columns(same.keys), same.tags, same.native, places=same.places)
        if same.places:
            frame = self._deleted.left_out(frame, F.col(_FILE), F.col(PLACE))
        for keys in sorted(same.keys, key=lambda one: (one.everywhere, one.columns)):
            frame = self._without(frame, keys, same.native)
        return self._shown(frame, same)

    def _shown(self, frame: DataFrame, same: _Class) -> DataFrame:
        """The columns of the table alone, as people see them. A union takes them in their order, under its
        own names: where nothing is to be changed of them, none is named. Of a hundred that would take as long
        as a query."""
        fields, naming = self.plan.schema.fields, self._naming(same.native)
        if any(has_uuid(one.field_type) for one in fields):
            kinds = [(self._column(one, same.native), one.field_type) for one in fields]
            return frame.select(*(shown(column, kind, naming) for column, kind in kinds))
        extra = [self._column(one, same.native) for one in self._columns(same.keys)[len(fields) :]]
        hidden = [*same.tags, *([PLACE] if same.places else [])]
        return frame.drop(*map(F.col, hidden), *extra)

    def _read(
        self,
        files: Sequence[LiveFile],
        columns: Sequence[NestedField],
        tags: Sequence[str],
        native: bool,
        *,
        places: bool = False,
    ) -> DataFrame:
        tagged = [(file, self._values(file, tags)) for file in files]
        if native and self.native is not None:
            return self.native.rows(tagged, columns, tags, places=places)
        deleted = {file.path: tuple(map(places_in, self._places.get(file.path, ()))) for file in files}
        return self.carried.rows(tagged, columns, tags, lambda file: deleted[file.path])

    # ------------------------------------------------------------ by key

    def _without(self, frame: DataFrame, keys: Keys, native: bool) -> DataFrame:
        """Rows that no newer delete has the key of."""
        files = self._deletes[keys]
        conditions = []
        for one in self._fields(keys):
            column, key = _comparable(self._column(one, native), one), F.col(_key_name(one))
            # To compare nulls, too, costs a join more than the rest of it.
            some = all(file.nulls.get(one.field_id) == 0 for file in files)
            conditions.append(column == key if one.required or some else column.eqNullSafe(key))
        conditions.append(F.col(_NEWEST) > F.col(_SEQUENCE))
        if not keys.everywhere:
            conditions.append(F.col(_IN) == F.col(_SCOPE))
        if keys not in self._joined:  # files of several classes share it
            self._joined[keys] = self._newest(keys, files)
        return frame.join(self._joined[keys], reduce(Column.__and__, conditions), "left_anti")

    def _newest(self, keys: Keys, files: Sequence[LiveFile]) -> DataFrame:
        """Of each key, in each partition where that counts, the newest delete."""
        fields = self._fields(keys)
        tags = (_SEQUENCE,) if keys.everywhere else (_SEQUENCE, _SCOPE)
        parts = []
        for native in (True, False):
            mine = [file for file in files if self._is_native(file) is native]
            if mine:
                frame = self._read(mine, fields, tags, native)
                names = [_comparable(self._column(one, native), one).alias(_key_name(one)) for one in fields]
                parts.append(frame.select(*names, *tags))
        group = [*map(_key_name, fields), *([] if keys.everywhere else [_SCOPE])]
        newest = reduce(DataFrame.union, parts).groupBy(*group).agg(F.max(_SEQUENCE).alias(_NEWEST))
        if not keys.everywhere:
            newest = newest.withColumnRenamed(_SCOPE, _IN)
        return self.carried.sized(newest, sum(file.records for file in files))

    @cached_property
    def _deletes(self) -> dict[Keys, list[LiveFile]]:
        """The files of equality deletes, by what they delete by."""
        found: defaultdict[Keys, list[LiveFile]] = defaultdict(list)
        for file in self.plan.deletes:
            if file.content is FileContent.KEYS:
                found[self.plan.keys_of(file)].append(file)
        return found

    def _fields(self, keys: Keys) -> list[NestedField]:
        return [self.plan.key_fields[column] for column in keys.columns]

    # ------------------------------------------------------------ by place

    @cached_property
    def _deleted(self) -> DeletedPlaces:
        """What is deleted by place in the files of Spark's reader."""
        files = [file for file in self.plan.data if file.path in self._places and self._is_native(file)]
        return DeletedPlaces(self.carried, [(file, self._places[file.path]) for file in files])

    # ------------------------------------------------------------ both

    def _is_native(self, file: LiveFile) -> bool:
        return self.native is not None and self.native.hadoop.path(file.path) is not None

    def _columns(self, keys: Iterable[Keys]) -> list[NestedField]:
        """The columns of the table, and those that deletes need although they were dropped."""
        shown_ids = {one.field_id for one in self.plan.schema.fields}
        needed = {column for one in keys for column in one.columns if column not in shown_ids}
        return [*self.plan.schema.fields, *(self.plan.key_fields[column] for column in sorted(needed))]

    def _column(self, one: NestedField, native: bool) -> Column:
        return (self.native if native and self.native is not None else self.carried).column(one)

    def _naming(self, native: bool) -> Naming:
        return self.native.naming if native and self.native is not None else own_name

    def _values(self, file: LiveFile, tags: Sequence[str]) -> tuple[int, ...]:
        told = {
            _SEQUENCE: lambda: file.sequence,
            _SCOPE: lambda: self._scopes.setdefault(file.scope, len(self._scopes)),
            _FILE: lambda: self._deleted.number(file),
        }
        return tuple(told[tag]() for tag in tags)


def _key_name(one: NestedField) -> str:
    return f"{RESERVED}key_{one.field_id}"


def _comparable(column: Column, one: NestedField) -> Column:
    """A key column as it is compared: a join takes -0.0 for 0.0, and their digits differ."""
    return column.cast("string") if isinstance(one.field_type, FloatType | DoubleType) else column
