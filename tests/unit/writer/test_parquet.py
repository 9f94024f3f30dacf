"""OpenFile: one Parquet file that every reader understands, whole when it is closed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.store import LocalStore
from calve.writer.dictionary import chosen as chosen_dictionary
from calve.writer.parquet import OpenFile
from calve.writer.plan import FileSettings


def field(name: str, kind: pa.DataType, field_id: int, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {"PARQUET:field_id": str(field_id)})


def opened(path: Path, schema: pa.Schema, first: pa.Table | None = None, **settings: Any) -> OpenFile:
    chosen = FileSettings(**settings)
    dictionary = chosen_dictionary(chosen.dictionary, schema, first or schema.empty_table())
    return OpenFile(str(path), LocalStore().create(str(path)), schema, chosen, dictionary)


def written(path: Path, *groups: pa.Table, **settings: Any) -> OpenFile:
    file = opened(path, groups[0].schema, groups[0], **settings)
    for group in groups:
        file.write(group)
    file.close()
    return file


def nested() -> pa.Table:
    schema = pa.schema(
        [
            field("id", pa.int64(), 1, nullable=False),
            field("s", pa.struct([field("x.y", pa.float64(), 3), field("t", pa.string(), 4)]), 2),
            field("l", pa.list_(field("element", pa.struct([field("d", pa.date32(), 7)]), 6)), 5),
            field("m", pa.map_(field("key", pa.string(), 9, False), field("value", pa.binary(), 10)), 8),
            field("u", pa.uuid(), 11),
            field("big", pa.decimal128(38, 4), 12),
            field("small", pa.decimal128(9, 2), 13),
            field("time", pa.time64("us"), 14),
            field("tz", pa.timestamp("us", "UTC"), 15),
        ]
    )
    row = {
        "id": 1,
        "s": {"x.y": 1.5, "t": "é"},
        "l": [{"d": 3}, None],
        "m": [("k", b"v")],
        "u": bytes(16),
        "big": 7,
        "small": 8,
        "time": 9,
        "tz": 10,
    }
    empty: dict[str, Any] = dict.fromkeys(row) | {"id": 2}
    return pa.Table.from_pylist([row, empty], schema=schema)


def test_rows_of_every_type_come_back_as_they_were(tmp_path: Path) -> None:
    table = nested()
    file = written(tmp_path / "f.parquet", table, table)
    assert pq.read_table(file.path).to_pylist() == table.to_pylist() * 2
    assert (file.rows, file.groups) == (4, 2)
    assert file.position == Path(file.path).stat().st_size
    assert file.metadata is not None
    assert file.metadata.num_row_groups == 2


def test_every_nested_field_has_its_id_for_another_reader(tmp_path: Path) -> None:
    path = written(tmp_path / "f.parquet", nested()).path
    schema = duckdb.sql("select name, field_id from parquet_schema($1)", params=[path]).fetchall()
    ids = [(name, field_id) for name, field_id in schema if field_id is not None]
    assert ids == [
        *(("id", 1), ("s", 2), ("x.y", 3), ("t", 4), ("l", 5), ("element", 6), ("d", 7), ("m", 8)),
        *(("key", 9), ("value", 10), ("u", 11), ("big", 12), ("small", 13), ("time", 14), ("tz", 15)),
    ]
    assert duckdb.sql("select id, s.t, l[1].d from read_parquet($1)", params=[path]).fetchone()


def test_the_footer_holds_parquets_own_types_and_nothing_of_arrow(tmp_path: Path) -> None:
    metadata = pq.read_metadata(written(tmp_path / "f.parquet", nested()).path)
    assert metadata.metadata is None
    kinds = {metadata.schema.column(i).name: metadata.schema.column(i) for i in range(metadata.num_columns)}
    assert kinds["small"].physical_type == "INT32"
    assert kinds["big"].physical_type == "FIXED_LEN_BYTE_ARRAY"
    assert str(kinds["u"].logical_type) == "UUID"
    assert "isAdjustedToUTC=true" in str(kinds["tz"].logical_type)
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_file_that_was_abandoned_has_no_footer(tmp_path: Path) -> None:
    file = opened(tmp_path / "f.parquet", nested().schema)
    file.write(nested())
    file.abandon()
    del file
    with pytest.raises(pa.ArrowInvalid):
        pq.read_metadata(tmp_path / "f.parquet")


def test_dictionaries_are_kept_for_the_columns_that_are_named() -> None:
    rows = nested()
    named = chosen_dictionary(("s", "m"), rows.schema, rows)
    assert named == ["s.x.y", "s.t", "m.key_value.key", "m.key_value.value"]
    assert chosen_dictionary(False, rows.schema, rows) == []


def test_settings_reach_the_file(tmp_path: Path) -> None:
    table = pa.Table.from_arrays(
        [pa.array(["x"] * 1000), pa.array(["y"] * 1000)],
        schema=pa.schema([field("a", pa.string(), 1), field("b", pa.string(), 2)]),
    )
    settings: dict[str, Any] = {"dictionary": ("b",), "compression": "snappy", "compression_level": None}
    group = pq.read_metadata(written(tmp_path / "f.parquet", table, **settings).path).row_group(0)
    columns = [group.column(i) for i in range(2)]
    assert [column.has_dictionary_page for column in columns] == [False, True]
    assert {column.compression for column in columns} == {"SNAPPY"}


def test_page_and_dictionary_sizes_shape_the_file(tmp_path: Path) -> None:
    """A small page size makes many pages, which a file shows by its bytes; a small dictionary is given up."""
    schema = pa.schema([field("x", pa.string(), 1)])
    rows = pa.table({"x": [f"value {n % 20_000}" for n in range(60_000)]}, schema=schema)

    def shape(name: str, **changed: Any) -> tuple[int, int]:
        file = written(tmp_path / name, rows, compression="none", compression_level=None, **changed)
        group = pq.read_metadata(file.path).row_group(0).column(0)
        return file.position, group.data_page_offset - (group.dictionary_page_offset or 0)

    _, dictionary = shape("as it is")
    large_pages, _ = shape("plain", dictionary=False)
    small_pages, _ = shape("plain, small pages", dictionary=False, page_bytes=4096)
    _, given_up = shape("small dictionary", dictionary_bytes_max=1024)
    assert small_pages > large_pages
    assert given_up < dictionary / 10
