"""Settled: rows that an earlier writing of the same micro-batch sent to quarantine. There they stay (P8).

    first writing    row does not fit ─▶ quarantine, committed      the target's commit is not made
    second writing   the table has changed, the row may fit ─▶ it equals a settled one ─▶ left out

Whether a row fits depends on the table, and the table may change between two writings. So the rows that are
in the quarantine say what was decided, not the table as it is now: otherwise a row would be in both, or in
none. Rows that are equal fitted equally: one that is settled stands for all its copies.

Rows are equal if they are so in all columns that the settled one has: a column that the stream got since
played no part in the decision. Columns of plain types tell most rows apart at once; the few that are left are
compared as Python values, which know NaN and nested types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import BadRow
from calve.writer.collapse import among
from calve.writer.quarantine import from_stream, to_stream

_ARROW = "arrow"
_PLAIN = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def settled_stream(rows: Iterable[bytes]) -> bytes:
    """Rows of a quarantine, each an Arrow stream, as what a plan carries."""
    return to_stream(pa.table({_ARROW: pa.array(list(rows), pa.binary())}))


class Settled:
    """The settled rows of one micro-batch."""

    def __init__(self, stream: bytes) -> None:
        groups: dict[bytes, list[pa.Table]] = {}
        for data in from_stream(stream)[_ARROW].to_pylist():
            row = from_stream(data)
            groups.setdefault(row.schema.serialize().to_pybytes(), []).append(row)
        # Writings of several runs may have had other columns.
        self._groups = [pa.concat_tables(rows) for rows in groups.values()]

    def among(self, rows: pa.Table) -> pa.Array:
        """For each row, whether it is settled."""
        found = pa.repeat(pa.scalar(False), rows.num_rows)
        for group in self._groups if rows.num_rows else ():
            found = pc.or_(found, _equal(rows, _as_in(rows, group)))
        return found

    def without(self, rows: pa.Table) -> pa.Table:
        """The rows that equal no settled one."""
        return rows.filter(pc.invert(self.among(rows)))


def without_settled(stream: bytes, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What Spark calls in its workers: rows in, those that are not settled out."""
    settled = Settled(stream)
    for record_batch in record_batches:
        yield from settled.without(pa.Table.from_batches([record_batch])).to_batches()


def _as_in(rows: pa.Table, settled: pa.Table) -> pa.Table:
    """Settled rows in the types that their columns have now: a run may have wider ones, or another time zone.
    Without columns that are null in all and not there now: rows that waited had them, and wait no more."""
    columns = {}
    for name in settled.column_names:
        column = settled[name]
        if name not in rows.column_names:
            if column.null_count < len(column):
                raise _changed(f"the column {name!r} is not among the incoming columns any more")
            continue
        kind = rows[name].type
        try:
            columns[name] = column if column.type == kind else column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _changed(f"the column {name!r} is {kind} now: {error}") from error
    return pa.table(columns)


def _equal(rows: pa.Table, settled: pa.Table) -> pa.Array:
    """For each row, whether it equals a settled one in all columns of that."""
    rows = rows.select(settled.column_names)
    plain = [field.name for field in settled.schema if any(is_kind(field.type) for is_kind in _PLAIN)]
    if plain:
        candidates = among(rows, settled.select(plain))
    else:
        candidates = pa.repeat(pa.scalar(True), rows.num_rows)
    known = {repr(row) for row in settled.to_pylist()}
    exact = [repr(row) in known for row in rows.filter(candidates).to_pylist()]
    return pc.replace_with_mask(candidates, candidates, pa.array(exact, pa.bool_()))


def _changed(how: str) -> BadRow:
    return BadRow(
        f"rows of this micro-batch are in the quarantine already, and cannot be told from the others: {how}",
        hint="Start the query with the columns that it had, until this micro-batch is through; then change "
        "them.",
    )
