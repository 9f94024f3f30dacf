"""The sink as a user meets it: its life, its epochs, its modes, and what it says of itself."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event

import calve
from calve import Fenced, Gap, IcebergSink, SinkState
from calve.model.errors import BadRow, BadTime, CommitConflict
from calve.model.time import TIME_MAX
from calve.runtime.health import Health
from tests.support.sinks import MovableClock, Warehouse, changes, commit
from tests.support.truth import Source, check_every_snapshot, ordered, rows_of, snapshots_of_main, summary_of

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


# -- life ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda sink: sink.begin_epoch(0),
        lambda sink: sink.write_batch(ROWS),
        lambda sink: sink.commit_epoch(0),
        lambda sink: sink.rollback_epoch(0),
        lambda sink: sink.flush(),
    ],
)
def test_a_sink_that_is_not_open_refuses_every_call(warehouse: Warehouse, call) -> None:
    sink = warehouse.sink()
    with pytest.raises(SinkState, match="not open") as caught:
        call(sink)
    assert caught.value.hint == "Open it first."
    sink.open()
    sink.close()
    with pytest.raises(SinkState, match="not open") as caught:
        call(sink)
    assert "new sink" in caught.value.hint


def test_a_sink_is_opened_once(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        with pytest.raises(SinkState, match="cannot be opened"):
            sink.open()
    with pytest.raises(SinkState, match="cannot be opened"):
        sink.open()
    sink.close()  # a second time does nothing


def test_calls_in_the_wrong_state_are_refused_and_change_nothing(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        with pytest.raises(SinkState, match="no epoch is open"):
            sink.write_batch(ROWS)
        with pytest.raises(SinkState, match="was not begun"):
            sink.commit_epoch(3)
        with pytest.raises(SinkState, match="was not begun"):
            sink.rollback_epoch(3)
        sink.flush()
        assert sink.begin_epoch(3)
        with pytest.raises(SinkState, match="epoch 3 is still open"):
            sink.begin_epoch(4)
        with pytest.raises(SinkState, match="epoch 3 is open, not 4"):
            sink.commit_epoch(4)
        sink.write_batch(ROWS)
        assert sink.commit_epoch(3).rows == 2
    assert len(rows_of(warehouse.load())) == 2


def test_close_rolls_an_open_epoch_back_and_says_so(warehouse: Warehouse, caplog) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
        sink.begin_epoch(1)
        sink.write_batch(ROWS)
        with caplog.at_level(logging.WARNING, "calve"):
            sink.close()
    assert "epoch 1 is open and is rolled back" in caplog.text
    assert len(snapshots_of_main(warehouse.load())) == 1
    assert sink.metrics().epochs_rolled_back == 1


def test_close_gives_the_connections_of_its_own_catalog_back(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
        catalog = sink._target.catalog
        assert isinstance(catalog, SqlCatalog)
        closed: list[int] = []
        event.listen(catalog.engine, "close", lambda *_: closed.append(1))
        assert not closed
    assert closed


def test_a_catalog_that_was_handed_in_stays_open(warehouse: Warehouse) -> None:
    warehouse.folder.mkdir()
    with warehouse.catalog() as catalog:
        config = calve.SinkConfig.from_options(warehouse.options())
        with IcebergSink(config, catalog=catalog) as sink:
            commit(sink, 0, ROWS)
        assert len(rows_of(catalog.load_table(("ns", "t")))) == 2


def test_an_error_inside_the_context_rolls_the_epoch_back_and_passes_on(warehouse: Warehouse) -> None:
    def run() -> None:
        with warehouse.sink() as sink:
            sink.begin_epoch(0)
            sink.write_batch(ROWS)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert rows_of(warehouse.load()) == []


def test_the_sink_shows_its_table_and_state_and_nothing_else(warehouse: Warehouse) -> None:
    sink = warehouse.sink()
    assert repr(sink) == "<IcebergSink ns.t created>"
    with sink:
        assert repr(sink) == "<IcebergSink ns.t open>"
    assert repr(sink) == "<IcebergSink ns.t closed>"


# -- epochs ----------------------------------------------------------------------------------------


def test_an_epoch_that_is_in_the_table_is_skipped_however_often_it_comes(warehouse: Warehouse) -> None:
    """Cases 4 and 5: what was committed before a crash is not committed again (P3)."""
    with warehouse.sink() as sink:
        first = commit(sink, 7, ROWS)
        assert not sink.begin_epoch(7)
        assert sink.write_batch(ROWS) == calve.WriteResult(0, 0)
        assert sink.commit_epoch(7) == calve.EpochResult(7, None, skipped=True)
    for _ in range(2):
        with warehouse.sink() as sink:
            assert sink.frontier() == 8
            for epoch in (3, 7):
                assert not sink.begin_epoch(epoch)
                sink.write_batch(ROWS)
                assert sink.commit_epoch(epoch).skipped
            assert sink.metrics().epochs_skipped == 2
            assert sink.metrics().rows_skipped == 4
    chain = snapshots_of_main(warehouse.load())
    assert [snapshot.snapshot_id for snapshot in chain] == [first.snapshot_id]


def test_a_skipped_epoch_can_be_rolled_back_and_the_next_begins(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
        assert not sink.begin_epoch(0)
        sink.rollback_epoch(0)
        assert sink.begin_epoch(1)


def test_epochs_out_of_order_are_refused(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
        commit(sink, 5)  # empty: it is not in the table, and still was there
        with pytest.raises(SinkState, match="epoch 3 comes after epoch 5"):
            sink.begin_epoch(3)
        with pytest.raises(SinkState, match="epoch 5 comes after epoch 5"):
            sink.begin_epoch(5)
        assert sink.begin_epoch(6)


def test_a_gap_is_refused_where_the_caller_says_what_came_before(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
        assert sink.begin_epoch(1, after=0)
        sink.rollback_epoch(1)
        with pytest.raises(Gap, match="ends before epoch 1, but epoch 9 follows 8") as caught:
            sink.begin_epoch(9, after=8)
        assert "from 1 on" in caught.value.hint
        commit(sink, 2)
        assert sink.begin_epoch(3, after=2)  # an empty epoch has no snapshot, and is no gap


def test_a_rolled_back_epoch_leaves_nothing_and_can_be_begun_again(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        sink.begin_epoch(0)
        sink.write_batch(pa.table({"id": [99], "v": ["wrong"]}))
        sink.flush()
        sink.rollback_epoch(0)
        commit(sink, 0, ROWS)
        assert sink.metrics().epochs_rolled_back == 1
    assert rows_of(warehouse.load()) == ordered(ROWS.to_pylist())


@pytest.mark.parametrize("epoch", [-1, TIME_MAX + 1, True, 1.5, "1", None])
def test_an_epoch_is_a_number(warehouse: Warehouse, epoch) -> None:
    with warehouse.sink() as sink:
        with pytest.raises(BadTime):
            sink.begin_epoch(epoch)
        with pytest.raises(SinkState, match="last number"):
            sink.begin_epoch(TIME_MAX)


def test_epochs_may_have_thirty_eight_digits(warehouse: Warehouse) -> None:
    great = 10**38 - 3
    with warehouse.sink() as sink:
        commit(sink, great, ROWS)
    with warehouse.sink() as sink:
        assert sink.frontier() == great + 1
        assert not sink.begin_epoch(great)


def test_case_52_an_epoch_without_changes_is_no_snapshot(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        assert commit(sink, 0).snapshot_id is None
        assert commit(sink, 1, ROWS.slice(0, 0)).snapshot_id is None
        assert not warehouse.exists()
        commit(sink, 2, ROWS)
        files = warehouse.files()
        for epoch in range(3, 8):
            assert commit(sink, epoch, ROWS.slice(0, 0)).snapshot_id is None
        assert warehouse.files() == files
        assert sink.metrics().epochs_empty == 7
        assert sink.frontier() == 3
        commit(sink, 8, ROWS)
    table = warehouse.load()
    bounds = [
        (summary_of(s)["calve.lower"], summary_of(s)["calve.frontier"]) for s in snapshots_of_main(table)
    ]
    assert bounds == [("0", "3"), ("3", "9")]  # P2: batches tile, and empty time goes to the next


def test_a_heartbeat_keeps_the_frontier_fresh(warehouse: Warehouse) -> None:
    with warehouse.sink(heartbeat="3") as sink:
        commit(sink, 0, ROWS)
        assert commit(sink, 1).snapshot_id is None
        assert commit(sink, 2).snapshot_id is None
        beat = commit(sink, 3)
        assert beat.snapshot_id is not None
        assert beat.files == 0
        assert sink.frontier() == 4
        assert commit(sink, 4).snapshot_id is None
    table = warehouse.load()
    assert summary_of(snapshots_of_main(table)[-1])["operation"] == "append"
    assert len(rows_of(table)) == 2
    with warehouse.sink() as sink:
        assert sink.frontier() == 4


def test_at_least_once_writes_again_what_is_sent_again(warehouse: Warehouse) -> None:
    for _ in range(2):
        with warehouse.sink(delivery_guarantee="at-least-once") as sink:
            assert not sink.capabilities().exactly_once
            for epoch in range(3):
                assert sink.begin_epoch(epoch)
                sink.write_batch(ROWS)
                assert sink.commit_epoch(epoch).snapshot_id is not None
    table = warehouse.load()
    assert len(rows_of(table)) == 12
    frontiers = [int(summary_of(snapshot)["calve.frontier"]) for snapshot in snapshots_of_main(table)]
    assert frontiers == sorted(set(frontiers))  # P2 all the same


# -- buffers ---------------------------------------------------------------------------------------


def test_buffers_flush_by_rows(warehouse: Warehouse) -> None:
    with warehouse.sink(MovableClock(), max_buffer_records="3") as sink:
        sink.begin_epoch(0)
        sink.write_batch(ROWS)
        assert (sink.metrics().flushes, sink.metrics().rows_flushed) == (0, 0)
        sink.write_batch(ROWS)
        assert (sink.metrics().flushes, sink.metrics().rows_flushed) == (1, 4)
        sink.write_batch(ROWS)
        assert (sink.metrics().rows_written, sink.metrics().rows_flushed) == (6, 4)
        sink.commit_epoch(0)
        assert sink.metrics().rows_flushed == 6
        commit(sink, 1, ROWS)
        assert (sink.metrics().rows_written, sink.metrics().rows_flushed) == (8, 8)


def test_buffers_flush_by_bytes(warehouse: Warehouse) -> None:
    wide = pa.table({"id": [1], "v": ["x" * 40_000]})
    with warehouse.sink(MovableClock(), max_buffer_bytes="64KB") as sink:
        sink.begin_epoch(0)
        sink.write_batch(wide)
        assert sink.metrics().flushes == 0
        sink.write_batch(wide)
        assert sink.metrics().flushes == 1


def test_buffers_flush_by_time(warehouse: Warehouse) -> None:
    clock = MovableClock()
    with warehouse.upsert(clock, max_buffer_duration="10s") as sink:
        sink.begin_epoch(0)
        sink.write_batch(ROWS)
        clock.now += 9_999
        sink.write_batch(ROWS)
        assert sink.metrics().flushes == 0
        clock.now += 1
        sink.write_batch(ROWS)
        assert sink.metrics().flushes == 1
        clock.now += 9_999
        sink.write_batch(ROWS)
        assert sink.metrics().flushes == 1  # the time begins with the first row after a flush


def test_flush_moves_rows_on_and_shows_nothing(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        sink.begin_epoch(0)
        sink.write_batch(ROWS)
        sink.flush()
        sink.flush()
        assert sink.metrics().flushes == 1
        assert rows_of(warehouse.load()) == []
        sink.commit_epoch(0)
    assert len(rows_of(warehouse.load())) == 2


# -- modes -----------------------------------------------------------------------------------------


def test_append_keeps_every_row_as_it_came(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS, ROWS.to_batches()[0])
        commit(sink, 1, pa.table({"v": ["only"], "id": [3]}), pa.table({"id": pa.array([4], pa.int32())}))
    rows = [*ROWS.to_pylist() * 2, {"id": 3, "v": "only"}, {"id": 4, "v": None}]
    assert rows_of(warehouse.load()) == ordered(rows)


def test_append_takes_a_column_of_ops_for_a_column(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, changes((1, "a", "D")))
    assert rows_of(warehouse.load()) == [{"id": 1, "v": "a", "_op": "D"}]


def test_changelog_keeps_every_change_with_its_op_and_time(warehouse: Warehouse) -> None:
    with warehouse.sink(write_mode="changelog") as sink:
        commit(sink, 4, changes((1, "a", "I"), (1, "b", "u"), (1, "b", "-D")))
        commit(sink, 6, ROWS.slice(0, 1))
    assert rows_of(warehouse.load()) == ordered(
        {"id": 1, "v": v, "_calve_op": op, "_calve_time": time}
        for v, op, time in [("a", "insert", 4), ("b", "upsert", 4), ("b", "delete", 4), ("a", "upsert", 6)]
    )


def test_changelog_names_are_as_configured(warehouse: Warehouse) -> None:
    names = {"changelog.op.column": "what", "changelog.time.column": "when", "op.column": "kind"}
    options = {**warehouse.options(write_mode="changelog"), **names}
    with IcebergSink.from_options(options) as sink:
        commit(sink, 0, changes((1, "a", "d"), names=("id", "v", "kind")))
    assert rows_of(warehouse.load()) == [{"id": 1, "v": "a", "what": "delete", "when": 0}]


def test_materialize_names_bring_materialize_values(warehouse: Warehouse) -> None:
    names = {"changelog.op.column": "_mz_diff", "changelog.time.column": "_mz_timestamp"}
    with IcebergSink.from_options({**warehouse.options(write_mode="changelog"), **names}) as sink:
        commit(sink, 3, changes((1, "a", "+I"), (2, "b", "-D")))
    table = warehouse.load()
    assert rows_of(table) == ordered(
        [
            {"id": 1, "v": "a", "_mz_diff": 1, "_mz_timestamp": 3},
            {"id": 2, "v": "b", "_mz_diff": -1, "_mz_timestamp": 3},
        ]
    )
    assert str(table.schema().find_type("_mz_diff")) == "int"
    assert str(table.schema().find_type("_mz_timestamp")) == "long"


def test_a_changelog_with_a_key_keeps_a_change_that_came_twice_once(warehouse: Warehouse) -> None:
    """Case 44."""
    same = changes((1, "a", "I"), (1, "a", "I"), (1, "a", "D"), (2, "b", "I"))
    with warehouse.sink(write_mode="changelog", equality_delete_columns="id") as sink:
        commit(sink, 0, same, same)
    seen = [(row["id"], row["_calve_op"]) for row in rows_of(warehouse.load())]
    assert sorted(seen) == [(1, "delete"), (1, "insert"), (2, "insert")]


def test_a_changelog_with_a_key_and_a_sequence_keeps_every_change_of_a_key(warehouse: Warehouse) -> None:
    rows = {"id": [1, 1, 1], "lsn": [7, 8, 8], "v": ["a", "b", "b"], "_op": ["u", "u", "u"]}
    options = {"equality_delete_columns": "id", "sequence_by": "lsn"}
    with warehouse.sink(write_mode="changelog", **options) as sink:
        sink.begin_epoch(1)
        sink.write_batch(pa.table(rows))
        sink.commit_epoch(1)
    assert [(row["lsn"], row["v"]) for row in ordered(rows_of(warehouse.load()))] == [(7, "a"), (8, "b")]


def test_a_changelog_time_that_no_long_holds_is_refused_by_name(warehouse: Warehouse) -> None:
    with warehouse.sink(write_mode="changelog") as sink:
        with pytest.raises(BadTime, match="_calve_time"):
            sink.begin_epoch(2**63)
        commit(sink, 2**63 - 1, ROWS)
    assert {row["_calve_time"] for row in rows_of(warehouse.load())} == {2**63 - 1}


def test_upsert_shows_the_state_of_the_source_in_every_snapshot(warehouse: Warehouse) -> None:
    """P1."""
    source = Source(("id",))
    with warehouse.upsert() as sink:
        for epoch, rows in enumerate(
            [
                changes((1, "a", "I"), (2, "b", "I"), (3, "c", "I")),
                changes((1, "A", "u"), (2, "b", "D"), (4, "d", "c")),
                changes((2, "back", "r"), (9, "never", "d")),
            ]
        ):
            commit(sink, epoch, rows)
            source.apply(epoch, rows.to_pylist())
    assert check_every_snapshot(warehouse.load(), source) == 3


# -- two runs --------------------------------------------------------------------------------------


def test_case_10_a_second_sink_fences_the_first(warehouse: Warehouse) -> None:
    """P4: the older run stops with its error and has changed nothing."""
    first = warehouse.upsert().open()
    commit(first, 0, ROWS)
    first.begin_epoch(1)
    first.write_batch(pa.table({"id": [1], "v": ["old run"]}))
    second = warehouse.upsert().open()
    before = warehouse.load().metadata
    with pytest.raises(Fenced, match="generation 2"):
        first.commit_epoch(1)
    assert warehouse.load().metadata == before
    assert first.health_check().health is Health.UNHEALTHY
    with pytest.raises(Fenced):
        first.begin_epoch(1)
    with pytest.raises(Fenced):
        first.commit_epoch(1)
    first.close()
    commit(second, 1, pa.table({"id": [1], "v": ["new run"]}))
    second.close()
    assert rows_of(warehouse.load()) == ordered([{"id": 1, "v": "new run"}, {"id": 2, "v": "b"}])


def test_two_sinks_of_one_table_with_ids_of_their_own_go_on_side_by_side(warehouse: Warehouse) -> None:
    with warehouse.sink(writer_id="a") as one, warehouse.sink(writer_id="a-1") as other:
        for epoch in range(3):
            commit(one, epoch, ROWS)
            commit(other, epoch, ROWS)
        assert one.metrics().foreign_rows > 0
    assert len(rows_of(warehouse.load())) == 12
    assert {"calve-a", "calve-a-1"} < set(warehouse.load().metadata.refs)


def test_a_table_made_by_another_run_in_the_meantime_is_claimed_or_refused(warehouse: Warehouse) -> None:
    first, second = warehouse.sink().open(), warehouse.sink().open()
    commit(first, 0, ROWS)
    second.begin_epoch(0)
    with pytest.raises(calve.Diverged, match="created by another run"):
        second.write_batch(ROWS)
    with pytest.raises(Fenced):
        commit(first, 1, ROWS)


# -- what it says of itself ------------------------------------------------------------------------


def test_health_follows_the_sink(warehouse: Warehouse) -> None:
    sink = warehouse.sink()
    assert sink.health_check().health is Health.UNHEALTHY
    with sink:
        assert sink.health_check().health is Health.HEALTHY
        commit(sink, 0, ROWS)
        assert sink.health_check().health is Health.HEALTHY
        with warehouse.catalog() as catalog:
            catalog.drop_table(("ns", "t"))
        with pytest.raises(calve.TableMissing):
            commit(sink, 1, ROWS)
        status = sink.health_check()
        assert (status.health, "not in the catalog" in status.reason, bool(status.hint)) == (
            Health.UNHEALTHY,
            True,
            True,
        )


def test_metrics_tell_what_was_done(warehouse: Warehouse) -> None:
    clock = MovableClock()
    with warehouse.upsert(clock) as sink:
        before = sink.metrics()
        result = commit(sink, 0, ROWS)
        clock.now += 500
        commit(sink, 1, changes((1, "x", "u")))
        metrics = sink.metrics()
    assert before.commits == 0, "what was handed out does not change behind one's back"
    assert (metrics.commits, metrics.rows_written, metrics.rows_flushed) == (2, 3, 3)
    assert (metrics.data_files_written, metrics.delete_files_written) == (2, 1)
    assert metrics.bytes_written > 0
    assert metrics.last_snapshot_id != result.snapshot_id
    assert metrics.last_snapshot_id == warehouse.load().metadata.current_snapshot_id
    assert (metrics.frontier, metrics.errors, metrics.open_ms) == (2, 0, 500.0)
    assert metrics.records_per_second == 6.0


def test_errors_are_counted(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        sink.begin_epoch(0)
        for _ in range(2):
            with pytest.raises(calve.BadRow):
                sink.write_batch(changes((1, "a", "?")))
        assert sink.metrics().errors == 2
        assert sink.metrics().rows_written == 0


def test_capabilities_follow_the_configuration(warehouse: Warehouse) -> None:
    upsert = warehouse.upsert(schema_evolution="true").capabilities()
    assert (upsert.exactly_once, upsert.upsert, upsert.changelog, upsert.schema_evolution) == (
        True,
        True,
        False,
        True,
    )
    append = warehouse.sink().capabilities()
    assert (append.upsert, append.changelog, append.schema_evolution) == (False, False, False)


def test_the_schema_is_the_tables(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        assert sink.schema() is None
        commit(sink, 0, ROWS)
        schema = sink.schema()
    assert schema is not None
    assert schema.names == ["id", "v"]
    assert not schema.field("id").nullable
    assert schema.field("v").metadata == {b"PARQUET:field_id": b"2"}


def test_a_commit_in_a_crowd_waits_and_gives_up_cleanly(warehouse: Warehouse) -> None:
    """Case 15: bounded, with backoff; the epoch stays open and goes in when the crowd is gone."""
    clock = MovableClock()
    with warehouse.sink(clock, commit_attempts="3") as sink:
        commit(sink, 0, ROWS)
        catalog = sink._target.catalog
        assert catalog is not None
        real, crowded = catalog.commit_table, [True]

        def commit_table(table, requirements, updates):
            if crowded[0]:
                with warehouse.catalog() as others:
                    others.load_table(("ns", "t")).append(pa.table({"id": [7], "v": ["foreign"]}))
            return real(table, requirements, updates)

        catalog.commit_table = commit_table  # type: ignore[method-assign]
        sink.begin_epoch(1)
        sink.write_batch(ROWS)
        with pytest.raises(CommitConflict, match="not committed"):
            sink.commit_epoch(1)
        assert len(clock.waits) == 2
        assert sink.health_check().health is Health.HEALTHY
        with pytest.raises(SinkState, match="takes no more rows"):
            sink.write_batch(ROWS)
        crowded[0] = False
        assert sink.commit_epoch(1).snapshot_id is not None
        assert sink.metrics().foreign_rows == 3
        assert sink.metrics().conflicts == 3
    assert len(rows_of(warehouse.load())) == 7


def diffs(*rows: tuple[int, str, int]) -> pa.Table:
    return pa.table(
        {"id": [row[0] for row in rows], "v": [row[1] for row in rows], "_op": [row[2] for row in rows]}
    )


def test_a_changelog_with_materialize_names_keeps_how_many_copies_came_and_went(warehouse: Warehouse) -> None:
    names = {"changelog.op.column": "_mz_diff", "changelog.time.column": "_mz_timestamp"}
    with IcebergSink.from_options({**warehouse.options(write_mode="changelog"), **names}) as sink:
        commit(sink, 3, diffs((1, "a", 3), (1, "a", -2), (2, "b", -1)))
        sink.begin_epoch(4)
        with pytest.raises(
            BadRow, match=r"row 0: the change is of 2147483648 copies of a row, more than an int"
        ):
            sink.write_batch(diffs((1, "a", 2**31)))
    seen = [(row["id"], row["_mz_diff"], row["_mz_timestamp"]) for row in ordered(rows_of(warehouse.load()))]
    assert sorted(seen) == [(1, -2, 3), (1, 3, 3), (2, -1, 3)]


@pytest.mark.parametrize(
    "options,reason",
    [
        ({"write_mode": "changelog"}, "a word does not say how many"),
        ({"write_mode": "upsert", "equality_delete_columns": "id"}, "a key has one row"),
    ],
)
def test_several_copies_of_a_row_are_refused_where_one_has_room(
    warehouse: Warehouse, options: dict[str, str], reason: str
) -> None:
    with warehouse.sink(**options) as sink:
        commit(sink, 1, diffs((1, "a", 1), (2, "b", 1)))
        commit(sink, 2, diffs((1, "a", -1)))
        sink.begin_epoch(3)
        with pytest.raises(BadRow, match=rf"row 1: the change is of 2 copies of a row, and {reason}"):
            sink.write_batch(diffs((3, "c", 1), (4, "d", -2)))
