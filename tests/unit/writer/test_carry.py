"""Carriers: what Spark has no type for is what it was when it is written."""

from __future__ import annotations

import datetime
import uuid

import pyarrow as pa
import pytest

from calve.writer.carry import unpacked

ID = uuid.UUID("7b1f1f6e-0000-4000-8000-000000000001")


def test_a_uuid_and_a_time_of_day_are_unpacked_and_nulls_stay():
    table = pa.table(
        {"n": [1, 2], "u": pa.array([ID.bytes, None], pa.binary()), "t": pa.array([45_296_789_000, None])}
    )
    found = unpacked(table, [("u", "uuid"), ("t", "time"), ("gone", "uuid")])
    assert found.schema.field("u").type == pa.uuid()
    assert found["u"].to_pylist() == [ID, None]
    assert found["t"].to_pylist() == [datetime.time(12, 34, 56, 789_000), None]
    assert found.column_names == table.column_names


def test_nothing_is_copied_where_nothing_is_carried():
    table = pa.table({"n": [1]})
    assert unpacked(table, ()) is table


def test_bytes_that_are_no_uuid_are_a_defect_and_are_told():
    with pytest.raises(pa.ArrowInvalid):
        unpacked(pa.table({"u": pa.array([b"short"], pa.binary())}), [("u", "uuid")])
