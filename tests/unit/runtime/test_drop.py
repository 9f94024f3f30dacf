"""A sink is forgotten: what leaves the table, what stays, who is stopped, and who may begin again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AssertRefSnapshotId, TableRequirement, TableUpdate

import calve
from calve import CommitUnknown, ConfigError, Diverged, IcebergSink, TableMissing
from calve.model.progress import claimed_property, dropped_property, fence_property, tag_name
from calve.protocol.retry import RetryPolicy
from calve.runtime.addresses import find_address
from calve.runtime.drop import Drop
from calve.table.history import Kind, entries
from calve.table.sinks import dropped, sink_ids
from tests.support.quarantines import NAME as STREAMED
from tests.support.quarantines import Stream
from tests.support.sinks import NAME, MovableClock, Warehouse, commit
from tests.support.tagless import tagless
from tests.support.truth import rows_of

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
MORE = pa.table({"id": [2, 3], "v": ["B", "c"]})
SHOWN = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
FENCES = ("tag", "main")


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def drop(warehouse: Warehouse, **how: Any) -> calve.Dropped:
    return calve.drop_sink("calve.ns.t", catalog=said(warehouse), **how)


def said(warehouse: Warehouse) -> dict[str, str]:
    return {"type": "sql", "uri": warehouse.uri, "warehouse": str(warehouse.folder)}


def write(warehouse: Warehouse, fence: str = "tag", **options: Any) -> None:
    with warehouse.upsert(fence=fence, **options) as sink:
        commit(sink, 0, ROWS)


@pytest.mark.parametrize("fence", FENCES)
def test_progress_leaves_the_table_and_its_rows_stay(warehouse: Warehouse, fence: str) -> None:
    write(warehouse, fence)
    before = warehouse.load()
    done = drop(warehouse)
    after = warehouse.load()
    assert set(after.metadata.refs) == {"main"}
    assert [name for name in after.properties if name.startswith("calve.")] == [dropped_property("ns.t")]
    assert rows_of(after) == SHOWN
    kept = {one.snapshot_id for one in before.metadata.snapshots}
    assert kept <= {one.snapshot_id for one in after.metadata.snapshots}
    assert len(after.metadata.metadata_log) == len(before.metadata.metadata_log) + 1, "one commit"
    noted = {"tag": f"tag {tag_name('ns.t')}", "main": f"property {fence_property('ns.t')}"}[fence]
    assert done.removed == (noted, f"property {claimed_property('ns.t')}")
    assert done.stays == ("the table ns.t with its rows and snapshots",)
    assert (done.sink_id, done.frontier, done.to_json()["frontier"]) == ("ns.t", 1, "1")
    assert sink_ids(after.metadata) == ()
    assert dropped(after.metadata)["ns.t"].startswith("upsert (id), 20")


@pytest.mark.parametrize("fence", FENCES)
def test_p4_a_run_that_is_at_work_stops_and_has_changed_nothing(warehouse: Warehouse, fence: str) -> None:
    sink = warehouse.upsert(fence=fence).open()
    commit(sink, 0, ROWS)
    sink.begin_epoch(1)
    sink.write_batch(MORE)
    drop(warehouse)
    with pytest.raises(Diverged, match=r"sink ns.t of ns.t was dropped \(upsert \(id\), ") as stopped:
        sink.commit_epoch(1)
    assert "calve drop --forget" in stopped.value.hint
    assert rows_of(warehouse.load()) == SHOWN
    assert sink_ids(warehouse.load().metadata) == ()
    sink.close()


class Late(SqlCatalog):
    """A catalog that lets something happen after a commit was built and before it arrives."""

    before: Any = None

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        happens, self.before = self.before, None
        if happens is not None:
            happens()
        return super().commit_table(table, requirements, updates)


@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("forget", [False, True])
def test_p4_a_commit_that_is_under_way_does_not_land_after_the_drop(
    warehouse: Warehouse, fence: str, forget: bool
) -> None:
    """With the fence on main it would bring the property back, and nothing would have been dropped."""
    write(warehouse, fence)
    catalog = Late("calve", uri=warehouse.uri, warehouse=f"file://{warehouse.folder}")
    config = warehouse.upsert(fence=fence).config
    sink = IcebergSink(config, catalog=catalog).open()
    sink.begin_epoch(1)
    sink.write_batch(MORE)
    catalog.before = lambda: drop(warehouse, forget=forget)
    with pytest.raises(Diverged):
        sink.commit_epoch(1)
    assert rows_of(warehouse.load()) == SHOWN
    assert sink_ids(warehouse.load().metadata) == ()
    catalog.close()


@pytest.mark.parametrize("fence", FENCES)
def test_p6_a_sink_that_was_dropped_does_not_begin_again_by_itself(warehouse: Warehouse, fence: str) -> None:
    """A supervisor that starts it again would write all its rows a second time."""
    write(warehouse, fence)
    drop(warehouse)
    for other in FENCES:
        with pytest.raises(Diverged, match=r"was dropped .* its rows are still in the table"):
            warehouse.upsert(fence=other).open()
    assert rows_of(warehouse.load()) == SHOWN


@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("twice", [False, True], ids=["at once", "after a drop"])
def test_a_sink_that_is_forgotten_begins_from_zero(warehouse: Warehouse, fence: str, twice: bool) -> None:
    write(warehouse, fence)
    if twice:
        drop(warehouse)
    done = drop(warehouse, forget=True)
    assert done.forgotten
    assert not [name for name in warehouse.load().properties if name.startswith("calve.")]
    if twice:
        assert done.removed == (f"property {dropped_property('ns.t')}",)
    with warehouse.upsert(fence=fence) as sink:
        assert sink.frontier() == 0
        commit(sink, 0, MORE)
    assert rows_of(warehouse.load()) == [*SHOWN[:1], {"id": 2, "v": "B"}, {"id": 3, "v": "c"}]


def test_a_dropped_sink_is_known_by_its_snapshots_to_whoever_asks_for_a_time(warehouse: Warehouse) -> None:
    write(warehouse)
    drop(warehouse)
    assert calve.as_of("calve.ns.t", 0, catalog=said(warehouse)).found.frontier == 1
    assert calve.as_of("calve.ns.t", 0, sink="ns.t", catalog=said(warehouse)).found.frontier == 1


def test_to_keep_progress_changes_nothing(warehouse: Warehouse) -> None:
    write(warehouse)
    before = warehouse.load().metadata_location
    done = drop(warehouse, keep_progress=True)
    assert (done.removed, done.frontier) == ((), 1)
    assert warehouse.load().metadata_location == before
    with pytest.raises(ConfigError, match="forgotten and keep its progress"):
        drop(warehouse, keep_progress=True, forget=True)


def test_of_several_sinks_one_must_be_named_and_the_others_go_on(warehouse: Warehouse) -> None:
    write(warehouse, writer_id="one")
    other = warehouse.upsert(writer_id="two").open()
    commit(other, 0, MORE)
    with pytest.raises(ConfigError, match=r"several sinks write to ns.t: one, two"):
        drop(warehouse)
    with pytest.raises(ConfigError, match=r"ns.t has no sink 'three'"):
        drop(warehouse, sink="three")
    drop(warehouse, sink="one")
    commit(other, 1, ROWS)
    other.close()
    with pytest.raises(ConfigError, match=r"ns.t has no sink 'one' \(it was dropped: upsert \(id\), "):
        drop(warehouse, sink="one")
    assert sink_ids(warehouse.load().metadata) == ("two",)


def test_a_table_that_is_not_there_and_one_without_sinks_are_told_apart(warehouse: Warehouse) -> None:
    write(warehouse)
    with pytest.raises(TableMissing):
        calve.drop_sink("calve.ns.other", catalog=said(warehouse))
    drop(warehouse, forget=True)
    with pytest.raises(ConfigError, match=r"no sink of calve has written to ns.t"):
        drop(warehouse)


def test_a_sink_whose_tag_is_lost_can_be_dropped(warehouse: Warehouse) -> None:
    write(warehouse)
    with warehouse.catalog() as catalog:
        catalog.load_table(NAME).manage_snapshots().remove_tag(tag_name("ns.t")).commit()
    assert drop(warehouse).removed == (f"property {claimed_property('ns.t')}",)


def test_a_fence_on_main_needs_no_word_of_a_tag(warehouse: Warehouse) -> None:
    """A catalog that loses tags may know no other ref than main."""
    write(warehouse, "main")
    with warehouse.catalog() as catalog:
        Drop(find_address("calve.ns.t", None, said(warehouse)), tagless(catalog)).run()
    last = entries(warehouse.load().metadata)[0]
    assert (last.kind, last.sink_id, last.on_main) == (Kind.DROP, "ns.t", True)


def test_what_stays_beside_the_table_is_named(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.send((1, 1, 1, "I"), (1, None, 3, "u"), (2, 1, 4, "I"))
    stream.relax()
    stream.replay()
    stream.send((5, 1, 5, "I"))
    done = calve.drop_sink(STREAMED, catalog=stream.said)
    assert done.stays == (
        "the table ns.t with its rows and snapshots",
        "how far its quarantine was replayed (ns.t.replay)",
        "its quarantine ns.t__quarantine",
        f"the checkpoint of query {stream.checkpoint}",
    )
    assert stream.replay().replay is None, "a quarantine can be asked and replayed all the same"


# -- answers that are lost ------------------------------------------------------------------------


class Unsure(SqlCatalog):
    """A catalog whose first answers say nothing, whether it did what was asked or not."""

    answers: Sequence[bool] = ()

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        if not self.answers:
            return super().commit_table(table, requirements, updates)
        does, *self.answers = self.answers
        if does:
            super().commit_table(table, requirements, updates)
        raise CommitStateUnknownException("502")


@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("answers", [[True], [False], [False, True]], ids=["done", "not done", "twice"])
def test_an_answer_that_is_lost_is_found_out_by_a_look(
    warehouse: Warehouse, fence: str, answers: list[bool]
) -> None:
    write(warehouse, fence)
    before = len(warehouse.load().metadata.metadata_log)
    done = run(warehouse, answers)
    assert len(done.removed) == 2
    assert len(warehouse.load().metadata.metadata_log) == before + 1
    assert dropped(warehouse.load().metadata).keys() == {"ns.t"}


def test_a_catalog_that_never_says_leaves_it_open_and_can_be_asked_again(warehouse: Warehouse) -> None:
    write(warehouse)
    with pytest.raises(CommitUnknown, match=r"sink ns.t of calve.ns.t may or may not be dropped") as open_:
        run(warehouse, [False] * 10)
    assert "to do it twice changes nothing" in open_.value.hint
    assert len(run(warehouse, []).removed) == 2


def run(warehouse: Warehouse, answers: list[bool]) -> calve.Dropped:
    catalog = Unsure("calve", uri=warehouse.uri, warehouse=f"file://{warehouse.folder}")
    catalog.answers = answers
    policy = RetryPolicy(attempts_max=4)
    try:
        address = find_address("calve.ns.t", None, said(warehouse))
        return Drop(address, catalog, clock=MovableClock(), policy=policy).run()
    finally:
        catalog.close()


def test_a_run_that_commits_meanwhile_is_dropped_all_the_same(warehouse: Warehouse) -> None:
    """The tag moved after it was read: the drop is refused, looks, and is sent again."""
    sink = warehouse.upsert().open()
    commit(sink, 0, ROWS)
    catalog = Late("calve", uri=warehouse.uri, warehouse=f"file://{warehouse.folder}")
    catalog.before = lambda: commit(sink, 1, MORE)
    Drop(find_address("calve.ns.t", None, said(warehouse)), catalog, clock=MovableClock()).run()
    catalog.close()
    assert sink_ids(warehouse.load().metadata) == ()
    assert len(rows_of(warehouse.load())) == 3, "its commit landed before"
    with pytest.raises(Diverged):
        commit(sink, 2, ROWS)


def test_the_drop_requires_the_tag_as_it_was_read(warehouse: Warehouse) -> None:
    write(warehouse)
    asked: list[TableRequirement] = []

    class Noting(SqlCatalog):
        def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
            asked.extend(requirements)
            return super().commit_table(table, requirements, updates)

    catalog: Catalog = Noting("calve", uri=warehouse.uri, warehouse=f"file://{warehouse.folder}")
    at = warehouse.load().metadata.refs[tag_name("ns.t")].snapshot_id
    Drop(find_address("calve.ns.t", None, said(warehouse)), catalog).run()
    catalog.close()
    refs = {one.ref: one.snapshot_id for one in asked if isinstance(one, AssertRefSnapshotId)}
    assert refs == {tag_name("ns.t"): at}
