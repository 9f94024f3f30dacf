"""Topics: what a feed has learnt is found again by the next run."""

from __future__ import annotations

import pytest

from calve.config.columns import SourceColumn, SourceTable
from calve.model.errors import Diverged
from calve.runtime.spark.topics import carried, keep_topic, read_topics
from tests.support.checkpoints import MemoryFiles

ORDERS = SourceTable.of("id long primary key, u uuid, at time, l list<uuid>")


def test_the_last_version_of_each_topic_counts():
    files = MemoryFiles()
    wider = SourceTable((*ORDERS.columns, SourceColumn("extra", "long")), ORDERS.key, ("extra",))
    keep_topic(files, "db.public.orders", 0, ORDERS)
    keep_topic(files, "customers/../x", 0, ORDERS)
    keep_topic(files, "db.public.orders", 1, wider)
    assert read_topics(files) == {"db.public.orders": (1, wider), "customers/../x": (0, ORDERS)}


def test_a_file_that_was_changed_stops_the_feed():
    files = MemoryFiles()
    keep_topic(files, "orders", 0, ORDERS)
    (name,) = files.names("calve/topics")
    files.delete(f"calve/topics/{name}")
    files.write_new(f"calve/topics/{name}", '{"version": 99}')
    with pytest.raises(Diverged, match="cannot be read"):
        read_topics(files)


def test_only_columns_of_their_own_come_in_carriers():
    assert carried(ORDERS) == (("u", "uuid"), ("at", "time"))
