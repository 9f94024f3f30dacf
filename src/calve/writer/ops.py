"""Ops: the words that sources use for what happened to a row, as the two things that a table can do.

    I  +I  c  r  +U  u  U  insert  upsert  update   ->  UPSERT
    D  -D  -U  d  delete                            ->  DELETE

Guarantee (P8): a word that is not listed, or none at all, is refused with its place and is never taken
for an insert: a lost delete is a row that stays for ever. Debezium's truncate and message events are no
changes of a row and are refused by name.

An update is an upsert here because a batch writes the net change of a key: whether the row is new is
not known, and need not be.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import BadRow, SchemaMismatch

UPSERT = 1
DELETE = -1

OP_COLUMN = "__calve_op"
"""The column of changes that holds the op code, beside the table's own columns. Never written to a file."""

_UPSERT_WORDS = ("I", "+I", "c", "r", "+U", "u", "U", "insert", "upsert", "update")
_DELETE_WORDS = ("D", "-D", "-U", "d", "delete")
_KNOWN = ", ".join(_UPSERT_WORDS + _DELETE_WORDS)
_REFUSED = {
    "t": "Debezium's truncate empties a table and names no row. Truncate the Iceberg table by hand, "
    "or set skipped.operations=t in the connector.",
    "m": "Debezium's logical message is no change of a row. Filter the op 'm' out before the sink.",
}

_WORDS = pa.array(_UPSERT_WORDS + _DELETE_WORDS, pa.string())
_CODES = pa.array([UPSERT] * len(_UPSERT_WORDS) + [DELETE] * len(_DELETE_WORDS), pa.int8())


def op_codes(words: pa.Array | pa.ChunkedArray, *, column: str, first_row: int = 0) -> pa.ChunkedArray:
    """The op code of every row. `first_row` is the number of the first one, for errors."""
    if isinstance(words, pa.Array):
        words = pa.chunked_array([words])
    if pa.types.is_dictionary(words.type):
        words = words.cast(words.type.value_type)
    if not _is_text(words.type):
        raise SchemaMismatch(
            f"the op column {column!r} is {words.type}, not text",
            hint=f"Give one of these words a row: {_KNOWN}.",
        )
    places = pc.index_in(words.cast(pa.string()), value_set=_WORDS)
    if places.null_count:
        row = pc.index(places.is_null(), True).as_py()
        raise _unknown(words[row].as_py(), column, first_row + row)
    return _CODES.take(places)


def with_ops(rows: pa.Table, codes: pa.Array | pa.ChunkedArray | int) -> pa.Table:
    """Rows as changes: with their op codes, or with one and the same for all of them."""
    if isinstance(codes, int):
        codes = pa.repeat(pa.scalar(codes, pa.int8()), rows.num_rows)
    return rows.append_column(pa.field(OP_COLUMN, pa.int8(), nullable=False), codes)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    )


def _unknown(word: str | None, column: str, row: int) -> BadRow:
    place = f"column {column!r}, row {row}"
    if word is None:
        return BadRow(f"{place}: the op is null", hint=f"Every change needs one of: {_KNOWN}.")
    if word in _REFUSED:
        return BadRow(f"{place}: the op {word!r} is refused", hint=_REFUSED[word])
    hint = f"Known are: {_KNOWN}. An unknown op is never taken for an insert."
    return BadRow(f"{place}: {word[:80]!r} is not an op", hint=hint)


def op_words(codes: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Op codes as our own words, for a changelog's column."""
    return pc.if_else(pc.equal(codes, DELETE), "delete", "upsert")
