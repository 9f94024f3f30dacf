"""Candidates: quarantined rows as they would be written, and what becomes of each.

    entries ─▶ their rows ─▶ mended ─▶ sifted against the table as it is ─┬─▶ does not fit: stays
                                                                          └─▶ candidate ─▶ its fate

Rows are grouped by their columns, which are those that the stream had when it sent them. The fate of a row is
`protocol/readmit.py`'s to say; here it is told what the table has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from calve.config.sink import Mode, SinkConfig
from calve.model.errors import BadRow, ConfigError, SchemaMismatch
from calve.model.file import FileClosed
from calve.protocol.readmit import Candidate, Fate, Key, Rules, fates
from calve.runtime.replay.kept import Entry
from calve.runtime.replay.names import ReadAs
from calve.runtime.replay.scan import rows_with
from calve.runtime.rows import reading_of
from calve.table.base import Base
from calve.table.schema import to_arrow
from calve.writer.changes import TIME_COLUMN, arrive, changes
from calve.writer.ops import DELETE, OP_COLUMN
from calve.writer.quarantine import from_stream
from calve.writer.sift import sift

Fix = Callable[[pa.Table], pa.Table]

_ID = "__calve_id"
_NO_TIME = BadRow("the time is null", hint="Every change needs its time: mend the row.")
_NEGATIVE = BadRow("the time is negative", hint="Times count from 0 on: mend the row.")

_STAYS = {
    Fate.ABSENT: BadRow(
        "its key is not in the table: it was never there, or it was deleted since",
        hint="If such rows belong there, replay with --absent insert (absent='insert').",
    ),
    Fate.AHEAD: BadRow(
        "the stream has not come so far: an older change of the key may still be on its way",
        hint="Let the stream go on until the table's frontier is past it, then replay again.",
    ),
    Fate.TIED: BadRow(
        "another row of the quarantine says something else of the same key at the same place of its order",
        hint="Mend one of them (fix=), or delete it from the quarantine's table.",
    ),
}


@dataclass(slots=True)
class Mended:
    """The rows of entries, mended once: what mends them may not do the same twice."""

    fix: Fix | None = None
    _rows: dict[str, pa.Table] = field(default_factory=dict)

    def groups(self, entries: Iterable[Entry]) -> Iterator[pa.Table]:
        """Rows that have the same columns, with the ids and the times of their entries."""
        entries = list(entries)
        self._mend([entry for entry in entries if entry["id"] not in self._rows])
        for group in _by_schema([(entry, self._rows[entry["id"]]) for entry in entries]):
            rows = pa.concat_tables([row for _, row in group])
            times = pa.array([entry["time"] for entry, _ in group], pa.decimal128(38, 0))
            ids = pa.array([entry["id"] for entry, _ in group], pa.string())
            yield rows.append_column(_ID, ids).append_column(TIME_COLUMN, times)

    def _mend(self, entries: list[Entry]) -> None:
        for group in _by_schema([(entry, from_stream(entry["arrow"])) for entry in entries]):
            rows = pa.concat_tables([row for _, row in group])
            mended = rows if self.fix is None else self.fix(rows)
            if not isinstance(mended, pa.Table) or mended.num_rows != rows.num_rows:
                got = f"{mended.num_rows} rows" if isinstance(mended, pa.Table) else type(mended).__name__
                raise ConfigError(
                    f"fix was given an Arrow table of {rows.num_rows} rows and gave back {got}",
                    hint="It mends rows: give back an Arrow table with as many, in the same order.",
                )
            self._rows |= {entry["id"]: mended.slice(place, 1) for place, (entry, _) in enumerate(group)}


def _by_schema(rows: Sequence[tuple[Entry, pa.Table]]) -> list[list[tuple[Entry, pa.Table]]]:
    groups: dict[bytes, list[tuple[Entry, pa.Table]]] = {}
    for entry, row in rows:
        groups.setdefault(row.schema.serialize().to_pybytes(), []).append((entry, row))
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class Sorted:
    """What becomes of entries."""

    rows: pa.Table | None
    """Changes that go in, with the table's columns, and op codes where it has a key."""
    applied: int
    superseded: int
    stays: dict[str, BadRow]
    """By id, why an entry stays in the quarantine."""


class _Stays:
    """Takes rows that do not fit."""

    def __init__(self) -> None:
        self.why: dict[str, BadRow] = {}

    @property
    def rows(self) -> int:
        return len(self.why)

    def take(self, rows: pa.Table, why: BadRow) -> None:
        self.why |= dict.fromkeys(rows[_ID].to_pylist(), why)

    def close(self) -> list[FileClosed]:
        return []


@dataclass(frozen=True, slots=True)
class Desk:
    """Where rows are sorted that were read in one way."""

    config: SinkConfig
    """Of the replay's sink in the target."""
    read_as: ReadAs
    rules: Rules

    @property
    def looks_at_rows(self) -> bool:
        """Whether what goes in depends on the rows that are in the table."""
        return bool(self.config.key) and not self.rules.newest

    def sort(self, entries: Sequence[Entry], mended: Mended, base: Base) -> Sorted:
        """What becomes of entries, on the table as it is now."""
        stays = _Stays()
        schema = to_arrow(base.metadata.schema())
        found = [
            rows for group in mended.groups(entries) for rows in sift(group, self._reader(schema), stays)
        ]
        if not found:
            return Sorted(None, 0, 0, stays.why)
        fitting = pa.concat_tables(found)
        verdicts = self._fates(fitting, {entry["id"]: entry["batch"] for entry in entries}, base)
        stays.why |= {id_: _STAYS[fate] for id_, fate in verdicts.items() if fate in _STAYS}
        applied = [id_ for id_, fate in verdicts.items() if fate is Fate.APPLY]
        rows = fitting.filter(pc.is_in(fitting[_ID], value_set=pa.array(applied, pa.string())))
        rest = len(verdicts) - len(applied) - sum(fate in _STAYS for fate in verdicts.values())
        return Sorted(
            rows.drop_columns([_ID, TIME_COLUMN]) if applied else None, len(applied), rest, stays.why
        )

    def _reader(self, schema: pa.Schema) -> Callable[[pa.Table, int], pa.Table]:
        reading = reading_of(self.config)

        def read(part: pa.Table, start: int) -> pa.Table:
            ids = part[_ID]
            try:
                times = self._times(part)
                plain = part.drop_columns([_ID, TIME_COLUMN])
                fitting = changes(reading, arrive(reading, plain, times, start), schema)
            except SchemaMismatch as mismatch:  # of this row: others may have had other columns
                raise BadRow(mismatch.message, hint=mismatch.hint) from mismatch
            wide = times.cast(pa.decimal128(38, 0))
            return fitting.append_column(_ID, ids).append_column(TIME_COLUMN, wide)

        return read

    def _times(self, rows: pa.Table) -> pa.ChunkedArray:
        """The times of rows, as the stream told them: from their column, which may have been mended."""
        name = self.read_as.time_column
        if name is None:
            return rows[TIME_COLUMN].cast(pa.int64())
        if name not in rows.column_names:
            raise BadRow(f"there is no column {name!r}, which tells the time", hint="Mend the row.")
        column = rows[name]
        try:
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.timestamp("us", column.type.tz))
            times = column.cast(pa.decimal128(38, 0) if pa.types.is_decimal(column.type) else pa.int64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadRow(f"column {name!r} tells no time: {error}", hint="Mend the row.") from error
        if times.null_count:
            raise _NO_TIME
        if pc.any(pc.less(times, pa.scalar(0, times.type))).as_py():
            raise _NEGATIVE
        return times

    def _fates(self, rows: pa.Table, batches: dict[str, int], base: Base) -> dict[str, Fate]:
        ids = rows[_ID].to_pylist()
        if not self.config.key:
            return dict.fromkeys(ids, Fate.APPLY)
        key, sequence = self._order()
        deletes = pc.equal(rows[OP_COLUMN], DELETE).to_pylist()
        said = rows.drop_columns([_ID, TIME_COLUMN]).to_pylist()
        candidates = [
            Candidate(
                id=id_,
                key=tuple(row[name] for name in key),
                # Where the rows have no order of their own, that of their micro-batches is left.
                sequence=tuple(row[name] for name in sequence) if sequence else self._place(batches[id_]),
                content="delete" if delete else repr(row),
                delete=delete,
                time=None if time is None else int(time),
            )
            for id_, row, delete, time in zip(ids, said, deletes, rows[TIME_COLUMN].to_pylist(), strict=True)
        ]
        present = self._present(rows, base, key, sequence) if self.looks_at_rows else {}
        return fates(candidates, present, self.rules)

    def _order(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What identifies a change, and what orders those that are the same by it."""
        if self.config.mode is Mode.CHANGELOG:
            return (*self.config.key, self.config.changelog_op_column, self.config.changelog_time_column), ()
        return self.config.key, self.config.sequence_by

    def _place(self, batch: int) -> tuple[int, ...]:
        return (batch,) if self.config.mode is Mode.UPSERT else ()

    def _present(
        self, rows: pa.Table, base: Base, key: tuple[str, ...], sequence: tuple[str, ...]
    ) -> dict[Key, tuple[Any, ...] | None]:
        found: dict[Key, tuple[Any, ...] | None] = {}
        for row in rows_with(base, rows.select(list(key)), (*key, *sequence)).to_pylist():
            place = tuple(row[name] for name in sequence)
            known = found.setdefault(tuple(row[name] for name in key), None)
            if not any(value is None or value != value for value in place):
                found[tuple(row[name] for name in key)] = place if known is None else max(known, place)
        return found
