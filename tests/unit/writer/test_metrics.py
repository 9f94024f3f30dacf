"""Metrics: what the manifest says of a column holds for every row, whatever the rows are."""

from __future__ import annotations

import io
import itertools
import math
import struct
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
)

from calve.model.errors import SchemaMismatch
from calve.model.file import ColumnMetrics
from calve.writer.bounds import encode_bound
from calve.writer.metrics import NanCounter, footer_metrics, leaves, split_offsets
from calve.writer.parquet import parquet_options
from calve.writer.plan import ColumnMode, FileSettings, MetricsMode


def field(name: str, kind: pa.DataType, field_id: int, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {"PARQUET:field_id": str(field_id)})


def measure(
    table: pa.Table, modes: dict[int, ColumnMode] | None = None, group_rows: int = 1 << 20
) -> tuple[ColumnMetrics, pq.FileMetaData]:
    nans = NanCounter(table.schema)
    writer = pq.ParquetWriter(
        io.BytesIO(), table.schema, **parquet_options(FileSettings(), table.column_names)
    )
    for start in range(0, table.num_rows, group_rows):
        group = table.slice(start, group_rows)
        nans.count(group)
        writer.write_table(group, row_group_size=group.num_rows)
    writer.close()
    metadata = writer.writer.metadata
    return footer_metrics(metadata, table.schema, modes or {}, nans), metadata


def one(kind: pa.DataType, values: list[Any]) -> pa.Table:
    return pa.Table.from_arrays([pa.array(values, kind)], schema=pa.schema([field("a.b", kind, 1)]))


LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
PLAIN: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int": (pa.int32(), INT),
    "long": (pa.int64(), LONG),
    "date": (pa.date32(), INT),
    "time": (pa.time64("us"), st.integers(0, 86_399_999_999)),
    "timestamp": (pa.timestamp("us"), LONG),
    "timestamptz": (pa.timestamp("us", "UTC"), LONG),
    "uuid": (pa.uuid(), st.uuids().map(lambda value: value.bytes)),
    "fixed": (pa.binary(5), st.binary(min_size=5, max_size=5)),
    "binary": (pa.binary(), st.binary(max_size=12)),
    "string": (pa.string(), st.text(max_size=12)),
    "large_string": (pa.large_string(), st.text(max_size=12)),
}


def physical(table: pa.Table) -> list[Any]:
    column = table.column(0).combine_chunks()
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    column = column.storage if column.type == pa.uuid() else column
    return [value for value in column.to_pylist() if value is not None]


@pytest.mark.parametrize("name", PLAIN)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_counts_and_bounds_are_those_of_the_data(name: str, data: st.DataObject) -> None:
    kind, strategy = PLAIN[name]
    values = data.draw(st.lists(st.one_of(st.none(), strategy), min_size=1, max_size=20))
    table = one(kind, values)
    metrics, _ = measure(table, group_rows=data.draw(st.integers(1, 20)))
    present = physical(table)
    assert metrics.value_counts == {1: len(values)}
    assert metrics.null_counts == {1: len(values) - len(present)}
    assert metrics.nan_counts == {}
    key = str.encode if present and isinstance(present[0], str) else None
    assert metrics.lower_bounds == ({1: encode_bound(min(present, key=key), kind)} if present else {})
    assert metrics.upper_bounds == ({1: encode_bound(max(present, key=key), kind)} if present else {})


@settings(max_examples=60, deadline=None)
@given(data=st.data(), precision=st.integers(1, 38))
def test_decimals_of_every_precision_have_their_bounds(data: st.DataObject, precision: int) -> None:
    kind = pa.decimal128(precision, min(2, precision))
    digits = st.integers(-(10**precision) + 1, 10**precision - 1)
    unscaled = data.draw(st.lists(digits, min_size=1, max_size=20))
    values = [Decimal((int(v < 0), tuple(map(int, str(abs(v)))), -kind.scale)) for v in unscaled]
    metrics, _ = measure(one(kind, values), group_rows=3)
    assert int.from_bytes(metrics.lower_bounds[1], "big", signed=True) == min(unscaled)
    assert int.from_bytes(metrics.upper_bounds[1], "big", signed=True) == max(unscaled)
    assert metrics.lower_bounds[1] == encode_bound(min(values), kind)


SOME_FLOATS = st.one_of(st.none(), st.sampled_from([math.nan, 0.0, -0.0]), st.floats(width=32))


@pytest.mark.parametrize("kind, code", [(pa.float32(), "<f"), (pa.float64(), "<d")], ids=["float", "double"])
@settings(max_examples=80, deadline=None)
@given(values=st.lists(SOME_FLOATS, min_size=1, max_size=12), group_rows=st.integers(1, 12))
def test_nan_is_counted_and_in_no_bound(
    kind: pa.DataType, code: str, values: list[float | None], group_rows: int
) -> None:
    metrics, _ = measure(one(kind, values), group_rows=group_rows)
    numbers = [v for v in values if v is not None and not math.isnan(v)]
    assert metrics.nan_counts == {1: sum(v is not None and math.isnan(v) for v in values)}
    if not numbers:
        assert metrics.lower_bounds == metrics.upper_bounds == {}
        return
    (lower,), (upper,) = (
        struct.unpack(code, bound[1]) for bound in (metrics.lower_bounds, metrics.upper_bounds)
    )
    assert (lower, upper) == (min(numbers), max(numbers))
    assert lower != 0 or math.copysign(1, lower) == -1
    assert upper != 0 or math.copysign(1, upper) == 1


@pytest.mark.parametrize("zero", ["0.0", "-0.0"])
@pytest.mark.parametrize("kind, code", [("float", "<f"), ("double", "<d")])
def test_a_zero_is_bounded_by_both_zeros_whatever_the_footer_says_of_its_sign(
    tmp_path: Path, kind: str, code: str, zero: str
) -> None:
    """Arrow widens zeros in the statistics that it writes, DuckDB does not: the bounds hold for both."""
    path = tmp_path / "zero.parquet"
    duckdb.sql(f"copy (select ({zero})::{kind} as z) to '{path}' (field_ids {{z: 1}})")
    arrow = pa.float32() if kind == "float" else pa.float64()
    metrics = footer_metrics(pq.read_metadata(path), pa.schema([field("z", arrow, 1)]), {})
    assert metrics.lower_bounds == {1: struct.pack(code, -0.0)}
    assert metrics.upper_bounds == {1: struct.pack(code, 0.0)}


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.text(max_size=40), min_size=1, max_size=9), length=st.integers(1, 20))
def test_cut_strings_still_bound_every_row(values: list[str], length: int) -> None:
    metrics, _ = measure(
        one(pa.string(), values), {1: ColumnMode(MetricsMode.TRUNCATE, length)}, group_rows=4
    )
    assert all(metrics.lower_bounds[1] <= value.encode() for value in values)
    assert len(metrics.lower_bounds[1].decode()) <= length
    if 1 in metrics.upper_bounds:
        assert all(value.encode() <= metrics.upper_bounds[1] for value in values)
        assert len(metrics.upper_bounds[1].decode()) <= length


def test_what_the_mode_leaves_out_is_not_there() -> None:
    table = one(pa.string(), ["x" * 30])
    assert measure(table, {1: ColumnMode(MetricsMode.FULL)})[0].upper_bounds == {1: b"x" * 30}
    assert measure(table)[0].upper_bounds == {1: b"x" * 15 + b"y"}
    counts, _ = measure(table, {1: ColumnMode(MetricsMode.COUNTS)})
    assert (counts.value_counts, counts.lower_bounds, counts.upper_bounds) == ({1: 1}, {}, {})
    none, _ = measure(table, {1: ColumnMode(MetricsMode.NONE)})
    assert (none.value_counts, none.null_counts, none.upper_bounds) == ({}, {}, {})
    assert none.column_bytes[1] > 0


def test_a_row_group_without_statistics_takes_the_bounds_of_its_column_away() -> None:
    values = ["m", "z" * 5000, "a"]  # beyond 4 KB Arrow keeps no statistics
    metrics, metadata = measure(one(pa.string(), values), group_rows=1)
    assert [metadata.row_group(i).column(0).statistics.has_min_max for i in range(3)] == [True, False, True]
    assert metrics.lower_bounds == metrics.upper_bounds == {}
    assert metrics.value_counts == {1: 3}
    assert metrics.null_counts == {1: 0}


def test_a_row_group_of_which_nothing_is_known_takes_bounds_and_null_counts_away() -> None:
    """Arrow writes some for every row group; a footer of which one has none must not lie all the same."""
    table = one(pa.int32(), [5, 7])
    footers = []
    for statistics in (True, False, True):
        options = {**parquet_options(FileSettings(), []), "write_statistics": statistics}
        with pq.ParquetWriter(io.BytesIO(), table.schema, **options) as writer:
            writer.write_table(table)
        footers.append(writer.writer.metadata)
    footer, *others = footers
    for other in others:
        footer.append_row_groups(other)
    assert [footer.row_group(i).column(0).is_stats_set for i in range(3)] == [True, False, True]
    metrics = footer_metrics(footer, table.schema, {})
    assert (metrics.lower_bounds, metrics.upper_bounds, metrics.null_counts) == ({}, {}, {})
    assert metrics.value_counts == {1: 6}


def test_a_row_group_of_nulls_takes_nothing_away() -> None:
    metrics, _ = measure(one(pa.int32(), [None, 5, None, 7]), group_rows=1)
    assert metrics.lower_bounds == {1: struct.pack("<i", 5)}
    assert metrics.upper_bounds == {1: struct.pack("<i", 7)}


def nested_table() -> pa.Table:
    point = pa.struct([field("x", pa.float64(), 3), field("y.z", pa.string(), 4)])
    schema = pa.schema(
        [
            field("s.t", point, 2),
            field("tags", pa.list_(field("element", pa.float64(), 6)), 5),
            field("m", pa.map_(field("key", pa.string(), 8, False), field("value", pa.float32(), 9)), 7),
            field("deep", pa.list_(field("element", pa.struct([field("v", pa.int32(), 12)]), 11)), 10),
            field("s", pa.struct([field("t.x", pa.int32(), 14)]), 13),
        ]
    )
    nan = math.nan
    rows = [
        {
            "s.t": {"x": 1.0, "y.z": "a"},
            "tags": [1.0, nan],
            "m": [("k", nan)],
            "deep": [{"v": 1}],
            "s": {"t.x": 5},
        },
        {"s.t": None, "tags": [], "m": None, "deep": None, "s": None},
        {
            "s.t": {"x": nan, "y.z": None},
            "tags": None,
            "m": [("a", 1.0), ("b", None)],
            "deep": [],
            "s": {"t.x": -5},
        },
        {
            "s.t": {"x": -2.0, "y.z": "c"},
            "tags": [nan, None],
            "m": [],
            "deep": [{"v": None}, None],
            "s": None,
        },
    ]
    return pa.Table.from_pylist(rows, schema=schema)


@pytest.mark.parametrize("group_rows", [1, 3, 100])
def test_nested_leaves_have_counts_and_only_those_outside_lists_have_bounds(group_rows: int) -> None:
    metrics, metadata = measure(nested_table(), group_rows=group_rows)
    assert set(metrics.value_counts) == {3, 4, 6, 8, 9, 12, 14} == set(metrics.column_bytes)
    assert metadata.num_columns == 7
    assert metrics.nan_counts == {3: 1, 6: 2, 9: 1}
    assert {leaf: metrics.value_counts[leaf] for leaf in (3, 4, 14)} == {3: 4, 4: 4, 14: 4}
    assert {leaf: metrics.null_counts[leaf] for leaf in (3, 4, 14)} == {3: 1, 4: 2, 14: 2}
    # Four elements, an empty list and a null one: Parquet has a slot for each.
    assert metrics.value_counts[6] == 6
    assert metrics.null_counts[6] == 3
    assert metrics.lower_bounds == {3: struct.pack("<d", -2.0), 4: b"a", 14: struct.pack("<i", -5)}
    assert metrics.upper_bounds == {3: struct.pack("<d", 1.0), 4: b"c", 14: struct.pack("<i", 5)}


def test_nans_in_slices_are_those_of_the_slice() -> None:
    table = nested_table()
    counters = [NanCounter(table.schema) for _ in range(2)]
    counters[0].count(table)
    for row in range(table.num_rows):
        counters[1].count(table.slice(row, 1))
    assert counters[0].totals() == counters[1].totals() == {3: 1, 6: 2, 9: 1}


def test_paths_of_leaves_are_those_of_the_footer() -> None:
    _, metadata = measure(nested_table())
    paths = [metadata.row_group(0).column(i).path_in_schema for i in range(metadata.num_columns)]
    assert [leaf.path for leaf in leaves(nested_table().schema)] == paths


def test_without_nan_counts_a_row_group_of_nans_takes_the_bounds_away() -> None:
    table = one(pa.float64(), [1.0, math.nan])
    counted, metadata = measure(table, group_rows=1)
    assert counted.lower_bounds == {1: struct.pack("<d", 1.0)}
    uncounted = footer_metrics(metadata, table.schema, {})
    assert uncounted.lower_bounds == {}
    assert uncounted.nan_counts == {}


def test_split_offsets_are_where_row_groups_begin() -> None:
    _, metadata = measure(one(pa.int64(), list(range(100))), group_rows=30)
    offsets = split_offsets(metadata)
    assert len(offsets) == 4
    assert offsets[0] == 4  # after the magic
    assert list(offsets) == sorted(set(offsets))
    sizes = [metadata.row_group(i).column(0).total_compressed_size for i in range(4)]
    assert [b - a for a, b in itertools.pairwise(offsets)] == sizes[:-1]


def test_a_field_without_an_id_is_refused_by_name() -> None:
    with pytest.raises(SchemaMismatch, match="'naked'"):
        leaves(pa.schema([("naked", pa.int32())]))


def test_pyiceberg_finds_the_same_in_the_same_footer() -> None:
    schema = pa.schema(
        [
            field("i", pa.int32(), 1),
            field("l", pa.int64(), 2),
            field("s", pa.string(), 3),
            field("b", pa.binary(), 4),
            field("d", pa.decimal128(18, 2), 5),
            field("big", pa.decimal128(38, 2), 6),
            field("t", pa.timestamp("us", "UTC"), 7),
            field("day", pa.date32(), 8),
            field("f", pa.float64(), 9),
            field("yes", pa.bool_(), 10),
            field("u", pa.uuid(), 11),
        ]
    )
    rows = [
        {
            "i": i - 5 if i % 3 else None,
            "l": i * 10**12,
            "s": f"long enough to be cut off {i}",
            "b": bytes([i]) * 20,
            "d": Decimal(i) / 4,
            "big": Decimal(-i) * 10**30,
            "t": i,
            "day": i,
            "f": i / 2,
            "yes": bool(i % 2),
            "u": uuid.UUID(int=i).bytes,
        }
        for i in range(10)
    ]
    table = pa.Table.from_pylist(rows, schema=schema)
    metrics, metadata = measure(table, group_rows=4)
    iceberg = pyarrow_to_schema(schema)
    theirs = data_file_statistics_from_parquet_metadata(
        metadata, compute_statistics_plan(iceberg, {}), parquet_path_to_id_mapping(iceberg)
    )
    assert metrics.column_bytes == theirs.column_sizes
    assert metrics.value_counts == theirs.value_counts
    assert metrics.null_counts == theirs.null_value_counts
    assert list(split_offsets(metadata)) == theirs.split_offsets
    assert metrics.nan_counts == {9: 0}
    for leaf in iceberg.fields:
        kind: Any = leaf.field_type
        for ours, other in (
            (metrics.lower_bounds, theirs.column_aggregates[leaf.field_id].min_as_bytes()),
            (metrics.upper_bounds, theirs.column_aggregates[leaf.field_id].max_as_bytes()),
        ):
            if leaf.name == "f" and other is not None and float(from_bytes(kind, other)) == 0:
                continue  # PyIceberg knows no -0.0
            assert ours[leaf.field_id] == other, leaf.name
    assert pc.min(table["i"]).as_py() == struct.unpack("<i", metrics.lower_bounds[1])[0]
