"""Files piece by piece: each row once, with its place, less those that are deleted."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.errors import StoreError
from calve.reader import files as room
from calve.reader.columns import Column, Names
from calve.reader.files import Piece, read_piece
from calve.reader.places import ROWS_MAX, Places
from calve.reader.task import PlacesPlan, RowsOf, RowsPlan, places_task, rows_task
from calve.store import NO_ACCESS

ROWS = 1000


def field(id_: int, name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={b"PARQUET:field_id": str(id_).encode()})


ID = Column(field(1, "id", pa.int64()))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten row groups of a hundred rows; a row's id is its place."""
    path = tmp_path_factory.mktemp("files") / "data.parquet"
    rows = pa.table(
        [pa.array(range(ROWS)), pa.array(["x" * 50] * ROWS)],
        schema=pa.schema([field(1, "id", pa.int64()), field(2, "text", pa.string())]),
    )
    pq.write_table(rows, path, row_group_size=100)
    return path.as_uri()


def ids(piece: Piece) -> list[int]:
    found: list[int] = []
    for place, (column,) in read_piece(piece, [ID], Names(), NO_ACCESS):
        assert column.to_pylist() == list(range(place, place + len(column)))
        found += column.to_pylist()
    return found


@given(cuts=st.lists(st.integers(1, 12_000), max_size=6, unique=True).map(sorted))
def test_pieces_that_tile_a_file_read_each_row_once(file: str, cuts: list[int]):
    ends = [*cuts, None]
    pieces = [Piece(file, first, end) for first, end in zip([0, *cuts], ends, strict=True)]
    assert sorted(one for piece in pieces for one in ids(piece)) == list(range(ROWS))


def test_batches_are_cut_by_bytes(file: str, monkeypatch: Any):
    monkeypatch.setattr(room, "BATCH_BYTES", 200)
    sizes = [len(columns[0]) for _, columns in read_piece(Piece(file), [ID], Names(), NO_ACCESS)]
    assert sum(sizes) == ROWS
    assert max(sizes) < 100


def test_rows_are_counted_where_no_wanted_column_is_stored(file: str):
    later = Column(field(9, "later", pa.string()))
    counts = [len(columns[0]) for _, columns in read_piece(Piece(file), [later], Names(), NO_ACCESS)]
    assert sum(counts) == ROWS


def test_what_is_no_parquet_file_is_named(tmp_path: Path):
    (tmp_path / "x.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(StoreError, match=r"x\.parquet is no Parquet file"):
        list(read_piece(Piece((tmp_path / "x.parquet").as_uri()), [ID], Names(), NO_ACCESS))


def positions(path: Path, rows: list[tuple[str, int]]) -> Places:
    pq.write_table(pa.table({"file_path": [one for one, _ in rows], "pos": [two for _, two in rows]}), path)
    return Places(path.as_uri())


def numbers(count: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], ["id"]) for number in range(count)]


def test_a_task_reads_its_bundles_tags_rows_and_leaves_deleted_places_out(file: str, tmp_path: Path):
    places = (
        positions(tmp_path / "a.parquet", [(file, 0), ("another", 1), (file, 999)]),
        positions(tmp_path / "b.parquet", [(file, 150), (file, 0)]),
    )
    bundles = (
        (RowsOf(Piece(file, 0, 4_000), places, (5, 1)),),
        (RowsOf(Piece(file, 4_000), places, (6, 2)),),
    )
    plan = RowsPlan((ID,), ("sequence", "scope"), Names(), NO_ACCESS, bundles)
    task = pickle.loads(pickle.dumps(partial(rows_task, plan)))
    rows = pa.Table.from_batches(list(task(numbers(2))))
    assert rows.column_names == ["__calve_1", "sequence", "scope"]
    assert sorted(rows.column(0).to_pylist()) == [one for one in range(ROWS) if one not in (0, 150, 999)]
    assert set(zip(rows["sequence"].to_pylist(), rows["scope"].to_pylist(), strict=True)) == {(5, 1), (6, 2)}


def test_a_task_tells_the_deleted_places_of_the_files_that_it_was_asked_about(tmp_path: Path):
    many = positions(tmp_path / "p.parquet", [("b", 7), ("x", 1), ("a", 3)])
    plan = PlacesPlan(("a", "b"), (((many, None),),), NO_ACCESS, "place")
    rows = pa.Table.from_batches(list(places_task(plan, numbers(1))))
    assert sorted(rows["place"].to_pylist()) == [3, ROWS_MAX + 7]


def test_a_vector_tells_the_places_of_its_own_file(tmp_path: Path):
    from pyroaring import BitMap64

    from tests.unit.reader.test_vectors import blob

    content = blob(BitMap64([1, 2]))
    (tmp_path / "v.puffin").write_bytes(b"PFA1" + content + b"rest")
    vector = Places((tmp_path / "v.puffin").as_uri(), (4, len(content)))
    plan = PlacesPlan(("a", "b"), (((vector, 1),),), NO_ACCESS, "place")
    rows = pa.Table.from_batches(list(places_task(plan, numbers(1))))
    assert rows["place"].to_pylist() == [ROWS_MAX + 1, ROWS_MAX + 2]
