"""Scan: which files hold the rows of a snapshot, and which deletes reach each of them.

    live files ─┬─ data ──────────────────────┐
                └─ deletes ─▶ by kind, scope ─┴─▶ ScanPlan ─▶ of(file): keys · positions or a vector

What reaches a data file:
- an equality delete that is newer, in the file's own partition, or anywhere if its spec has no partition;
- positions that are as new or newer, of the file by name, or in its partition;
- a deletion vector that is as new or newer, of the file by name. It stands for all positions of its file.

A delete that cannot match a row of the file by the bounds of its columns is left out, and one that reaches no
file at all is not part of the plan. Reading, compaction and the conversion of deletes stand on this.

Where very many deletes meet very many files their bounds are not compared: more deletes are applied, and none
is missed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import NestedField

from calve.model.errors import Unreadable
from calve.table.fields import field_of
from calve.table.live import FileContent, LiveFile, Only, Scope, live_files
from calve.table.overlap import may_match

PATH_ID, POSITION_ID = 2147483546, 2147483545
"""The columns of a file with positions, as Iceberg numbers them."""

_PAIRS_MAX = 2_000_000
"""Up to so many pairs of a delete and a data file, bounds are compared: about two seconds."""
_REWRITE = "Rewrite the table's data files with the engine that wrote it, as Parquet."


@dataclass(frozen=True, slots=True)
class Keys:
    """The columns of equality deletes, and how far these reach."""

    columns: tuple[int, ...]
    everywhere: bool
    """Whether they reach all partitions, or their own alone."""


@dataclass(frozen=True, slots=True)
class Deletes:
    """What reaches one data file."""

    keys: Mapping[Keys, tuple[LiveFile, ...]]
    positions: tuple[LiveFile, ...]
    """Files with positions, or one deletion vector."""

    def __bool__(self) -> bool:
        return bool(self.keys or self.positions)

    def __iter__(self) -> Iterator[LiveFile]:
        for files in self.keys.values():
            yield from files
        yield from self.positions


@dataclass(frozen=True)
class ScanPlan:
    """The files of a snapshot, and what reaches them."""

    schema: Schema
    """The columns of its rows."""
    data: tuple[LiveFile, ...]
    key_fields: Mapping[int, NestedField]
    """The columns that equality deletes speak of, also those that were dropped since."""
    _index: _Index = field(repr=False)

    def of(self, file: LiveFile) -> Deletes:
        """The deletes that reach a data file."""
        return self._index.of(file)

    def keys_of(self, delete: LiveFile) -> Keys:
        """What an equality delete deletes by."""
        return self._index.keys_of(delete)

    @cached_property
    def deletes(self) -> tuple[LiveFile, ...]:
        """The delete files that reach a data file."""
        return tuple(self._index.reaching(self.data))


def plan_scan(
    io: FileIO,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    schema: Schema | None = None,
    *,
    bounds: bool = False,
    only: Only | None = None,
) -> ScanPlan:
    """The plan of a snapshot; `None` is a table that has none yet. Rows have the table's columns, or those of
    another of its schemas. `bounds`: those of data files are asked for, too. `only`: which data files are."""
    files = () if snapshot is None else live_files(io, metadata, snapshot, bounds=bounds, only=only)
    return plan_files(files, metadata, metadata.schema() if schema is None else schema)


def plan_files(files: Sequence[LiveFile], metadata: TableMetadata, shown: Schema) -> ScanPlan:
    """The plan of files that are live together."""
    for file in files:
        _check(file)
    by_keys = [file for file in files if file.content is FileContent.KEYS]
    fields = {
        column: field_of(metadata, shown, column, f"the delete file {file.path}")
        for file in by_keys
        for column in file.equality_ids
    }
    data = tuple(file for file in files if file.content is FileContent.DATA)
    plain = frozenset(id_ for id_, spec in metadata.specs().items() if not spec.fields)
    return ScanPlan(shown, data, fields, _Index(files, data, plain, fields))


def _check(file: LiveFile) -> None:
    """Refuse what cannot be read here."""
    if file.encrypted:
        raise Unreadable(
            f"{file.path} is encrypted, and calve has no keys of tables",
            hint="Read the table with an engine that has its keys.",
        )
    vector = file.content is FileContent.POSITIONS and file.format == "PUFFIN"
    if file.format != "PARQUET" and not vector:
        raise Unreadable(
            f"{file.path} is a file of the format {file.format}, and calve reads Parquet", hint=_REWRITE
        )
    if vector and (file.blob is None or file.referenced is None):
        raise Unreadable(
            f"the deletion vector in {file.path} does not say where it is, or of which file",
            hint="Its manifest was cut or is wrong: roll the table back to a snapshot before it.",
        )
    if file.content is FileContent.KEYS and not file.equality_ids:
        raise Unreadable(
            f"the equality delete {file.path} names no columns",
            hint="Its manifest is wrong: roll the table back to a snapshot before it.",
        )


class _Line:
    """Deletes in the order of their sequence numbers."""

    def __init__(self, files: Iterable[LiveFile]) -> None:
        self.files = sorted(files, key=lambda file: file.sequence)
        self.sequences = [file.sequence for file in self.files]

    def after(self, sequence: int) -> Sequence[LiveFile]:
        return self.files[bisect_right(self.sequences, sequence) :]

    def from_on(self, sequence: int) -> Sequence[LiveFile]:
        return self.files[bisect_left(self.sequences, sequence) :]

    def count_after(self, sequence: int) -> int:
        return len(self.files) - bisect_right(self.sequences, sequence)


_NO_LINE = _Line(())


class _Index:
    """The deletes of a snapshot, by where they reach."""

    def __init__(
        self,
        files: Sequence[LiveFile],
        data: Sequence[LiveFile],
        plain_specs: frozenset[int],
        fields: Mapping[int, NestedField],
    ) -> None:
        self._plain_specs = plain_specs
        self._types = {column: one.field_type for column, one in fields.items()}
        everywhere: defaultdict[Keys, list[LiveFile]] = defaultdict(list)
        scoped: defaultdict[tuple[Scope, Keys], list[LiveFile]] = defaultdict(list)
        by_path: defaultdict[str, list[LiveFile]] = defaultdict(list)
        by_scope: defaultdict[Scope, list[LiveFile]] = defaultdict(list)
        self._vectors: dict[str, LiveFile] = {}
        for file in files:
            if file.content is FileContent.KEYS:
                keys = self.keys_of(file)
                (everywhere[keys] if keys.everywhere else scoped[file.scope, keys]).append(file)
            elif file.blob is not None and file.referenced is not None:
                self._vectors[file.referenced] = file
            elif file.content is FileContent.POSITIONS and (path := _one_path(file)) is not None:
                by_path[path].append(file)
            elif file.content is FileContent.POSITIONS:
                by_scope[file.scope].append(file)
        self._everywhere = {keys: _Line(found) for keys, found in everywhere.items()}
        self._scoped: defaultdict[Scope, dict[Keys, _Line]] = defaultdict(dict)
        for (scope, keys), found in scoped.items():
            self._scoped[scope][keys] = _Line(found)
        self._by_path = {path: _Line(found) for path, found in by_path.items()}
        self._by_scope = {scope: _Line(found) for scope, found in by_scope.items()}
        pairs = sum(line.count_after(file.sequence) for file in data for _, line in self._lines(file))
        self._compares = pairs <= _PAIRS_MAX

    def keys_of(self, delete: LiveFile) -> Keys:
        return Keys(delete.equality_ids, delete.spec_id in self._plain_specs)

    def of(self, file: LiveFile) -> Deletes:
        keys = {}
        for one, line in self._lines(file):
            if found := self._matching(one, line.after(file.sequence), file):
                keys[one] = found
        return Deletes(keys, self._positions(file))

    def reaching(self, data: Sequence[LiveFile]) -> Iterator[LiveFile]:
        """The deletes that reach one of the data files, each once."""
        seen: set[tuple[str, tuple[int, int] | None]] = set()
        # Of files that bounds do not tell apart, the oldest of a partition is reached by all that others are.
        for file in data if self._compares else _oldest(data, self._positions):
            for delete in self.of(file):
                if (delete.path, delete.blob) not in seen:
                    seen.add((delete.path, delete.blob))
                    yield delete

    def _lines(self, file: LiveFile) -> Iterator[tuple[Keys, _Line]]:
        yield from self._everywhere.items()
        if file.scope in self._scoped:
            yield from self._scoped[file.scope].items()

    def _matching(self, keys: Keys, found: Sequence[LiveFile], file: LiveFile) -> tuple[LiveFile, ...]:
        if not self._compares:
            return tuple(found)
        columns = [(column, self._types[column]) for column in keys.columns]
        return tuple(delete for delete in found if may_match(delete, file, columns))

    def _positions(self, file: LiveFile) -> tuple[LiveFile, ...]:
        vector = self._vectors.get(file.path)
        if vector is not None and vector.sequence >= file.sequence:
            return (vector,)
        named = self._by_path.get(file.path, _NO_LINE).from_on(file.sequence)
        near = self._by_scope.get(file.scope, _NO_LINE).from_on(file.sequence)
        return (*named, *(one for one in near if _may_name(one, file.path)))


def _oldest(
    data: Sequence[LiveFile], positions: Callable[[LiveFile], tuple[LiveFile, ...]]
) -> Iterator[LiveFile]:
    oldest: dict[Scope, LiveFile] = {}
    for file in data:
        known = oldest.get(file.scope)
        if known is None or file.sequence < known.sequence:
            oldest[file.scope] = file
    yield from oldest.values()
    yield from (file for file in data if positions(file))


def _one_path(file: LiveFile) -> str | None:
    """The data file that a file with positions is of, where it is of one alone."""
    if file.referenced is not None:
        return file.referenced
    low, high = file.lower.get(PATH_ID), file.upper.get(PATH_ID)
    return low.decode() if low is not None and low == high else None


def _may_name(file: LiveFile, path: str) -> bool:
    low, high, name = file.lower.get(PATH_ID), file.upper.get(PATH_ID), path.encode()
    return (low is None or low <= name) and (high is None or name <= high)
