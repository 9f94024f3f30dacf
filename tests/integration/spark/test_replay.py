"""Rows that a stream on Spark sent to quarantine, replayed without Spark, and read by Spark and DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import calve
from tests.support.flow import Flow
from tests.support.lake import NAMESPACE, Lake
from tests.support.readers import Reader, read_snapshot
from tests.support.spark import has_iceberg

pytestmark = [pytest.mark.spark]

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("lsn", pa.int64()), ("_op", pa.string())])
STORED = SCHEMA.remove(3)
UPSERT = {"mode": "upsert", "key": ("id",), "sequence_by": ("lsn",), "op_column": "_op"}
APPEND = {"mode": "append"}
MAXIMUM = {"time_column": "lsn", "frontier": "maximum", "frontier_delay": 2}

MakeFlow = Callable[..., Flow]


@pytest.fixture
def flow(spark: Any, lake: Lake, table_name: str, tmp_path: Path) -> MakeFlow:
    """A stream into a table that requires `v`."""

    def make(sink: dict[str, Any], schema: pa.Schema, **stream: Any) -> Flow:
        one = Flow(
            spark,
            lake,
            table_name[-60:],
            tmp_path,
            schema,
            dict(sink),
            {**stream, "on_bad_row": "quarantine"},
        )
        keyed = "key" in sink
        columns = Schema(
            NestedField(1, "id", LongType(), required=keyed),
            NestedField(2, "v", StringType(), required=True),
            NestedField(3, "lsn", LongType(), required=False),
            identifier_field_ids=[1] if keyed else [],
        )
        with one.catalog() as catalog:
            catalog.create_namespace_if_not_exists(NAMESPACE)
            catalog.create_table((NAMESPACE, one.table), columns, properties={"format-version": "2"})
        return one

    return make


def relax(one: Flow) -> None:
    """Mend the table: `v` becomes optional."""
    with one.catalog() as catalog, catalog.load_table((NAMESPACE, one.table)).update_schema() as change:
        change.update_column("v", required=False)


def said(one: Flow) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{one.lake.catalog_file}", "warehouse": one.lake.warehouse}


def name(one: Flow) -> str:
    return f"{one.lake.name}.{NAMESPACE}.{one.table}"


def seen(one: Flow, reader: Reader) -> list[Any]:
    head = one.lake.head(one.table).snapshot_id
    return read_snapshot(reader, one.lake.at(one.table), head, like=STORED)


def change(id_: int | None, v: str | None, lsn: int | None, op: str = "u") -> dict[str, Any]:
    return {"id": id_, "v": v, "lsn": lsn, "_op": op}


@pytest.mark.parametrize(
    "stream",
    [pytest.param({}, id="numbered", marks=pytest.mark.nightly), pytest.param(MAXIMUM, id="timed")],
)
def test_p8_rows_of_a_stream_are_replayed_once_when_the_table_was_mended(
    flow: MakeFlow, stream: dict[str, Any], readers: list[Reader]
) -> None:
    one = flow(UPSERT, SCHEMA, **stream)
    one.put(change(1, "a", 1), change(2, "b", 2), change(1, None, 3), change(None, "lost", 4))
    one.put(change(2, None, 5), change(3, None, 6), change(2, "newer", 7), change(9, "x", 9))
    one.put(change(4, "tie", 11), change(4, "other", 11), change(4, "before", 10), change(9, "y", 20))
    told = one.run()
    assert sum(progress.rows_quarantined for progress in told) == 6
    assert calve.replay_quarantine(name(one), catalog=said(one)).replay is None
    relax(one)
    done = calve.replay_quarantine(name(one), catalog=said(one))
    assert (done.applied, done.superseded) == (1, 1)
    waits = calve.list_quarantine(name(one), catalog=said(one))
    reasons = sorted((row.row["id"], row.reason) for row in waits if row.row["id"] is not None)
    assert [id_ for id_, _ in reasons] == [3, 4, 4]
    assert reasons[0][1].startswith("its key is not in the table")
    assert all("says something else of the same key" in reason for _, reason in reasons[1:])
    assert [row.row["v"] for row in waits if row.row["id"] is None] == ["lost"]
    # The stream goes on after a replay, and a second replay has nothing new.
    one.put(change(1, "last", 30), change(9, "z", 40))
    one.run()
    assert calve.replay_quarantine(name(one), catalog=said(one)).replay is None
    nine, first = ("z", 40), (1, "last", 30)
    if stream:  # what is not closed yet waits
        nine = ("y", 20)
    rows = sorted([first, (2, "newer", 7), (4, "before", 10), (9, *nine)], key=repr)
    for reader in readers:
        assert seen(one, reader) == rows, reader.name


def test_p8_rows_of_an_append_are_neither_lost_nor_doubled(flow: MakeFlow, readers: list[Reader]) -> None:
    one = flow(APPEND, STORED)
    one.put({"id": 1, "v": "a", "lsn": 1}, {"id": 2, "v": None, "lsn": 2})
    one.put({"id": 3, "v": None, "lsn": 3})
    one.run()
    relax(one)
    assert calve.replay_quarantine(name(one), catalog=said(one)).applied == 2
    one.put({"id": 4, "v": None, "lsn": 4})
    one.run()
    assert calve.replay_quarantine(name(one), catalog=said(one)).replay is None
    assert calve.list_quarantine(name(one), catalog=said(one)) == ()
    for reader in readers:
        assert seen(one, reader) == [(1, "a", 1), (2, None, 2), (3, None, 3), (4, None, 4)], reader.name


@pytest.mark.skipif(not has_iceberg(), reason="Iceberg has no runtime for this Spark")
def test_p1_what_other_engines_deleted_and_rewrote_is_seen(
    flow: MakeFlow, spark: Any, readers: list[Reader]
) -> None:
    """Position deletes and compacted files, as Spark leaves them."""
    one = flow(UPSERT, SCHEMA)
    one.put(*(change(number, "a", number) for number in range(1, 5)))
    one.put(change(2, "b", 10), *(change(number, None, 10 + number) for number in (1, 2, 3)))
    one.run()
    table = name(one)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    relax(one)
    assert calve.replay_quarantine(table, catalog=said(one)).applied == 2
    for reader in readers:
        assert seen(one, reader) == [(2, None, 12), (3, None, 13), (4, "a", 4)], reader.name
    arguments = f"'{NAMESPACE}.{one.table}', options => map('rewrite-all', 'true')"
    spark.sql(f"CALL {one.lake.name}.system.rewrite_data_files({arguments})")
    (waits,) = calve.list_quarantine(table, catalog=said(one))
    assert waits.reason.startswith("its key is not in the table")
    assert calve.replay_quarantine(table, catalog=said(one)).replay is None
    assert calve.replay_quarantine(table, catalog=said(one), absent="insert").applied == 1
    for reader in readers:
        assert seen(one, reader) == [(1, None, 11), (2, None, 12), (3, None, 13), (4, "a", 4)], reader.name


@pytest.mark.parametrize(
    "stream",
    [pytest.param({}, id="numbered"), pytest.param(MAXIMUM, id="timed", marks=pytest.mark.nightly)],
)
def test_p1_a_batch_of_nothing_but_bad_rows_moves_the_frontier_so_that_they_can_be_replayed(
    flow: MakeFlow, stream: dict[str, Any], duckdb: Reader
) -> None:
    """Else a replay could not tell whether older changes of the batch are still on their way."""
    one = flow(UPSERT, SCHEMA, **stream)
    one.put(change(1, "a", 1), change(2, "b", 10))
    one.put(change(1, None, 20))
    one.put(change(2, None, 30))
    one.run()
    relax(one)
    done = calve.replay_quarantine(name(one), catalog=said(one))
    # By its own time, the last change still waits beside the checkpoint.
    assert (done.applied, len(done.left)) == ((1, 0) if stream else (2, 0))
    assert seen(one, duckdb)[0] == (1, None, 20)
