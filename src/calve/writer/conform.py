"""Rows brought to the table's schema, or refused with their place (P8).

    record batch or table ─▶ columns by name ─▶ cast ─▶ a table with exactly the plan's schema

Guarantee: what comes out has the table's columns in the table's order, with its types, field ids and
required values; every value is the one that came in. Anything else is an error before a file is
written: SchemaMismatch where the columns do not fit, BadRow with column, row and value where one row
does not.

The fast path looks at types and null counts only. A row is looked for when a column is already known to
have a bad one: by halves, so that the search costs as much as one more cast.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import BadRow
from calve.writer.cast import Misfit, cast_array, decoded, match_names

_VALUE_CHARS_MAX = 80


def conform(rows: pa.RecordBatch | pa.Table, schema: pa.Schema, *, first_row: int = 0) -> pa.Table:
    """The rows with exactly this schema. `first_row` is the number of the first one, for errors."""
    names = rows.schema.names
    match_names(names, list(schema), "the incoming rows")
    columns = []
    for field in schema:
        if field.name in names:
            columns.append(_conform_column(rows.column(names.index(field.name)), field, first_row))
        else:
            columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
    return pa.Table.from_arrays(columns, schema=schema)


def check_keys(rows: pa.Table, key: tuple[str, ...], first_row: int = 0) -> None:
    """Refuse a null in a key column: such a row has no identity that its source would agree on."""
    for name in key:
        # Decoded: a null may stand in a dictionary's values, where it is not counted.
        nulls = pa.chunked_array([decoded(chunk).is_null() for chunk in rows.column(name).chunks], pa.bool_())
        row = pc.index(nulls, True).as_py()
        if row >= 0:
            raise BadRow(
                f"column {name!r}, row {first_row + row}: the key is null",
                hint="Fill the key at the source, or choose key columns that are never null.",
            )


def shown(array: pa.Array | pa.ChunkedArray, row: int) -> str:
    """One value for people to read, cut to a length that a log can bear."""
    text = _text_of(array.slice(row, 1))
    return text if len(text) <= _VALUE_CHARS_MAX else text[:_VALUE_CHARS_MAX] + "…"


def _text_of(value: pa.Array | pa.ChunkedArray) -> str:
    try:
        # Not as_py: Python has no nanoseconds.
        text = value.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        try:
            return repr(value[0].as_py())
        except UnicodeDecodeError:
            return f"a {value.type}"
    try:
        return str(text[0].as_py())
    except UnicodeDecodeError:
        return repr(text.cast(pa.binary())[0].as_py())


def _conform_column(column: pa.Array | pa.ChunkedArray, field: pa.Field, first_row: int) -> pa.ChunkedArray:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if not chunks:
        chunks = [pa.nulls(0, column.type)]  # so that the type is looked at even where no row is
    results = []
    for chunk in chunks:
        try:
            results.append(cast_array(chunk, field, field.name))
        except Misfit:
            raise _bad_row(chunk, field, first_row) from None
        first_row += len(chunk)
    return pa.chunked_array(results, field.type)


def _bad_row(array: pa.Array, field: pa.Field, first_row: int) -> BadRow:
    """The first row of an array of which some row does not fit."""
    lower, upper = 0, len(array)
    while upper - lower > 1:
        middle = (lower + upper) // 2
        if _misfit(array.slice(lower, middle - lower), field) is not None:
            upper = middle
        else:
            lower = middle
    misfit = _misfit(array.slice(lower, 1), field)
    if misfit is None:
        # No row is bad alone: the rows are too many for one array.
        place = f"column {field.name!r}, rows from {first_row}"
        return BadRow(f"{place}: too much for one array", hint="Send fewer rows at a time.")
    return BadRow(
        f"column {misfit.path!r}, row {first_row + lower}, value {shown(array, lower)}: {misfit.reason}",
        hint=misfit.hint,
    )


def _misfit(array: pa.Array, field: pa.Field) -> Misfit | None:
    try:
        cast_array(array, field, field.name)
    except Misfit as misfit:
        return misfit
    return None
