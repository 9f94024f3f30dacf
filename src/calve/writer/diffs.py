"""Diffs: Materialize's ops are numbers. So many copies of a row came (+) or went (-).

    op column of numbers ─▶ sign  ─▶ op codes                         every mode
                         └▶ itself ─▶ the changelog's `_mz_diff`       where that is the op column's name

Guarantee (P8): a number that has no place is refused with its row, never cut down to its sign: several copies
where a key has one row, or where a word cannot say how many; nought; more than an int holds.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import BadRow

MATERIALIZE_DIFF = "_mz_diff"
"""A changelog's op column of this name holds diffs in place of words."""

_INT_MAX = 2**31 - 1


def are_diffs(ops: pa.ChunkedArray) -> bool:
    """Whether an op column has numbers."""
    return bool(pa.types.is_integer(ops.type))


def signs(diffs: pa.ChunkedArray, *, column: str, first_row: int) -> pa.ChunkedArray:
    """1 where copies came, -1 where they went."""
    none = pc.fill_null(pc.equal(diffs, 0), True)
    row = pc.index(none, True).as_py()
    if row >= 0:
        raise BadRow(
            f"column {column!r}, row {first_row + row}: {diffs[row].as_py()} is no diff",
            hint="A diff is how many copies of the row came (+) or went (-).",
        )
    return pc.if_else(pc.greater(diffs, 0), pa.scalar(1, pa.int8()), pa.scalar(-1, pa.int8()))


def kept_diffs(
    diffs: pa.ChunkedArray, changelog: tuple[str, str] | None, *, column: str, first_row: int
) -> pa.ChunkedArray | None:
    """The numbers that a changelog keeps. Where none are kept, every change is of one row, or refused."""
    if changelog is not None and changelog[0] == MATERIALIZE_DIFF:
        why, hint = "more than an int holds, which this column is", "Aggregate such rows at the source."
        _check(diffs, _INT_MAX, column, first_row, why, hint)
        return diffs.cast(pa.int32())
    if changelog is None:
        why, hint = "and a key has one row", "The key does not tell rows apart: name more columns."
    else:
        why = "and a word does not say how many"
        hint = f"Name the changelog's op column {MATERIALIZE_DIFF!r} ('changelog.op.column'): it has numbers."
    _check(diffs, 1, column, first_row, why, hint)
    return None


def _check(diffs: pa.ChunkedArray, most: int, column: str, first_row: int, why: str, hint: str) -> None:
    wide = diffs.cast(pa.int64())
    row = pc.index(pc.or_(pc.greater(wide, most), pc.less(wide, -most)), True).as_py()
    if row >= 0:
        copies = abs(diffs[row].as_py())
        raise BadRow(
            f"column {column!r}, row {first_row + row}: the change is of {copies} copies of a row, {why}",
            hint=hint,
        )
