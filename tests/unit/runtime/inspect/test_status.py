"""How the sinks of a table are, as the table itself tells: no Spark, nothing running."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.snapshots import Summary
from pyiceberg.table.update import RemovePropertiesUpdate

import calve
from calve import ConfigError, TableMissing
from calve.model.errors import CatalogError
from calve.model.progress import fence_property, tag_name
from calve.runtime.addresses import find_address
from calve.runtime.inspect.door import status_of
from calve.runtime.inspect.files import table_files
from calve.runtime.inspect.result import SinkCondition
from calve.table.commit import load
from tests.support.quarantines import NAME as STREAMED
from tests.support.quarantines import Stream
from tests.support.sinks import NAME, MovableClock, Warehouse
from tests.support.timed import Timed, expire, insert, rewrite, set_ref

HLC = 1_800_000_000_000_000_000
"""Nanoseconds: the hour that the tests' clock shows."""


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def said(warehouse: Warehouse) -> dict[str, str]:
    return {"type": "sql", "uri": warehouse.uri, "warehouse": str(warehouse.folder)}


def look(warehouse: Warehouse, **how: Any) -> calve.TableStatus:
    return calve.status("calve.ns.t", catalog=said(warehouse), **how)


def test_a_sink_says_how_far_it_is_and_how_far_behind(warehouse: Warehouse) -> None:
    clock = MovableClock()
    sink = Timed(warehouse, "hlc", clock=clock, positions={"delivered": {"0": "12"}})
    (first, second) = (sink.put((HLC + seconds * 10**9) * 10**10 + 1)[0] for seconds in (0, 5))
    clock.now += 65_000
    found = status_of(find_address("calve.ns.t", None, said(warehouse)), clock=clock)
    (one,) = found.sinks
    assert (one.sink_id, one.condition, one.kind, one.fence) == (
        "ns.t",
        SinkCondition.WELL,
        "upsert (id)",
        "tag",
    )
    assert one.frontier == (HLC + 5 * 10**9) * 10**10 + 1
    assert str(one.frontier_at) == "2027-01-15 08:00:05+00:00"
    assert one.lag_ms == 60_000
    assert one.progress is not None
    assert (one.progress.committed, one.progress.generation) == (second, 1)
    assert one.progress.positions == {"delivered": {"0": "12"}}
    assert one.committed_at == one.held_since
    assert found.snapshot_id == second != first
    told = json.loads(json.dumps(found.to_json()))
    assert told["sinks"][0]["frontier_text"] == f"{HLC + 5 * 10**9}.0000000001"
    assert told["sinks"][0]["frontier"] == str(one.frontier)
    assert told["sinks"][0]["remarks"] == []


def test_files_and_rows_are_those_of_main_and_deletes_by_key_wait_for_conversion(
    warehouse: Warehouse,
) -> None:
    sink = Timed(warehouse)
    for upper in (10, 20, 30):
        sink.put(upper, ids=(1, 2))
    files = look(warehouse).files
    assert (files.rows, files.data, files.equality_deletes, files.position_deletes) == (6, 3, 2, 0)


def test_where_a_summary_does_not_tell_the_kinds_of_deletes_manifests_do(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    for upper in (10, 20, 30):
        sink.put(upper)
    with warehouse.catalog() as catalog:
        table = load(catalog, NAME)
        main = table.metadata.current_snapshot()
        assert main is not None
        assert main.summary is not None
        silent = main.model_copy(update={"summary": Summary(main.summary.operation)})
        others = [one for one in table.metadata.snapshots if one.snapshot_id != main.snapshot_id]
        table.metadata = table.metadata.model_copy(update={"snapshots": [*others, silent]})
        files = table_files(table)
    assert (files.rows, files.data, files.equality_deletes, files.position_deletes) == (None, None, 2, 0)


def test_a_sink_that_was_only_claimed_is_new(warehouse: Warehouse) -> None:
    Timed(warehouse)
    found = look(warehouse)
    (one,) = found.sinks
    assert (one.condition, one.frontier, one.lag_ms, one.remarks) == (SinkCondition.NEW, None, None, ())
    assert (found.snapshot_id, found.files.rows, found.files.data) == (None, 0, 0)


def test_a_table_that_no_sink_has_written_has_none(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:  # opens, and makes no table before its first rows
        assert sink.schema() is None
    with warehouse.catalog() as catalog:
        catalog.create_namespace("ns")
        catalog.create_table(NAME, schema=Stream(warehouse.folder).schema)
    assert look(warehouse).sinks == ()
    with pytest.raises(ConfigError, match=r"ns.t has no sink 'ns.t'"):
        look(warehouse, sink="ns.t")


def test_what_others_did_since_is_counted_and_a_rewrite_that_took_deletes_is_remarked(
    warehouse: Warehouse,
) -> None:
    sink = Timed(warehouse)
    sink.put(10)
    insert(warehouse, 5)
    sink.put(20)
    insert(warehouse, 7, 8)
    rewrite(warehouse)
    (one,) = look(warehouse).sinks
    assert (one.foreign_snapshots, one.foreign_rows) == (2, 2), "since its last commit"
    assert look(warehouse).remarks == ()
    bad = rewrite(warehouse, removed_equality_deletes=3)
    sink.put(30)
    found = look(warehouse)
    assert found.sinks[0].foreign_snapshots == 0
    (remark,) = found.remarks
    assert remark.words == f"another engine rewrote files and removed equality deletes (snapshot {bad})"
    assert "verify the table against its source" in remark.hint


def test_a_table_that_was_rolled_back_says_so_with_what_to_do(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    first, second = (sink.put(upper)[0] for upper in (10, 20))
    set_ref(warehouse, "main", first, "branch")
    (one,) = look(warehouse).sinks
    assert one.condition is SinkCondition.ROLLED_BACK
    assert one.frontier == 20
    (remark,) = one.remarks
    assert (
        remark.words == f"main of ns.t does not descend from snapshot {second}, the last commit of sink ns.t"
    )
    assert f"Set main to a snapshot that descends from {second}" in remark.hint


def test_a_chain_that_nothing_closes_is_unproven(warehouse: Warehouse) -> None:
    """As Iceberg's own expiry leaves it: a child still names the parent that is gone."""
    sink = Timed(warehouse)
    (last,) = sink.put(10)
    middle = insert(warehouse, 7)
    insert(warehouse, 8)
    current = Path(warehouse.load().metadata_location.removeprefix("file://"))
    body = json.loads(current.read_text())
    body["snapshots"] = [one for one in body["snapshots"] if one["snapshot-id"] != middle]
    current.write_text(json.dumps(body))
    for path in current.parent.glob("*.metadata.json"):
        if path != current:
            path.unlink()
    (one,) = look(warehouse).sinks
    assert one.condition is SinkCondition.UNPROVEN
    assert f"descends from snapshot {last} is in no metadata" in one.remarks[0].words


@pytest.mark.parametrize("fence", ["tag", "main"])
def test_a_sink_whose_progress_is_gone_is_lost_and_says_what_a_run_would(
    warehouse: Warehouse, fence: str
) -> None:
    Timed(warehouse, options={"fence": fence}).put(10)
    with warehouse.catalog() as catalog:
        table = catalog.load_table(NAME)
        if fence == "tag":
            table.manage_snapshots().remove_tag(tag_name("ns.t")).commit()
        else:
            update = RemovePropertiesUpdate(removals=[fence_property("ns.t")])
            catalog.commit_table(table, (), (update,))
    (one,) = look(warehouse).sinks
    assert (one.condition, one.progress) == (SinkCondition.LOST, None)
    assert one.remarks[0].words == "ns.t was written by sink ns.t, but its tag calve-ns.t is gone"


def test_with_the_fence_on_main_a_sink_is_well_too(warehouse: Warehouse) -> None:
    sink = Timed(warehouse, options={"fence": "main"})
    sink.put(10)
    insert(warehouse, 9)
    (one,) = look(warehouse).sinks
    assert (one.condition, one.fence, one.frontier, one.foreign_rows) == (SinkCondition.WELL, "main", 10, 1)


def test_of_several_sinks_all_are_shown_or_the_one_that_is_named(warehouse: Warehouse) -> None:
    Timed(warehouse, options={"writer_id": "one"}).put(10)
    Timed(warehouse, "micro-batch", options={"writer_id": "two"}).put(3)
    assert [(one.sink_id, one.frontier) for one in look(warehouse).sinks] == [("one", 10), ("two", 3)]
    assert [one.sink_id for one in look(warehouse, sink="two").sinks] == ["two"]
    calve.drop_sink("calve.ns.t", sink="one", catalog=said(warehouse))
    found = look(warehouse)
    assert [one.sink_id for one in found.sinks] == ["two"]
    assert found.dropped["one"].startswith("upsert (id), ")


def test_after_expiry_of_the_last_commit_its_time_is_not_made_up(warehouse: Warehouse) -> None:
    (last,) = Timed(warehouse).put(10)
    insert(warehouse, 7)
    Timed(warehouse)  # the tag is at a claim now
    expire(warehouse, last)
    (one,) = look(warehouse).sinks
    assert (one.condition, one.frontier, one.committed_at) == (SinkCondition.WELL, 10, None)
    assert one.held_since is not None


def test_rows_that_wait_in_the_quarantine_are_counted(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.send((1, 1, 1, "I"), (1, None, 3, "u"), (2, None, 4, "I"))
    (one,) = calve.status(STREAMED, catalog=stream.said).sinks
    assert one.quarantined == 2
    stream.relax()
    stream.replay(absent="insert")
    (one,) = calve.status(STREAMED, catalog=stream.said).sinks
    assert (one.quarantined, one.sink_id) == (0, "ns.t"), "its sink of replays is no other sink"


def test_a_quarantine_that_was_put_back_is_a_remark_and_does_not_hide_the_rest(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.send((1, 1, 1, "I"), (1, None, 3, "u"))
    with stream.catalog() as catalog:
        catalog.load_table(("ns", "t__quarantine")).update_schema(
            allow_incompatible_changes=True
        ).delete_column("hint").commit()
    (one,) = calve.status(STREAMED, catalog=stream.said).sinks
    assert (one.quarantined, one.frontier) == (None, 1)
    assert one.remarks[0].words.startswith("the quarantine: ")


def test_a_table_or_a_catalog_that_is_not_there_is_said_and_nothing_is_made(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    nowhere = {"type": "sql", "uri": f"sqlite:///{tmp_path}/nowhere/catalog.db", "warehouse": str(tmp_path)}
    for call in (calve.status, calve.history, calve.list_quarantine, calve.drop_sink):
        with pytest.raises(CatalogError, match="there is no catalog at"):
            call("calve.ns.t", catalog=nowhere)
    assert not (tmp_path / "nowhere").exists()
    Timed(warehouse)
    for look in (calve.status, calve.history, lambda name, catalog: calve.as_of(name, 1, catalog=catalog)):
        with pytest.raises(TableMissing, match=r"ns.other is not in the catalog") as error:
            look("calve.ns.other", catalog=said(warehouse))
        assert error.value.hint.startswith("A sink creates its table with the first rows.")


def test_it_changes_nothing_and_needs_neither_spark_nor_pandas(warehouse: Warehouse) -> None:
    """Pandas takes longer to import than all the rest."""
    Timed(warehouse).put(10)
    before = warehouse.files()
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import calve\n"
        f"catalog = {said(warehouse)!r}\n"
        "assert calve.status('calve.ns.t', catalog=catalog).sinks[0].frontier == 10\n"
        "assert len(calve.history('calve.ns.t', catalog=catalog).entries) == 2\n"
        "assert calve.as_of('calve.ns.t', 9, catalog=catalog).found.frontier == 10\n"
        "import calve.cli.app\n"
        "assert 'pandas' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert warehouse.files() == before


# -- history --------------------------------------------------------------------------------------


def test_history_is_cut_at_its_limit_and_says_how_much_is_older(warehouse: Warehouse) -> None:
    sink = Timed(warehouse)
    for upper in (10, 20, 30):
        sink.put(upper)
    found = calve.history("calve.ns.t", limit=2, catalog=said(warehouse))
    assert [one.progress and one.progress.frontier for one in found.entries] == [30, 20]
    assert found.more == 2
    assert calve.history("calve.ns.t", catalog=said(warehouse)).more == 0
    with pytest.raises(ConfigError, match="limit is 0"):
        calve.history("calve.ns.t", limit=0, catalog=said(warehouse))


def test_the_history_of_a_sink_leaves_other_sinks_out_and_keeps_what_nobody_of_ours_did(
    warehouse: Warehouse,
) -> None:
    Timed(warehouse, options={"writer_id": "one"}).put(10)
    Timed(warehouse, options={"writer_id": "two"}).put(10)
    insert(warehouse, 7)
    found = calve.history("calve.ns.t", sink="two", catalog=said(warehouse))
    assert [one.sink_id for one in found.entries] == [None, "two", "two"]
    with pytest.raises(ConfigError, match=r"no snapshot of ns.t is of sink 'three'") as refused:
        calve.history("calve.ns.t", sink="three", catalog=said(warehouse))
    assert refused.value.hint == "There are snapshots of: one, two."


def test_an_address_is_found_once_and_asked_often(warehouse: Warehouse) -> None:
    """A target that names several tables resolves to several addresses."""
    Timed(warehouse, options={"writer_id": "one"}).put(10)
    address = find_address("calve.ns.t", None, said(warehouse))
    assert [one.sink_id for one in status_of(replace(address, sink_id="one")).sinks] == ["one"]
    url = f"iceberg:///ns/t?catalog.uri={warehouse.uri}&warehouse={warehouse.folder}&writer.id=one"
    assert find_address(url).sink_id == "one"
    assert status_of(find_address(url)).table == "calve.ns.t"
