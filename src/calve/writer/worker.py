"""Worker: the files of one batch, from its collapsed changes.

    part ─┬─ upserts ────▶ arranged by partition, sorted ─▶ data files
          └─ every key ──▶ none · arranged by partition · global ─▶ equality-delete files, key columns only

Guarantee: each key of the parts has at most one row in the data files, and every key that the batch
touched is named by a delete, unless no older row can exist (`DeleteScope.NONE`, or an insert of a source
that promises that its inserts are new). A delete reaches only older snapshots, so it takes the row that was
there and leaves the batch's own: whether a key is new is never asked of the table.

A large batch is a few large files: one run of files a partition, all of the target size but its last.
Where there is neither partition nor sort order, rows go into the open file as they come; else they are
arranged first, on disk if they are more than memory holds (P9). Two files are open at most.

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
from calve.writer.arrange import Arrangement
from calve.writer.files import FileWriter
from calve.writer.ops import OP_COLUMN, UPSERT
from calve.writer.plan import DeleteScope, WritePlan
from calve.writer.spill import Scratch


def write_batch_files(
    plan: WritePlan, store: Store, batch: Batch, worker: str, parts: Iterable[pa.Table], scratch: Scratch
) -> list[FileClosed]:
    """Write what the parts say. A part has the table's columns, and op codes where the plan has a key."""
    with ExitStack() as opened:
        data = opened.enter_context(_Output(plan, store, batch, worker, FileKind.DATA, scratch))
        deletes = None
        if plan.deletes is not DeleteScope.NONE:
            keys = _delete_plan(plan)
            deletes = _Output(keys, store, batch, worker, FileKind.EQUALITY_DELETE, scratch)
            opened.enter_context(deletes)
        for part in parts:
            data.write(_rows(plan, part))
            if deletes is not None:
                deletes.write(_keys(plan, part))
            del part  # or it would stay in memory while the next is made
        return data.close() + (deletes.close() if deletes is not None else [])


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
    """Files of one kind: rows as they come into one rolling file, or arranged into one a partition."""

    def __init__(
        self, plan: WritePlan, store: Store, batch: Batch, worker: str, kind: FileKind, scratch: Scratch
    ) -> None:
        self._plan = plan
        self._store = store
        self._batch = batch
        self._worker = worker
        self._kind = kind
        arranged = bool(plan.partition or plan.sort)
        self._arrangement = Arrangement(plan, scratch) if arranged else None
        self._open = None if arranged else self._writer(())

    def write(self, rows: pa.Table) -> None:
        if self._arrangement is not None:
            self._arrangement.add(rows)
        elif self._open is not None:
            self._open.write(rows)

    def close(self) -> list[FileClosed]:
        """All files, once nothing more is to be written."""
        if self._arrangement is None:
            return self._open.close() if self._open is not None else []
        closed: list[FileClosed] = []
        for partition, tables in self._arrangement.partitions():
            self._open = self._writer(partition)
            for rows in tables:
                self._open.write(rows)
            closed += self._open.close()
        return closed

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        """After a failure the open file is left as an orphan; after `close` there is none."""
        if self._open is not None:
            self._open.abort()
        if self._arrangement is not None:
            self._arrangement.clear()

    def _writer(self, partition: tuple[PartitionValue, ...]) -> FileWriter:
        return FileWriter(
            self._plan, self._store, self._batch, self._worker, self._kind, partition, self._plan.spec_id
        )


def _delete_plan(plan: WritePlan) -> WritePlan:
    """The plan under which deletes are written. Nobody looks for an order in their files."""
    unsorted = replace(plan, sort=(), sort_order_id=None)
    if plan.deletes is DeleteScope.PARTITION:
        return unsorted
    if plan.global_spec_id is None:
        raise SchemaMismatch(
            f"the plan of sink {plan.sink_id!r} has global deletes and no unpartitioned spec for them",
            hint="This is a defect of the coordinator: a plan with DeleteScope.GLOBAL names global_spec_id.",
        )
    # One run of files, whatever partition a key was in.
    return replace(unsorted, spec_id=plan.global_spec_id, partition=(), partition_names=())


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
