"""A task: rows of one partition of a frame in, files of the right batches and honest counts out.

Files are read back with pyarrow alone. What must stand in them is computed from the rows in plain Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.model.batch import Batch
from calve.model.errors import BadBatch, BadRow
from calve.model.file import FileClosed, FileKind
from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.store import local_path
from calve.writer.changes import TIME_COLUMN, Reading
from calve.writer.messages import Counts, Report
from calve.writer.plan import DeleteScope, WritePlan
from calve.writer.quarantine import SCHEMA as QUARANTINE_SCHEMA
from calve.writer.quarantine import Origin, QuarantinePlan, from_stream, to_stream
from calve.writer.settled import Settled, settled_stream, too_many
from calve.writer.task import Slot, Task, TaskPlan, TimeLine, run_task

HLC = 1_698_775_840_453_391_000 * 10**10
"""29 digits, as CockroachDB has them."""


def field(number: int, name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {b"PARQUET:field_id": str(number).encode()})


COLUMNS = (
    field(1, "id", pa.int64(), nullable=False),
    field(2, "v", pa.string()),
    field(3, "lsn", pa.int64()),
)
SCHEMA = pa.schema(COLUMNS)
QUARANTINED = pa.schema(
    [field(10 + number, one.name, one.type, one.nullable) for number, one in enumerate(QUARANTINE_SCHEMA)]
)
ORIGIN = Origin("sink", "a table", "{}", time=77)
UPSERT = Reading(key=("id",), sequence=("lsn",), op_column="_op")
APPEND = Reading()
CHANGELOG = Reading(op_column="_op", changelog=("_calve_op", "_calve_time"))


def write_plan(folder: Path, schema: pa.Schema = SCHEMA, **more: Any) -> WritePlan:
    given: dict[str, Any] = {
        "sink_id": "sink",
        "data_location": f"file://{folder}/data",
        "schema": schema,
        "schema_id": 1,
        "spec_id": 0,
    }
    return WritePlan(**(given | more))


def upsert_plan(folder: Path, **more: Any) -> WritePlan:
    given: dict[str, Any] = {"key": ("id",), "deletes": DeleteScope.GLOBAL, "global_spec_id": 0}
    return write_plan(folder, **(given | more))


def task_plan(reading: Reading, slots: list[tuple[int, int]], plan: WritePlan, **more: Any) -> TaskPlan:
    return TaskPlan(reading, tuple(Slot(Batch(*bounds), plan) for bounds in slots), 7, **more)


def line(committed: int, closed: int | None = None, *, estimated: bool = False) -> TimeLine:
    return TimeLine(committed, committed if closed is None else closed, estimated=estimated)


def rows(*changes: tuple[Any, ...], times: bool = True, op: bool = True) -> pa.RecordBatch:
    """Changes as (id, v, lsn, op); the time is the lsn."""
    columns = {
        "id": pa.array([one[0] for one in changes], pa.int64()),
        "v": pa.array([one[1] for one in changes], pa.string()),
        "lsn": pa.array([one[2] for one in changes], pa.int64()),
    }
    if op:
        columns["_op"] = pa.array([one[3] for one in changes], pa.string())
    if times:
        columns[TIME_COLUMN] = columns["lsn"]
    return pa.RecordBatch.from_pydict(columns)


def run(plan: TaskPlan, *record_batches: pa.RecordBatch) -> Report:
    """What a task says, by way of the messages that it sends."""
    said = [row for batch in run_task(plan, record_batches) for row in batch.to_pylist()]
    report = Report.of((row["kind"], row["body"]) for row in said)
    if report.refused is not None:
        raise report.refused
    return report


def read(files: tuple[FileClosed, ...], kind: FileKind = FileKind.DATA) -> dict[tuple[int, int], list[Any]]:
    """By the bounds of their batch, the rows of all files of a kind."""
    found: dict[tuple[int, int], list[Any]] = {}
    for file in files:
        if file.kind is kind:
            table = pq.read_table(local_path(file.path), partitioning=None)
            assert table.num_rows == file.record_count
            found.setdefault((file.batch.lower, file.batch.upper), []).extend(
                tuple(row.values()) for row in table.to_pylist()
            )
    return {bounds: sorted(values, key=repr) for bounds, values in found.items()}


# -- one batch ------------------------------------------------------------------------------------


def test_without_a_time_of_their_own_all_rows_are_of_the_one_batch(tmp_path: Path) -> None:
    plan = task_plan(APPEND, [(3, 8)], write_plan(tmp_path))
    report = run(
        plan, rows((1, "a", 5, ""), times=False, op=False), rows((1, "b", 99, ""), times=False, op=False)
    )
    assert read(report.files) == {(3, 8): [(1, "a", 5), (1, "b", 99)]}
    assert report.counts == Counts(rows=2)


def test_an_empty_partition_says_nothing_at_all(tmp_path: Path) -> None:
    plan = task_plan(UPSERT, [(0, 1)], upsert_plan(tmp_path))
    assert list(run_task(plan, [])) == []
    assert list(run_task(plan, [rows(times=False)])) == []
    assert not (tmp_path / "data").exists()


def test_the_last_change_of_a_key_stays_whatever_the_order_of_arrival(tmp_path: Path) -> None:
    """Case 45."""
    plan = task_plan(UPSERT, [(0, 10)], upsert_plan(tmp_path), times=line(0))
    report = run(
        plan,
        rows((1, "late", 9, "u"), (2, "x", 3, "D")),
        rows((1, "early", 1, "I"), (2, "y", 2, "u"), (3, "z", 4, "c")),
    )
    assert read(report.files) == {(0, 10): [(1, "late", 9), (3, "z", 4)]}
    assert read(report.files, FileKind.EQUALITY_DELETE) == {(0, 10): [(1,), (2,), (3,)]}


def test_every_attempt_has_names_of_its_own(tmp_path: Path) -> None:
    """Case 8: a task that runs twice never writes over what the other one wrote."""
    plan = task_plan(APPEND, [(0, 1)], write_plan(tmp_path))
    first, second = (run(plan, rows((1, "a", 1, ""), times=False, op=False)) for _ in range(2))
    assert {file.path for file in first.files}.isdisjoint(file.path for file in second.files)


# -- several batches ------------------------------------------------------------------------------


def test_rows_of_several_batches_go_to_the_files_of_theirs(tmp_path: Path) -> None:
    plan = task_plan(UPSERT, [(0, 10), (10, 20), (20, 25)], upsert_plan(tmp_path), times=line(0))
    report = run(
        plan,
        rows((1, "a", 0, "I"), (1, "b", 9, "u"), (1, "c", 10, "u")),
        rows((2, "d", 19, "u"), (1, "e", 20, "D"), (2, "f", 24, "u")),
    )
    assert read(report.files) == {
        (0, 10): [(1, "b", 9)],
        (10, 20): [(1, "c", 10), (2, "d", 19)],
        (20, 25): [(2, "f", 24)],
    }
    assert read(report.files, FileKind.EQUALITY_DELETE)[(20, 25)] == [(1,), (2,)]


def test_a_batch_without_rows_has_no_files(tmp_path: Path) -> None:
    plan = task_plan(APPEND, [(0, 10), (10, 20), (20, 30)], write_plan(tmp_path), times=line(0))
    report = run(plan, rows((1, "a", 3, ""), (2, "b", 25, ""), op=False))
    assert sorted(read(report.files)) == [(0, 10), (20, 30)]


@settings(max_examples=30)
@given(
    times=st.lists(st.integers(0, 59), max_size=60),
    cuts=st.sets(st.integers(0, 60), max_size=4),
    bounds=st.sets(st.integers(1, 59), max_size=4),
    closed=st.integers(0, 20),
    committed=st.integers(0, 20),
    estimated=st.booleans(),
)
def test_every_row_is_late_a_replay_or_in_the_one_batch_that_its_time_says(
    tmp_path_factory, times, cuts, bounds, closed, committed, estimated
) -> None:
    """P2, and cases 44 and 66: each row is counted once."""
    folder = tmp_path_factory.mktemp("task")
    lower = max(closed, committed)
    edges = [lower, *sorted(bound for bound in bounds if bound > lower), 60]
    slots = list(pairwise(edges))
    schema = pa.schema(COLUMNS)
    quarantine = QuarantinePlan(write_plan(folder, QUARANTINED), Batch(0, 1), 7, 1000, ORIGIN)
    plan = task_plan(
        APPEND, slots, write_plan(folder, schema), quarantine=quarantine,
        times=TimeLine(committed, closed, estimated=estimated),
    )  # fmt: skip
    changes = [(number, "v", time, "") for number, time in enumerate(sorted(times))]
    places = [0, *sorted(cut for cut in cuts if cut < len(changes)), len(changes)]
    report = run(plan, *(rows(*changes[a:b], op=False) for a, b in pairwise(places)))

    def fate(time: int) -> str:
        if estimated:  # below what was closed it was never seen before; the table's own time is a replay
            return "late" if time < closed else "replay" if time < committed else "placed"
        return "replay" if time < lower else "placed"  # a promise: what comes below it was there

    fates = [fate(time) for time in times]
    assert report.counts.rows == len(times)
    assert report.counts.late == fates.count("late") == report.counts.quarantined
    assert report.counts.replayed == fates.count("replay")
    wanted: dict[tuple[int, int], list[Any]] = {}
    for number, _, time, _ in changes:
        for bounds_of in slots:
            if bounds_of[0] <= time < bounds_of[1]:
                wanted.setdefault(bounds_of, []).append((number, "v", time))
    assert read(report.files) == {at: sorted(found, key=repr) for at, found in wanted.items()}


# -- times ----------------------------------------------------------------------------------------


def decimal_rows(*changes: tuple[int, int | None]) -> pa.RecordBatch:
    """(id, time), times of 29 digits."""
    times = pa.array([None if time is None else Decimal(time) for _, time in changes], pa.decimal128(38, 0))
    return pa.RecordBatch.from_pydict(
        {"id": pa.array([one[0] for one in changes], pa.int64()), "hlc": times, TIME_COLUMN: times}
    )


def test_times_of_29_digits_are_told_apart_by_their_last_one(tmp_path: Path) -> None:
    schema = pa.schema([COLUMNS[0], field(2, "hlc", pa.decimal128(38, 0))])
    plan = task_plan(
        APPEND, [(HLC + 1, HLC + 2), (HLC + 2, HLC + 3)], write_plan(tmp_path, schema), times=line(HLC + 1)
    )
    report = run(plan, decimal_rows((0, HLC), (1, HLC + 1), (2, HLC + 2)))
    assert read(report.files) == {
        (HLC + 1, HLC + 2): [(1, Decimal(HLC + 1))],
        (HLC + 2, HLC + 3): [(2, Decimal(HLC + 2))],
    }
    assert report.counts == Counts(rows=3, replayed=1)


@pytest.mark.parametrize("upper", [2**63 - 1, 2**63, 10**38 - 1])
def test_bounds_beyond_a_long_hold_all_longs(tmp_path: Path, upper: int) -> None:
    plan = task_plan(APPEND, [(0, 5), (5, upper)], write_plan(tmp_path), times=line(0))
    report = run(plan, rows((1, "a", 4, ""), (2, "b", 2**63 - 2, ""), op=False))
    assert read(report.files) == {(0, 5): [(1, "a", 4)], (5, upper): [(2, "b", 2**63 - 2)]}


def test_a_changelog_tells_each_row_s_own_time(tmp_path: Path) -> None:
    schema = pa.schema([*COLUMNS, field(4, "_calve_op", pa.string()), field(5, "_calve_time", pa.int64())])
    plan = task_plan(CHANGELOG, [(0, 10), (10, 20)], write_plan(tmp_path, schema), times=line(0))
    report = run(plan, rows((1, "a", 3, "I"), (1, "b", 4, "u"), (1, None, 12, "D")))
    assert read(report.files) == {
        (0, 10): [(1, "a", 3, "insert", 3), (1, "b", 4, "upsert", 4)],
        (10, 20): [(1, None, 12, "delete", 12)],
    }


def test_a_changelog_of_decimal_times_keeps_every_digit(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            COLUMNS[0],
            field(2, "hlc", pa.decimal128(38, 0)),
            field(4, "_calve_op", pa.string()),
            field(5, "_calve_time", pa.decimal128(38, 0)),
        ]
    )
    plan = task_plan(CHANGELOG, [(HLC, HLC + 9)], write_plan(tmp_path, schema), times=line(HLC))
    ops = pa.array(["c"], pa.string())
    report = run(plan, decimal_rows((1, HLC + 7)).append_column("_op", ops))
    assert read(report.files) == {(HLC, HLC + 9): [(1, Decimal(HLC + 7), "insert", Decimal(HLC + 7))]}


def test_a_changelog_without_a_time_of_its_own_tells_that_of_its_batch(tmp_path: Path) -> None:
    schema = pa.schema([*COLUMNS, field(4, "_calve_op", pa.string()), field(5, "_calve_time", pa.int64())])
    report = run(
        task_plan(CHANGELOG, [(4, 8)], write_plan(tmp_path, schema)), rows((1, "a", 3, "I"), times=False)
    )
    assert read(report.files) == {(4, 8): [(1, "a", 3, "insert", 7)]}


def test_case_44_a_changelog_with_a_key_keeps_one_change_a_key_time_and_op(tmp_path: Path) -> None:
    """However often it was delivered, and in however many record batches."""
    reading = replace(CHANGELOG, key=("id",))
    schema = pa.schema([*COLUMNS, field(4, "_calve_op", pa.string()), field(5, "_calve_time", pa.int64())])
    plan = task_plan(reading, [(0, 10)], write_plan(tmp_path, schema), times=line(0))
    once = [(1, "a", 3, "I"), (1, "b", 4, "u"), (1, "b", 4, "D"), (2, "a", 3, "I")]
    report = run(plan, rows(*once), rows(*once[::-1]), rows(*once[:2]))
    assert read(report.files) == {
        (0, 10): [
            (1, "a", 3, "insert", 3),
            (1, "b", 4, "delete", 4),
            (1, "b", 4, "upsert", 4),
            (2, "a", 3, "insert", 3),
        ]
    }
    assert read(report.files, FileKind.EQUALITY_DELETE) == {}


def test_a_changelog_with_a_key_refuses_two_rows_that_differ_under_one_identity(tmp_path: Path) -> None:
    reading = replace(CHANGELOG, key=("id",))
    schema = pa.schema([*COLUMNS, field(4, "_calve_op", pa.string()), field(5, "_calve_time", pa.int64())])
    plan = task_plan(reading, [(0, 10)], write_plan(tmp_path, schema), times=line(0))
    with pytest.raises(BadRow, match="id = 1"):
        run(plan, rows((1, "a", 3, "u"), (1, "b", 3, "u")))


# -- rows that do not fit -------------------------------------------------------------------------


def test_p8_two_changes_of_a_key_without_a_sequence_have_no_last_one(tmp_path: Path) -> None:
    plan = task_plan(replace(UPSERT, sequence=()), [(0, 1)], upsert_plan(tmp_path))
    with pytest.raises(BadRow, match=r"micro-batch 7: two different changes of key id = 1"):
        run(plan, rows((1, "a", 1, "u"), (1, "b", 2, "u"), times=False))


def test_the_same_change_twice_is_one_change_also_without_a_sequence(tmp_path: Path) -> None:
    plan = task_plan(replace(UPSERT, sequence=()), [(0, 1)], upsert_plan(tmp_path))
    report = run(plan, rows((1, "a", 1, "u"), times=False), rows((1, "a", 1, "u"), times=False))
    assert read(report.files) == {(0, 1): [(1, "a", 1)]}


def test_p8_a_tie_of_the_sequence_is_refused(tmp_path: Path) -> None:
    plan = task_plan(UPSERT, [(0, 10)], upsert_plan(tmp_path), times=line(0))
    with pytest.raises(BadRow, match="two different changes of key id = 1 share the sequence lsn = 3"):
        run(plan, rows((1, "a", 3, "u"), (1, "b", 3, "u")))


BAD = {
    "a null time": ((1, "a", None, "u"), "the time is null"),
    "a null key": ((None, "a", 5, "u"), "the key is null"),
    "an unknown op": ((1, "a", 5, "x"), "'x' is not an op"),
    "no op": ((1, "a", 5, None), "the op is null"),
    "a change that is late": ((1, "a", 1, "u"), "comes too late: the batches before 3 are closed"),
    "a null key of a batch that is still open": ((None, "a", 500, "u"), "the key is null"),
    "a null key of time that was never": ((None, "a", 2**63 - 1, "u"), "the key is null"),
}


@pytest.mark.parametrize("name", BAD)
def test_case_54_a_bad_row_ends_the_job_with_its_reason_and_what_it_looks_like(
    tmp_path: Path, name: str
) -> None:
    bad, reason = BAD[name]
    plan = task_plan(UPSERT, [(3, 10)], upsert_plan(tmp_path), times=line(0, 3, estimated=True))
    with pytest.raises(BadRow, match=reason) as refused:
        run(plan, rows((2, "b", 4, "u"), bad, (3, "c", 9, "u")))
    assert refused.value.message.startswith("micro-batch 7: ")
    assert "v = a" in refused.value.message


@pytest.mark.parametrize("name", BAD)
def test_case_54_a_bad_row_goes_to_quarantine_and_the_others_go_on(tmp_path: Path, name: str) -> None:
    """P8: kept exactly as it came, with the reason, counted."""
    bad, reason = BAD[name]
    quarantine = QuarantinePlan(write_plan(tmp_path, QUARANTINED), Batch(7, 8), 7, 10, ORIGIN)
    plan = task_plan(
        UPSERT, [(3, 10)], upsert_plan(tmp_path), times=line(0, 3, estimated=True), quarantine=quarantine
    )
    report = run(plan, rows((2, "b", 4, "u"), bad, (3, "c", 9, "u")))
    assert read(report.files) == {(3, 10): [(2, "b", 4), (3, "c", 9)]}
    assert report.counts.rows == 3
    assert report.counts.quarantined == 1
    ((kept,),) = read(report.quarantined).values()
    micro_batch, why, hint, text, arrow, time, id_, batch, replay, *origin = kept
    assert (micro_batch, bool(hint), batch, replay, origin) == (7, True, 8, None, ["sink", "a table", "{}"])
    assert time == bad[2]
    assert str(uuid.UUID(id_)) == id_
    assert reason in why
    assert json.loads(text) == dict(zip(("id", "v", "lsn", "_op"), bad, strict=True))
    assert [tuple(row.values()) for row in from_stream(arrow).to_pylist()] == [bad]


def quarantining(folder: Path, rows_max: int = 10) -> QuarantinePlan:
    return QuarantinePlan(write_plan(folder, QUARANTINED), Batch(7, 8), 7, rows_max, ORIGIN)


def run_again(plan: TaskPlan, *record_batches: pa.RecordBatch) -> Report:
    """A task, and once more without the ties that it found, until it finds none."""
    report = run(plan, *record_batches)
    tied: list[pa.Table] = []
    while report.tied is not None:
        assert (report.files, report.quarantined) == ((), ())
        tied.append(report.tied)
        report = run(replace(plan, tied=to_stream(pa.concat_tables(tied))), *record_batches)
    return report


def kept_rows(report: Report) -> list[Any]:
    """The rows that went to quarantine, as they came."""
    arrow = QUARANTINE_SCHEMA.names.index("arrow")
    kept = [row for some in read(report.quarantined).values() for row in some]
    return sorted((tuple(from_stream(row[arrow]).to_pylist()[0].values()) for row in kept), key=repr)


def test_p8_all_rows_of_a_tie_go_to_quarantine_and_the_change_before_them_stays(tmp_path: Path) -> None:
    """Copies of tied rows too; and what is then the last of the key may be a tie again."""
    plan = task_plan(
        UPSERT, [(0, 10)], upsert_plan(tmp_path), times=line(0), quarantine=quarantining(tmp_path)
    )
    tied = [(1, "a", 9, "u"), (1, "b", 9, "u"), (1, "a", 9, "u"), (1, None, 7, "D"), (1, "c", 7, "u")]
    report = run_again(plan, rows(*tied, (1, "before", 5, "u"), (2, "other", 9, "u")), rows((3, "x", 1, "u")))
    assert read(report.files) == {(0, 10): [(1, "before", 5), (2, "other", 9), (3, "x", 1)]}
    assert sorted(kept_rows(report), key=repr) == sorted(tied, key=repr)
    assert report.counts.quarantined == 5


def test_p8_a_tie_that_a_later_change_overtakes_is_none(tmp_path: Path) -> None:
    plan = task_plan(
        UPSERT, [(0, 10)], upsert_plan(tmp_path), times=line(0), quarantine=quarantining(tmp_path)
    )
    report = run(plan, rows((1, "a", 3, "u"), (1, "b", 3, "u"), (1, "c", 4, "u")))
    assert report.tied is None
    assert read(report.files) == {(0, 10): [(1, "c", 4)]}


def test_p8_without_a_sequence_all_different_changes_of_a_key_go_to_quarantine(tmp_path: Path) -> None:
    reading = replace(UPSERT, sequence=())
    plan = task_plan(reading, [(0, 1)], upsert_plan(tmp_path), quarantine=quarantining(tmp_path))
    tied = [(1, "a", 1, "u"), (1, "b", 2, "u")]
    report = run_again(plan, rows(*tied, (2, "c", 1, "u"), (2, "c", 1, "u"), times=False))
    assert read(report.files) == {(0, 1): [(2, "c", 1)]}
    assert kept_rows(report) == tied


def test_p8_ties_of_a_keyed_changelog_go_to_quarantine(tmp_path: Path) -> None:
    reading = replace(CHANGELOG, key=("id",))
    schema = pa.schema([*COLUMNS, field(4, "_calve_op", pa.string()), field(5, "_calve_time", pa.int64())])
    plan = task_plan(
        reading, [(0, 5), (5, 10)], write_plan(tmp_path, schema), times=line(0),
        quarantine=quarantining(tmp_path),
    )  # fmt: skip
    tied = [(1, "a", 3, "u"), (1, "b", 3, "u"), (2, "a", 7, "D"), (2, "b", 7, "D")]
    report = run_again(plan, rows(*tied[:2], (1, "c", 3, "D")), rows(*tied[2:], (2, "b", 7, "u")))
    assert read(report.files) == {
        (0, 5): [(1, "c", 3, "delete", 3)],
        (5, 10): [(2, "b", 7, "upsert", 7)],
    }
    assert kept_rows(report) == tied


def test_more_ties_than_a_quarantine_takes_end_the_job(tmp_path: Path) -> None:
    plan = task_plan(
        UPSERT, [(0, 10)], upsert_plan(tmp_path), times=line(0), quarantine=quarantining(tmp_path, 5)
    )
    with pytest.raises(BadRow, match="more than 5 rows"):
        run(plan, rows(*((key, value, 3, "u") for key in range(3) for value in "ab")))


def test_keys_may_be_null_also_where_nothing_orders_their_changes(tmp_path: Path) -> None:
    """A null key is a key, not a missing place in the order."""
    reading = replace(UPSERT, sequence=(), null_keys=True)
    schema = pa.schema([field(1, "id", pa.int64()), *COLUMNS[1:]])
    plan = task_plan(reading, [(0, 1)], upsert_plan(tmp_path, schema=schema))
    report = run(plan, rows((None, "a", 1, "u"), (1, "b", 1, "u"), times=False))
    assert read(report.files) == {(0, 1): [(1, "b", 1), (None, "a", 1)]}
    with pytest.raises(BadRow, match="two different changes of key id = None came together"):
        run(plan, rows((None, "a", 1, "u"), (None, "b", 1, "u"), times=False))


def test_a_sequence_that_is_no_number_goes_to_quarantine(tmp_path: Path) -> None:
    schema = pa.schema([COLUMNS[0], field(3, "at", pa.float64())])
    reading = Reading(key=("id",), sequence=("at",), op_column="_op")
    plan = task_plan(
        reading, [(0, 1)], upsert_plan(tmp_path, schema=schema), quarantine=quarantining(tmp_path)
    )
    report = run(plan, pa.RecordBatch.from_pydict({"id": [1, 2], "at": [float("nan"), 1.5]}))
    assert read(report.files) == {(0, 1): [(2, 1.5)]}
    assert report.counts.quarantined == 1


def test_a_quarantine_has_its_limit_and_then_the_job_ends(tmp_path: Path) -> None:
    quarantine = QuarantinePlan(write_plan(tmp_path, QUARANTINED), Batch(7, 8), 7, 2, ORIGIN)
    plan = task_plan(UPSERT, [(0, 10)], upsert_plan(tmp_path), times=line(0), quarantine=quarantine)
    with pytest.raises(BadRow, match="more than 2 rows") as refused:
        run(plan, rows(*((number, "a", 5, "x") for number in range(5))))
    assert "rows_max of on_bad_row" in refused.value.hint


# -- rows that are in the quarantine already ------------------------------------------------------


def settling(folder: Path, *settled: pa.RecordBatch) -> QuarantinePlan:
    """A quarantine that has these rows since the micro-batch was written before."""
    every = [
        to_stream(pa.Table.from_batches([some]).slice(place, 1))
        for some in settled
        for place in range(some.num_rows)
    ]
    return replace(quarantining(folder), settled=settled_stream(every))


@pytest.mark.parametrize("times", [False, True], ids=["numbered", "timed"])
def test_p8_rows_that_are_in_the_quarantine_already_are_left_out_all_of_them(
    tmp_path: Path, times: bool
) -> None:
    """Those that fit by now, those that still do not, and copies; what differs in one column is another."""
    fits, bad = (2, None, 5, "u"), (None, "b", 6, "u")
    quarantine = settling(tmp_path, rows(fits, bad, fits, times=False))
    plan = task_plan(
        UPSERT, [(0, 10)], upsert_plan(tmp_path), times=line(0) if times else None, quarantine=quarantine
    )
    report = run(
        plan, rows((1, "a", 1, "u"), fits, bad, (2, None, 4, "u"), times=times), rows(fits, times=times)
    )
    assert read(report.files) == {(0, 10): [(1, "a", 1), (2, None, 4)]}
    assert report.quarantined == ()
    assert report.counts == Counts(rows=5, replayed=3)
    assert sorted(report.settled.values()) == [1, 2]


def test_p8_a_row_more_than_there_are_equal_ones_in_the_quarantine_is_new(tmp_path: Path) -> None:
    """Nothing tells it from the others but the count."""
    bad, other = (None, "b", 6, "u"), (None, None, 7, "u")
    quarantine = settling(tmp_path, rows(bad, other, bad, times=False))
    plan = task_plan(UPSERT, [(0, 1)], upsert_plan(tmp_path), quarantine=quarantine)
    report = run(plan, rows(bad, times=False), rows(bad, other, bad, times=False))
    assert kept_rows(report) == [bad]
    assert report.counts == Counts(rows=4, replayed=3, quarantined=1)
    (told,) = report.to_rows()
    assert Report.of((row["kind"], row["body"]) for row in told.to_pylist()).settled == {0: 2, 1: 1}


def test_tasks_that_left_out_more_rows_than_are_settled_are_found_out() -> None:
    row, other = (to_stream(pa.table({"id": [number]})) for number in (1, 2))
    stream = settled_stream([row, other, row])
    assert not too_many(stream, {})
    assert not too_many(stream, {0: 2, 1: 1})
    assert too_many(stream, {0: 3})
    assert too_many(stream, {0: 1, 1: 2})


def test_p8_rows_that_do_not_fit_now_and_did_before_go_to_quarantine(tmp_path: Path) -> None:
    quarantine = settling(tmp_path, rows((None, "b", 6, "u"), times=False))
    plan = task_plan(UPSERT, [(0, 1)], upsert_plan(tmp_path), quarantine=quarantine)
    report = run(plan, rows((None, "b", 6, "u"), (None, "c", 6, "u"), (1, "a", 1, "u"), times=False))
    assert kept_rows(report) == [(None, "c", 6, "u")]
    assert report.counts == Counts(rows=3, replayed=1, quarantined=1)


def test_p8_what_came_too_late_is_late_again_and_not_kept_twice(tmp_path: Path) -> None:
    """Negative and missing times are not late: they are no times."""
    late, negative, never = (1, "late", 1, "u"), (2, "negative", -5, "u"), (3, "never", None, "u")
    quarantine = settling(tmp_path, rows(late, negative, never, times=False))
    plan = task_plan(
        UPSERT, [(3, 10)], upsert_plan(tmp_path), times=line(0, 3, estimated=True), quarantine=quarantine
    )
    report = run(plan, rows(late, negative, never, (4, "a", 5, "u")))
    assert read(report.files) == {(3, 10): [(4, "a", 5)]}
    assert report.quarantined == ()
    assert report.counts == Counts(rows=4, late=1, replayed=2)


def test_p8_where_nothing_is_left_in_the_quarantine_nothing_is_left_out(tmp_path: Path) -> None:
    plan = task_plan(UPSERT, [(0, 1)], upsert_plan(tmp_path), quarantine=settling(tmp_path))
    report = run(plan, rows((1, "a", 1, "u"), times=False))
    assert read(report.files) == {(0, 1): [(1, "a", 1)]}
    assert report.counts == Counts(rows=1)


NESTED = pa.schema(
    [
        ("x", pa.float64()),
        ("s", pa.struct([("a", pa.float32()), ("b", pa.list_(pa.int64()))])),
        ("m", pa.map_(pa.string(), pa.decimal128(9, 2))),
    ]
)
NAN = float("nan")
VALUES: list[tuple[Any, ...]] = [
    (NAN, {"a": NAN, "b": [1, None]}, [("k", Decimal("1.50"))]),
    (None, {"a": 1.5, "b": []}, []),
    (None, {"a": 1.5, "b": None}, []),
    (None, {"a": None, "b": None}, None),
    (None, None, None),
    (0.0, None, None),
    (0.0, None, [("k", None)]),
    (0.0, None, [("k", Decimal("1.50")), ("l", Decimal("1.50"))]),
]


def without(settled: Settled, rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(settled.take(rows)))


@pytest.mark.parametrize("plain", [False, True], ids=["nested alone", "beside a number"])
@pytest.mark.parametrize("place", range(len(VALUES)))
def test_settled_rows_are_known_by_nan_null_and_nested_values(place: int, plain: bool) -> None:
    def table(values: list[tuple[Any, ...]]) -> pa.Table:
        found = pa.Table.from_pylist([dict(zip(NESTED.names, one, strict=True)) for one in values], NESTED)
        return found.append_column("n", pa.array([1] * len(values), pa.int8())) if plain else found

    every = table(VALUES)
    left = without(Settled(settled_stream([to_stream(table([VALUES[place]]))])), every)
    assert repr(left.to_pylist()) == repr(every.to_pylist()[:place] + every.to_pylist()[place + 1 :])


def test_settled_rows_are_known_in_the_types_and_columns_of_a_later_run() -> None:
    """A wider number, another time zone, a new column; and one that only rows had which waited."""
    at = datetime(2026, 1, 2, 3, tzinfo=UTC)
    before = pa.table(
        {
            "n": pa.array([1], pa.int32()),
            "at": pa.array([at], pa.timestamp("us", "UTC")),
            "gone": pa.nulls(1, pa.string()),
        }
    )
    now = pa.table(
        {
            "new": ["x", "y", "z"],
            "at": pa.array([at, at, at + timedelta(hours=1)], pa.timestamp("us", "Asia/Tokyo")),
            "n": pa.array([1, 2, 1], pa.int64()),
        }
    )
    left = without(Settled(settled_stream([to_stream(before)])), now)
    assert left["new"].to_pylist() == ["y", "z"]


@pytest.mark.parametrize(
    "now, why",
    [
        ({"id": [1]}, "the column 'v' is not among the incoming columns any more"),
        ({"id": [1], "v": [5]}, "the column 'v' is int64 now"),
    ],
)
def test_p8_settled_rows_that_cannot_be_told_from_others_end_the_job(
    tmp_path: Path, now: dict[str, Any], why: str
) -> None:
    before = pa.RecordBatch.from_pydict({"id": [1], "v": ["a"]})
    plan = task_plan(UPSERT, [(0, 1)], upsert_plan(tmp_path), quarantine=settling(tmp_path, before))
    with pytest.raises(BadRow, match=why) as refused:
        run(plan, pa.RecordBatch.from_pydict(now))
    assert "with the columns that it had" in refused.value.hint


def test_a_row_that_no_batch_holds_is_a_defect_and_not_lost(tmp_path: Path) -> None:
    plan = task_plan(UPSERT, [(0, 10)], upsert_plan(tmp_path), times=line(0))
    with pytest.raises(BadBatch, match="1 rows of micro-batch 7 belong to no batch"):
        run(plan, rows((1, "a", 5, "u"), (2, "b", 10, "u")))


def test_p8_a_bad_row_is_refused_also_where_no_batch_is_open(tmp_path: Path) -> None:
    plan = task_plan(UPSERT, [], upsert_plan(tmp_path), times=line(0))
    with pytest.raises(BadRow, match="the key is null"):
        run(plan, rows((None, "a", 500, "u")))


def test_a_job_that_was_given_up_leaves_no_spilled_rows(tmp_path: Path) -> None:
    plan = task_plan(
        UPSERT, [(0, 10)], upsert_plan(tmp_path), times=line(0),
        memory_bytes_max=32 * 1024 * 1024, spill_folder=str(tmp_path / "spill"),
    )  # fmt: skip
    big = "x" * 10_000
    with pytest.raises(BadRow):
        run(plan, rows(*((number, big, 5, "u") for number in range(2_000))), rows((None, "a", 5, "u")))
    assert list((tmp_path / "spill").rglob("*.arrow*")) == []


# -- layout ---------------------------------------------------------------------------------------


def test_rows_are_laid_out_by_partition_and_sort_order_in_every_batch(tmp_path: Path) -> None:
    plan = upsert_plan(
        tmp_path,
        spec_id=2,
        partition=(PartitionField("v", Transform(TransformKind.IDENTITY)),),
        partition_names=("v",),
        sort=(SortField("lsn"),),
        sort_order_id=1,
        global_spec_id=5,
    )
    report = run(
        task_plan(UPSERT, [(0, 10), (10, 20)], plan, times=line(0)),
        rows((2, "a", 3, "u"), (1, "b", 4, "u"), (3, "a", 1, "u"), (1, "a", 12, "u")),
    )
    data = [file for file in report.files if file.kind is FileKind.DATA]
    assert [(file.batch.upper, file.partition, file.record_count) for file in data] == [
        (10, ("a",), 2),
        (10, ("b",), 1),
        (20, ("a",), 1),
    ]
    first = pq.read_table(local_path(data[0].path), partitioning=None)
    assert first["lsn"].to_pylist() == [1, 3]
    assert {file.spec_id for file in report.files if file.kind is FileKind.EQUALITY_DELETE} == {5}


# -- memory ---------------------------------------------------------------------------------------

_HEAVY = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from calve.model.batch import Batch
from calve.writer.changes import TIME_COLUMN, Reading
from calve.writer.messages import Report
from calve.writer.plan import DeleteScope, WritePlan
from calve.writer.settled import Settled, settled_stream
from calve.writer.task import Slot, TaskPlan, TimeLine, run_task

folder, keys, record_batches, rows = Path(sys.argv[1]), *map(int, sys.argv[2:])
def field(number, name, kind):
    return pa.field(name, kind, True, {b"PARQUET:field_id": str(number).encode()})
schema = pa.schema([field(1, "id", pa.int64()), field(2, "v", pa.string()), field(3, "lsn", pa.int64())])
plan = WritePlan("s", f"file://{folder}/data", schema, 1, 0, key=("id",), deletes=DeleteScope.GLOBAL,
                 global_spec_id=0)
slots = tuple(Slot(Batch(n, n + 1), plan) for n in range(4))
task = TaskPlan(Reading(key=("id",), sequence=("lsn",), op_column="_op"), slots, 7, TimeLine(0, 0),
                memory_bytes_max=64 * 1024 * 1024, spill_folder=str(folder / "spill"))
filler = "x" * 100
def arriving():
    for slot in range(4):
        for number in range(record_batches):
            first = number * rows
            ids = pa.array([(first + n) * 7919 % keys for n in range(rows)], pa.int64())
            yield pa.RecordBatch.from_pydict({
                "id": ids, "v": pa.array([filler] * rows),
                "lsn": pa.array(range(first, first + rows), pa.int64()),
                "_op": pa.array(["u"] * rows), TIME_COLUMN: pa.array([slot] * rows, pa.int64()),
            })
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
report = Report.of((row["kind"], row["body"]) for b in run_task(task, arriving()) for row in b.to_pylist())
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
data = sum(file.record_count for file in report.files if file.kind.value == "data")
left = sum(p.is_file() for p in (folder / "spill").rglob("*"))
print((after - before) // 1024, report.counts.rows, data, left)
"""


def test_p9_memory_is_that_of_one_batch_s_spool_however_many_rows_and_batches(tmp_path: Path) -> None:
    """1.6 million changes of 400,000 keys in four batches, with 64 MB for a spool."""
    done = subprocess.run(
        [sys.executable, "-c", _HEAVY, str(tmp_path), "400000", "20", "20000"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    grown_mb, counted, written, left = map(int, done.stdout.split())
    assert counted == 1_600_000
    assert written == 4 * 400_000
    assert grown_mb < 220
    assert left == 0


def test_discard_after_a_run_has_nothing_to_do(tmp_path: Path) -> None:
    task = Task(task_plan(APPEND, [(0, 1)], write_plan(tmp_path)))
    task.run([rows((1, "a", 1, ""), times=False, op=False)])
    task.discard()
    task.discard()
