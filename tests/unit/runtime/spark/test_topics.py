"""Topics: what a feed has learnt is found again by the next run."""

from __future__ import annotations

import pytest

from calve.config.columns import SourceColumn, SourceTable
from calve.model.errors import Diverged, Overcompacted
from calve.runtime.spark.topics import (
    Kept,
    carried,
    check_named,
    check_place,
    check_selected,
    check_sink,
    keep_id,
    keep_topic,
    read_topics,
)
from tests.support.checkpoints import MemoryFiles

ORDERS = SourceTable.of("id long primary key, u uuid, at time, l list<uuid>")


def test_the_last_version_of_each_topic_counts():
    files = MemoryFiles()
    wider = SourceTable((*ORDERS.columns, SourceColumn("extra", "long")), ORDERS.key, ("extra",))
    first, later = Kept(0, ORDERS, "sales.orders"), Kept(1, wider, "sales.orders")
    keep_topic(files, "db.public.orders", first)
    keep_topic(files, "customers/../x", first)
    keep_topic(files, "db.public.orders", later)
    assert read_topics(files) == {"db.public.orders": later, "customers/../x": first}


def test_what_would_begin_in_the_middle_is_refused():
    check_sink("orders", Kept(0, ORDERS, "sales.orders"), "sales.orders")
    with pytest.raises(Diverged, match=r"write topic 'orders' to sales\.orders, and now it is other\.orders"):
        check_sink("orders", Kept(0, ORDERS, "sales.orders"), "other.orders")
    files = MemoryFiles()
    check_selected(files, ["orders", "people"])
    check_selected(files, ["people", "orders"])
    check_selected(files, ["orders"])
    with pytest.raises(Diverged, match="and people was passed over"):
        check_selected(files, ["orders", "people"])
    with pytest.raises(Diverged, match="and stock was passed over"):
        check_selected(files, ["orders", "stock"])
    with pytest.raises(Diverged, match="and others was passed over"):
        check_selected(files, None)
    everything = MemoryFiles()
    check_selected(everything, None)
    check_selected(everything, ["orders"])


def test_a_checkpoint_is_of_its_place_once_something_was_read():
    files = MemoryFiles()
    check_place(files, "s3://bucket/one")
    check_place(files, "s3://bucket/two")  # nothing was read yet
    check_place(files, "s3://bucket/two")
    files.write_new("offsets/0", "v1")
    with pytest.raises(Diverged, match="so far this checkpoint was of s3://bucket/two, and now it is s3://b"):
        check_place(files, "s3://bucket/one")
    check_place(files, "s3://bucket/two")


def test_a_topic_that_spark_has_read_must_be_named():
    files = MemoryFiles()
    check_named(files, ["orders"])
    for number, topics in enumerate(('{"orders":{"0":1}}', '{"orders":{"0":1},"people":{"0":2}}')):
        files.write_new(f"offsets/{number}", f'v1\n{{"batchWatermarkMs":0}}\n{topics}\n')
    check_named(files, ["people", "stock", "orders"])
    with pytest.raises(Diverged, match="so far topic 'people' was read by this checkpoint"):
        check_named(files, ["orders"])


def test_a_file_that_was_changed_stops_the_feed():
    files = MemoryFiles()
    keep_topic(files, "orders", Kept(0, ORDERS, "sales.orders"))
    (name,) = files.names("calve/topics")
    files.delete(f"calve/topics/{name}")
    files.write_new(f"calve/topics/{name}", '{"version": 99}')
    with pytest.raises(Diverged, match="cannot be read"):
        read_topics(files)


def test_a_topic_that_is_another_one_or_unknown_stops_the_feed():
    files = MemoryFiles()
    keep_id(files, "orders", "a")
    keep_id(files, "orders", "a")
    with pytest.raises(Overcompacted, match="'orders' was deleted and made anew"):
        keep_id(files, "orders", "b")
    (name,) = files.names("calve/topic-ids")
    files.delete(f"calve/topic-ids/{name}")
    files.write_new(f"calve/topic-ids/{name}", "{")
    with pytest.raises(Diverged, match="cannot be read"):
        keep_id(files, "orders", "a")


def test_only_columns_of_their_own_come_in_carriers():
    assert carried(ORDERS) == (("u", "uuid"), ("at", "time"))
