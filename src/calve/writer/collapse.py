"""Collapse: the net change of each key within a batch.

    changes ─▶ (key, sequence, row number) ─▶ pieces by key hash ─▶ winners of each key ─▶ their rows

Guarantee: one row a key, the last by the sequence columns, or by arrival (row order) where there are
none, or the only one where not even arrival is an order (`sequence=None`: rows of a frame). Equality deletes
reach only older snapshots, so two rows of one key in one batch would both stay in the table (P1). What is
dropped was overtaken within the batch and is nobody's loss; a tie between rows that differ has no last one
and is refused, never settled by chance (P8).

Why it may be done in steps: `latest` keeps every row that can still win, ties included, so
`collapse(latest(a) + b)` is `collapse(a + b)`. What the first change of a key tells (that it is new) is
handed to all its changes, and so to whichever stays. Only `collapse`, at the end, asks that one row is
left. A tie that a later change overtakes is therefore no error, however the changes were cut up.

Why in pieces: Arrow's hash tables take up to 200 bytes a key while they grow. A piece holds all rows of
its keys, so the pieces need not know of each other, and only one has its tables in memory (P9).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.columns import RESERVED
from calve.model.errors import BadKey, BadRow, Tied
from calve.writer.conform import shown
from calve.writer.ops import DELETE, INSERT, NOTHING, OP_COLUMN, UPSERT
from calve.writer.same import rows_differ
from calve.writer.transform import hash_keys

_PIECE_ROWS = 128 * 1024
_PIECES_MAX = 16
_ROW = "__calve_row"
_SHOWN_MAX = 3
Sequence = tuple[str, ...] | None
"""Columns that are shown of two changes that differ."""


def collapse(
    changes: pa.Table, key: tuple[str, ...], *, op: str = OP_COLUMN, sequence: Sequence = ()
) -> pa.Table:
    """One row a key: its last change, or `Tied` where there is none. The rows stay in order of arrival."""
    return _Order(key, op, sequence).reduce(changes, refuse_ties=True)


def latest(
    changes: pa.Table, key: tuple[str, ...], *, op: str = OP_COLUMN, sequence: Sequence = ()
) -> pa.Table:
    """The rows that no other row of their key overtakes, in order of arrival: one a key, or those of a tie
    (without what only repeats the first of them)."""
    return _Order(key, op, sequence).reduce(changes, refuse_ties=False)


def ties(
    changes: pa.Table, key: tuple[str, ...], *, op: str = OP_COLUMN, sequence: Sequence = ()
) -> pa.Table:
    """Key and sequence of the changes for which `collapse` is refused."""
    left = latest(changes, key, op=op, sequence=sequence)
    ids, count = _key_ids(left, key)
    names = list(dict.fromkeys((*key, *(sequence or ()))))
    if count == left.num_rows:
        return left.select(names).slice(0, 0)
    first = _first_places(ids).take(ids)
    shared = ids.filter(pc.not_equal(_numbers(len(ids)), first))
    return left.select(names).filter(pc.is_in(ids, value_set=shared.unique()))


def among(rows: pa.Table, wanted: pa.Table) -> pa.Array:
    """For each row, whether one of `wanted` has the same values in its columns. A null equals a null."""
    names = wanted.column_names
    both = {
        name: pa.chunked_array([*rows[name].chunks, *wanted[name].chunks], rows[name].type) for name in names
    }
    ids, _ = _key_ids(pa.table(both), tuple(names))
    return pc.is_in(ids.slice(0, rows.num_rows), value_set=ids.slice(rows.num_rows).unique())


def check_sequence_types(schema: pa.Schema, sequence: tuple[str, ...]) -> None:
    """Refuse sequence columns whose values have no order: no change of a key would be its last."""
    for name in sequence:
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_null(kind) or isinstance(kind, pa.BaseExtensionType):
            raise BadKey(
                f"the sequence column {name!r} has type {kind}, whose values have no order",
                hint="Use numbers, decimals, dates, times, strings or bytes, such as the source's position.",
                about="sequence_by",
            )


@dataclass(frozen=True, slots=True)
class _Order:
    """Which columns say what a row's key is, and which of its changes is the last."""

    key: tuple[str, ...]
    op: str
    sequence: Sequence
    """`()`: by arrival. `None`: nothing orders them."""

    @property
    def columns(self) -> tuple[str, ...]:
        return self.sequence or ()

    def reduce(self, changes: pa.Table, *, refuse_ties: bool) -> pa.Table:
        self._check_sequence(changes)
        changes = self._with_first_ops(changes)
        winners = [self._winners(changes, piece, refuse_ties) for piece in self._pieces(changes)]
        rows = pa.concat_arrays(winners) if winners else _numbers(0)
        if len(rows) == changes.num_rows:
            return changes
        return changes.take(rows.take(pc.sort_indices(rows)) if len(winners) > 1 else rows)

    def _with_first_ops(self, changes: pa.Table) -> pa.Table:
        """Every change of a key with what its first one tells: whether an older row can be there.

        So whichever change wins carries it along, in steps too, as arrival has one order. A sequence has
        not: its least may come in a later step. There, callers make no use of the promise (`ops`).
        """
        codes = _flat(changes[self.op])
        if self.sequence != () or not pc.any(pc.greater(pc.abs(codes), 1)).as_py():
            return changes
        new = [self._begins_new(piece, codes) for piece in self._pieces(changes)]
        rows = pa.concat_arrays([rows for rows, _ in new])
        is_new = pa.concat_arrays([flags for _, flags in new]).take(pc.sort_indices(rows))
        stays = pc.greater(codes, 0)
        told = pc.if_else(
            is_new,
            pc.if_else(stays, _code(INSERT), _code(NOTHING)),
            pc.if_else(stays, _code(UPSERT), _code(DELETE)),
        )
        place = changes.column_names.index(self.op)
        return changes.set_column(place, changes.schema.field(place), told)

    def _begins_new(self, piece: pa.Table, codes: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The numbers of a piece's rows, and whether the first change of their key is an insert."""
        ids, _ = _key_ids(piece, self.key)
        rows = _flat(piece[_ROW])
        first = rows.take(_first_places(ids))
        return rows, pc.greater(pc.abs(codes.take(first)), 1).take(ids)

    def _check_sequence(self, changes: pa.Table) -> None:
        check_sequence_types(changes.schema, self.columns)
        for name in self.columns:
            absent = changes.column(name).is_null(nan_is_null=True)
            if pc.any(absent).as_py():
                row = pc.index(absent, True).as_py()
                raise BadRow(
                    f"sequence column {name!r} is null or NaN in a change of {self._described(changes, row)}",
                    hint="The order of a key's changes hangs on it: fill it at the source.",
                )

    def _pieces(self, changes: pa.Table) -> Iterator[pa.Table]:
        """Key, sequence and row number of all rows, so that the rows of a key are in one piece."""
        names = list(dict.fromkeys(self.key + self.columns))
        slim = changes.select(names).append_column(_ROW, _numbers(changes.num_rows))
        count = 1
        while count < _PIECES_MAX and count * _PIECE_ROWS < changes.num_rows:
            count *= 2
        if count == 1:
            yield slim
            return
        # Seed 0 is for this alone: with a spill's seed, all rows of a spilled part would be one piece.
        places = pc.bit_wise_and(hash_keys(slim, self.key, 0), pa.scalar(count - 1, pa.uint32()))
        places = places.cast(pa.uint8())
        for place in range(count):
            yield slim.filter(pc.equal(places, pa.scalar(place, pa.uint8())))

    def _winners(self, changes: pa.Table, piece: pa.Table, refuse_ties: bool) -> pa.Array:
        """The numbers of the rows that are the last of their keys."""
        ids, count = _key_ids(piece, self.key)
        if count == piece.num_rows:
            return _flat(piece[_ROW])
        rows = _flat(piece[_ROW])
        if self.sequence is not None:
            rank = _sequence_rank(piece, self.sequence) if self.sequence else rows
            last = _flat(pc.equal(rank, _greatest(rank, ids).take(ids)))
            rows, ids = rows.filter(last), ids.filter(last)
        if len(rows) == count:
            return rows
        tied = self._without_copies(changes, rows, ids)
        if refuse_ties and len(tied) > count:
            raise self._tie(changes, tied)
        return tied

    def _without_copies(self, changes: pa.Table, rows: pa.Array, ids: pa.Array) -> pa.Array:
        """Of rows that share key and sequence, those that say something else than the first of their key."""
        first = rows.take(_first_places(ids).take(ids))
        later = pc.not_equal(rows, first)
        copies, originals = changes.take(rows.filter(later)), changes.take(first.filter(later))
        # Two deletes of one key are one delete, whatever else their rows say.
        deletes = pc.and_(pc.less(copies[self.op], 0), pc.less(originals[self.op], 0))
        differs = pc.and_not(rows_differ(copies, originals), _flat(deletes))
        return rows.filter(pc.replace_with_mask(pc.invert(later), later, differs))

    def _tie(self, changes: pa.Table, rows: pa.Array) -> Tied:
        """Of rows with two of one key at least, say which key that is, and what tells the two apart."""
        left = changes.take(rows)
        ids, _ = _key_ids(left, self.key)
        first = _first_places(ids).take(ids)
        row = pc.index(pc.not_equal(_numbers(len(ids)), first), True).as_py()
        values = {name.removeprefix(RESERVED): shown(left.column(name), row) for name in self.columns}
        place = ", ".join(f"{name} = {value}" for name, value in values.items())
        order = "order of the source" if _is_of_source(self.columns) else "sequence"
        how = f"share the {order} {place}" if place else "came together, and nothing orders them"
        difference = self._difference(left.slice(first[row].as_py(), 1), left.slice(row, 1))
        return Tied(
            f"two different changes of {self._described(left, row)} {how}: {difference}",
            hint=f"Neither is the last. {hint_of_ties(self.columns)}",
        )

    def _difference(self, one: pa.Table, other: pa.Table) -> str:
        """What two changes do not have in common, so that they can be found at their source."""
        if (one[self.op][0].as_py() < 0) != (other[self.op][0].as_py() < 0):
            return "one is a delete, the other is not"
        names = [name for name in one.column_names if name != self.op]
        differ = [name for name in names if rows_differ(one.select([name]), other.select([name]))[0].as_py()]
        if not differ:
            return "one is an insert of a new key, the other is not"
        values = (f"{name} = {shown(one[name], 0)} or {shown(other[name], 0)}" for name in differ)
        return ", ".join(islice(values, _SHOWN_MAX)) + (", …" if len(differ) > _SHOWN_MAX else "")

    def _described(self, rows: pa.Table, row: int) -> str:
        return "key " + ", ".join(f"{name} = {shown(rows.column(name), row)}" for name in self.key)


def hint_of_ties(sequence: tuple[str, ...]) -> str:
    """What to do where nothing decides between changes. The order of a feed is not for the user to name."""
    if not _is_of_source(sequence):
        return "Add a column to the sequence that tells them apart, such as the source's position."
    return (
        "Is the key of the table the source's own? Rows of the source share one that has fewer columns: "
        "leave .key() out, or declare the whole primary key. Else .on_bad_row('quarantine') takes them."
    )


def _is_of_source(sequence: tuple[str, ...]) -> bool:
    return any(name.startswith(RESERVED) for name in sequence)


def _key_ids(rows: pa.Table, key: tuple[str, ...]) -> tuple[pa.Array, int]:
    """A number for every row, from 0 and without a gap, equal where the keys are; and how many there are.
    A null equals a null, as in Iceberg's equality deletes."""
    ids, count = _value_ids(rows.column(key[0]))
    for name in key[1:]:
        more, size = _value_ids(rows.column(name))
        # Never past 2^62: both counts are at most the rows of a table, and those fit 31 bits.
        pairs = pc.add(pc.multiply(ids.cast(pa.int64()), max(size, 1)), more.cast(pa.int64()))
        ids, count = _value_ids(pa.chunked_array([pairs]))
    return ids, count


def _value_ids(column: pa.ChunkedArray) -> tuple[pa.Array, int]:
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices, len(encoded.dictionary)


def _greatest(rank: pa.Array | pa.ChunkedArray, ids: pa.Array) -> pa.Array:
    """By id, the greatest rank of its rows."""
    rows = pa.table({"id": ids, "rank": rank})
    groups = rows.group_by("id", use_threads=False).aggregate([("rank", "max")])
    return _flat(groups["rank_max"].take(pc.sort_indices(groups["id"])))


def _first_places(ids: pa.Array) -> pa.Array:
    """By id, where it stands first."""
    return pc.negate(_greatest(pc.negate(_numbers(len(ids))), ids))


def _sequence_rank(piece: pa.Table, sequence: tuple[str, ...]) -> pa.Array | pa.ChunkedArray:
    """A number for every row that orders as the sequence columns do, equal where they are."""
    if len(sequence) == 1 and pa.types.is_integer(piece.column(sequence[0]).type):
        return piece.column(sequence[0])
    columns = piece.select(list(sequence))
    order = pc.sort_indices(columns, sort_keys=[(name, "ascending") for name in sequence])
    steps = pa.repeat(pa.scalar(False), piece.num_rows - 1)
    for column in columns.take(order).columns:
        steps = pc.or_(steps, pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)))
    ranks = pa.concat_arrays([pa.array([0], pa.int64()), _flat(pc.cumulative_sum(steps.cast(pa.int64())))])
    return ranks.take(pc.sort_indices(order))


def _code(code: int) -> pa.Scalar:
    return pa.scalar(code, pa.int8())


def _numbers(count: int) -> pa.Array:
    """0, 1, 2, … without a loop."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=-1)


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
