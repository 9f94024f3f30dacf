"""Rows of a quarantine, replayed: each goes in once, waits, or is done with. Read back by DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import calve
from calve import ConfigError, Diverged, Fenced, TableMissing
from calve.config.sink import SinkConfig
from calve.runtime.coordinator import Coordinator
from calve.runtime.replay.names import ReadAs
from tests.support.quarantines import NAME, SCHEMA, STRICT, TIMED, UPSERT, Stream

pytestmark = pytest.mark.engines

PLAIN = pa.schema([one for one in SCHEMA if one.name != "_op"])
APPEND: dict[str, Any] = {"mode": "append"}


def appending(folder: Path) -> Stream:
    return Stream(folder, dict(APPEND), schema=PLAIN, made_with=STRICT.remove(3))


def ids(rows: list[dict[str, Any]]) -> list[Any]:
    return sorted((row["id"] for row in rows), key=repr)


# -- append ---------------------------------------------------------------------------------------


def test_rows_that_fit_by_now_go_in_once_and_the_others_wait(tmp_path):
    stream = appending(tmp_path)
    stream.send((1, 1, 1), (2, None, 2), (3, None, 3))
    stream.send((4, None, 4))
    assert ids(stream.waiting()) == [2, 3, 4]
    stream.relax()
    done = stream.replay(fix=lambda rows: rows.set_column(2, rows.field(2), pc.add(rows["lsn"], 100)))
    assert (done.replay, done.applied, done.superseded, done.left) == (1, 3, 0, ())
    assert stream.rows() == [(1, 1, 1), (2, None, 102), (3, None, 103), (4, None, 104)]
    stream.send((5, 5, 5))
    assert stream.replay().replay is None
    assert len(stream.rows()) == 5


def test_a_replay_with_nothing_to_do_says_so_and_changes_nothing(tmp_path):
    stream = appending(tmp_path)
    stream.send((1, 1, 1), (2, None, 2))
    before = stream.snapshots()
    done = stream.replay()
    assert (done.replay, done.applied, len(done.left), done.snapshot_id) == (None, 0, 1, None)
    assert stream.snapshots() == before


def test_rows_that_still_do_not_fit_are_put_back_with_the_new_reason(tmp_path):
    stream = appending(tmp_path)
    stream.send((1, 1, 1), (2, None, 2), (3, None, 3))

    def mend_one(rows: pa.Table) -> pa.Table:
        return rows.set_column(
            1,
            rows.field(1),
            pa.array([7 if one == 2 else None for one in rows["id"].to_pylist()], pa.int64()),
        )

    first = stream.replay(fix=mend_one)
    assert (first.applied, [one.replay for one in first.left]) == (1, [1])
    (waits,) = calve.list_quarantine(NAME, catalog=stream.said)
    assert (waits.row["id"], waits.row["v"], waits.replay) == (3, None, 1)
    assert "requires a value" in waits.reason
    stream.relax()
    assert stream.replay().applied == 1
    assert stream.rows() == [(1, 1, 1), (2, 7, 2), (3, None, 3)]
    assert stream.waiting() == []


def test_rows_that_came_after_a_replay_are_of_the_next_one(tmp_path):
    stream = appending(tmp_path)
    stream.send((1, None, 1))
    stream.relax()
    stream.replay()
    stream.made_with = stream.schema
    with (
        stream.catalog() as catalog,
        catalog.load_table(("ns", "t")).update_schema(allow_incompatible_changes=True) as change,
    ):
        change.update_column("v", required=True)
    stream.send((2, None, 2), (3, 3, 3))
    stream.relax()
    assert stream.replay().applied == 1
    assert stream.rows() == [(1, None, 1), (2, None, 2), (3, 3, 3)]


def test_a_column_that_the_table_has_no_more_is_a_reason_and_no_end(tmp_path):
    stream = appending(tmp_path)
    stream.send((1, 1, 1), (2, None, 2))
    with stream.catalog() as catalog, catalog.load_table(("ns", "t")).update_schema() as change:
        change.delete_column("lsn")
    (left,) = stream.replay().left
    assert "lsn" in left.reason
    assert (
        stream.replay(
            fix=lambda rows: rows.drop_columns(["lsn", "v"]).append_column("v", pa.array([5]))
        ).applied
        == 1
    )
    assert stream.rows() == [(1, 1), (2, 5)]


@pytest.mark.parametrize("wrong", [lambda rows: rows.slice(0, 0), lambda rows: rows.to_pylist()])
def test_a_fix_that_gives_back_something_else_is_refused(tmp_path, wrong):
    stream = appending(tmp_path)
    stream.send((2, None, 2))
    with pytest.raises(ConfigError, match="fix was given an Arrow table of 1 rows and gave back"):
        stream.replay(fix=wrong)


# -- changelog ------------------------------------------------------------------------------------


def test_a_changelog_gets_op_and_time_as_the_stream_would_have_written_them(tmp_path):
    stream = Stream(tmp_path, {"mode": "changelog", "op_column": "_op"})
    stream.send((1, 1, 1, "I"))
    stream.send((2, None, 2, "I"), (1, None, 3, "D"))
    stream.relax()
    assert stream.replay().applied == 2
    assert stream.rows() == [(1, 1, 1, "insert", 0), (1, None, 3, "delete", 1), (2, None, 2, "insert", 1)]


def test_times_of_a_changelog_are_those_of_the_mended_rows(tmp_path):
    stream = Stream(tmp_path, {"mode": "changelog", "op_column": "_op"}, dict(TIMED))
    stream.send((1, 1, 5, "I"), (2, 2, None, "I"), (3, 3, -1, "I"), frontier=10)
    assert sorted(one.reason for one in calve.list_quarantine(NAME, catalog=stream.said)) == [
        "the time is negative",
        "the time is null",
    ]
    assert stream.replay().applied == 0
    done = stream.replay(fix=lambda rows: rows.set_column(2, rows.field(2), pa.array([7] * rows.num_rows)))
    assert done.applied == 2
    assert stream.rows()[1:] == [(2, 2, 7, "insert", 7), (3, 3, 7, "insert", 7)]


def test_a_change_that_a_keyed_changelog_has_is_not_written_twice(tmp_path):
    """A late copy of a change that came in time."""
    stream = Stream(tmp_path, {"mode": "changelog", "key": ("id",), "op_column": "_op"}, dict(TIMED))
    stream.send((1, 1, 5, "I"), frontier=10)
    stream.send((1, 1, 5, "I"), (2, 2, 6, "I"), (3, 3, 12, "I"), frontier=20)
    done = stream.replay()
    assert (done.applied, done.superseded, done.left) == (1, 1, ())
    assert [row[0] for row in stream.rows()] == [1, 2, 3]


# -- upsert ---------------------------------------------------------------------------------------


def test_p1_a_replayed_change_goes_in_only_where_the_table_s_row_is_older(tmp_path):
    stream = Stream(tmp_path)
    stream.send((1, 1, 1, "I"), (2, 2, 2, "I"), (1, None, 3, "u"), (2, None, 4, "u"), (3, None, 5, "I"))
    stream.send((2, 22, 6, "u"))
    stream.relax()
    done = stream.replay()
    assert (done.applied, done.superseded) == (1, 1)
    assert [(one.row["id"], one.reason[:28]) for one in done.left] == [(3, "its key is not in the table:")]
    assert stream.rows() == [(1, None, 3), (2, 22, 6)]
    stream.send((1, 11, 9, "u"))
    assert stream.replay(absent="insert").applied == 1
    assert stream.rows() == [(1, 11, 9), (2, 22, 6), (3, None, 5)]


def test_p1_a_row_that_was_deleted_since_does_not_come_back(tmp_path):
    stream = Stream(tmp_path)
    stream.send((1, 1, 1, "I"), (1, None, 2, "u"))
    stream.send((1, None, 3, "D"))
    stream.relax()
    assert stream.replay().applied == 0
    assert stream.rows() == []


def test_a_replayed_delete_deletes_what_is_older_and_nothing_else(tmp_path):
    stream = Stream(tmp_path)
    mend = {"x": "D"}

    def fix(rows: pa.Table) -> pa.Table:
        ops = [mend.get(op, op) for op in rows["_op"].to_pylist()]
        return rows.set_column(3, rows.field(3), pa.array(ops, pa.string()))

    stream.send((1, 1, 1, "I"), (2, 2, 2, "I"), (1, 1, 3, "x"), (2, 2, 4, "x"), (3, 3, 5, "x"))
    stream.send((2, 22, 9, "u"))
    done = stream.replay(fix=fix)
    assert (done.applied, done.superseded, done.left) == (1, 2, ())
    assert stream.rows() == [(2, 22, 9)]


def test_p1_a_change_that_the_stream_is_not_past_waits(tmp_path):
    """The driver died between the two commits: older changes of the micro-batch are still on their way."""
    stream = Stream(tmp_path)
    stream.send((1, 1, 1, "I"))
    stream.send((1, 2, 5, "u"), (1, None, 6, "u"), only_quarantine=True)
    stream.relax()
    done = stream.replay()
    assert (done.applied, [one.reason[:33] for one in done.left]) == (
        0,
        ["the stream has not come so far: a"],
    )
    stream.sent -= 1
    stream.send((1, 2, 5, "u"))  # what it commits after its restart
    assert stream.replay().applied == 1
    assert stream.rows() == [(1, None, 6)]


def test_a_late_change_goes_in_where_it_is_still_the_newest(tmp_path):
    stream = Stream(tmp_path, dict(UPSERT), dict(TIMED))
    stream.send((1, 1, 1, "I"), (2, 2, 9, "I"), frontier=10)
    stream.send((1, 11, 5, "u"), (2, 22, 5, "u"), (3, 3, 12, "I"), frontier=20)
    done = stream.replay()
    assert (done.applied, done.superseded) == (1, 1)
    assert stream.rows() == [(1, 11, 5), (2, 2, 9), (3, 3, 12)]


def test_without_a_sequence_a_replay_is_refused_and_the_person_told_what_can_be_done(tmp_path):
    stream = Stream(tmp_path, {**UPSERT, "sequence_by": ()})
    stream.send((1, 1, 1, "I"), (2, None, 2, "u"))
    stream.send((1, None, 3, "u"))
    stream.send((1, 4, 4, "u"), (2, None, 5, "u"))
    stream.relax()
    before = stream.snapshots()
    with pytest.raises(ConfigError, match="does not say how old its rows are") as refused:
        stream.replay()
    assert "--newest" in refused.value.hint
    assert stream.snapshots() == before
    done = stream.replay(newest=True)
    assert (done.applied, done.superseded, done.left) == (2, 1, ())
    assert stream.rows() == [(1, None, 3), (2, None, 5)]


def test_p8_tied_changes_wait_until_one_of_them_is_mended(tmp_path):
    stream = Stream(tmp_path)
    stream.send((1, 1, 1, "I"), (1, 2, 5, "u"), (1, 3, 5, "u"))
    assert stream.rows() == [(1, 1, 1)]
    done = stream.replay()
    assert (done.applied, len(done.left)) == (0, 2)

    def one_later(rows: pa.Table) -> pa.Table:
        places = [
            at + (value == 3)
            for at, value in zip(rows["lsn"].to_pylist(), rows["v"].to_pylist(), strict=True)
        ]
        return rows.set_column(2, rows.field(2), pa.array(places))

    done = stream.replay(fix=one_later)
    assert (done.applied, done.superseded, done.left) == (1, 1, ())
    assert stream.rows() == [(1, 3, 6)]


def test_p1_partitions_and_keys_of_several_columns(tmp_path):
    stream = Stream(
        tmp_path, {**UPSERT, "key": ("id", "v"), "partition": ["bucket(4, id)", "v"]}, made_with=SCHEMA
    )
    stream.send((1, 1, 1, "I"), (1, 2, 2, "I"), (2, 1, 3, "x"), (1, 2, 4, "x"), (1, 1, 0, "x"))

    def fix(rows: pa.Table) -> pa.Table:
        return rows.set_column(3, rows.field(3), pa.array(["u"] * rows.num_rows))

    done = stream.replay(fix=fix, absent="insert")
    assert (done.applied, done.superseded, done.left) == (2, 1, ())
    assert stream.rows() == [(1, 1, 1), (1, 2, 4), (2, 1, 3)]


# -- others at work -------------------------------------------------------------------------------


@pytest.fixture
def between(monkeypatch):
    """Let something happen before the n-th commit of replays."""

    def install(number: int, act: Any) -> None:
        commit, seen = Coordinator.commit, []

        def interrupted(self: Coordinator, batches: Any) -> Any:
            if self.identity.source == "replay":
                seen.append(self.identity.sink_id)
                if len(seen) == number:
                    act()
            return commit(self, batches)

        monkeypatch.setattr(Coordinator, "commit", interrupted)

    return install


def test_p1_what_the_stream_commits_meanwhile_is_looked_at_before_a_replay_lands(tmp_path, between):
    stream = Stream(tmp_path)
    stream.send((1, 1, 1, "I"), (2, 2, 2, "I"), (1, None, 3, "u"), (2, None, 4, "u"), (None, 1, 5, "u"))
    stream.relax()
    stream.made_with = SCHEMA
    between(2, lambda: stream.send((1, 11, 9, "u"), (None, 9, 9, "u")))
    done = stream.replay()
    assert (done.applied, done.superseded) == (1, 1)
    assert stream.rows() == [(1, 11, 9), (2, None, 4)]
    assert ids(stream.waiting()) == [None, None]


def test_p4_of_two_replays_at_once_one_goes_on_and_no_row_is_doubled(tmp_path, between):
    stream = Stream(tmp_path)
    stream.send((1, 1, 1, "I"), (2, 2, 2, "I"), (1, None, 3, "u"), (2, None, 4, "u"), (None, 1, 5, "u"))
    stream.relax()
    other: list[Any] = []
    between(2, lambda: other.append(stream.replay()))
    with pytest.raises(Fenced):
        stream.replay()
    assert (other[0].applied, len(other[0].left)) == (2, 1)
    assert stream.rows() == [(1, None, 3), (2, None, 4)]
    assert stream.waiting() == [{"id": None, "v": 1, "lsn": 5, "_op": "u"}]


def test_p8_a_replay_that_was_interrupted_goes_on_also_if_a_row_fits_no_more(tmp_path, between):
    class Crash(Exception):
        pass

    def crash() -> None:
        raise Crash

    stream = appending(tmp_path)
    stream.send((1, 1, 1), (2, None, 2), (3, None, 3))

    def mends(*which: int) -> Any:
        def fix(rows: pa.Table) -> pa.Table:
            return rows.set_column(
                1,
                rows.field(1),
                pa.array([5 if one in which else None for one in rows["id"].to_pylist()], pa.int64()),
            )

        return fix

    between(2, crash)
    with pytest.raises(Crash):
        stream.replay(fix=mends(2))
    assert ids(stream.waiting()) == [2, 3]
    done = stream.replay()  # without the fix, 2 does not fit any more
    assert (done.replay, done.applied, len(done.left)) == (1, 0, 2)
    assert stream.replay(fix=mends(2, 3)).applied == 2
    assert stream.rows() == [(1, 1, 1), (2, 5, 2), (3, 5, 3)]


def test_a_stream_that_halts_on_foreign_rows_goes_on_after_a_replay(tmp_path):
    stream = Stream(tmp_path, {**UPSERT, "foreign_rows": "halt"})
    stream.send((1, 1, 1, "I"), (1, None, 3, "u"))
    stream.relax()
    stream.made_with = SCHEMA
    assert stream.replay().applied == 1
    stream.send((1, 4, 4, "u"))
    assert stream.rows() == [(1, 4, 4)]


# -- which rows are meant -------------------------------------------------------------------------


def test_a_table_without_a_quarantine_has_nothing_to_replay(tmp_path):
    stream = appending(tmp_path)
    stream.send((1, 1, 1))
    with stream.catalog() as catalog:
        catalog.drop_table(("ns", "t__quarantine"))
    assert (stream.waiting(), stream.replay().replay) == ([], None)
    with pytest.raises(TableMissing):
        calve.list_quarantine("lake.ns.other", catalog=stream.said)


def test_of_several_sinks_one_must_be_named(tmp_path):
    one, two = appending(tmp_path), appending(tmp_path)
    two.sink["sink_id"] = "two"
    one.send((1, None, 1))
    two.send((2, None, 2), (3, 3, 3))
    with pytest.raises(ConfigError, match=r"several sinks .*: ns\.t, two"):
        one.waiting()
    with pytest.raises(ConfigError, match="no rows of a sink 'three'"):
        calve.list_quarantine(NAME, catalog=one.said, sink="three")
    (waits,) = calve.list_quarantine(NAME, catalog=one.said, sink="two")
    assert waits.row["id"] == 2
    one.relax()
    assert one.replay(sink="two").applied == 1
    assert one.rows() == [(2, None, 2), (3, 3, 3)]
    assert one.replay(sink="ns.t").applied == 1


def test_rows_that_were_meant_for_a_table_that_is_gone_are_left_alone(tmp_path):
    stream = appending(tmp_path)
    stream.send((1, None, 1))
    with stream.catalog() as catalog:
        catalog.drop_table(("ns", "t"))
    again = appending(tmp_path)
    again.checkpoint = stream.checkpoint + "2"
    again.send((2, None, 2))
    again.relax()
    assert again.replay().applied == 1
    assert again.rows() == [(2, None, 2)]


def test_a_quarantine_that_was_changed_by_hand_is_refused(tmp_path):
    stream = appending(tmp_path)
    stream.send((1, None, 1))
    with stream.catalog() as catalog, catalog.load_table(("ns", "t__quarantine")).update_schema() as change:
        change.delete_column("read_as")
    with pytest.raises(Diverged, match="has no column read_as"):
        stream.replay()


def test_rows_of_the_quarantine_that_somebody_deleted_are_not_replayed(tmp_path):
    stream = appending(tmp_path)
    stream.send((1, None, 1), (2, None, 2), (3, 3, 3))
    (one, _) = calve.list_quarantine(NAME, catalog=stream.said)
    with stream.catalog() as catalog:
        catalog.load_table(("ns", "t__quarantine")).delete(f"id = '{one.id}'")
    stream.relax()
    assert stream.replay().applied == 1
    assert len(stream.rows()) == 2


@pytest.mark.parametrize(
    "sink", [UPSERT, APPEND, {"mode": "changelog", "key": ("id",), "null_keys": "allow"}]
)
def test_how_a_row_was_read_survives_its_text(sink):
    config = SinkConfig(namespace="n", table="t", **sink)
    told = ReadAs.of(config, "at")
    assert ReadAs.from_json(told.to_json()) == told
    target = told.target(config)
    assert (target.mode, target.key, target.sequence_by, target.null_keys) == (
        config.mode, config.key, config.sequence_by, config.null_keys,
    )  # fmt: skip
    with pytest.raises(Diverged, match="does not say how it was read"):
        ReadAs.from_json("{}")
