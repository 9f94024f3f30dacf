"""Rows that somebody else writes are counted from the claim on, or halt the sink (case 41)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from calve import ForeignRows, IcebergSink
from calve.table.catalogs import open_catalog


def open_sink(folder: Path, foreign_rows: str) -> IcebergSink:
    options = {
        "warehouse": str(folder),
        "namespace": "ns",
        "table.name": "t",
        "writer.id": foreign_rows,
        "foreign.rows": foreign_rows,
    }
    return IcebergSink.from_options(options).open()


def insert(sink: IcebergSink, rows: int) -> None:
    """A user's INSERT, by PyIceberg."""
    table = open_catalog(sink.config.catalog).load_table("ns.t")
    table.append(pa.table({"id": pa.array(range(rows), pa.int64())}))


def write(sink: IcebergSink, epoch: int) -> None:
    sink.begin_epoch(epoch)
    sink.write_batch(pa.table({"id": [epoch]}))
    sink.commit_epoch(epoch)


@pytest.fixture
def table_with_rows(tmp_path: Path) -> Path:
    with open_sink(tmp_path, "count") as sink:
        write(sink, 0)
    return tmp_path


def test_case_41_rows_that_come_between_the_claim_and_the_first_commit_are_counted(
    table_with_rows: Path,
) -> None:
    options = {"warehouse": str(table_with_rows), "namespace": "ns", "table.name": "t", "writer.id": "second"}
    with IcebergSink.from_options(options) as sink:
        insert(sink, 3)
        write(sink, 0)
        assert sink.metrics().foreign_rows == 3
        insert(sink, 2)
        write(sink, 1)
        assert sink.metrics().foreign_rows == 5


def test_case_41_such_rows_halt_a_sink_that_was_told_to(table_with_rows: Path) -> None:
    with open_sink(table_with_rows, "halt") as sink:
        insert(sink, 3)
        with pytest.raises(ForeignRows, match="3 rows"):
            write(sink, 0)


def test_rows_that_were_there_before_the_claim_are_nobodys_fault(table_with_rows: Path) -> None:
    with open_sink(table_with_rows, "halt") as sink:
        write(sink, 0)
        assert sink.metrics().foreign_rows == 0
