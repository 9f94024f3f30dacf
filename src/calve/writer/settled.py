"""Settled: rows that an earlier writing sent to quarantine, and that come again. There they stay (P8).

    first writing    row does not fit ─▶ quarantine, committed      the target's commit is not made
    second writing   the table has changed, the row may fit ─▶ it equals a settled one ─▶ left out

Whether a row fits depends on the table, and the table may change between two writings. So the rows that are
in the quarantine say what was decided, not the table as it is now: otherwise a row would be in both, or in
none.

A settled row stands for one row, not for all that equal it: a source that is read again delivers what it had
delivered, so as many of the equal rows as are settled are old, and one more is new, and is judged. A task
counts for itself. Where equal rows are in several tasks, these may leave out more than there are: `too_many`
tells, and the rows are written again by one task.

Rows are equal if they are so in all columns that the settled one has: a column that the stream got since
played no part in the decision. Columns of plain types tell most rows apart at once; the few that are left are
compared as Python values, which know NaN and nested types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import BadRow
from calve.writer.collapse import among
from calve.writer.quarantine import from_stream, to_stream

_ARROW, _COPIES = "arrow", "copies"
_PLAIN = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def alike(rows: Sequence[bytes]) -> list[list[int]]:
    """The places of rows of a quarantine, each an Arrow stream: those that are equal together."""
    kinds: dict[tuple[bytes, str], list[int]] = {}
    for place, data in enumerate(rows):
        row = from_stream(data)
        kinds.setdefault((row.schema.serialize().to_pybytes(), repr(row.to_pylist())), []).append(place)
    return list(kinds.values())


def settled_stream(rows: Sequence[bytes], kinds: Sequence[Sequence[int]] | None = None) -> bytes:
    """Rows of a quarantine as what a plan carries: each kind once, and how often it is there."""
    kinds = alike(rows) if kinds is None else kinds
    first = pa.array([rows[places[0]] for places in kinds], pa.binary())
    return to_stream(pa.table({_ARROW: first, _COPIES: pa.array(map(len, kinds), pa.int64())}))


def too_many(stream: bytes, come: Mapping[int, int]) -> bool:
    """Whether tasks left out more rows of a kind than are settled, each of them as many as there are."""
    copies = from_stream(stream)[_COPIES].to_pylist()
    return any(count > copies[kind] for kind, count in come.items())


class Settled:
    """The settled rows that a task may meet."""

    def __init__(self, stream: bytes) -> None:
        settled = from_stream(stream)
        groups: dict[bytes, list[tuple[int, pa.Table]]] = {}
        for kind, data in enumerate(settled[_ARROW].to_pylist()):
            row = from_stream(data)
            groups.setdefault(row.schema.serialize().to_pybytes(), []).append((kind, row))
        # Writings of several runs may have had other columns.
        self._groups = [
            ([kind for kind, _ in rows], pa.concat_tables([row for _, row in rows]))
            for rows in groups.values()
        ]
        self._left: list[int] = settled[_COPIES].to_pylist()
        self.come: Counter[int] = Counter()
        """By kind, how many came so far."""

    def take(self, rows: pa.Table) -> pa.Array:
        """For each row, whether it is settled. Each settled row is met once."""
        found = pa.repeat(pa.scalar(False), rows.num_rows)
        for kinds, group in self._groups if rows.num_rows else ():
            found = pc.or_(found, self._met(rows, kinds, _as_in(rows, group), found))
        return found

    def _met(self, rows: pa.Table, kinds: list[int], settled: pa.Table, found: pa.Array) -> pa.Array:
        """For each row that was not found before, whether it equals one of these in all their columns."""
        rows = rows.select(settled.column_names)
        plain = [field.name for field in settled.schema if any(is_kind(field.type) for is_kind in _PLAIN)]
        candidates = pc.invert(found)
        if plain:
            candidates = pc.and_(candidates, among(rows, settled.select(plain)))
        known: dict[str, list[int]] = {}
        for kind, row in zip(kinds, settled.to_pylist(), strict=True):
            known.setdefault(repr(row), []).append(kind)
        exact = [self._meet(known.get(repr(row), ())) for row in rows.filter(candidates).to_pylist()]
        return pc.replace_with_mask(candidates, candidates, pa.array(exact, pa.bool_()))

    def _meet(self, kinds: Sequence[int]) -> bool:
        for kind in kinds:
            if self._left[kind]:
                self._left[kind] -= 1
                self.come[kind] += 1
                return True
        return False


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


def _changed(how: str) -> BadRow:
    return BadRow(
        f"rows that come again are in the quarantine already, and cannot be told from the others: {how}",
        hint="Start the query with the columns that it had, until these rows are through; then change them.",
    )
