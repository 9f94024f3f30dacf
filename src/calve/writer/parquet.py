"""FileWriter: the rows of one partition into Parquet files, one open at a time, rolled at the target size.

    tables ─▶ gather ─▶ row groups ─▶ open file ─▶ FileClosed
                                        └─ full: close it, open the next

Guarantee: a file is reported only after the store closed it, so it is durable and whole; a file that
failed half way is an orphan that no message names (case 2, 35). Every field carries its Iceberg id.
No rows, no file. What is held in memory is one row group and the table that was handed in.

The Arrow schema is not stored in the footer: it would tell pyarrow alone what Parquet's own types and
the table's schema tell everybody.

Not here: which rows belong together (layout.py), when a file is full (rolling.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pyarrow.parquet as pq

from calve.model.batch import Batch
from calve.model.errors import BadRow, SchemaMismatch, SinkState, StoreError
from calve.model.file import FileClosed, FileKind, PartitionValue
from calve.store.base import Store
from calve.writer.layout import in_order
from calve.writer.metrics import NanCounter, field_id, footer_metrics, leaves, split_offsets
from calve.writer.paths import new_file_path
from calve.writer.plan import FILE_BYTES_MAX, FileSettings, WritePlan
from calve.writer.rolling import Roller

_FOOTER_BYTES_PER_LEAF = 120
_STATISTIC_BYTES_MAX = 4096
_CHUNK_ROWS_MIN = 4096
"""Chunks of fewer rows on average are joined before they are written: each costs a call per column."""


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
        self._pending: list[pa.Table] = []
        self._pending_bytes = self._pending_rows = 0
        self._file: _OpenFile | None = None
        self._last: pa.Table | None = None
        self._sorted = True
        self._closed: list[FileClosed] = []
        self._files = 0
        self._ended = False

    @property
    def pending_bytes(self) -> int:
        """Arrow bytes that are held and not yet written."""
        return self._pending_bytes

    def write(self, table: pa.Table) -> None:
        """Take rows. What fills a row group is written, the rest is held."""
        self._check_usable()
        if table.num_rows == 0:
            return
        with self._all_or_nothing():
            table = self._checked(table)
            if self._roller is None:
                self._roller = Roller(self._plan.settings, _footer_estimate(self._schema, table))
            self._pending.append(table)
            self._pending_bytes += table.nbytes
            self._pending_rows += table.num_rows
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
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0
        self._closed = []
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
        while self._pending_rows:
            position, groups = (self._file.position, self._file.groups) if self._file else (0, 0)
            wanted = roller.next_group_bytes(position, groups)
            if wanted == 0:
                self._end_file(roller)
                continue
            enough = self._pending_bytes >= wanted or self._pending_rows >= rows_max
            if not enough and not all_rows:
                return
            self._write_group(roller, self._take_group(wanted, rows_max))

    def _take_group(self, wanted: int, rows_max: int) -> pa.Table:
        """The first rows of what is held, of about so many Arrow bytes, at least one."""
        held = pa.concat_tables(self._pending) if len(self._pending) > 1 else self._pending[0]
        rows = min(rows_max, _rows_of(held, wanted, self._pending_bytes))
        group, rest = held.slice(0, rows), held.slice(rows)
        self._pending = [rest] if rest.num_rows else []
        self._pending_rows = rest.num_rows
        self._pending_bytes = rest.nbytes if rest.num_rows else 0
        return group

    def _write_group(self, roller: Roller, group: pa.Table) -> None:
        file = self._file or self._new_file()
        if self._last is not None and not in_order(self._sort, self._last, group):
            self._sorted = False
        if self._sort:
            self._last = group.slice(group.num_rows - 1)
        before = file.position
        arrow_bytes = group.nbytes
        with _as_store_errors(file.path):
            file.write(group)
        roller.wrote(arrow_bytes, file.position - before)

    def _new_file(self) -> _OpenFile:
        path = new_file_path(self._plan, self._batch, self._worker, self._kind, self._partition, self._files)
        self._files += 1
        self._last, self._sorted = None, True
        sink = self._store.create(path)
        try:
            self._file = _OpenFile(path, sink, self._schema, self._plan.settings)
        except (OSError, StoreError):
            with suppress(OSError, StoreError):
                sink.close()
            raise
        return self._file

    def _end_file(self, roller: Roller) -> None:
        file = self._file
        if file is None:
            return
        before = file.position
        with _as_store_errors(file.path):
            file.close()
        self._file = None
        if file.position > FILE_BYTES_MAX:
            raise BadRow(
                f"{file.path} has {file.position} bytes, over the limit of {FILE_BYTES_MAX}",
                hint="A row is larger than a file may be. Leave the large value out, or store it elsewhere.",
            )
        roller.closed(file.position - before, file.groups)
        self._closed.append(self._report(file))

    def _report(self, file: _OpenFile) -> FileClosed:
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


@contextmanager
def _as_store_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}",
            hint="Nothing of this batch was committed. Make room or mend the store, then start again.",
        ) from error


class _OpenFile:
    """One Parquet file that is being written."""

    def __init__(self, path: str, sink: pa.NativeFile, schema: pa.Schema, settings: FileSettings) -> None:
        self.path = path
        self.rows = 0
        self.groups = 0
        self.nans = NanCounter(schema)
        self._sink = sink
        self._writer = pq.ParquetWriter(sink, schema, **parquet_options(schema, settings))
        self.position: int = sink.tell()
        self.metadata: pq.FileMetaData | None = None

    def write(self, group: pa.Table) -> None:
        """Write one row group."""
        if group.num_rows < _CHUNK_ROWS_MIN * group.column(0).num_chunks:
            group = group.combine_chunks()
        self.nans.count(group)
        self._writer.write_table(group, row_group_size=group.num_rows)
        self.rows += group.num_rows
        self.groups += 1
        self.position = self._sink.tell()

    def close(self) -> None:
        """Write the footer; when this returns the file is whole and durable."""
        self._writer.close()
        self.metadata = self._writer.writer.metadata
        self.position = self._sink.tell()
        self._sink.close()

    def abandon(self) -> None:
        """Let go of a file that is not to be finished."""
        self._writer.is_open = False  # or it would write a footer when it is collected
        with suppress(OSError, StoreError):
            self._sink.close()


def parquet_options(schema: pa.Schema, settings: FileSettings) -> dict[str, object]:
    """pyarrow's options for the settings. Dictionaries are asked for by top-level column."""
    dictionary: bool | list[str]
    if isinstance(settings.dictionary, bool):
        dictionary = settings.dictionary
    else:
        chosen = set(settings.dictionary)
        dictionary = [leaf.path for leaf in leaves(schema) if schema.field(leaf.steps[0]).name in chosen]
    return {
        "version": "2.6",
        "compression": settings.compression,
        "compression_level": settings.compression_level,
        "use_dictionary": dictionary,
        "dictionary_pagesize_limit": settings.dictionary_bytes_max,
        "data_page_size": settings.page_bytes,
        "write_statistics": True,
        # Iceberg stores decimals of up to 9 and 18 digits as integers: smaller, and what readers expect.
        "store_decimal_as_integer": True,
        "store_schema": False,
    }


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
