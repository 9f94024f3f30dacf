"""A stream into a table of a catalog that loses tags, with the fence on main."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import calve
from calve import CatalogWithoutTags
from tests.support.flow import Flow
from tests.support.lake import NAMESPACE, Lake
from tests.support.readers import DuckReader
from tests.support.tagless import tagless

pytestmark = [pytest.mark.spark]

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("lsn", pa.int64()), ("_op", pa.string())])
UPSERT = {"mode": "upsert", "key": ("id",), "sequence_by": ("lsn",), "op_column": "_op"}


class TaglessFlow(Flow):
    """A flow whose queries meet a catalog that keeps no tags."""

    @contextmanager
    def catalog(self) -> Iterator[SqlCatalog]:
        with super().catalog() as catalog:
            yield cast(SqlCatalog, tagless(catalog))


@pytest.fixture
def flow(spark: Any, lake: Lake, table_name: str, tmp_path: Path) -> Flow:
    return TaglessFlow(spark, lake, table_name[-60:], tmp_path, SCHEMA, {**UPSERT, "fence": "main"})


def change(id_: int | None, v: str, lsn: int) -> dict[str, Any]:
    return {"id": id_, "v": v, "lsn": lsn, "_op": "u"}


def test_a_stream_goes_on_from_run_to_run_without_a_tag(flow: Flow, duckdb: DuckReader) -> None:
    """Case 64, and case 5: the micro-batch that landed and comes again changes nothing."""
    flow.put(change(1, "a", 1), change(2, "b", 2))
    flow.put(change(1, "A", 3))
    flow.run()
    before = flow.shown()
    flow.forget_commit(1)
    (told,) = flow.run()
    assert (told.micro_batch, told.batches_committed) == (1, 0)
    assert flow.shown() == before
    flow.put(change(3, "c", 4))
    flow.run()
    assert flow.check(duckdb) == [(0, 1), (1, 2), (2, 3)]
    assert set(flow.load().metadata.refs) == {"main"}
    assert flow.generation() == 3


def test_a_stream_that_is_not_told_is_refused_and_told_how(flow: Flow) -> None:
    flow.put(change(1, "a", 1))
    with pytest.raises(CatalogWithoutTags) as refused:
        flow.run(sink={"fence": "tag"})
    assert "fence = 'main'" in refused.value.hint
    flow.run()
    assert [one.bounds for one in flow.shown()] == [(0, 1)]


def test_p8_its_quarantine_and_a_replay_have_the_same_fence(flow: Flow) -> None:
    flow.put(change(1, "a", 1), change(None, "bad", 2))
    flow.run(on_bad_row="quarantine")
    name = f"{flow.lake.name}.{NAMESPACE}.{flow.table}"
    catalog = {"uri": f"sqlite:///{flow.lake.catalog_file}", "warehouse": flow.lake.warehouse}
    (waits,) = calve.list_quarantine(name, catalog=catalog)
    assert "null" in waits.reason

    def mend(rows: pa.Table) -> pa.Table:
        return rows.set_column(0, rows.schema.field(0), pa.array([9] * len(rows), pa.int64()))

    replayed = calve.replay_quarantine(name, fix=mend, absent="insert", catalog=catalog)
    assert replayed.applied == 1
    assert calve.list_quarantine(name, catalog=catalog) == ()
    flow.put(change(1, "A", 3))
    flow.run(on_bad_row="quarantine")
    for table in (flow.table, f"{flow.table}__quarantine"):
        assert set(flow.lake.load(table).metadata.refs) == {"main"}
