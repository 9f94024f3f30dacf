"""Summaries: Iceberg's counts and words, and totals that follow from the parent's."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from calve.model.batch import Batch
from calve.model.file import FileClosed, FileKind
from calve.table.summary import operation_of, summarize
from tests.support.sinks import NAME, Warehouse, changes, commit
from tests.support.truth import entries_of, rows_of, snapshots_of_main, summary_of


def file(kind: FileKind, rows: int, partition: tuple[int, ...] = ()) -> FileClosed:
    ids = (1,) if kind is FileKind.EQUALITY_DELETE else ()
    return FileClosed(
        Batch(0, 1), "w", f"{kind}{rows}{partition}", kind, 0, 0, partition, rows, 100, equality_ids=ids
    )


DATA = file(FileKind.DATA, 5, (1,))
DELETE = file(FileKind.EQUALITY_DELETE, 2, (1,))


@pytest.mark.parametrize(
    "files, word",
    [((), "append"), ((DATA,), "append"), ((DATA, DELETE), "overwrite"), ((DELETE,), "delete")],
)
def test_the_operation_is_icebergs_word(files: tuple[FileClosed, ...], word: str) -> None:
    assert operation_of(files).value == word


def test_counts_and_totals_add_up() -> None:
    first = summarize((DATA, file(FileKind.DATA, 3, (2,))), None, {"calve.x": "y"})
    assert first["added-data-files"] == "2"
    assert first["added-records"] == "8"
    assert first["changed-partition-count"] == "2"
    assert first["total-records"] == "8"
    assert first["calve.x"] == "y"
    assert "added-delete-files" not in first.additional_properties
    second = summarize((DATA, DELETE), first.additional_properties, {})
    assert second["total-records"] == "13"
    assert second["total-delete-files"] == "1"
    assert second["total-equality-deletes"] == "2"
    assert second["added-equality-delete-files"] == "1"
    assert second["total-files-size"] == "400"
    assert "calve.x" not in second.additional_properties


def test_a_total_that_the_parent_does_not_say_is_not_made_up() -> None:
    assert "total-records" not in summarize((DATA,), {"total-data-files": "3"}, {}).additional_properties


def test_totals_of_a_real_table_are_those_of_its_entries(tmp_path: Path) -> None:
    """Also after somebody else's commit and a restart."""
    warehouse = Warehouse(tmp_path / "warehouse")
    for epoch in range(3):
        with warehouse.upsert() as sink:
            commit(sink, epoch, changes((1, "a", "u"), (epoch, "b", "u"), (7, "c", "D")))
        with warehouse.catalog() as catalog:
            table = catalog.load_table(NAME)
            table.append(pa.table({"id": [50 + epoch], "v": ["f"]}).cast(table.schema().as_arrow()))
    table = warehouse.load()
    for snapshot in snapshots_of_main(table):
        entries, summary = entries_of(snapshot), summary_of(snapshot)
        data = [entry.data_file for entry in entries if not entry.data_file.equality_ids]
        deletes = [entry.data_file for entry in entries if entry.data_file.equality_ids]
        assert int(summary["total-data-files"]) == len(data)
        assert int(summary["total-records"]) == sum(found.record_count for found in data)
        assert int(summary["total-delete-files"]) == len(deletes)
        assert int(summary["total-equality-deletes"]) == sum(found.record_count for found in deletes)
        assert int(summary["total-files-size"]) == sum(found.file_size_in_bytes for found in data + deletes)
    assert len(rows_of(table)) == 6
