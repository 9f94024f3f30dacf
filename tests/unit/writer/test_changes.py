"""Rows as they come: nulls are found wherever they hide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve import BadRow
from calve.writer.changes import Arrival, Reading, arrive, changes
from calve.writer.ops import DELETE, OP_COLUMN, UPSERT
from tests.support.sinks import Warehouse, commit
from tests.support.truth import entries_of, ordered, rows_of, snapshots_of_main


def hidden(*values: str | None) -> pa.DictionaryArray:
    """A column whose nulls stand in the dictionary's values."""
    known = list(dict.fromkeys(values))
    return pa.DictionaryArray.from_arrays(pa.array([known.index(value) for value in values]), pa.array(known))


def test_nulls_in_a_dictionary_are_nulls_of_the_column() -> None:
    rows = pa.table({"a": hidden("x", None), "b": hidden("x", "y"), "c": pa.array([None, 1])})
    assert rows["a"].null_count == 0, "where Arrow does not count them"
    required = pa.schema([pa.field(name, rows[name].type, False) for name in rows.column_names])
    assert Arrival(rows, None, 0).nulls_in(required) == {"a", "c"}
    codes = pa.chunked_array([pa.array([UPSERT, DELETE], pa.int8())])
    assert Arrival(rows, codes, 0).nulls_in(required) == {"c"}, "a deleted row may have them"


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


X, Y = pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.string())
NESTED: dict[str, tuple[pa.DataType, pa.DataType, list[Any], list[Any], str]] = {
    # as the table has it, as it arrives, rows without and with a null where none may be, and its place
    "struct": (
        pa.struct([X, Y]),
        pa.struct([("x", pa.int32())]),
        [{"x": 1}, None],
        [{"x": None}, None],
        "c.x",
    ),
    "struct in a struct": (
        pa.struct([("s", pa.struct([X]))]),
        pa.struct([("s", pa.struct([("x", pa.int32())]))]),
        [{"s": {"x": 1}}, {"s": None}, None],
        [{"s": {"x": None}}, {"s": None}, None],
        "c.s.x",
    ),
    "required struct": (
        pa.struct([pa.field("s", pa.struct([Y]), nullable=False)]),
        pa.struct([("s", pa.struct([Y]))]),
        [{"s": {"y": None}}, None],
        [{"s": None}, None],
        "c.s",
    ),
    "list": (
        pa.list_(pa.field("element", pa.int64(), False)),
        pa.large_list(pa.int64()),
        [[1], [], None],
        [[1, None], [], None],
        "c.element",
    ),
    "list of structs": (
        pa.list_(pa.field("element", pa.struct([X]))),
        pa.list_(pa.struct([("x", pa.int32())])),
        [[{"x": 1}, None], [], None],
        [[{"x": None}], [{"x": 1}, None]],
        "c.element.x",
    ),
    "map": (
        pa.map_(pa.string(), pa.field("value", pa.int64(), False)),
        pa.map_(pa.string(), pa.int64()),
        [[("k", 1)], [], None],
        [[("k", 1), ("l", None)], None],
        "c.value",
    ),
}


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("nested", NESTED)
def test_nulls_below_a_column_make_just_their_field_optional(tmp_path: Path, nested: str, mode: str) -> None:
    kind, arriving, without, with_null, place = NESTED[nested]
    warehouse = Warehouse(tmp_path / "warehouse")
    key = {} if mode == "append" else {"equality_delete_columns": "id"}
    with warehouse.sink(write_mode=mode, schema_evolution=True, **key) as sink:
        for epoch, (type_, values) in enumerate(
            [(kind, without), (arriving, without), (arriving, with_null)]
        ):
            first = 10 * epoch
            ids = pa.array(range(first, first + len(values)))
            commit(sink, epoch, pa.table({"id": ids, "c": pa.array(values, type_)}))
            (now,) = {warehouse.load().schema().find_field(place).required}
            assert now == (epoch < 2), "only when a null has come"
    files = [entry.data_file.file_path for entry in entries_of(snapshots_of_main(warehouse.load())[-1])]
    tables = [pq.read_table(file.removeprefix("file://")) for file in files]
    seen = [value for table in tables if "c" in table.column_names for value in table["c"].to_pylist()]
    wanted = [*without, *without, *with_null]
    assert sorted(map(bare, seen)) == sorted(map(bare, wanted))


def bare(value: Any) -> str:
    """A value without fields that are null because the table has more of them."""
    return repr(value).replace(", 'y': None", "")


@pytest.mark.parametrize("evolution", [False, True])
@pytest.mark.parametrize("nested", NESTED)
def test_nulls_below_a_column_of_a_deleted_row_are_not_looked_at(
    tmp_path: Path, nested: str, evolution: bool
) -> None:
    kind, arriving, without, with_null, place = NESTED[nested]
    warehouse = Warehouse(tmp_path / "warehouse")
    with warehouse.upsert(schema_evolution=evolution) as sink:
        first = pa.table({"id": range(len(without)), "c": pa.array(without, kind)})
        commit(sink, 0, first)
        values = [with_null[0], with_null[1], without[0]]
        ops = ["delete", "delete", "upsert"]
        commit(sink, 1, pa.table({"id": [0, 1, 9], "c": pa.array(values, arriving), "_op": ops}))
        ids = {*range(2, len(without)), 9}
        assert {row["id"] for row in rows_of(warehouse.load())} == ids
        assert warehouse.load().schema().find_field(place).required
        if not evolution:
            rows = {"id": [0, 1], "c": pa.array([with_null[0]] * 2, arriving), "_op": ["delete", "upsert"]}
            sink.begin_epoch(2)
            with pytest.raises(BadRow, match=f"column '{place}', row 1"):
                sink.write_batch(pa.table(rows))


def test_nulls_below_a_column_are_refused_with_their_place_and_a_way_out(tmp_path: Path) -> None:
    with Warehouse(tmp_path / "warehouse").sink() as sink:
        commit(sink, 0, pa.table({"c": pa.array([{"x": 1}], pa.struct([X]))}))
        sink.begin_epoch(1)
        with pytest.raises(BadRow, match=r"column 'c.x', row 0") as refused:
            sink.write_batch(pa.table({"c": pa.array([{"x": None}], pa.struct([("x", pa.int32())]))}))
        assert "turn schema evolution on" in refused.value.hint


def test_a_sequence_that_is_null_in_a_dictionary_is_refused_with_its_row(tmp_path: Path) -> None:
    with Warehouse(tmp_path / "warehouse").upsert(sequence_by="s") as sink:
        sink.begin_epoch(0)
        with pytest.raises(BadRow, match="column 's', row 1: the sequence is null"):
            sink.write_batch(pa.table({"id": [1, 2], "s": hidden("1", None)}))


# ---------------------------------------------------------------- columns of an envelope


def test_columns_of_an_envelope_order_changes_and_are_not_the_tables():
    reading = Reading(key=("id",), sequence=("__calve_at",), op_column="__calve_change")
    rows = pa.table(
        {"id": [1, 2], "v": ["a", None], "__calve_change": ["upsert", "delete"], "__calve_at": [7, 8]}
    )
    arrival = arrive(reading, rows, 0, 0)
    assert arrival.rows.column_names == ["id", "v"]
    assert arrival.identity.column_names == ["id", "v", "__calve_at"]
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
    found = changes(reading, arrival, schema)
    assert found.column_names == ["id", "v", "__calve_at", OP_COLUMN]
    assert found["__calve_at"].to_pylist() == [7, 8]


def test_a_hidden_sequence_that_is_null_is_refused():
    reading = Reading(key=("id",), sequence=("__calve_at",), op_column="__calve_change")
    rows = pa.table({"id": [1], "__calve_change": ["upsert"], "__calve_at": pa.array([None], pa.int64())})
    with pytest.raises(BadRow, match="the sequence is null"):
        changes(reading, arrive(reading, rows, 0, 0), pa.schema([pa.field("id", pa.int64())]))
