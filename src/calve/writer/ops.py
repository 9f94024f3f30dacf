"""Ops: the words that sources use for what happened to a row, as what a table can do about it.

    I  +I  c  insert               ->  UPSERT, or INSERT where the source promises that inserts are new
    r  +U  u  U  upsert  update    ->  UPSERT
    D  -D  -U  d  delete           ->  DELETE
    numbers (diffs.py)             ->  UPSERT where copies of the row came, DELETE where they went

Guarantee (P8): a word that is not listed, or none at all, is refused with its place and is never taken
for an insert: a lost delete is a row that stays for ever. Debezium's truncate and message events are no
changes of a row and are refused by name.

An update is an upsert here because a batch writes the net change of a key: whether the row is new is
not known, and need not be. Only where the source promises it (`inserts_are_new`), a key whose first change
in a batch is an INSERT needs no delete; one that was inserted and deleted in a batch is NOTHING at all.
Debezium's `r` promises nothing: a snapshot that is taken again reads rows that are there.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import BadRow, SchemaMismatch
from calve.writer.diffs import are_diffs, signs

UPSERT = 1  # a row stays, an older one may be there
DELETE = -1  # no row stays, an older one may be there
INSERT = 2  # a row stays, no older one is there
NOTHING = -2  # no row stays, no older one is there: only a collapse makes it

OP_COLUMN = "__calve_op"
"""The column of changes that holds the op code, beside the table's own columns. Never written to a file."""

_INSERT_WORDS = ("I", "+I", "c", "insert")
_UPSERT_WORDS = ("r", "+U", "u", "U", "upsert", "update")
_DELETE_WORDS = ("D", "-D", "-U", "d", "delete")
WORDS = _INSERT_WORDS + _UPSERT_WORDS + _DELETE_WORDS
_KNOWN = ", ".join(WORDS)
_REFUSED = {
    "t": "Debezium's truncate empties a table and names no row. Truncate the Iceberg table by hand, "
    "or set skipped.operations=t in the connector.",
    "m": "Debezium's logical message is no change of a row. Filter the op 'm' out before the sink.",
}


@cache
def _coded() -> tuple[pa.Array, pa.Array]:
    """All words, and their codes. Not made on import: of Python's own values pyarrow makes arrays with the
    help of pandas, if that is there, and to import it takes longer than many a command does."""
    counts = ((INSERT, _INSERT_WORDS), (UPSERT, _UPSERT_WORDS), (DELETE, _DELETE_WORDS))
    codes = [code for code, words in counts for _ in words]
    return pa.array(WORDS, pa.string()), pa.array(codes, pa.int8())


def op_codes(words: pa.Array | pa.ChunkedArray, *, column: str, first_row: int = 0) -> pa.ChunkedArray:
    """The op code of every row, inserts told from upserts. `first_row` is the number of the first one."""
    if isinstance(words, pa.Array):
        words = pa.chunked_array([words])
    if are_diffs(words):
        return signs(words, column=column, first_row=first_row)
    if pa.types.is_dictionary(words.type):
        words = words.cast(words.type.value_type)
    if not _is_text(words.type):
        raise SchemaMismatch(
            f"the op column {column!r} is {words.type}, not text",
            hint=f"Give one of these words a row: {_KNOWN}.",
        )
    known, codes = _coded()
    places = pc.index_in(words.cast(pa.string()), value_set=known)
    if places.null_count:
        row = pc.index(places.is_null(), True).as_py()
        raise _unknown(words[row].as_py(), column, first_row + row)
    return codes.take(places)


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
    rows = pc.if_else(pc.equal(codes, INSERT), "insert", "upsert")
    return pc.if_else(pc.equal(codes, DELETE), "delete", rows)


def without_promise(codes: pa.ChunkedArray) -> pa.ChunkedArray:
    """Op codes of a source that does not promise that inserts are new."""
    return pc.if_else(pc.equal(codes, INSERT), pa.scalar(UPSERT, pa.int8()), codes)
