"""Deleted places: rows of data files that are gone by their place, in two forms.

    as marks     a bit a row of the files, one value for the whole query ─▶ a filter
    as numbers   one a deleted row, a frame                              ─▶ an anti-join

To ask a bit takes a row a few steps, and a join about as long as to read the row. But marks go to executors
as a whole, and one task makes them: where they are larger than what Spark broadcasts, or very many, there are
numbers. Both are read in executors, when a query runs.

Guarantee: no deleted row comes back. A row that has no bit stops the query: its file has more rows than its
manifest says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from calve.reader.marks import BITS
from calve.reader.places import ROWS_MAX
from calve.runtime.spark.carried import WHERE, Carried
from calve.table.live import LiveFile

_DELETES_MAX = 10_000_000
"""Of deleted places that one task makes marks of: a few seconds."""
_SHIFT = BITS.bit_length() - 1


@dataclass(frozen=True)
class DeletedPlaces:
    """Of data files, and where these stand."""

    carried: Carried
    files: Sequence[tuple[LiveFile, tuple[LiveFile, ...]]]

    def number(self, file: LiveFile) -> int:
        """What tells a row which of the files it is in."""
        return self._numbers[file.path] * (1 if self._are_marked else ROWS_MAX)

    def left_out(self, frame: DataFrame, number: Column, place: Column) -> DataFrame:
        """Rows that are not deleted, by the number of their file and their place in it."""
        if not self._are_marked:
            return frame.join(self._frame, F.col(WHERE) == number + place, "left_anti")
        word = F.get(F.get(self._marks.scalar(), number.cast("int")), F.shiftright(place, _SHIFT).cast("int"))
        bit = F.getbit(word, place.bitwiseAND(F.lit(BITS - 1)).cast("int"))
        more = F.raise_error(F.lit("calve: a file has more rows than its manifest says"))
        return frame.where(F.coalesce(bit == 0, more.cast("boolean")))

    @cached_property
    def _are_marked(self) -> bool:
        bits = sum(file.records + BITS for file, _ in self.files)
        return bits <= 8 * self.carried.broadcast_bytes_max and self._count <= _DELETES_MAX

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {file.path: number for number, (file, _) in enumerate(self.files)}

    @cached_property
    def _deletes(self) -> list[tuple[LiveFile, int | None]]:
        """Each once; a vector with the number of its file."""
        found: dict[tuple[str, tuple[int, int] | None], tuple[LiveFile, int | None]] = {}
        for number, (_, deletes) in enumerate(self.files):
            for one in deletes:
                found[one.path, one.blob] = (one, None if one.blob is None else number)
        return list(found.values())

    @property
    def _count(self) -> int:
        return sum(one.records for one, _ in self._deletes)

    @cached_property
    def _frame(self) -> DataFrame:
        frame = self.carried.places([file.path for file, _ in self.files], self._deletes)
        return self.carried.sized(frame, self._count)

    @cached_property
    def _marks(self) -> DataFrame:
        return self.carried.marks([file for file, _ in self.files], self._deletes)
