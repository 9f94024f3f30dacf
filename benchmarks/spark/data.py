"""Source files for the streams: three shapes of rows to append, and changes to upsert. Parquet, seeded.

Files are as Spark writes them: snappy, timestamps in UTC. What they hold is made of columns, not row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.changes import changes, rows
from benchmarks.words import WORDS

_MICROS_A_ROW = 1_000
_FIRST_MOMENT = 1_790_000_000_000_000

Shape = Callable[[int, int], pa.Table]
"""The first row's number and how many: the same numbers give the same rows."""


def numbers(first: int, count: int) -> pa.Table:
    """Narrow rows: two keys, a code, a measurement and a moment; 32 bytes."""
    random = np.random.default_rng(first)
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "device": random.integers(0, 100_000, count, np.int32),
            "code": random.integers(0, 50, count, np.int32),
            "value": random.normal(20.0, 5.0, count),
            "at": _moments(random, first, count),
        }
    )


def words(first: int, count: int) -> pa.Table:
    """Rows of 1 KB: a number, a moment and eight columns of words."""
    random = np.random.default_rng(first)
    texts = {f"text_{column}": _texts(random, count, 20, 125) for column in range(8)}
    return pa.table({"id": np.arange(first, first + count), "at": _moments(random, first, count), **texts})


def wide(first: int, count: int) -> pa.Table:
    """Rows of 100 columns of all the usual types: 40 doubles, 25 integers, 15 codes, 10 names, 10 moments."""
    random = np.random.default_rng(first)
    columns: dict[str, object] = {"id": np.arange(first, first + count)}
    columns |= {f"measure_{n}": random.normal(0.0, 10.0 ** (n % 5), count) for n in range(40)}
    columns |= {f"count_{n}": random.integers(0, 10 ** (1 + n % 8), count, np.int64) for n in range(24)}
    columns |= {f"code_{n}": pa.array(_CODES).take(random.integers(0, len(_CODES), count)) for n in range(15)}
    columns |= {f"name_{n}": _texts(random, count, 2, 24) for n in range(10)}
    columns |= {f"at_{n}": _moments(random, first, count) for n in range(10)}
    return pa.table(columns)


_CODES = [f"{word[:3].upper()}-{number}" for number, word in enumerate(WORDS)]

SHAPES: dict[str, Shape] = {"numbers": numbers, "words": words, "wide": wide}


def write_files(folder: Path, shape: Shape, files: int, rows_a_file: int) -> list[Path]:
    """So many files of a shape."""
    return [_write(folder / f"{n}.parquet", shape(n * rows_a_file, rows_a_file)) for n in range(files)]


def write_rows(folder: Path, count: int, rows_a_file: int) -> list[Path]:
    """Rows with keys 0 … count - 1 as inserts: what a table holds before its changes come."""
    files = range(0, count, rows_a_file)
    return [
        _write(folder / f"rows-{first}.parquet", _inserts(first, min(rows_a_file, count - first)))
        for first in files
    ]


def change_rounds(folder: Path, keys: int, count: int, rounds: int) -> list[list[Path]]:
    """Rounds of so many changes over all keys of a table, a file each; the last tenth are deletes.

    No key comes twice in a round, so that a plain MERGE can take it. Sequence numbers only grow.
    """
    return [
        [_write(folder / f"{keys}-{number}.parquet", _changes(number * count, count, keys, number + 1))]
        for number in range(rounds)
    ]


def many_changes(folder: Path, keys: int, count: int, changes_a_file: int) -> list[Path]:
    """One round of many changes, in several files."""
    return [
        _write(folder / f"many-{first}.parquet", _changes(first, min(changes_a_file, count - first), keys, 1))
        for first in range(0, count, changes_a_file)
    ]


def _inserts(first: int, count: int) -> pa.Table:
    return _with_op(rows(first, count), 0, pa.repeat("insert", count))


def _changes(first: int, count: int, keys: int, version: int) -> pa.Table:
    deletes = count // 10
    ops = pa.concat_arrays([pa.repeat("upsert", count - deletes), pa.repeat("delete", deletes)])
    return _with_op(changes(first, count, keys, version), first + 1, ops)


def _with_op(table: pa.Table, first_sequence: int, ops: pa.Array) -> pa.Table:
    at = table.column("at").cast(pa.timestamp("us", "UTC"))
    table = table.set_column(table.schema.get_field_index("at"), "at", at)
    note = pc.binary_join_element_wise("note of", table.column("name"), " ")
    sequence = np.arange(first_sequence, first_sequence + table.num_rows)
    return (
        table.append_column("note", note).append_column("lsn", pa.array(sequence)).append_column("_op", ops)
    )


def _write(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="snappy", row_group_size=max(table.num_rows // 2, 1))
    return path


def _moments(random: np.random.Generator, first: int, count: int) -> pa.Array:
    steps = np.arange(first, first + count) * _MICROS_A_ROW + random.integers(0, _MICROS_A_ROW, count)
    return pa.array(steps + _FIRST_MOMENT).cast(pa.timestamp("us", "UTC"))


def _texts(random: np.random.Generator, count: int, words_each: int, length: int) -> pa.Array:
    chosen = pa.array(WORDS).take(random.integers(0, len(WORDS), count * words_each))
    offsets = np.arange(0, count * words_each + 1, words_each, dtype=np.int32)
    return pc.utf8_slice_codeunits(pc.binary_join(pa.ListArray.from_arrays(offsets, chosen), " "), 0, length)
