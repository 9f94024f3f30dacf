"""Null structs with required fields below them come into Parquet and back."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.writer.hidden import hiding_columns, without_hidden_nulls
from tests.support.sinks import Warehouse, commit
from tests.support.truth import ordered, rows_of

_X = pa.struct([pa.field("x", pa.int32(), nullable=False)])
_LISTED = pa.struct([pa.field("l", pa.list_(pa.int32()), nullable=False), pa.field("b", pa.bool_(), False)])

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (_X, [{"x": 1}, None, {"x": 2}]),
    "text": (pa.struct([pa.field("t", pa.string(), False)]), [None, {"t": "a"}, {"t": ""}]),
    "decimal": (pa.struct([pa.field("d", pa.decimal128(20, 2), False)]), [None, {"d": 1}]),
    "list and flag": (_LISTED, [{"l": [1, None], "b": True}, None, {"l": [], "b": False}]),
    "required struct": (pa.struct([pa.field("s", _X, False)]), [{"s": {"x": 1}}, None]),
    "optional struct": (pa.struct([pa.field("s", _X)]), [{"s": {"x": 1}}, {"s": None}, None]),
    "list of structs": (pa.list_(_X), [[{"x": 1}, None], None, [], [None]]),
    "map of structs": (pa.map_(pa.string(), _X), [[("k", {"x": 1}), ("l", None)], None, []]),
    "struct of a map": (pa.struct([pa.field("m", pa.map_(pa.string(), _X))]), [{"m": [("k", None)]}, None]),
}


def in_parquet(array: pa.Array) -> list[Any]:
    rows = pa.table({"c": array})
    rows = without_hidden_nulls(rows, hiding_columns(rows.schema))
    rows.validate(full=True)
    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    return pq.read_table(buffer)["c"].to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_null_structs_are_null_and_all_else_stays(kind: str) -> None:
    type_, values = KINDS[kind]
    whole = pa.array(values, type_)
    taken = whole.take(pa.array([None, *range(len(values)), None, 0]))  # nulls reach into required fields
    for array in (whole, whole.slice(1), taken, taken.slice(1, 2), taken.slice(2), pa.nulls(3, type_)):
        assert in_parquet(array) == array.to_pylist()


def test_null_structs_of_uuids_are_null() -> None:
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16)))
    array = pa.StructArray.from_arrays([uuids], fields=[pa.field("u", pa.uuid(), False)])
    array = array.take(pa.array([0, None]))
    assert in_parquet(array) == array.to_pylist()


def test_columns_that_hide_nothing_are_left_alone() -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("b", _X, nullable=False),
            ("c", pa.struct([("x", pa.int32())])),
            ("d", pa.map_(pa.string(), pa.int32())),
            ("e", pa.list_(pa.field("element", pa.int32(), False))),
            ("f", _X),
        ]
    )
    assert hiding_columns(schema) == (5,)


@pytest.mark.parametrize(
    "options",
    [{}, {"sort_order": "id"}, {"write_mode": "upsert", "equality_delete_columns": "id"}],
    ids=["streamed", "sorted", "upsert"],
)
def test_rows_without_a_struct_that_requires_a_field_are_written(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    with warehouse.sink(**options) as sink:
        commit(sink, 0, pa.table({"id": [1, 2], "s": pa.array([{"x": 1}, None], _X)}))
        loose = pa.struct([("x", pa.int32())])
        commit(sink, 1, pa.table({"id": [4, 3], "s": pa.array([None, {"x": 3}], loose)}))
        commit(sink, 2, pa.table({"id": [5]}))
    values = {1: {"x": 1}, 2: None, 3: {"x": 3}, 4: None, 5: None}
    assert rows_of(warehouse.load()) == ordered({"id": id_, "s": value} for id_, value in values.items())
