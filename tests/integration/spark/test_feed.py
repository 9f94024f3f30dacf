"""Feeds: several tables of one stream, in step; tables and columns that come later; what stops, stops all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import calve
from calve import CatalogError, ConfigError
from calve.runtime.coordinator import Coordinator
from calve.runtime.spark.frame import Clockwork
from calve.runtime.spark.pipeline import Part, Pipeline
from tests.support.dialects.cockroachdb import Cockroach, upper
from tests.support.feeds import Change, FeedFlow, Mark, Raw
from tests.support.lake import Lake
from tests.support.readers import know_lake
from tests.support.truth import snapshots_of_main

pytestmark = pytest.mark.spark

ORDERS = "id long primary key, name string not null, amount decimal(10,2)"
CUSTOMERS = "id long primary key, name string"
BOTH = {"orders": ORDERS, "customers": CUSTOMERS}


def order(time: int, id: int, name: str, **more: Any) -> Change:
    row = {"id": id, "name": name, "amount": Decimal("1.00"), **more}
    return Change(time, {"id": id}, row)


def customer(time: int, id: int, name: str) -> Change:
    return Change(time, {"id": id}, {"id": id, "name": name}, topic="customers")


def resolved(time: int, *topics: str) -> tuple[Mark, ...]:
    return tuple(Mark(time, topic=topic) for topic in topics or ("orders", "customers"))


def frontiers(it: FeedFlow, topic: str) -> list[int]:
    from tests.support.truth import summary_of

    return [int(summary_of(one)["calve.frontier"]) for one in snapshots_of_main(it.table(topic))]


@pytest.fixture
def flow(spark, lake, tmp_path: Path, table_name: str) -> Callable[..., FeedFlow]:
    def make(**settings: Any) -> FeedFlow:
        tables = settings.pop("tables", BOTH)
        return FeedFlow(spark, lake, tmp_path, Cockroach(), tables, table_name[-40:].strip("_"), **settings)

    return make


def test_all_tables_go_on_to_the_same_time_and_a_topic_that_is_behind_holds_them(
    flow, duckdb, caplog
) -> None:
    it = flow()
    it.put(order(10, 1, "a"), customer(11, 7, "c"), *resolved(20))
    it.put(order(21, 2, "b"), customer(22, 8, "d"), *resolved(30, "orders"))
    it.put(*resolved(25, "customers"))
    it.put(*resolved(18, "orders"))
    it.run()
    assert frontiers(it, "orders") == frontiers(it, "customers") == [upper(19), upper(24)]
    assert {(one.micro_batch, one.held_by) for one in it.log.seen} == {
        (0, ""),
        *((number, "customers/0") for number in (1, 2, 3)),
    }
    assert caplog.text.count("says that the source is complete up to") == 1, "it is told, and changes nothing"
    assert "partition orders/0" in caplog.text
    for topic in BOTH:
        for summary in it.check(duckdb, topic):
            assert summary["crdb.job_id"] == f"ns.{it.name(topic)}"
            assert summary["crdb.resolved_hlc"].endswith(".0000000000")


@pytest.mark.nightly  # by day it is shown of a topic that is behind
def test_a_topic_that_has_not_spoken_yet_holds_the_others(flow, duckdb) -> None:
    it = flow(topics=("orders", "customers"))
    it.put(order(10, 1, "a"), *resolved(20, "orders"))
    it.run()
    assert frontiers(it, "orders") == []
    assert "held by customers/0" in str(it.log.seen[-1])
    it.put(customer(11, 7, "c"), *resolved(15, "customers"))
    it.run()
    assert frontiers(it, "orders") == frontiers(it, "customers") == [upper(14)]
    it.check(duckdb, "customers")


@pytest.mark.nightly  # of speed, not of rows
def test_tables_that_get_nothing_of_their_own_are_looked_at_once_together(flow, duckdb, monkeypatch) -> None:
    """A feed has many tables, and few change: the others cost no job of Spark's."""
    asked: list[list[str]] = []
    survey = Clockwork.survey

    def counted(self: Clockwork, frame: Any) -> Any:
        asked.append(frame.columns)
        return survey(self, frame)

    topics = ("orders", "customers", "t1")
    it = flow(tables=dict.fromkeys(topics, ORDERS), topics=topics)
    it.put(*(replace(order(10, 1, "a"), topic=topic) for topic in topics), *resolved(20, *topics))
    it.put(order(21, 2, "b"), order(35, 3, "waits"))
    it.put(*resolved(30, *topics))
    it.put(replace(order(36, 4, "c"), topic="t1"), *resolved(40, "t1"))
    it.run()
    monkeypatch.setattr(Clockwork, "survey", counted)
    it.put(order(37, 5, "d"), *resolved(40, "orders"))
    it.run()
    assert len(asked) == 2, "its own, and one for the two others"
    monkeypatch.undo()
    it.put(*resolved(40, *topics))
    it.run()
    for topic in topics:
        assert frontiers(it, topic)[-1] <= upper(39)
        it.check(duckdb, topic)
    assert frontiers(it, "orders") == [upper(19), upper(29), upper(39)]
    assert frontiers(it, "t1") == [upper(19), upper(39)]


def test_a_table_that_cannot_take_its_rows_stops_all_before_any_has_them(flow, duckdb) -> None:
    it = flow()
    it.put(order(10, 1, "a"), Raw("half a li", topic="customers"), *resolved(20))
    said = it.refused()
    assert f"ns.{it.name('customers')}" in said
    assert "no JSON" in said
    for topic in BOTH:
        assert not snapshots_of_main(it.table(topic))
    assert len(it.log.errors) == 2, "every table says that it stands still, and why"
    it.write = lambda writer: writer.on_bad_row("quarantine")
    it.run()
    assert frontiers(it, "orders") == [upper(19)]
    assert len(it.quarantined("customers")) == 1


def test_two_changes_of_a_key_at_one_time_say_what_the_user_of_a_feed_can_do(flow) -> None:
    it = flow(tables={"orders": ORDERS})
    it.put(order(10, 1, "a"), order(10, 1, "b"), *resolved(20, "orders"))
    said = it.refused()
    assert "two different changes of key id = 1" in said
    assert "name = a or b" in said
    assert "sequence" not in said
    assert "Is the key of the table the source's own?" in said


@pytest.mark.nightly  # by day a run ends before the commit of the second
def test_a_run_that_ends_between_two_tables_is_repaired_by_the_next(flow, duckdb, monkeypatch) -> None:
    it = flow()
    it.put(order(10, 1, "a"), customer(11, 7, "c"), *resolved(20))
    commit, seen = Coordinator.commit, []

    def dies(self: Coordinator, batches: Any) -> Any:
        seen.append(self.identity.table_name)
        if len(seen) == 2:
            raise CatalogError("the catalog is gone", hint="Wait.")
        return commit(self, batches)

    monkeypatch.setattr(Coordinator, "commit", dies)
    assert "the catalog is gone" in it.refused()
    ahead, behind = ("customers", "orders") if "customers" in seen[0] else ("orders", "customers")
    assert frontiers(it, ahead) == [upper(19)]
    assert frontiers(it, behind) == []
    monkeypatch.undo()
    it.put(order(21, 2, "b"), *resolved(30))
    it.run()
    for topic in BOTH:
        it.check(duckdb, topic)
    assert frontiers(it, behind)[0] == upper(19), "from its manifest, as it was written"
    assert frontiers(it, ahead)[0] == upper(19), "and not a second time"


def test_a_run_that_ends_when_one_table_is_written_leaves_no_time_that_one_table_shows_alone(
    flow, duckdb, monkeypatch
) -> None:
    """The next run catches up by one batch, but not where another table has several already."""
    it = flow()
    it.put(order(10, 1, "a"), customer(11, 7, "c"), *resolved(20))
    it.put(order(21, 2, "b"), customer(22, 8, "d"), *resolved(30), order(31, 3, "e"), *resolved(40))
    write, last = Pipeline.write, f"ns.{it.name('orders')}"

    def refusing(self: Pipeline, part: Part, heard: Any) -> None:
        if part.number == 1 and self.table == last:
            raise CatalogError("the machine is gone", hint="Start again.")
        write(self, part, heard)

    monkeypatch.setattr(Pipeline, "write", refusing)
    assert "the machine is gone" in it.refused()
    monkeypatch.undo()
    it.run()
    it.put(order(41, 4, "f"), *resolved(50), customer(51, 9, "g"), *resolved(60))
    it.run()
    assert frontiers(it, "orders") == [upper(19), upper(29), upper(39), upper(59)]
    assert frontiers(it, "customers") == [upper(19), upper(29), upper(59)]
    for topic in BOTH:
        it.check(duckdb, topic)


def test_a_topic_that_comes_later_gets_a_table_if_that_is_allowed(flow, duckdb, caplog) -> None:
    it = flow(tables={"orders": ORDERS})
    it.read = {"key": {"customers": ("id",)}}
    it.put(order(10, 1, "a"), *resolved(20, "orders"))
    it.run()
    it.put(customer(22, 8, "d"), order(24, 2, "b"), *resolved(30))
    to_tables = it.to_tables
    it.to_tables = {"new_tables": False}
    assert "'customers' that it did not have before" in it.refused()
    it.to_tables = to_tables
    it.run()
    assert "their types are guessed from values: id long, name string" in caplog.text
    assert frontiers(it, "customers") == [upper(29)]
    assert frontiers(it, "orders") == [upper(19), upper(29)]
    for topic in BOTH:
        it.check(duckdb, topic)


def test_columns_that_come_in_the_middle_of_an_epoch_evolve_the_table_with_the_rows_that_have_them(
    flow, duckdb
) -> None:
    it = flow(tables={"orders": ORDERS})
    it.put(order(10, 1, "a"), order(21, 5, "waits"), *resolved(20, "orders"))
    it.run()
    it.put(order(22, 2, "b", note="new"), order(23, 3, "c", note=None), *resolved(30, "orders"))
    said = it.refused()
    assert "note string" in said
    assert ".schema_evolution()" in said
    assert frontiers(it, "orders") == [upper(19)], "before anything was changed"
    it.write = lambda writer: writer.schema_evolution()
    it.run()
    it.put(order(31, 4, "d", note="and on"), *resolved(40, "orders"))
    it.run()
    assert it.table("orders").schema().column_names == ["id", "name", "amount", "note"]
    assert len(it.check(duckdb, "orders")) == 3


def test_tables_of_two_catalogs_are_refused_before_a_query_starts(flow, spark, tmp_path: Path) -> None:
    know_lake(spark, Lake(tmp_path, "elsewhere"))
    it = flow()
    writer = calve.write_stream(it.feed()).option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(ConfigError, match="another catalog"):
        writer.to_tables("lake.ns.{table}", names={"customers": "elsewhere.ns.customers"})
    assert not (tmp_path / "checkpoint").exists()


def test_columns_that_were_not_declared_are_left_out_where_the_user_says_so(flow, duckdb) -> None:
    it = flow(tables={"orders": "id long primary key, name string"}, read={"other_columns": "ignore"})
    it.put(order(10, 1, "a"), *resolved(20, "orders"))
    it.run()
    assert it.table("orders").schema().column_names == ["id", "name"]
    it.check(duckdb, "orders")
