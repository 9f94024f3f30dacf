"""Rows as they come, as changes that fit the table: op words read, columns added, types brought in line.

    RecordBatch, Table ─▶ take the op column off ─▶ (changelog: add op and time) ─▶ Arrival
    Arrival, schema ─▶ conform ─▶ changes with op codes

A delete needs its key and nothing else: what a source says of the other columns of a deleted row (often
nothing at all) is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from calve.config.sink import Mode, NullKeys, SinkConfig
from calve.model.errors import BadName, BadRow, SchemaMismatch
from calve.writer.cast import without_views
from calve.writer.conform import check_keys, conform, shown
from calve.writer.ops import DELETE, OP_COLUMN, UPSERT, op_codes, op_words, with_ops, without_promise

MATERIALIZE_DIFF = "_mz_diff"
"""A changelog's op column of this name holds Materialize's +1 and -1 in place of words."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Rows of one call, without the op column; `codes` are their ops, where the mode has any."""

    rows: pa.Table
    codes: pa.ChunkedArray | None
    first_row: int

    @property
    def deletes_only(self) -> bool:
        return self.codes is not None and self.rows.num_rows > 0 and pc.max(self.codes).as_py() == DELETE

    def nulls_in(self) -> frozenset[str]:
        """The columns in which rows that stay have nulls."""
        with_nulls = [name for name in self.rows.column_names if self.rows[name].null_count]
        if not with_nulls or self.codes is None:
            return frozenset(with_nulls)
        kept = self.rows.select(with_nulls).filter(pc.not_equal(self.codes, DELETE))
        return frozenset(name for name in with_nulls if kept[name].null_count)


def arrive(config: SinkConfig, rows: pa.RecordBatch | pa.Table, epoch: int, first_row: int) -> Arrival:
    """Rows with their ops read, and with the columns that a changelog adds."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    repeated = next((name for name in table.column_names if table.column_names.count(name) > 1), None)
    if repeated is not None:
        raise SchemaMismatch(
            f"column {repeated!r} stands twice in the incoming rows",
            hint="Give each column a name of its own.",
        )
    table = without_views(table)
    if config.mode is Mode.APPEND:
        return Arrival(table, None, first_row)
    table, codes = _take_ops(config, table, first_row)
    if config.mode is Mode.CHANGELOG:
        return Arrival(_with_changelog(config, table, codes, epoch), None, first_row)
    # The first change of a key is known only by arrival: a sequence may bring an older one later.
    promised = config.inserts_are_new and not config.sequence_by
    return Arrival(table, codes if promised else without_promise(codes), first_row)


def changes(config: SinkConfig, arrival: Arrival, schema: pa.Schema) -> pa.Table:
    """The rows with the table's schema, and with op codes where the mode has a key."""
    key, incoming = config.key, arrival.rows
    _check_needed(config, incoming)
    _check_sequence(config, incoming, arrival.first_row)
    if key and config.null_keys is NullKeys.REFUSE:
        check_keys(incoming, key, arrival.first_row)
    if arrival.codes is None:
        rows = conform(incoming, schema, first_row=arrival.first_row)
    else:
        if arrival.deletes_only:
            incoming = incoming.select(list(dict.fromkeys((*key, *config.sequence_by))))
        rows = conform(incoming, relaxed(schema, key), first_row=arrival.first_row)
        _check_required(rows, schema, arrival)
    if arrival.codes is not None:
        return with_ops(rows, arrival.codes)
    # A keyed changelog goes through the spool as upserts of (key, op): that is how copies are found.
    return with_ops(rows, UPSERT) if key else rows


def relaxed(schema: pa.Schema, key: tuple[str, ...]) -> pa.Schema:
    """The schema of changes: deletes have no value in columns that are required of rows."""
    return pa.schema([field if field.name in key else field.with_nullable(True) for field in schema])


def _check_sequence(config: SinkConfig, rows: pa.Table, first_row: int) -> None:
    for name in config.sequence_by:
        if rows[name].null_count:
            row = pc.index(rows[name].is_null(), True).as_py()
            raise BadRow(
                f"column {name!r}, row {first_row + row}: the sequence is null",
                hint="The order of a key's changes hangs on it: fill it at the source.",
            )


def check_deletes(config: SinkConfig, arrival: Arrival) -> None:
    """Refuse deletes that do not say which rows they mean, also where there is no table yet."""
    _check_needed(config, arrival.rows)
    if config.null_keys is NullKeys.REFUSE:
        check_keys(arrival.rows, config.key, arrival.first_row)


def _check_needed(config: SinkConfig, rows: pa.Table) -> None:
    """Refuse rows without the columns that say which row of the table is meant, and which change is the last:
    a column that is missing would be null in every row."""
    for name in (*config.key, *config.sequence_by):
        if name not in rows.column_names:
            what = "key" if name in config.key else "sequence"
            raise SchemaMismatch(
                f"the {what} column {name!r} is not among the incoming columns: "
                + ", ".join(rows.column_names),
                hint="Send it with every row, deletes too.",
            )
    if OP_COLUMN in rows.column_names:
        raise BadName(f"the column name {OP_COLUMN!r} is the sink's own", hint="Rename the column.")


def _take_ops(config: SinkConfig, table: pa.Table, first_row: int) -> tuple[pa.Table, pa.ChunkedArray]:
    name = config.op_column
    if name in table.column_names:
        codes = op_codes(table[name], column=name, first_row=first_row)
        return table.drop_columns([name]), _chunked(codes)
    if config.op_column_is_explicit:
        raise SchemaMismatch(
            f"the op column {name!r} is not among the incoming columns: {', '.join(table.column_names)}",
            hint="Add it, or leave 'op.column' out if every row is an upsert.",
        )
    return table, _chunked(pa.repeat(pa.scalar(UPSERT, pa.int8()), table.num_rows))


def _with_changelog(config: SinkConfig, table: pa.Table, codes: pa.ChunkedArray, epoch: int) -> pa.Table:
    for name in (config.changelog_op_column, config.changelog_time_column):
        if name in table.column_names:
            raise SchemaMismatch(
                f"the incoming rows have a column {name!r}, which the changelog adds",
                hint="Rename it, or set 'changelog.op.column' and 'changelog.time.column' to other names.",
            )
    if config.changelog_op_column == MATERIALIZE_DIFF:
        ops = pc.if_else(pc.equal(codes, DELETE), pa.scalar(-1, pa.int32()), pa.scalar(1, pa.int32()))
    else:
        ops = op_words(codes)
    times = pa.repeat(pa.scalar(epoch, pa.int64()), table.num_rows)
    table = table.append_column(pa.field(config.changelog_op_column, ops.type), ops)
    return table.append_column(pa.field(config.changelog_time_column, pa.int64()), times)


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


def _chunked(codes: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return codes if isinstance(codes, pa.ChunkedArray) else pa.chunked_array([codes])


__all__ = ["OP_COLUMN", "Arrival", "arrive", "changes", "relaxed", "shown"]
