"""Rows as they come: nulls are found wherever they hide."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from calve import BadRow
from calve.writer.changes import Arrival
from calve.writer.ops import DELETE, UPSERT
from tests.support.sinks import Warehouse, commit
from tests.support.truth import ordered, rows_of


def hidden(*values: str | None) -> pa.DictionaryArray:
    """A column whose nulls stand in the dictionary's values."""
    known = list(dict.fromkeys(values))
    return pa.DictionaryArray.from_arrays(pa.array([known.index(value) for value in values]), pa.array(known))


def test_nulls_in_a_dictionary_are_nulls_of_the_column() -> None:
    rows = pa.table({"a": hidden("x", None), "b": hidden("x", "y"), "c": pa.array([None, 1])})
    assert rows["a"].null_count == 0, "where Arrow does not count them"
    assert Arrival(rows, None, 0).nulls_in() == {"a", "c"}
    codes = pa.chunked_array([pa.array([UPSERT, DELETE], pa.int8())])
    assert Arrival(rows, codes, 0).nulls_in() == {"c"}, "a deleted row may have them"


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_nulls_in_a_dictionary_make_a_required_column_optional_where_the_schema_may_change(
    tmp_path: Path, mode: str
) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    required = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string(), nullable=False)])
    key = {} if mode == "append" else {"equality_delete_columns": "id"}
    with warehouse.sink(write_mode=mode, schema_evolution=True, **key) as sink:
        commit(sink, 0, pa.table({"id": [1], "v": ["a"]}, schema=required))
        commit(sink, 1, pa.table({"id": [2, 3], "v": hidden("b", None)}))
    table = warehouse.load()
    assert not table.schema().find_field("v").required
    rows: list[dict[str, object]] = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": None}]
    assert rows_of(table) == ordered(rows)


def test_a_sequence_that_is_null_in_a_dictionary_is_refused_with_its_row(tmp_path: Path) -> None:
    with Warehouse(tmp_path / "warehouse").upsert(sequence_by="s") as sink:
        sink.begin_epoch(0)
        with pytest.raises(BadRow, match="column 's', row 1: the sequence is null"):
            sink.write_batch(pa.table({"id": [1, 2], "s": hidden("1", None)}))
