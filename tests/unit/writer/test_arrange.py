"""Arrangement: a partition is one run of rows in order, whether memory held them all or not (P9)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from functools import cmp_to_key
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.model.layout import PartitionField, SortField, Transform, TransformKind
from calve.writer import merge
from calve.writer.arrange import Arrangement
from calve.writer.plan import WritePlan
from calve.writer.spill import Scratch

IDENTITY = Transform(TransformKind.IDENTITY)
SCHEMA = pa.schema([("p", pa.float64()), ("s", pa.string()), ("row", pa.int64())])
LARGE = 1 << 30


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_CHUNK_BYTES_MIN", 500)


def plan(
    *, partition: bool = True, sort: tuple[SortField, ...] = (), schema: pa.Schema = SCHEMA
) -> WritePlan:
    fields = (PartitionField("p", IDENTITY),) if partition else ()
    return WritePlan("s", "/t", schema, 0, 0, partition=fields, partition_names=("p",) * partition, sort=sort)


def arranged(
    plan: WritePlan, folder: Path, memory: int, tables: list[pa.Table]
) -> list[tuple[Any, pa.Table]]:
    """What comes out, a table for each partition."""
    arrangement = Arrangement(plan, Scratch(folder, memory))
    try:
        for table in tables:
            arrangement.add(table)
        return [(values, pa.concat_tables(rows)) for values, rows in arrangement.partitions()]
    finally:
        arrangement.clear()


def rows_of(table: pa.Table) -> list[int]:
    found: list[int] = table["row"].to_pylist()
    return found


VALUES = st.sampled_from([None, 0.0, -0.0, math.nan, 1.0, 2.0])
TABLES = st.lists(
    st.lists(st.tuples(VALUES, st.sampled_from(["a", "b", None])), min_size=1, max_size=60), max_size=6
)


@given(
    tables=TABLES,
    memory=st.sampled_from([1_000, 10_000, LARGE]),
    layout=st.sampled_from([(True, None), (True, False), (True, True), (False, False), (False, True)]),
)
@settings(max_examples=60, deadline=None)
def test_each_partition_comes_once_with_all_its_rows_in_order(
    tables: list[list[tuple[Any, Any]]], memory: int, layout: tuple[bool, bool | None]
) -> None:
    partitioned, descending = layout
    sort = () if descending is None else (SortField("s", descending, nulls_first=True),)
    made: list[pa.Table] = []
    expected: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for rows in tables:
        first = sum(table.num_rows for table in made)
        numbered = [{"p": p, "s": s, "row": first + place} for place, (p, s) in enumerate(rows)]
        made.append(pa.Table.from_pylist(numbered, schema=SCHEMA))
        for row in numbered:
            expected[(str(row["p"]),) if partitioned else ()].append(row)

    def order(one: dict[str, Any], two: dict[str, Any]) -> int:
        left, right = one["s"] or "", two["s"] or ""
        if descending and "" not in (left, right):
            left, right = right, left
        return (left > right) - (left < right)

    with TemporaryDirectory() as folder:
        found = arranged(plan(partition=partitioned, sort=sort), Path(folder), memory, made)
        assert list(Path(folder).iterdir()) == []
    assert len(found) == len(expected)
    for values, table in found:
        of_one = expected[tuple(map(str, values))]
        in_order = sorted(of_one, key=cmp_to_key(order)) if sort else of_one
        assert rows_of(table) == [row["row"] for row in in_order]
        assert table.schema == SCHEMA


def test_rows_of_every_type_survive_the_disk_and_can_be_sorted_by(tmp_path: Path) -> None:
    count = 300
    uuids = pa.array([UUID(int=n * 7919 % count).bytes for n in range(count)], pa.uuid())
    columns = {
        "p": pa.array([n % 3 for n in range(count)]),
        "uuid": uuids,
        "decimal": pa.array([Decimal(n * 31 % 17) for n in range(count)], pa.decimal128(38, 2)),
        "fixed": pa.array([bytes([n * 5 % 7]) for n in range(count)], pa.binary(1)),
        "bool": pa.array([n % 2 == 0 for n in range(count)]),
        "nested": pa.array([[{"a": n, "b": str(n)}] if n % 3 else None for n in range(count)]),
        "map": pa.array([[("k", n)] for n in range(count)], pa.map_(pa.string(), pa.int64())),
        "inside": pa.StructArray.from_arrays([uuids], names=["u"]),
        "null": pa.nulls(count, pa.list_(pa.struct([("u", pa.uuid())]))),
    }
    table = pa.table(columns)
    sort = tuple(SortField(name) for name in ("bool", "fixed", "decimal", "uuid"))
    pieces = [table.slice(start, 20) for start in range(0, count, 20)]
    found = arranged(plan(sort=sort, schema=table.schema), tmp_path, 10_000, pieces)
    assert [values for values, _ in found] == [(0,), (1,), (2,)]
    for values, rows in found:
        assert rows.schema == table.schema
        expected = [row for row in table.to_pylist() if row["p"] == values[0]]
        expected.sort(key=lambda row: tuple(row[field.column] for field in sort))
        assert rows.to_pylist() == expected


def spilling(folder: Path) -> list[Path]:
    return list(folder.rglob("*.arrows"))


def numbered(count: int, *, first: int = 0, partitions: int = 3) -> pa.Table:
    rows = range(first, first + count)
    return pa.table(
        {"p": [float(row % partitions) for row in rows], "s": ["x"] * count, "row": rows}, schema=SCHEMA
    )


def test_rows_that_all_fit_are_not_spilled_and_those_in_order_not_copied(tmp_path: Path) -> None:
    rows = numbered(1000, partitions=1)
    arrangement = Arrangement(plan(), Scratch(tmp_path, LARGE))
    arrangement.add(rows)
    _, tables = next(arrangement.partitions())
    (table,) = tables
    assert table["row"].chunk(0).buffers()[1].address == rows["row"].chunk(0).buffers()[1].address
    assert list(tmp_path.iterdir()) == []


def test_a_single_table_larger_than_its_share_is_not_spilled(tmp_path: Path) -> None:
    """A spool that was never full gives all its rows at once: a way through the disk would gain nothing."""
    arrangement = Arrangement(plan(), Scratch(tmp_path, 1_000))
    arrangement.add(numbered(1000))
    assert [
        (values, sum(rows.num_rows for rows in tables)) for values, tables in arrangement.partitions()
    ] == [
        ((0.0,), 334),
        ((1.0,), 333),
        ((2.0,), 333),
    ]
    assert list(tmp_path.iterdir()) == []


def test_small_tables_are_gathered_into_long_runs(tmp_path: Path) -> None:
    arrangement = Arrangement(plan(), Scratch(tmp_path, 200_000))
    for first in range(0, 4_000, 100):
        arrangement.add(numbered(100, first=first))
    assert 0 < len(spilling(tmp_path)) < 16
    arrangement.clear()
    assert list(tmp_path.iterdir()) == []


def test_p9_small_rows_are_counted_with_what_their_order_takes(tmp_path: Path) -> None:
    """The keys of deletes have a few bytes; what sorts them has many more."""
    schema = pa.schema([("p", pa.int64())])
    arrangement = Arrangement(plan(schema=schema), Scratch(tmp_path, 100_000))
    for _ in range(2):
        arrangement.add(pa.table({"p": range(200)}, schema=schema))
    assert len(spilling(tmp_path)) == 1
    arrangement.clear()


@pytest.mark.parametrize("partitions", [1, 5_000])
@pytest.mark.parametrize("sort", [(), (SortField("row", descending=True),)], ids=["unsorted", "sorted"])
def test_p9_neither_one_giant_partition_nor_thousands_take_more_than_a_share_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, sort: tuple[SortField, ...]
) -> None:
    monkeypatch.setattr(merge, "_CHUNK_BYTES_MIN", 8_000)
    limit, before = 1_000_000, pa.total_allocated_bytes()
    total = most = rows = seen = 0
    arrangement = Arrangement(plan(sort=sort), Scratch(tmp_path, limit))
    for first in range(0, 150_000, 2_500):
        table = numbered(2_500, first=first, partitions=partitions)
        total += table.nbytes
        arrangement.add(table)
        del table
        most = max(most, pa.total_allocated_bytes() - before)
    for _, tables in arrangement.partitions():
        seen += 1
        for table in tables:
            rows += table.num_rows
            most = max(most, pa.total_allocated_bytes() - before)
    arrangement.clear()
    assert total > 3 * limit
    assert (rows, seen) == (150_000, partitions)
    assert most < limit // 2


def test_a_failure_in_the_middle_leaves_only_what_clear_removes(tmp_path: Path) -> None:
    arrangement = Arrangement(plan(), Scratch(tmp_path, 10_000))
    for first in range(0, 4_000, 400):
        arrangement.add(numbered(400, first=first))
    partitions: Iterator[Any] = arrangement.partitions()
    _, rows = next(partitions)
    next(rows)
    assert spilling(tmp_path)
    arrangement.clear()
    assert list(tmp_path.iterdir()) == []


def test_nothing_added_is_nothing_given(tmp_path: Path) -> None:
    arrangement = Arrangement(plan(), Scratch(tmp_path / "spill", LARGE))
    arrangement.add(SCHEMA.empty_table())
    assert list(arrangement.partitions()) == []
    assert not (tmp_path / "spill").exists()
