"""FileWriter: the rows of one partition into files, one open at a time, rolled at the target size.

    tables ─▶ gather ─▶ row groups ─▶ open file ─▶ FileClosed
                                        └─ full: close it, open the next

Guarantee: a file is reported only after the store closed it, so it is durable and whole; a file that
failed half way is an orphan that no message names (case 2, 35). No rows, no file. What is held in memory
is one row group and the table that was handed in.

Not here: which rows belong together (arrange.py), when a file is full (rolling.py), how one is written
inside (parquet.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from calve.model.batch import Batch
from calve.model.errors import BadRow, SchemaMismatch, SinkState
from calve.model.file import FileClosed, FileKind, PartitionValue
from calve.store.base import Store
from calve.writer.dictionary import chosen
from calve.writer.metrics import field_id, footer_metrics, leaves, split_offsets
from calve.writer.order import in_order
from calve.writer.parquet import OpenFile
from calve.writer.paths import new_file_path
from calve.writer.plan import FILE_BYTES_MAX, WritePlan
from calve.writer.rolling import Roller

_FOOTER_BYTES_PER_LEAF = 96
_STATISTIC_BYTES_MAX = 4096


def file_schema(plan: WritePlan, kind: FileKind) -> pa.Schema:
    """The columns of a file: all of the table's, or the key's alone."""
    if kind is FileKind.DATA:
        return plan.schema
    return pa.schema([plan.schema.field(name) for name in plan.key])


class FileWriter:
    """Writes rows of one partition that already have the plan's columns and order."""

    def __init__(
        self,
        plan: WritePlan,
        store: Store,
        batch: Batch,
        worker: str,
        kind: FileKind,
        partition: tuple[PartitionValue, ...],
        spec_id: int,
    ) -> None:
        self._plan, self._store = plan, store
        self._batch, self._worker, self._kind = batch, worker, kind
        self._partition, self._spec_id = partition, spec_id
        self._schema = file_schema(plan, kind)
        self._sort = plan.sort if kind is FileKind.DATA else ()
        self._roller: Roller | None = None
        self._held = _Held()
        self._file: OpenFile | None = None
        self._last: pa.Table | None = None
        self._sorted = True
        self._dictionary: list[str] | None = None
        self._closed: list[FileClosed] = []
        self._files = 0
        self._ended = False

    @property
    def held_bytes(self) -> int:
        """Arrow bytes that are held and not yet written."""
        return self._held.bytes

    def write(self, table: pa.Table) -> None:
        """Take rows. What fills a row group is written, the rest is held."""
        self._check_usable()
        if table.num_rows == 0:
            return
        with self._all_or_nothing():
            table = self._checked(table)
            if self._roller is None:
                self._roller = Roller(self._plan.settings, _footer_estimate(self._schema, table))
            self._held.add(table)
            self._drain(self._roller, all_rows=False)

    def close(self) -> list[FileClosed]:
        """Write what is held, close the last file, and report all files. Nothing may be written after."""
        self._check_usable()
        with self._all_or_nothing():
            if self._roller is not None:
                self._drain(self._roller, all_rows=True)
                self._end_file(self._roller)
        self._ended = True
        return self._closed

    def abort(self) -> None:
        """Give up: the open file is left as an orphan, and nothing is reported."""
        self._ended = True
        self._held, self._closed = _Held(), []
        if self._file is not None:
            self._file.abandon()
            self._file = None

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """After a failure of any kind rows are missing: no later `close` may report the files."""
        whole = False
        try:
            yield
            whole = True
        finally:
            if not whole:
                self.abort()

    def _check_usable(self) -> None:
        if self._ended:
            raise SinkState(
                "this file writer was closed or has failed",
                hint="Open a new one for the batch; files of a failed one are orphans.",
            )

    def _checked(self, table: pa.Table) -> pa.Table:
        if self._kind is FileKind.EQUALITY_DELETE:
            table = table.select(self._schema.names)
        if not table.schema.equals(self._schema, check_metadata=False):
            raise SchemaMismatch(
                f"rows of {_names(table.schema)} were handed to a file of {_names(self._schema)}",
                hint="Rows are brought to the table's types before they are written; this is a defect.",
            )
        return table

    def _drain(self, roller: Roller, *, all_rows: bool) -> None:
        rows_max = self._plan.settings.row_group_rows_max
        while self._held.rows:
            position, groups = (self._file.position, self._file.groups) if self._file else (0, 0)
            wanted = roller.next_group_bytes(position, groups)
            if wanted == 0:
                self._end_file(roller)
                continue
            enough = self._held.bytes >= wanted or self._held.rows >= rows_max
            if not enough and not all_rows:
                return
            self._write_group(roller, self._held.take(wanted, rows_max))

    def _write_group(self, roller: Roller, group: pa.Table) -> None:
        file = self._file or self._new_file(group)
        if self._last is not None and not in_order(self._sort, self._last, group):
            self._sorted = False
        if self._sort:
            self._last = group.slice(group.num_rows - 1)
        before = file.position
        arrow_bytes = group.nbytes
        file.write(group)
        roller.wrote(arrow_bytes, file.position - before)

    def _new_file(self, first: pa.Table) -> OpenFile:
        path = new_file_path(self._plan, self._batch, self._worker, self._kind, self._partition, self._files)
        self._files += 1
        self._last, self._sorted = None, True
        settings = self._plan.settings
        if self._dictionary is None:
            self._dictionary = chosen(settings.dictionary, self._schema, first)
        self._file = OpenFile(path, self._store.create(path), self._schema, settings, self._dictionary)
        return self._file

    def _end_file(self, roller: Roller) -> None:
        file = self._file
        if file is None:
            return
        before = file.position
        file.close()
        self._file = None
        if file.position > FILE_BYTES_MAX:
            raise BadRow(
                f"{file.path} has {file.position} bytes, over the limit of {FILE_BYTES_MAX}",
                hint="A row is larger than a file may be. Leave the large value out, or store it elsewhere.",
            )
        roller.closed(file.position - before, file.groups)
        self._closed.append(self._report(file))

    def _report(self, file: OpenFile) -> FileClosed:
        is_data = self._kind is FileKind.DATA
        metrics = footer_metrics(file.metadata, self._schema, self._plan.metrics, file.nans)
        _ = metrics.encoded  # here, where workers are many, not at the one coordinator
        return FileClosed(
            batch=self._batch,
            worker=self._worker,
            path=file.path,
            kind=self._kind,
            schema_id=self._plan.schema_id,
            spec_id=self._spec_id,
            partition=self._partition,
            record_count=file.rows,
            file_bytes=file.position,
            metrics=metrics,
            split_offsets=split_offsets(file.metadata),
            equality_ids=() if is_data else tuple(field_id(field) for field in self._schema),
            sort_order_id=self._plan.sort_order_id if is_data and self._sorted else None,
        )


class _Held:
    """Rows that wait until a row group is full, in the order in which they came."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self.bytes = 0
        self.rows = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self.bytes += table.nbytes
        self.rows += table.num_rows

    def take(self, wanted_bytes: int, rows_max: int) -> pa.Table:
        """The first rows, of about so many Arrow bytes, at least one."""
        held = pa.concat_tables(self._tables) if len(self._tables) > 1 else self._tables[0]
        count = min(rows_max, _rows_of(held, wanted_bytes, self.bytes))
        rest = held.slice(count)
        self._tables = [rest] if rest.num_rows else []
        self.rows = rest.num_rows
        self.bytes = rest.nbytes if rest.num_rows else 0
        return held.slice(0, count)


def _rows_of(table: pa.Table, wanted: int, table_bytes: int) -> int:
    """How many first rows have about so many Arrow bytes: within 1 %, or the nearest row below."""
    if table_bytes <= wanted * 1.01:
        return table.num_rows
    low, high, size_low, size_high = 0, table.num_rows, 0, table_bytes
    while high - low > 1:
        guess = low + int((high - low) * (wanted - size_low) / max(size_high - size_low, 1))
        middle = min(max(guess, low + 1), high - 1)
        size = table.slice(0, middle).nbytes
        if abs(size - wanted) <= 0.01 * wanted:
            return middle
        if size < wanted:
            low, size_low = middle, size
        else:
            high, size_high = middle, size
    return max(low, 1)


def _footer_estimate(schema: pa.Schema, table: pa.Table) -> float:
    """What a row group adds to a footer, before one was seen: most of it is the least and greatest values,
    which Arrow leaves out where they are long."""
    values = (column.nbytes / table.num_rows for column in table.columns)
    statistics = sum(2 * value for value in values if value <= _STATISTIC_BYTES_MAX)
    return float(_FOOTER_BYTES_PER_LEAF * len(leaves(schema)) + statistics)


def _names(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)
