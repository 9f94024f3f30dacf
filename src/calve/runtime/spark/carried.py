"""Carried: files of a table by pyarrow in executors, for stores that Spark's own file systems do not reach.

    files ─▶ pieces of about a task's size ─▶ bundles ─▶ a task each ─▶ record batches ─▶ rows

Nothing but numbers stands in Spark's plan: paths and logins go with the code of the tasks, as they do for a
writer's (P10). All columns are read, whatever is asked for later: Spark does not tell Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.types import NestedField
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.model.columns import RESERVED
from calve.reader.columns import Names
from calve.reader.files import Piece
from calve.reader.places import Places
from calve.reader.task import MarksPlan, PlacesPlan, RowsOf, RowsPlan, marks_task, places_task, rows_task
from calve.runtime.spark.shapes import carried_column, name_by_id, own_name, stored_field
from calve.runtime.spark.ship import ship
from calve.store import Access
from calve.table.live import LiveFile

_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
_OPEN_BYTES = 4 * 1024 * 1024
"""What a file costs beside its bytes."""
_ROW_BYTES = 16
"""What a row costs in a join beside its columns."""
_NARROW = (T.NumericType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
_BUNDLE = "spark.sql.files.maxPartitionBytes"
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
WHERE = RESERVED + "where"
"""Which row of which file: see `reader.places.ROWS_MAX`."""


@dataclass(frozen=True)
class Carried:
    """Reads files in Python."""

    spark: SparkSession
    access: Access
    names: Names
    constants: Callable[[LiveFile], tuple[tuple[int, pa.Array], ...]]
    """Values of a file's partition, for files that lack them."""

    def rows(
        self,
        files: Sequence[tuple[LiveFile, tuple[int, ...]]],
        columns: Sequence[NestedField],
        tags: Sequence[str],
        deleted: Callable[[LiveFile], tuple[Places, ...]],
    ) -> DataFrame:
        """The columns of files, less the rows at deleted places, then a column for each tag."""
        wanted = tuple(carried_column(field) for field in columns)
        pieces = [
            (size, RowsOf(piece, deleted(file), values))
            for file, values in files
            for size, piece in self._pieces(file)
        ]
        bundles = tuple(map(tuple, self._bundles(pieces)))
        plan = RowsPlan(wanted, tuple(tags), self.names, self.access, bundles)
        fields = [
            T.StructField(name_by_id(field), stored_field(field, own_name).dataType) for field in columns
        ]
        schema = T.StructType([*fields, *(T.StructField(tag, T.LongType()) for tag in tags)])
        return self._tasks(len(bundles)).mapInArrow(partial(rows_task, plan), schema)

    def column(self, field: NestedField) -> Column:
        """A column of the rows."""
        return F.col(name_by_id(field))

    def places(self, files: Sequence[str], deletes: Sequence[tuple[LiveFile, int | None]]) -> DataFrame:
        """Deleted places of data files: one number for a file among them and a place in it."""
        bundles = self._bundles(
            [
                (file.size if file.blob is None else file.blob[1], (places_in(file), of))
                for file, of in deletes
            ]
        )
        plan = PlacesPlan(tuple(files), tuple(map(tuple, bundles)), self.access, WHERE)
        schema = T.StructType([T.StructField(WHERE, T.LongType())])
        return self._tasks(len(bundles)).mapInArrow(partial(places_task, plan), schema)

    def marks(self, files: Sequence[LiveFile], deletes: Sequence[tuple[LiveFile, int | None]]) -> DataFrame:
        """One row: of each data file in their order, the marks of its deleted places."""
        known = tuple((file.path, file.records) for file in files)
        plan = MarksPlan(known, tuple((places_in(file), of) for file, of in deletes), self.access, WHERE)
        schema = T.StructType([T.StructField(WHERE, T.ArrayType(T.ArrayType(T.LongType())))])
        return self._tasks(1).mapInArrow(partial(marks_task, plan), schema)

    def _tasks(self, count: int) -> DataFrame:
        ship(self.spark)
        return self.spark.range(0, count, 1, count)

    def sized(self, frame: DataFrame, rows_max: int) -> DataFrame:
        """The frame with a hint where it is as small as what Spark broadcasts. Manifests know how many rows
        a delete file has; Spark would guess from a join that it is huge."""
        width = _ROW_BYTES + sum(_width(one.dataType) for one in frame.schema)
        return F.broadcast(frame) if rows_max * width <= self.broadcast_bytes_max else frame

    @property
    def broadcast_bytes_max(self) -> int:
        """What Spark sends to executors as a whole."""
        return spark_bytes(str(self.spark.conf.get(_BROADCAST)))

    @property
    def _bundle_bytes(self) -> int:
        return spark_bytes(str(self.spark.conf.get(_BUNDLE)))

    def _pieces(self, file: LiveFile) -> list[tuple[int, Piece]]:
        """A file in pieces that are no larger than a bundle."""
        size = self._bundle_bytes
        starts = range(0, max(file.size, 1), size)
        whole = Piece(file.path, constants=self.constants(file))
        return [
            (min(size, file.size - start), replace(whole, first=start, end=start + size)) for start in starts
        ]

    def _bundles(self, sized: Sequence[tuple[int, Any]]) -> list[list[Any]]:
        """Things by their sizes, in bundles of about the same: as many as there are cores, or more where one
        would be too large."""
        total = sum(size + _OPEN_BYTES for size, _ in sized)
        cores = self.spark.sparkContext.defaultParallelism
        most = min(self._bundle_bytes, max(_OPEN_BYTES, total // cores))
        bundles: list[list[Any]] = []
        room = 0
        for size, one in sorted(sized, key=lambda pair: -pair[0]):
            if not bundles or room < size:
                bundles.append([])
                room = most
            bundles[-1].append(one)
            room -= size + _OPEN_BYTES
        return bundles


def places_in(file: LiveFile) -> Places:
    """A delete file as tasks know it."""
    return Places(file.path, file.blob)


def _width(kind: T.DataType) -> int:
    return 8 if isinstance(kind, _NARROW) else 32


def spark_bytes(text: str) -> int:
    """A size as Spark's settings have it: 134217728, 128m, 128MB, 134217728b."""
    match = re.fullmatch(r"\s*(-?\d+)\s*([kmgt]?)i?b?\s*", text.lower())
    return 128 * 2**20 if match is None else int(match[1]) * _UNITS[match[2]]
