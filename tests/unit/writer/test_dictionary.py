"""Dictionaries where they pay: told by a sample, for every type, and never at the price of a value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.writer.dictionary import paying
from calve.writer.metrics import FIELD_ID
from calve.writer.parquet import OpenFile
from calve.writer.plan import FileSettings

ROWS = 200_000


def table_of(values: pa.Array) -> pa.Table:
    schema = pa.schema([pa.field("x", values.type, metadata={FIELD_ID: "1"})])
    return pa.Table.from_arrays([values], schema=schema)


def pays(values: pa.Array) -> bool:
    table = table_of(values)
    return paying(table.schema, table) == ["x"]


def drawn(distinct: int, rows: int = ROWS) -> np.ndarray:
    return np.random.default_rng(7).integers(0, distinct, rows)


@pytest.mark.parametrize("distinct", [1, 50, 2_000, 20_000])
def test_few_long_values_pay(distinct: int) -> None:
    assert pays(
        pa.array([f"a value of some length, number {n}" for n in range(distinct)]).take(drawn(distinct))
    )


def test_values_that_all_differ_do_not_pay() -> None:
    assert not pays(pa.array(range(ROWS)))
    assert not pays(pa.array([f"value {n}" for n in range(ROWS)]))
    assert not pays(pa.array(np.random.default_rng(7).normal(size=ROWS)))


def test_short_values_with_indices_as_long_do_not_pay() -> None:
    assert not pays(pa.array(drawn(100_000), pa.int32()))


def test_values_that_differ_only_later_are_looked_at() -> None:
    values = np.concatenate([np.zeros(ROWS // 4, np.int64), np.arange(ROWS)])
    assert not pays(pa.array(values))


def test_values_that_go_round_in_a_circle_are_known_again() -> None:
    assert pays(pa.array([f"device number {n % 5_000}" for n in range(ROWS)]))


def test_nulls_and_truths_need_no_dictionary() -> None:
    assert not pays(pa.nulls(ROWS, pa.string()))
    assert not pays(pa.array([True, False] * ROWS))


def test_a_sparse_column_is_judged_by_its_values() -> None:
    values = pa.array(
        [f"a long value, and always the same {n % 3}" if n % 10 == 0 else None for n in range(ROWS)]
    )
    assert pays(values)


@pytest.mark.parametrize(
    "kind",
    [
        pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(38, 4),
        pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"),
        pa.string(), pa.large_string(), pa.binary(), pa.binary(16), pa.uuid(), pa.bool_(),
    ],
    ids=str,
)  # fmt: skip
def test_every_type_can_be_judged_and_is_read_back(kind: pa.DataType, tmp_path: Path) -> None:
    texts = [b"0123456789abcdef", b"fedcba9876543210", None]
    if kind == pa.uuid():
        values = pa.ExtensionArray.from_storage(kind, pa.array(texts * 3000, pa.binary(16)))
    elif pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind):
        values = pa.array(texts * 3000, kind)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = pa.array(["one", "two", None] * 3000, kind)
    elif pa.types.is_date32(kind):
        values = pa.array([1, 2, None] * 3000, pa.int32()).cast(kind)
    else:
        small = pa.int8() if pa.types.is_decimal(kind) else pa.int64()
        values = pa.array([1, 0, None] * 3000, small).cast(kind)
    table = table_of(values)
    path = str(tmp_path / "f.parquet")
    file = OpenFile(path, pa.OSFile(path, "wb"), table.schema, FileSettings(), paying(table.schema, table))
    file.write(table)
    file.close()
    read = pq.read_table(path).column("x")
    assert read.cast(values.type).to_pylist() == values.to_pylist()


def test_leaves_of_nested_columns_are_judged_each() -> None:
    def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, kind, metadata={FIELD_ID: str(number)})

    item = pa.struct([field("few", pa.string(), 3), field("many", pa.string(), 4)])
    schema = pa.schema([field("l", pa.list_(field("element", item, 2)), 1)])
    rows = [
        [{"few": f"one of three long values {n % 3}", "many": f"value {n} of many"}] for n in range(20_000)
    ]
    table = pa.Table.from_arrays([pa.array(rows, schema.field(0).type)], schema=schema)
    assert paying(schema, table) == ["l.list.element.few"]
