"""Progress is trusted only while main grows out of it: rollback, replacement, drop, expiry, others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

from calve import (
    Delivery,
    Diverged,
    ForeignRows,
    IcebergSink,
    RolledBack,
    SchemaMismatch,
    TableMissing,
    TableReplaced,
)
from calve.runtime import start
from calve.runtime.health import Health
from calve.table.lineage import trace
from tests.support.sinks import NAME, Warehouse, commit
from tests.support.truth import ordered, rows_of, snapshots_of_main
from tests.unit.runtime.test_epoch import between

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
MORE = pa.table({"id": [3], "v": ["c"]})


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def insert(warehouse: Warehouse, rows: pa.Table) -> None:
    with warehouse.catalog() as catalog:
        table = catalog.load_table(NAME)
        table.append(rows.cast(table.schema().as_arrow()))


def set_main(warehouse: Warehouse, snapshot_id: int) -> None:
    with warehouse.catalog() as catalog:
        move = SetSnapshotRefUpdate(
            ref_name="main",
            type=SnapshotRefType.BRANCH,
            snapshot_id=snapshot_id,
            max_ref_age_ms=None,
            max_snapshot_age_ms=None,
            min_snapshots_to_keep=None,
        )
        catalog.commit_table(catalog.load_table(NAME), (), (move,))


def roll_back(warehouse: Warehouse) -> None:
    """A user takes main back to the snapshot before the last."""
    parent = snapshots_of_main(warehouse.load())[-2]
    set_main(warehouse, parent.snapshot_id)


def expire_all_but_refs(warehouse: Warehouse) -> None:
    with warehouse.catalog() as catalog:
        table = catalog.load_table(NAME)
        kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
        gone = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in kept]
        if gone:
            table.maintenance.expire_snapshots().by_ids(gone).commit()


# -- trace -----------------------------------------------------------------------------------------


def traced(table: Table, committed: int | None):
    return trace(table.metadata, committed, table.io)


def test_main_descends_from_its_parents_and_not_from_its_children(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        for epoch in range(4):
            commit(sink, epoch, ROWS)
    table = warehouse.load()
    ids = [snapshot.snapshot_id for snapshot in snapshots_of_main(table)]
    assert traced(table, None).descends is True
    for place, snapshot_id in enumerate(ids):
        lineage = traced(table, snapshot_id)
        assert lineage.descends is True
        assert [snapshot.snapshot_id for snapshot in lineage.foreign] == ids[:place:-1]
    set_main(warehouse, ids[1])
    table = warehouse.load()
    assert traced(table, ids[1]).descends is True
    assert traced(table, ids[2]).descends is False
    assert traced(table, 12345).descends is False


def test_a_chain_that_expiry_cut_is_followed_through_older_metadata(warehouse: Warehouse) -> None:
    """Case 40."""
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
        commit(sink, 1, ROWS)
    first = snapshots_of_main(warehouse.load())[0].snapshot_id
    insert(warehouse, ROWS)
    insert(warehouse, ROWS)
    expire_all_but_refs(warehouse)
    table = warehouse.load()
    assert table.snapshot_by_id(first) is None
    assert traced(table, first).descends is True
    for entry in table.metadata.metadata_log:
        Path(entry.metadata_file.removeprefix("file://")).unlink()
    # Some expiry erases the parent's id as well. A chain that stays open is no proof either way.
    assert not traced(table, first).descends


def test_case_40_a_claim_remembers_that_main_descends_before_expiry_forgets_it(warehouse: Warehouse) -> None:
    """P6: a sink that is started now and then goes on, however much others commit and expire in between."""
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
    for _ in range(3):
        insert(warehouse, MORE)
        with warehouse.sink():
            pass
        insert(warehouse, MORE)
        expire_all_but_refs(warehouse)
        # All but the last few files: what older ones showed is known by the claim's anchor.
        for entry in warehouse.load().metadata.metadata_log[:-3]:
            Path(entry.metadata_file.removeprefix("file://")).unlink(missing_ok=True)
    with warehouse.sink() as sink:
        commit(sink, 1, ROWS)
    assert len(rows_of(warehouse.load())) == 10


# -- rolled back, replaced, dropped ----------------------------------------------------------------


def test_case_42_a_rolled_back_table_is_refused_at_open(warehouse: Warehouse) -> None:
    """P6: with instructions, and nothing changes."""
    with warehouse.upsert() as sink:
        commit(sink, 0, ROWS)
        last = commit(sink, 1, MORE)
    roll_back(warehouse)
    before = warehouse.load().metadata
    with pytest.raises(RolledBack, match=str(last.snapshot_id)) as caught:
        warehouse.upsert().open()
    assert "Set main" in caught.value.hint
    assert warehouse.load().metadata == before


@pytest.mark.parametrize("when", ["between epochs", "in the middle of a commit"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_case_42_a_rollback_under_a_running_sink_stops_it(warehouse: Warehouse, mode: str, when: str) -> None:
    options = {"equality_delete_columns": "id"} if mode == "upsert" else {}
    with warehouse.sink(write_mode=mode, **options) as sink:
        commit(sink, 0, ROWS)
        commit(sink, 1, MORE)
        if when == "between epochs":
            roll_back(warehouse)
        else:
            between(sink, lambda: roll_back(warehouse))
        with pytest.raises(RolledBack):
            commit(sink, 2, MORE)
        assert sink.health_check().health is Health.UNHEALTHY
    assert rows_of(warehouse.load()) == ordered(ROWS.to_pylist())


def test_case_42_a_rollback_that_the_sink_sees_while_it_takes_rows_stops_it_too(warehouse: Warehouse) -> None:
    """Rows that do not fit make the sink read the table again: what it then sees is judged as well."""
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
        commit(sink, 1, MORE)
        roll_back(warehouse)
        sink.begin_epoch(2)
        with pytest.raises((RolledBack, SchemaMismatch)):
            sink.write_batch(pa.table({"id": ["text"]}))
        sink.rollback_epoch(2)
        with pytest.raises(RolledBack):
            commit(sink, 2, MORE)
    assert len(snapshots_of_main(warehouse.load())) == 1


def test_case_28_a_dropped_table_stops_the_sink_and_is_not_made_again(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        commit(sink, 0, ROWS)
        with warehouse.catalog() as catalog:
            catalog.drop_table(NAME)
        with pytest.raises(TableMissing, match=r"ns\.t is not in the catalog"):
            commit(sink, 1, MORE)
        with pytest.raises(TableMissing):
            sink.begin_epoch(1)
    assert not warehouse.exists()


@pytest.mark.parametrize("claimed", [False, True])
def test_case_29_a_table_that_was_dropped_and_made_again_stops_the_sink(
    warehouse: Warehouse, claimed: bool
) -> None:
    """Also where another sink of the same name was already at work on the new one."""
    with warehouse.upsert() as sink:
        commit(sink, 0, ROWS)
        with warehouse.catalog() as catalog:
            schema = catalog.load_table(NAME).schema()
            catalog.drop_table(NAME)
            catalog.create_table(NAME, schema)
        if claimed:
            with warehouse.upsert() as other:
                for epoch in range(3):
                    commit(other, epoch, MORE)
        before = warehouse.load().metadata
        with pytest.raises(TableReplaced):
            commit(sink, 1, MORE)
        assert warehouse.load().metadata == before


@pytest.mark.parametrize("when", ["at open", "at commit"])
def test_a_tag_that_was_removed_stops_the_sink(warehouse: Warehouse, when: str) -> None:
    """P6: it never begins again from zero by itself."""
    sink = warehouse.upsert().open()
    commit(sink, 0, ROWS)
    with warehouse.catalog() as catalog:
        catalog.commit_table(catalog.load_table(NAME), (), (RemoveSnapshotRefUpdate(ref_name="calve-ns.t"),))
    if when == "at commit":
        with pytest.raises(Diverged, match=r"ns\.t"):
            commit(sink, 1, MORE)
    else:
        with pytest.raises(Diverged, match=r"tag calve-ns\.t is gone"):
            warehouse.upsert().open()
    sink.close()
    assert len(rows_of(warehouse.load())) == 2


def test_a_tag_that_was_removed_and_all_our_snapshots_expired_still_stops_the_sink(
    warehouse: Warehouse,
) -> None:
    with warehouse.upsert() as sink:
        commit(sink, 0, ROWS)
    insert(warehouse, MORE)
    with warehouse.catalog() as catalog:
        catalog.commit_table(catalog.load_table(NAME), (), (RemoveSnapshotRefUpdate(ref_name="calve-ns.t"),))
    expire_all_but_refs(warehouse)
    with pytest.raises(Diverged, match="tag"):
        warehouse.upsert().open()


def test_times_of_another_meaning_are_refused(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
    monkeypatch.setitem(start._SOURCE, Delivery.EXACTLY_ONCE, "hlc")
    with pytest.raises(Diverged, match="counts its times as 'epoch', this run as 'hlc'"):
        warehouse.sink().open()


# -- others at work --------------------------------------------------------------------------------


def test_case_40_progress_survives_expiry_of_everything_that_is_not_tagged(warehouse: Warehouse) -> None:
    """P6."""
    for epoch in range(3):
        with warehouse.upsert() as sink:
            assert sink.frontier() == epoch
            commit(sink, epoch, pa.table({"id": [epoch], "v": ["x"]}))
        insert(warehouse, pa.table({"id": [100 + epoch], "v": ["foreign"]}))
        expire_all_but_refs(warehouse)
    with warehouse.upsert() as sink:
        assert not sink.begin_epoch(2)
    assert len(rows_of(warehouse.load())) == 6


@pytest.mark.parametrize("when", ["while it runs", "while it is stopped"])
def test_case_41_foreign_rows_are_tolerated_and_counted(warehouse: Warehouse, when: str) -> None:
    sink = warehouse.upsert().open()
    commit(sink, 0, ROWS)
    if when == "while it is stopped":
        sink.close()
    insert(warehouse, pa.table({"id": [7, 8], "v": ["f", "f"]}))
    insert(warehouse, pa.table({"id": [9], "v": ["f"]}))
    if when == "while it is stopped":
        sink = warehouse.upsert().open()
    commit(sink, 1, MORE)
    commit(sink, 2, MORE)
    assert (sink.metrics().foreign_rows, sink.metrics().foreign_snapshots) == (3, 2)
    assert sink.health_check().health is Health.HEALTHY
    sink.close()
    assert len(rows_of(warehouse.load())) == 6


@pytest.mark.parametrize("when", ["while it runs", "while it is stopped"])
def test_case_41_foreign_rows_halt_a_sink_that_was_told_so(warehouse: Warehouse, when: str) -> None:
    sink = warehouse.upsert(foreign_rows="halt").open()
    commit(sink, 0, ROWS)
    insert(warehouse, MORE)
    again = warehouse.upsert(foreign_rows="halt")
    act = (lambda: commit(sink, 1, MORE)) if when == "while it runs" else again.open
    with pytest.raises(ForeignRows, match="got 1 rows from somebody else") as caught:
        act()
    assert "foreign_rows" in caught.value.hint
    sink.close()
    assert len(snapshots_of_main(warehouse.load())) == 2


def test_case_65_the_tag_gets_the_longest_age_where_the_table_limits_refs(warehouse: Warehouse) -> None:
    limit = {"table_prop_history_expire_max-ref-age-ms": "1000"}
    with warehouse.sink(**limit) as sink:
        commit(sink, 0, ROWS)
        assert warehouse.load().metadata.refs["calve-ns.t"].max_ref_age_ms == 2**63 - 1
        commit(sink, 1, ROWS)
    refs = warehouse.load().metadata.refs
    assert refs["calve-ns.t"].max_ref_age_ms == 2**63 - 1
    assert refs["main"].max_ref_age_ms is None


def test_a_tag_has_no_age_where_the_table_limits_none(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
    assert warehouse.load().metadata.refs["calve-ns.t"].max_ref_age_ms is None


def test_what_a_user_set_on_main_stays(warehouse: Warehouse) -> None:
    sink = warehouse.sink().open()
    commit(sink, 0, ROWS)
    with warehouse.catalog() as catalog:
        table = catalog.load_table(NAME)
        main = SetSnapshotRefUpdate(
            ref_name="main",
            type=SnapshotRefType.BRANCH,
            snapshot_id=table.metadata.current_snapshot_id,
            max_ref_age_ms=None,
            max_snapshot_age_ms=5_000,
            min_snapshots_to_keep=7,
        )
        catalog.commit_table(table, (), (main,))
    sink.close()
    with warehouse.sink() as sink:
        commit(sink, 1, ROWS)
    main_ref = warehouse.load().metadata.refs["main"]
    assert (main_ref.max_snapshot_age_ms, main_ref.min_snapshots_to_keep) == (5_000, 7)


def test_a_sink_without_commits_has_nothing_to_lose(warehouse: Warehouse) -> None:
    with warehouse.sink() as sink:
        sink.begin_epoch(0)
        sink.write_batch(ROWS)
    insert(warehouse, ROWS)
    with warehouse.sink() as sink:
        assert isinstance(sink, IcebergSink)
        commit(sink, 0, ROWS)
    assert len(rows_of(warehouse.load())) == 4
