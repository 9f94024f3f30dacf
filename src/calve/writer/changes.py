"""Rows as they come, as changes that fit the table: op words read, columns added, types brought in line.

    RecordBatch, Table ─▶ take the op column off ─▶ (changelog: add op and time) ─▶ Arrival
    Arrival, schema ─▶ conform ─▶ changes with op codes

Columns that an envelope added are not the table's (model/columns.py): they go beside the rows, as far as the
order of a key's changes hangs on them.

A delete needs its key and nothing else: what a source says of the other columns of a deleted row (often
nothing at all) is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.columns import RESERVED
from calve.model.errors import BadName, BadRow, SchemaMismatch
from calve.writer.cast import decoded, without_views
from calve.writer.conform import check_keys, conform
from calve.writer.diffs import MATERIALIZE_DIFF, are_diffs, kept_diffs
from calve.writer.nulls import required_with_nulls
from calve.writer.ops import DELETE, OP_COLUMN, UPSERT, op_codes, op_words, with_ops, without_promise

TIME_COLUMN = "__calve_time"
"""The column of a frame that holds the times, where the source has its own: a long, or a decimal(38, 0)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How incoming rows are read. Plain values: it goes to workers."""

    key: tuple[str, ...] = ()
    sequence: tuple[str, ...] = ()
    op_column: str | None = None
    """The column that says what a row does; `None` in append mode, where rows have no op."""
    op_required: bool = False
    """The user named the op column: rows without it are an error."""
    changelog: tuple[str, str] | None = None
    """The names of the op and time columns that a changelog adds."""
    null_keys: bool = False
    inserts_are_new: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """Rows of one call, without the op column; `codes` are their ops, where the mode has any."""

    rows: pa.Table
    codes: pa.ChunkedArray | None
    first_row: int
    hidden: pa.Table | None = None
    """Columns of the same rows that order them and are not the table's."""

    @property
    def identity(self) -> pa.Table:
        """The rows with all that says which change of which row each is."""
        return self.rows if self.hidden is None else _beside(self.rows, self.hidden)

    @property
    def deletes_only(self) -> bool:
        return self.codes is not None and self.rows.num_rows > 0 and pc.max(self.codes).as_py() == DELETE

    def nulls_in(self, schema: pa.Schema) -> frozenset[str]:
        """The fields that a schema requires and in which rows that stay have nulls, by their full names."""
        found = required_with_nulls(self.rows, schema)
        if not found or self.codes is None:
            return found
        return required_with_nulls(self.rows.filter(pc.not_equal(self.codes, DELETE)), schema)


def arrive(
    reading: Reading, rows: pa.RecordBatch | pa.Table, time: int | pa.ChunkedArray, first_row: int
) -> Arrival:
    """Rows with their ops read, and with the columns that a changelog adds. `time` is that of all rows, or
    one for each."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    repeated = next((name for name in table.column_names if table.column_names.count(name) > 1), None)
    if repeated is not None:
        raise SchemaMismatch(
            f"column {repeated!r} stands twice in the incoming rows",
            hint="Give each column a name of its own.",
        )
    table = without_views(table)
    if reading.op_column is None:
        return _arrival(table, None, first_row)
    table, codes, diffs = _take_ops(reading, reading.op_column, table, first_row)
    if reading.changelog is not None:
        return _arrival(_with_changelog(reading.changelog, table, codes, diffs, time), None, first_row)
    # The first change of a key is known only by arrival: a sequence may bring an older one later.
    promised = reading.inserts_are_new and not reading.sequence
    return _arrival(table, codes if promised else without_promise(codes), first_row)


def _arrival(table: pa.Table, codes: pa.ChunkedArray | None, first_row: int) -> Arrival:
    hidden = [name for name in table.column_names if name.startswith(RESERVED)]
    if not hidden:
        return Arrival(table, codes, first_row)
    return Arrival(table.drop_columns(hidden), codes, first_row, table.select(hidden))


def changes(reading: Reading, arrival: Arrival, schema: pa.Schema) -> pa.Table:
    """The rows with the table's schema, and with op codes where the mode has a key."""
    key, incoming = reading.key, arrival.rows
    check_identity(reading, arrival.identity, arrival.first_row)
    if arrival.codes is None:
        rows = conform(incoming, schema, first_row=arrival.first_row)
    else:
        if arrival.deletes_only:
            needed = dict.fromkeys((*key, *reading.sequence))
            incoming = incoming.select([name for name in needed if name in incoming.column_names])
        wanted = relaxed(schema, key)
        incoming = _without_deleted_nulls(incoming, arrival.codes, wanted, key)
        rows = conform(incoming, wanted, first_row=arrival.first_row)
        _check_required(rows, schema, arrival)
    if arrival.hidden is not None and key:
        rows = _beside(rows, arrival.hidden)
    if arrival.codes is not None:
        return with_ops(rows, arrival.codes)
    # A keyed changelog goes through the spool as upserts of (key, op): that is how copies are found.
    return with_ops(rows, UPSERT) if key else rows


def _beside(rows: pa.Table, hidden: pa.Table) -> pa.Table:
    for field in hidden.schema:
        rows = rows.append_column(field, hidden[field.name])
    return rows


def relaxed(schema: pa.Schema, key: tuple[str, ...]) -> pa.Schema:
    """The schema of changes: deletes have no value in columns that are required of rows."""
    return pa.schema([field if field.name in key else field.with_nullable(True) for field in schema])


def _without_deleted_nulls(
    rows: pa.Table, codes: pa.ChunkedArray, schema: pa.Schema, key: tuple[str, ...]
) -> pa.Table:
    """The rows, with nothing in columns of deletes that have nulls below them where the table takes none."""
    for number, name in enumerate(rows.column_names):
        if name in key or name not in schema.names:
            continue
        if required_with_nulls(rows.select([name]), pa.schema([schema.field(name)])):
            row_numbers = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows), start=-1)
            kept = pc.if_else(pc.equal(codes, DELETE), pa.scalar(None, pa.int64()), row_numbers)
            field = rows.schema.field(name).with_nullable(True)
            rows = rows.set_column(number, field, rows[name].take(kept))
    return rows


def check_identity(reading: Reading, rows: pa.Table, first_row: int) -> None:
    """Refuse rows that do not say which row of the table they mean, or which change of it they are."""
    _check_needed(reading, rows)
    _check_sequence(reading, rows, first_row)
    if reading.key and not reading.null_keys:
        check_keys(rows, reading.key, first_row)


def _check_sequence(reading: Reading, rows: pa.Table, first_row: int) -> None:
    for name in reading.sequence:
        if not _null_count(rows[name]) and pa.types.is_integer(rows[name].type):
            continue
        # NaN has no place in an order either.
        chunks = [decoded(chunk).is_null(nan_is_null=True) for chunk in rows[name].chunks]
        row = pc.index(pa.chunked_array(chunks, pa.bool_()), True).as_py()
        if row >= 0:
            what = "null" if rows[name][row].as_py() is None else "NaN"
            raise BadRow(
                f"column {name!r}, row {first_row + row}: the sequence is {what}",
                hint="The order of a key's changes hangs on it: fill it at the source.",
            )


def check_deletes(reading: Reading, arrival: Arrival) -> None:
    """Refuse deletes that do not say which rows they mean, also where there is no table yet."""
    _check_needed(reading, arrival.identity)
    if not reading.null_keys:
        check_keys(arrival.rows, reading.key, arrival.first_row)


def _check_needed(reading: Reading, rows: pa.Table) -> None:
    """Refuse rows without the columns that say which row of the table is meant, and which change is the last:
    a column that is missing would be null in every row."""
    for name in (*reading.key, *reading.sequence):
        if name not in rows.column_names:
            what = "key" if name in reading.key else "sequence"
            raise SchemaMismatch(
                f"the {what} column {name!r} is not among the incoming columns: "
                + ", ".join(rows.column_names),
                hint="Send it with every row, deletes too.",
            )
    if OP_COLUMN in rows.column_names:
        raise BadName(
            f"the column name {OP_COLUMN!r} is the sink's own", hint="Rename the column.", about="source"
        )


def _take_ops(
    reading: Reading, name: str, table: pa.Table, first_row: int
) -> tuple[pa.Table, pa.ChunkedArray, pa.ChunkedArray | None]:
    """The rows without their op column, op codes, and the diffs that a changelog keeps."""
    if name in table.column_names:
        ops, diffs = table[name], None
        codes = op_codes(ops, column=name, first_row=first_row)
        if are_diffs(ops):
            diffs = kept_diffs(ops, reading.changelog, column=name, first_row=first_row)
        return table.drop_columns([name]), _chunked(codes), diffs
    if reading.op_required:
        raise SchemaMismatch(
            f"the op column {name!r} is not among the incoming columns: {', '.join(table.column_names)}",
            hint="Add it, or leave 'op.column' out if every row is an upsert.",
        )
    return table, _chunked(pa.repeat(pa.scalar(UPSERT, pa.int8()), table.num_rows)), None


def _with_changelog(
    added: tuple[str, str],
    table: pa.Table,
    codes: pa.ChunkedArray,
    diffs: pa.ChunkedArray | None,
    time: int | pa.ChunkedArray,
) -> pa.Table:
    op_column, time_column = added
    for name in added:
        if name in table.column_names:
            raise SchemaMismatch(
                f"the incoming rows have a column {name!r}, which the changelog adds",
                hint="Rename it, or set 'changelog.op.column' and 'changelog.time.column' to other names.",
            )
    if diffs is not None:
        ops = diffs
    elif op_column == MATERIALIZE_DIFF:
        ops = pc.if_else(pc.equal(codes, DELETE), pa.scalar(-1, pa.int32()), pa.scalar(1, pa.int32()))
    else:
        ops = op_words(codes)
    times = pa.repeat(pa.scalar(time, pa.int64()), table.num_rows) if isinstance(time, int) else time
    table = table.append_column(pa.field(op_column, ops.type), ops)
    return table.append_column(pa.field(time_column, times.type), times)


def _check_required(rows: pa.Table, schema: pa.Schema, arrival: Arrival) -> None:
    for field in schema:
        column = rows[field.name]
        if field.nullable or not column.null_count:
            continue
        missing = pc.and_(column.is_null(), pc.not_equal(arrival.codes, DELETE))
        row = pc.index(missing, True).as_py()
        if row >= 0:
            raise BadRow(
                f"column {field.name!r}, row {arrival.first_row + row}: null, but the table requires a value",
                hint="Fill it at the source, or turn schema evolution on: then the column becomes optional.",
            )


def _null_count(column: pa.ChunkedArray) -> int:
    """The nulls of a column, also those in the values of a dictionary, which Arrow does not count."""
    if not pa.types.is_dictionary(column.type):
        return int(column.null_count)
    return sum(decoded(chunk).null_count for chunk in column.chunks)


def _chunked(codes: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return codes if isinstance(codes, pa.ChunkedArray) else pa.chunked_array([codes])
