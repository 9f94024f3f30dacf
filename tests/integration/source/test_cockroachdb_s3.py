"""A changefeed in a bucket, read by the data source as Spark calls it, without a Spark."""

from __future__ import annotations

import json
import pickle

import pytest

from calve.source.cockroachdb.datasource import CockroachDB
from calve.store import Access, store_for
from tests.support.backends import unique
from tests.support.changefeed.feed import Changefeed, Nemesis
from tests.support.changefeed.history import History, Table, columns_json
from tests.support.servers.seaweedfs import BUCKET

pytestmark = pytest.mark.servers

ORDERS = Table("my-orders", (("id", "long"), ("note", "string")), ("id",), ("note",))


def test_a_feed_in_a_bucket_is_read_once_and_whole_over_restarts(seaweedfs):
    url = f"s3://{BUCKET}/{unique('feed')}/of/orders"
    access = Access.of(seaweedfs.storage())
    feed = Changefeed(
        History.of(5, ORDERS), seed=5, layout="hourly", kind=".ndjson.gz", nemesis=Nemesis(30, 30, 0)
    )
    source = type("Source", (CockroachDB,), {"access": access})
    options = {"url": url, "tables": json.dumps(columns_json(feed.history.tables)), "files_max": "5"}
    offset = source(options).streamReader(None).initialOffset()
    written, read, marks = set(), [], []
    for _ in range(4):
        for write in feed.run(2):
            with store_for(url, access).create(f"{url}/{write.path}") as stream:
                stream.write(write.content)
            written.add(write.path)
        reader = source(options).streamReader(None)  # a new process: it knows what Spark tells it
        assert reader.partitions(offset, offset) == []
        while (end := json.loads(json.dumps(reader.latestOffset()))) != offset:
            for task in pickle.loads(pickle.dumps(reader.partitions(offset, end))):
                read += task.paths
                for batch in reader.read(task):
                    rows = batch.to_pylist()
                    assert {row["error"] for row in rows} == {None}
                    marks += [int(row["mark"]) - 1 for row in rows if row["mark"] is not None]
            offset = end
    assert sorted(read) == sorted(path for path in written if path <= offset["last"])
    assert marks == feed.resolved
