"""A task: the rows of one partition of a frame, as files of the batches that they belong to.

    record batches ─▶ by time: replay · late · slot ─▶ changes ─▶ spool or stream ─▶ files
                          │        │                     │ a row that does not fit
                        count      └───────▶ sift ◀──────┘
                                              └─▶ the quarantine, or the end of the job

Changes of a key that nothing decides between are known only at the end, when their rows are no longer what
came. With a quarantine the task then tells their keys, and the job runs again: rows of these keys and this
place in the order go to quarantine as they come, all of them, and the last change that is left of the key
stays (P1, P8).

It runs in executors, with pyarrow alone. What it tells is a `Report`: a message a file, and counts. Tasks run
twice, or die half-way: every attempt has names of its own, and only the messages of the attempt that the
engine took count.

Rows of several batches come in the order of their times, so that one batch is open at a time: memory is that
of one spool, however many batches a frame has (P9). All changes of a key are in one task, because the frame
was shuffled by key: their last one is found here (P1).
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.reuse import settle
from calve.model.batch import Batch
from calve.model.columns import ERROR, PLACE, RAW, TIME, UNFIT
from calve.model.errors import BadBatch, BadRow, Tied
from calve.model.file import FileClosed
from calve.store import store_for
from calve.writer.carry import unpacked
from calve.writer.changes import TIME_COLUMN, Reading, arrive, changes, check_identity
from calve.writer.collapse import among
from calve.writer.conform import shown
from calve.writer.explain import explained
from calve.writer.messages import Counts, Report
from calve.writer.plan import WritePlan
from calve.writer.quarantine import Quarantine, QuarantinePlan, from_stream, too_many
from calve.writer.settled import Settled
from calve.writer.sift import Misfits, Taker, sift
from calve.writer.spool import Spool, sweep
from calve.writer.worker import StreamingAppend, can_stream, write_batch_files


@dataclass(frozen=True, slots=True)
class Slot:
    """A batch that rows may go to, and how its files are written."""

    batch: Batch
    plan: WritePlan


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Where the rows of a frame belong by their times."""

    committed: int
    """Before it: replays, which are in the table."""
    closed: int
    """Before it: the batches are closed."""
    estimated: bool = False
    """The frontier is an estimate: what comes below what was closed was never seen, and is late. Below a
    promise it is a replay."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """All that a task must know. Plain values; no secret."""

    reading: Reading
    slots: tuple[Slot, ...]
    """In the order of their batches, without a gap. If there are several, rows come in the order of times."""
    micro_batch: int
    times: TimeLine | None = None
    """`None`: the source has no time of its own, and all rows are of the one slot."""
    memory_bytes_max: int = 256 * 1024 * 1024
    spill_folder: str | None = None
    quarantine: QuarantinePlan | None = None
    """`None`: the first row that does not fit is the end of the job."""
    carried: tuple[tuple[str, str], ...] = ()
    """Columns that come in a carrier (carry.py)."""
    columns: tuple[str, ...] = ()
    """The names of the columns, where rows come without them."""
    tied: bytes | None = None
    """Key and sequence, as an Arrow stream, of changes that nothing decides between: for the quarantine."""


def run_task(plan: TaskPlan, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What Spark calls in its workers: rows in, messages out."""
    pa.set_cpu_count(1)  # the engine runs a task a core
    task = Task(plan)
    try:
        report = task.run(_named(plan.columns, record_batches) if plan.columns else record_batches)
    finally:
        task.discard()
    settle()
    if report.counts.rows:
        yield from report.to_rows()


def _named(names: Sequence[str], record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for one in record_batches:
        fields = [field.with_name(name) for field, name in zip(one.schema, names, strict=True)]
        yield pa.RecordBatch.from_arrays(one.columns, schema=pa.schema(fields))


class Task:
    """One attempt at a task."""

    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._worker = uuid.uuid4().hex[:16]
        self._folder = Path(plan.spill_folder or tempfile.gettempdir()) / "calve-spill"
        self._counts = Counts()
        self._files: list[FileClosed] = []
        self._slot = 0
        self._output: _Output | None = None
        self._tied = None if plan.tied is None else from_stream(plan.tied)
        self._ties: list[pa.Table] = []
        kept = plan.quarantine
        self._bad: Taker = Misfits() if kept is None else Quarantine(kept, self._worker)
        self._settled = None if kept is None or kept.settled is None else Settled(kept.settled)
        sweep(self._folder)

    def run(self, record_batches: Iterable[pa.RecordBatch]) -> Report:
        """Take all rows in, and close all files."""
        try:
            for record_batch in record_batches:
                rows = unpacked(pa.Table.from_batches([record_batch]), self._plan.carried)
                first_row, self._counts.rows = self._counts.rows, self._counts.rows + rows.num_rows
                if self._settled is not None:
                    rows = self._unsettled(rows, self._settled)
                if ERROR in rows.column_names:
                    rows = self._decoded(rows)
                for slot, times, part in self._placed(rows):
                    self._write(slot, times, part, first_row)
            self._close_output()
            if self._ties:
                return Report((), (), self._counts, tied=pa.concat_tables(self._ties))
            quarantined = self._bad.close()
        except BadRow as refused:
            # Told as a message: an exception would make the engine try the same row again and again.
            message = f"micro-batch {self._plan.micro_batch}: {refused.message}"
            return Report((), (), self._counts, BadRow(message, hint=refused.hint))
        self._counts.quarantined = self._bad.rows
        come = {} if self._settled is None else dict(self._settled.come)
        return Report(tuple(self._files), tuple(quarantined), self._counts, settled=come)

    def discard(self) -> None:
        """Give up what is open; after `run` there is nothing."""
        if self._output is not None:
            self._output.discard()

    def _unsettled(self, rows: pa.Table, settled: Settled) -> pa.Table:
        """Without what is in the quarantine already: replays, but what came too late is late again."""
        known, line, late = settled.take(rows), self._plan.times, 0
        if line is not None and line.estimated:
            times = rows[TIME_COLUMN].filter(known)
            late = pc.sum(pc.and_not(_before(times, line.closed), _before(times, 0))).as_py() or 0
        self._counts.late += late
        self._counts.replayed += (pc.sum(known).as_py() or 0) - late
        return rows.filter(pc.invert(known))

    def _decoded(self, rows: pa.Table) -> pa.Table:
        """Without the messages that the envelope made nothing of."""
        good = rows[ERROR].is_null()
        for place in pc.indices_nonzero(pc.invert(good)).to_pylist():
            row = rows.slice(place, 1)
            why, where = row[ERROR][0].as_py(), row[PLACE][0].as_py()
            if why == UNFIT and self._plan.slots:
                why = explained(row[RAW][0].as_py(), self._plan.slots[0].plan.schema)
            self._bad.take(row, BadRow(f"{where}: {why}" if where else why, hint=_UNREADABLE))
        return rows.filter(good).drop_columns([ERROR, PLACE, RAW])

    def _placed(self, rows: pa.Table) -> Iterator[tuple[int, pa.ChunkedArray | None, pa.Table]]:
        """The rows of each slot, in the slots' order, with their times."""
        line = self._plan.times
        if line is None:
            yield 0, None, rows
            return
        times = rows[TIME_COLUMN]
        for wrong, why in ((times.is_null(), _NO_TIME), (pc.fill_null(_before(times, 0), False), _NEGATIVE)):
            if pc.any(wrong).as_py():
                self._bad.take(rows.filter(wrong), why)
        rows = rows.filter(pc.fill_null(pc.invert(_before(times, 0)), False))
        times = rows[TIME_COLUMN]
        before_committed, before_closed = _before(times, line.committed), _before(times, line.closed)
        gone = pc.or_(before_committed, before_closed)
        # Below a promise nothing is late: a batch may have closed without a file, and its changes come again.
        late = before_closed if line.estimated else pc.and_not(before_closed, gone)
        if pc.any(late).as_py():
            too_late = rows.filter(late)
            self._counts.late += too_late.num_rows
            self._bad.take(too_late, _late(line.closed))
        self._counts.replayed += pc.sum(pc.and_not(gone, late)).as_py() or 0
        rows = rows.filter(pc.invert(gone))
        yield from self._by_slot(rows)

    def _by_slot(self, rows: pa.Table) -> Iterator[tuple[int, pa.ChunkedArray, pa.Table]]:
        times = rows[TIME_COLUMN]
        rest = rows.drop_columns([TIME_COLUMN])
        seen = pc.min_max(times).as_py()
        placed = pa.chunked_array([pa.repeat(pa.scalar(False), rest.num_rows)])
        for number, slot in enumerate(self._plan.slots):
            if not rest.num_rows or slot.batch.upper <= seen["min"] or seen["max"] < slot.batch.lower:
                continue
            here = pc.and_not(_before(times, slot.batch.upper), _before(times, slot.batch.lower))
            if pc.any(here).as_py():
                placed = pc.or_(placed, here)
                yield number, times.filter(here), rest.filter(here)
        self._refuse(rows.filter(pc.invert(placed)))

    def _refuse(self, rows: pa.Table) -> None:
        """Rows of no batch. They come here because they lack an op, a key or a place in the order, and which
        of these is known only now; a row that lacks nothing should have waited."""
        reading = self._plan.reading

        def read(part: pa.Table, start: int) -> pa.Table:
            untimed, times = _taken(reading, part)
            check_identity(reading, arrive(reading, untimed, times, start).identity, start)
            if part.num_rows:
                raise BadBatch(
                    f"{part.num_rows} rows of micro-batch {self._plan.micro_batch} belong to no batch",
                    hint="This is a defect of the pipeline: nothing was committed. Please report it.",
                )
            return part

        for _ in sift(rows, read, self._bad):
            pass

    def _write(self, slot: int, times: pa.ChunkedArray | None, rows: pa.Table, first_row: int) -> None:
        if slot != self._slot:
            self._close_output()
            self._slot = slot
        batch, plan = self._plan.slots[slot].batch, self._plan.slots[slot].plan
        if self._output is None:
            self._output = _Output(self._plan, batch, plan, self._worker, self._folder)
        schema, reading = self._output.schema, self._plan.reading
        if times is not None:
            rows = rows.append_column(TIME_COLUMN, times)  # a row that does not fit keeps its time

        def read(part: pa.Table, start: int) -> pa.Table:
            time: int | pa.ChunkedArray = batch.upper - 1
            if times is not None:
                part, time = _taken(reading, part)
            fitting = changes(reading, arrive(reading, part, time, first_row + start), schema)
            if self._tied is not None:
                _check_tied(fitting, self._tied)
            return fitting

        for fitting in sift(rows, read, self._bad):
            self._output.add(fitting)

    def _close_output(self) -> None:
        if self._output is None:
            return
        try:
            self._files += self._output.close()
        except Tied as tie:
            if self._plan.quarantine is None:
                raise
            self._note_ties(self._output.ties(), self._plan.quarantine.rows_max, tie)
        self._output.discard()
        self._output = None

    def _note_ties(self, ties: Iterable[pa.Table], rows_max: int, tie: Tied) -> None:
        for some in ties:
            self._ties.append(some)
            if self._bad.rows + sum(part.num_rows for part in self._ties) > rows_max:
                raise too_many(rows_max, tie)


class _Output:
    """The files of one batch that this task writes."""

    def __init__(self, task: TaskPlan, batch: Batch, plan: WritePlan, worker: str, folder: Path) -> None:
        self.schema = plan.schema
        self._batch, self._plan, self._worker = batch, plan, worker
        self._store = store_for(plan.data_location, plan.access)
        self._stream: StreamingAppend | None = None
        self._spool: Spool | None = None
        reading = task.reading
        if can_stream(plan) and not reading.key:
            self._stream = StreamingAppend(plan, self._store, batch, worker)
            return
        key, sequence = reading.key, reading.sequence or None
        # Rows of a frame have no order: without a sequence, of two different changes of a key neither is the
        # last.
        if key and reading.changelog is not None:
            # A change is one by key, time and op. As all of them are part of the identity, two that differ in
            # anything else are a tie.
            key, sequence = (*key, *reading.changelog), None
        self._spool = Spool(folder, task.memory_bytes_max, key=key, sequence=sequence)

    def add(self, rows: pa.Table) -> None:
        if self._stream is not None:
            self._stream.write(rows)
        elif self._spool is not None:
            self._spool.add(rows)

    def close(self) -> list[FileClosed]:
        if self._stream is not None:
            return self._stream.close()
        spool = self._spool
        assert spool is not None
        return write_batch_files(
            self._plan, self._store, self._batch, self._worker, spool.parts(), spool.scratch
        )

    def ties(self) -> Iterator[pa.Table]:
        """After `close` was refused with `Tied`: all changes that nothing decides between."""
        return iter(()) if self._spool is None else self._spool.ties()

    def discard(self) -> None:
        if self._stream is not None:
            self._stream.abort()
        elif self._spool is not None:
            self._spool.clear()


_UNREADABLE = (
    "Mend the message at the source, or send what cannot be read to the quarantine: "
    ".on_bad_row('quarantine')."
)
_NEGATIVE = BadRow("the time is negative", hint="Times count from 0 on: look at the source.")
_NO_TIME = BadRow("the time is null", hint="Every change needs its time: fill it at the source.")


def _taken(reading: Reading, rows: pa.Table) -> tuple[pa.Table, pa.ChunkedArray]:
    """The rows without their times, and the times. Where a key's order hangs on them, they are among the rows
    under their other name: only here, because what stands twice in a frame is shuffled twice."""
    times = rows[TIME_COLUMN]
    rows = rows.drop_columns([TIME_COLUMN])
    return (rows.append_column(TIME, times) if TIME in reading.sequence else rows), times


def _check_tied(rows: pa.Table, tied: pa.Table) -> None:
    if pc.any(among(rows, tied)).as_py():
        place = ", ".join(f"{name} = {shown(rows[name], 0)}" for name in tied.column_names)
        raise Tied(
            f"several changes of {place} differ, and nothing says which is the last",
            hint="Add a column to the sequence that tells them apart, such as the source's position. To "
            "replay one of them, take the others out of the quarantine first.",
        )


def _late(closed: int) -> BadRow:
    return BadRow(
        f"a change comes too late: the batches before {closed} are closed",
        hint="Wait longer for stragglers (a longer delay or watermark), or send late rows to the quarantine.",
    )


def _before(times: pa.ChunkedArray, bound: int) -> pa.ChunkedArray:
    if pa.types.is_int64(times.type) and bound > 2**63 - 1:
        return pa.chunked_array([pa.repeat(pa.scalar(True), len(times))])
    return pc.less(times, pa.scalar(bound, times.type))
