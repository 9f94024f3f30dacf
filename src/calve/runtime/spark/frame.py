"""Frame: what Spark does with the rows of a micro-batch. They never reach the driver.

    frame ─▶ with_time ─▶ survey: how many, from when to when, marks           (one evaluation, kept)
                   ├────▶ closed rows ─▶ by key, by time ─▶ tasks ─▶ Report     (a row a file comes back)
                   └────▶ open rows ──▶ a segment of the stash

The time of a row is a long, or a decimal where a long is too small: in a shuffle a decimal costs half as much
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.sink import Mode, NullKeys
from calve.config.stream import StreamConfig
from calve.model.batch import Batch
from calve.model.columns import CLOCK, ERROR, PARTITION, POSITION, RESERVED, TIME
from calve.model.errors import BadRow, ConfigError
from calve.runtime.spark.stash import Segment
from calve.writer.changes import TIME_COLUMN
from calve.writer.messages import SPARK_SCHEMA, Report
from calve.writer.ops import WORDS as OP_WORDS
from calve.writer.task import TaskPlan, run_task

_LONG_MAX = 2**63 - 1
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_DECIMAL = "decimal(38,0)"


@dataclass(frozen=True, slots=True)
class Survey:
    """What a micro-batch holds."""

    rows: int
    misplaced: int
    """Rows without a key, a time or a sequence, or before all time: they belong to no batch."""
    least: int | None
    greatest: int | None
    marks: Mapping[str, int]
    """The greatest time that each partition said."""
    resolved: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """All times that each partition said."""


@dataclass(frozen=True, slots=True)
class Clockwork:
    """How a frame tells time: the columns, as Spark expressions."""

    config: StreamConfig
    schema: T.StructType

    @property
    def is_decimal(self) -> bool:
        return isinstance(self._type, T.DecimalType)

    @property
    def is_timestamp(self) -> bool:
        return isinstance(self._type, T.TimestampType | T.TimestampNTZType)

    @property
    def meaning(self) -> str:
        """What the times mean: a sink never goes on under another meaning."""
        return f"column {self.config.time_column} ({self._type.simpleString()})"

    @property
    def _type(self) -> T.DataType:
        return self.schema[str(self.config.time_column)].dataType

    def with_time(self, frame: DataFrame) -> DataFrame:
        """The frame with the time of every row as a number. The time of an envelope is renamed: what stands
        twice in a frame is shuffled twice."""
        time = str(self.config.time_column)
        timed = frame.withColumn(TIME_COLUMN, self._number(time))
        return timed.drop(TIME) if time == TIME else timed

    def literal(self, time: int) -> Column:
        """A time that can be compared with the column."""
        if self.is_decimal:
            return F.lit(str(time)).cast(_DECIMAL)
        return F.lit(min(time, _LONG_MAX)).cast("long")

    def is_change(self) -> Column:
        mark = self.config.mark_column
        return F.lit(True) if mark is None else column(mark).isNull()

    def is_misplaced(self) -> Column:
        """Whether a row belongs to no batch, because it lacks what says to which."""
        sink = self.config.sink
        needed = [TIME_COLUMN, *(name for name in sink.sequence_by if name != TIME)]
        needed += sink.key if sink.null_keys is NullKeys.REFUSE else ()
        missing = F.coalesce(column(TIME_COLUMN) < 0, F.lit(False))
        for name in needed:
            missing = missing | column(name).isNull()
        if sink.mode is not Mode.APPEND and sink.op_column in self.schema.names:
            said = column(sink.op_column)
            # Materialize's diffs are numbers.
            diffs = isinstance(self.schema[sink.op_column].dataType, T.IntegralType)
            is_op = said != 0 if diffs else said.isin(*OP_WORDS)
            missing = missing | ~F.coalesce(is_op, F.lit(False))
        if ERROR in self.schema.names:
            missing = missing | column(ERROR).isNotNull()
        return missing

    def survey(self, frame: DataFrame) -> Survey:
        """What a frame holds: marks by partition, and all changes as one group."""
        mark, spoke = self.config.mark_column, self.config.partition_column
        change, time = self.is_change(), column(TIME_COLUMN)
        timed = change & ~self.is_misplaced()  # a row that is refused says nothing of how far the stream is
        who = F.lit("") if spoke is None else column(spoke).cast("string")
        said = F.lit(None).cast("long") if mark is None else self._number(mark)
        rows = (
            frame.groupBy(change.alias("change"), F.when(~change, who).alias("who"))
            .agg(
                F.count_if(change).alias("rows"),
                F.count_if(change & self.is_misplaced()).alias("misplaced"),
                F.min(F.when(timed, time)).alias("least"),
                F.max(F.when(timed, time)).alias("greatest"),
                F.collect_set(said).alias("marks"),
            )
            .collect()
        )
        changes: Any = next((row for row in rows if row["change"]), None)
        said_by = {row["who"]: [int(time) for time in row["marks"]] for row in rows if not row["change"]}
        if None in said_by:
            raise BadRow(
                f"a mark ({mark} = {max(said_by[None])}) does not say of which partition it is: {spoke!r} is "
                "null",
                hint="Fill it at the source: a mark of nobody would move the frontier past others' changes.",
            )
        marks = {str(name): max(times) for name, times in said_by.items()}
        resolved = {str(name): frozenset(times) for name, times in said_by.items()}
        if changes is None:
            return Survey(0, 0, None, None, marks, resolved)
        least, greatest = changes["least"], changes["greatest"]
        return Survey(
            changes["rows"],
            changes["misplaced"],
            None if least is None else int(least),
            None if greatest is None else int(greatest),
            marks,
            resolved,
        )

    def before(self, upper: int) -> Column:
        """Rows of closed batches, and those that belong to none: tasks find out what is wrong with them."""
        return (column(TIME_COLUMN) < self.literal(upper)) | self.is_misplaced()

    def from_on(self, upper: int) -> Column:
        """Rows that must wait."""
        return (column(TIME_COLUMN) >= self.literal(upper)) & ~self.is_misplaced()

    def within(self, batch: Batch) -> Column:
        time = column(TIME_COLUMN)
        return (time >= self.literal(batch.lower)) & (time < self.literal(batch.upper))

    def _number(self, name: str) -> Column:
        kind, value = self.schema[name].dataType, column(name)
        match kind:
            case T.TimestampType():
                return F.unix_micros(value)
            case T.TimestampNTZType():
                # Not by a cast: that would read the value in the session's zone.
                epoch = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
                return F.expr(f"timestampdiff(MICROSECOND, {epoch}, {quoted(name)})")
            case T.DecimalType(scale=0) if self.is_decimal:
                return value.cast(_DECIMAL)
            case _ if isinstance(kind, _INTEGERS):
                return value.cast(_DECIMAL if self.is_decimal else "long")
        raise ConfigError(
            f"column {name!r} is {kind.simpleString()}, which is no time",
            hint="Times are integers, decimals without a fraction, or timestamps.",
        )


def without_marks(frame: DataFrame, config: StreamConfig) -> DataFrame:
    """Changes without the columns that only marks and positions speak in."""
    taken = [POSITION] if POSITION not in config.sink.sequence_by else []
    taken += [CLOCK]
    taken += [PARTITION] if config.mark_column is None else [config.mark_column, PARTITION]
    return frame.drop(*(column(name) for name in taken if name in frame.columns))


def run_tasks(frame: DataFrame, plan: TaskPlan, key: Sequence[str], tasks: int) -> Report:
    """Write the rows of a frame; what the tasks say of it. All changes of a key go to one task."""
    if key:
        frame = frame.repartition(tasks, *map(column, key))
    if len(plan.slots) > 1:
        frame = frame.sortWithinPartitions(column(TIME_COLUMN))
    names = frame.columns
    # PySpark hands columns to Arrow by names that it does not quote.
    numbered = frame.toDF(*(f"{RESERVED}{number}" for number in range(len(names))))
    plan = replace(plan, columns=tuple(names))
    rows = numbered.mapInArrow(partial(run_task, plan), SPARK_SCHEMA).collect()
    report = Report.of((row["kind"], row["body"]) for row in rows)
    if report.refused is not None:
        raise report.refused
    return report


def write_segment(frame: DataFrame, path: str, uri: str) -> Segment | None:
    """Keep rows for later; `None` if there is none."""
    seen = Observation()
    time = column(TIME_COLUMN)
    counted = frame.observe(
        seen, F.count(F.lit(1)).alias("rows"), F.min(time).alias("least"), F.max(time).alias("greatest")
    )
    counted.write.parquet(uri)
    said = seen.get
    if not said["rows"]:
        return None
    columns = hashlib.sha256(frame.schema.json().encode()).hexdigest()[:16]
    return Segment(path, int(said["least"]), int(said["greatest"]) + 1, int(said["rows"]), columns)


def read_segments(spark: SparkSession, segments: Sequence[Segment], uri: Callable[[str], str]) -> DataFrame:
    """The rows of segments. Runs that kept them may have had other columns, or narrower ones: where one lacks
    a column its rows have nulls, and of two types the wider one holds."""
    by_columns: dict[str, list[str]] = {}
    for segment in segments:
        by_columns.setdefault(segment.columns, []).append(uri(segment.path))
    frames = [spark.read.parquet(*paths) for paths in by_columns.values()]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def column(name: str) -> Column:
    """A column by its whole name, which may hold a dot."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
