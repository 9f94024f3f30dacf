"""Labels: what a CockroachDB operator finds in a snapshot's summary."""

from __future__ import annotations

import uuid

import pytest

from calve.config.sink import SinkConfig
from calve.envelope.cockroachdb import CockroachDB
from calve.envelope.debezium import Debezium
from calve.model.batch import Batch
from calve.model.file import FileClosed, FileKind
from calve.runtime.spark.labels import hlc_text, labels_of

SINK = SinkConfig(namespace="sales", table="orders")


def file_of(kind: FileKind) -> FileClosed:
    ids = (1,) if kind is FileKind.EQUALITY_DELETE else ()
    return FileClosed(Batch(0, 9), "w", "file:///f", kind, 3, 0, (), 10, 20, equality_ids=ids)


def test_a_snapshot_names_its_resolved_time_its_job_and_its_files():
    upper = 1698775840453391000 * 10**10 + 1 + 1
    labels = labels_of(CockroachDB(), SINK, "1017")
    files = [file_of(FileKind.DATA), file_of(FileKind.DATA), file_of(FileKind.EQUALITY_DELETE)]
    told = labels(Batch(0, upper), files)
    assert told["crdb.resolved_hlc"] == "1698775840453391000.0000000001"
    assert told["crdb.job_id"] == "1017"
    assert (told["crdb.data_file_count"], told["crdb.delete_file_count"]) == ("2", "1")
    assert uuid.UUID(told["crdb.batch_id"]).version == 5


def test_a_batch_id_follows_from_job_table_and_resolved_time_alone():
    labels = labels_of(CockroachDB(), SINK, "1017")
    assert labels(Batch(0, 10**20), [])["crdb.batch_id"] == labels(Batch(7, 10**20), [])["crdb.batch_id"]
    others = [
        labels(Batch(0, 10**20 + 1), []),
        labels_of(CockroachDB(), SINK, "1018")(Batch(0, 10**20), []),
        labels_of(CockroachDB(), SinkConfig(namespace="sales", table="o2"), "1017")(Batch(0, 10**20), []),
    ]
    assert (
        len({one["crdb.batch_id"] for one in others} | {labels(Batch(0, 10**20), [])["crdb.batch_id"]}) == 4
    )


def test_a_job_that_is_not_named_is_the_sink():
    assert labels_of(CockroachDB(), SINK, None)(Batch(0, 5), [])["crdb.job_id"] == "sales.orders"


def test_other_sources_say_nothing_more():
    assert labels_of(Debezium(), SINK, None)(Batch(0, 5), []) == {}


@pytest.mark.parametrize(
    "time, text",
    [
        (12 * 10**10, "12.0000000000"),
        (12 * 10**10 + 2**31 - 1, "12.2147483647"),
        (13 * 10**10 - 1, "12.2147483647"),  # a bound between two: CockroachDB's logical part ends there
    ],
)
def test_a_bound_is_printed_as_cockroachdb_reads_it(time: int, text: str):
    assert hlc_text(time) == text
