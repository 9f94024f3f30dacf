"""Worker: the files of one batch, from its collapsed changes.

    part ─┬─ upserts ────▶ by partition, sorted ─▶ data files
          └─ every key ──▶ none · by partition · global ─▶ equality-delete files, key columns only

Guarantee: each key of the parts has at most one row in the data files, and every key that the batch
touched is named by a delete, unless no older row can exist (`DeleteScope.NONE`, or an insert of a source
that promises that its inserts are new). A delete reaches only older snapshots, so it takes the row that was
there and leaves the batch's own: whether a key is new is never asked of the table.

Memory is that of one part and of two open files. Where nothing forces a new file (no partition, no sort
order), one file stays open over all parts and rolls at its size: a large batch is a few large files.

Not here: what the changes are (spool.py), when files count (the coordinator's commit).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.batch import Batch
from calve.model.errors import SchemaMismatch
from calve.model.file import FileClosed, FileKind, PartitionValue
from calve.store import Store
from calve.writer.layout import split_by_partition
from calve.writer.ops import OP_COLUMN, UPSERT
from calve.writer.parquet import FileWriter
from calve.writer.plan import DeleteScope, WritePlan


def write_batch_files(
    plan: WritePlan, store: Store, batch: Batch, worker: str, parts: Iterable[pa.Table]
) -> list[FileClosed]:
    """Write what the parts say. A part has the table's columns, and op codes where the plan has a key."""
    closed: list[FileClosed] = []
    with ExitStack() as opened:
        data = opened.enter_context(_Output(plan, store, batch, worker, FileKind.DATA))
        deletes = _deletes(plan, store, batch, worker)
        if deletes is not None:
            opened.enter_context(deletes)
        for part in parts:
            closed += data.write(_rows(plan, part))
            if deletes is not None:
                closed += deletes.write(_keys(plan, part))
            del part  # or it would stay in memory while the next is made
        closed += data.close()
        if deletes is not None:
            closed += deletes.close()
    return closed


class StreamingAppend:
    """Rows straight into a rolling file, without a spool: for tables without keys, partitions and sort
    order, where rows may go in as they come. Memory is that of a row group."""

    def __init__(self, plan: WritePlan, store: Store, batch: Batch, worker: str) -> None:
        if not can_stream(plan):
            raise SchemaMismatch(
                f"sink {plan.sink_id!r} has a key, partitions or a sort order: its rows cannot be streamed",
                hint="Collect the rows of a batch in a Spool and write them with write_batch_files.",
            )
        self._writer = FileWriter(plan, store, batch, worker, FileKind.DATA, (), plan.spec_id)

    def write(self, rows: pa.Table) -> None:
        """Rows that are conformed to the plan's schema."""
        self._writer.write(rows)

    def close(self) -> list[FileClosed]:
        """What was written. Nothing may be written after."""
        return self._writer.close()

    def abort(self) -> None:
        """Give up: the open file is left as an orphan."""
        self._writer.abort()


def can_stream(plan: WritePlan) -> bool:
    """Whether rows may be written in the order in which they come."""
    return not (plan.key or plan.partition or plan.sort)


class _Output:
    """Files of one kind: one rolling file over all parts, or a run of files a part and partition."""

    def __init__(self, plan: WritePlan, store: Store, batch: Batch, worker: str, kind: FileKind) -> None:
        self._plan = plan
        self._store = store
        self._batch = batch
        self._worker = worker
        self._kind = kind
        # A file that says it is sorted is sorted as a whole, so it ends with its part.
        stays_open = not plan.partition and not plan.sort
        self._open = self._writer(()) if stays_open else None

    def write(self, rows: pa.Table) -> list[FileClosed]:
        """Write the rows; what of it is closed already."""
        if self._open is not None:
            self._open.write(rows)
            return []
        closed: list[FileClosed] = []
        for partition, run in split_by_partition(self._plan, rows):
            writer = self._writer(partition)
            try:
                writer.write(run)
                closed += writer.close()
            finally:
                writer.abort()
        return closed

    def close(self) -> list[FileClosed]:
        return [] if self._open is None else self._open.close()

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        """After a failure the open file is left as an orphan; after `close` there is none."""
        if self._open is not None:
            self._open.abort()

    def _writer(self, partition: tuple[PartitionValue, ...]) -> FileWriter:
        return FileWriter(
            self._plan, self._store, self._batch, self._worker, self._kind, partition, self._plan.spec_id
        )


def _deletes(plan: WritePlan, store: Store, batch: Batch, worker: str) -> _Output | None:
    match plan.deletes:
        case DeleteScope.NONE:
            return None
        case DeleteScope.PARTITION:
            # Nobody looks for an order in delete files, and without one a file can stay open.
            scoped = replace(plan, sort=(), sort_order_id=None)
            return _Output(scoped, store, batch, worker, FileKind.EQUALITY_DELETE)
        case DeleteScope.GLOBAL:
            return _Output(_unpartitioned(plan), store, batch, worker, FileKind.EQUALITY_DELETE)


def _unpartitioned(plan: WritePlan) -> WritePlan:
    """The plan under which global deletes are written: one run of files, whatever partition a key was in."""
    if plan.global_spec_id is None:
        raise SchemaMismatch(
            f"the plan of sink {plan.sink_id!r} has global deletes and no unpartitioned spec for them",
            hint="This is a defect of the coordinator: a plan with DeleteScope.GLOBAL names global_spec_id.",
        )
    return replace(
        plan, spec_id=plan.global_spec_id, partition=(), partition_names=(), sort=(), sort_order_id=None
    )


def _keys(plan: WritePlan, part: pa.Table) -> pa.Table:
    """The keys of which an older row may be there."""
    return _kept(part, pc.less_equal(pc.abs(part[OP_COLUMN]), UPSERT)).select(list(plan.key))


def _rows(plan: WritePlan, part: pa.Table) -> pa.Table:
    """The rows that stay: the table's columns of upserts and inserts."""
    if plan.key:
        part = _kept(part, pc.greater(part[OP_COLUMN], 0))
    return pa.Table.from_arrays([part.column(name) for name in plan.schema.names], schema=plan.schema)


def _kept(part: pa.Table, wanted: pa.ChunkedArray) -> pa.Table:
    """The wanted rows. A filter copies, even where it keeps everything."""
    return part if pc.all(wanted).as_py() else part.filter(wanted)
