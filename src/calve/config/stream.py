"""StreamConfig: a sink, and how its stream tells time.

    stream ──time column──▶ times ──┐
           ──frontier─────▶ F ──────┴──▶ batches [lower, upper)

A stream that says nothing of time has none of its own: then the micro-batch is the batch. Otherwise every
change has a time, and something tells how far the stream has come: marks in the stream itself, which are a
promise, or a watermark or the greatest time so far, which are an estimate. Settings that contradict one
another, or that would have no effect, are refused here, before a query starts.

Not here: whether the stream has these columns, and of which type (runtime/spark/checks.py).
"""

from __future__ import annotations

import uuid
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, field_validator, model_validator

from calve.config.parquet import Count
from calve.config.settings import Settings
from calve.config.sink import ColumnName, Delivery, Mode, Place, SinkConfig
from calve.model.columns import PARTITION
from calve.model.errors import About, BadKey, ConfigError
from calve.model.time import TIME_MAX

Units = Annotated[int, Field(strict=True, le=TIME_MAX)]
"""A distance in units of the time column; microseconds where that is a timestamp."""


class FrontierKind(StrEnum):
    """What tells how far the stream has come."""

    NONE = "none"  # nothing: the micro-batch is the batch
    WATERMARK = "watermark"  # Spark's own watermark on the time column; an estimate
    MAXIMUM = "maximum"  # the greatest time so far, less a delay; an estimate
    MARK = "mark"  # rows that say it; a promise


class BadRows(StrEnum):
    """What becomes of a row that does not fit (P8)."""

    FAIL = "fail"  # the query stops with the row's place
    QUARANTINE = "quarantine"  # the row goes to a table beside the target, and is counted


def _query_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        reason = f"replaces_checkpoint is {text[:60]!r}, not the id of a checkpoint"
    raise ConfigError(
        reason,
        hint="The error of the refused query names it; it is also the 'id' in the old checkpoint's metadata.",
        about="replaces_checkpoint",
    )


class StreamConfig(Settings):
    """What a user asked for of one stream into one table."""

    PLACE: ClassVar[str] = ""

    if TYPE_CHECKING:
        # Texts and mappings are taken where a field holds a parsed value: type checkers may not know that.
        def __init__(self, **data: Any) -> None: ...

    sink: SinkConfig
    checkpoint: Place = None
    """Spark's checkpointLocation; none only for a bounded write."""

    time_column: ColumnName | None = None
    """The column of a change's time. None exactly where there is no frontier."""
    frontier: FrontierKind = FrontierKind.NONE
    frontier_delay: Annotated[Units, Field(ge=0)] = 0
    """MAXIMUM: how far behind the greatest time a change may still come."""
    mark_column: ColumnName | None = None
    """MARK: a row where it is not null is no change, but says: no change before this time is to come."""
    partition_column: ColumnName | None = None
    """MARK: which partition of the source speaks; the frontier is the least over all of them."""
    partitions: Annotated[Count, Field(ge=1)] | None = None
    """MARK: how many partitions there are; until all have spoken there is no frontier."""
    commit_interval: Annotated[Units, Field(ge=1)] | None = None
    """Batches end at multiples of it, in source time."""
    until: Annotated[str, Field(strict=True)] | None = None
    """A time of the source, as a person writes it: a batch ends with it, and nothing is committed beyond."""

    on_bad_row: BadRows = BadRows.FAIL
    bad_rows_max: Annotated[Count, Field(ge=1)] = 10_000
    """Rows that a micro-batch may send to quarantine; one more, and the query stops."""

    carried: tuple[tuple[str, str], ...] = ()
    """Columns that come in a carrier, and what they are: `uuid` or `time` (writer/carry.py)."""

    replaces_checkpoint: Annotated[str, Field(strict=True), AfterValidator(_query_id)] | None = None
    """The id of a lost checkpoint that this one goes on for: the query id of the runs that had it."""
    tasks: Annotated[Count, Field(ge=1, le=1_000_000)] | None = None
    """Tasks of the shuffle by key; as many as the session's shuffle partitions, when nothing is said."""

    @field_validator("frontier", "on_bad_row", mode="before")
    @classmethod
    def _word(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _together(self) -> StreamConfig:
        _check_time(self)
        _check_marks(self)
        _check_columns(self)
        _check_rest(self)
        return self

    @property
    def columns_taken_off(self) -> frozenset[str]:
        """Columns of the stream that are no data, and are not in the table, where the stream has them."""
        taken = {self.mark_column} if self.mark_column is not None else set()
        return frozenset(taken if self.sink.mode is Mode.APPEND else taken | {self.sink.op_column})

    @property
    def source(self) -> str:
        """What the times mean, without the column's type: for messages and for progress."""
        return "micro-batch" if self.time_column is None else f"column {self.time_column}"

    def __str__(self) -> str:
        return f"StreamConfig({self.sink.table_name}, {self.sink.mode}, times by {self.source})"


def _check_time(config: StreamConfig) -> None:
    kind = config.frontier
    if kind is FrontierKind.NONE and config.time_column is not None:
        raise ConfigError(
            f"the times stand in {config.time_column!r}, but nothing tells how far the stream has come",
            hint="Say what does: frontier maximum with a delay, watermark or mark. Without a time column the "
            "micro-batch is the batch.",
            about="sequence_by",
        )
    if kind is not FrontierKind.NONE and config.time_column is None:
        raise ConfigError(
            f"there is a frontier ({kind}), but no column of times that it speaks of",
            hint="Name the column first in sequence_by, or leave the frontier out: then the micro-batch is "
            "the batch.",
            about="frontier",
        )
    if config.frontier_delay and kind is not FrontierKind.MAXIMUM:
        raise ConfigError(
            f"frontier_delay has no effect with a frontier of kind {kind}",
            hint="Leave it out. A watermark has its delay in withWatermark, and a mark is a promise.",
            about="frontier_delay",
        )
    if config.commit_interval is not None and kind is FrontierKind.NONE:
        raise ConfigError(
            "commit_interval counts in the stream's own time, and this stream has none",
            hint="Name its time by sequence_by and a frontier, or set the trigger: then the micro-batch is "
            "the batch.",
            about="commit_interval",
        )


def _check_marks(config: StreamConfig) -> None:
    is_mark = config.frontier is FrontierKind.MARK
    if is_mark and config.mark_column is None:
        raise ConfigError(
            "the frontier comes from marks, but no mark_column is named",
            hint="Name the column that is null in changes and holds a time in marks.",
        )
    useless = [
        field
        for field in ("mark_column", "partition_column", "partitions")
        if not is_mark and getattr(config, field) is not None
    ]
    if useless:
        raise ConfigError(
            f"{useless[0]} has no effect with a frontier of kind {config.frontier}",
            hint="Leave it out, or take the frontier from marks.",
            about=useless[0],
        )
    # Where an envelope names partitions, the source says how many there are.
    named = config.partition_column is not None and config.partition_column != PARTITION
    if named != (config.partitions is not None):
        raise ConfigError(
            "partition_column and partitions belong together: the frontier waits for every partition",
            hint="Give the column and how many partitions there are, or neither where there is one.",
        )


def _check_columns(config: StreamConfig) -> None:
    """A column that is taken off carries nothing of the data; and the time orders before all else."""
    sink = config.sink
    taken = dict.fromkeys((sink.op_column,) if sink.mode is not Mode.APPEND else (), "op_column")
    for field in ("time_column", "mark_column", "partition_column"):
        name = getattr(config, field)
        if name in taken:
            raise BadKey(
                f"{field} and {taken[name]} are both {name!r}",
                hint="Each is a column of its own.",
                about=taken[name],
            )
        if name is not None:
            taken[name] = field
    data = {"key": sink.key, "sequence_by": sink.sequence_by}
    data |= {"partition": tuple(field.column for field in sink.partition)}
    data |= {"sort": tuple(field.column for field in sink.sort)}
    for field, names in data.items():
        if config.mark_column in names:
            raise BadKey(
                f"{field} names {config.mark_column!r}, which is the mark_column and not of the data",
                hint="Name another column.",
                about=About(field, str(config.mark_column)),
            )
    first = next(iter(sink.sequence_by), None)
    if config.time_column is not None and first != config.time_column:
        if first is None and sink.mode is not Mode.UPSERT:
            return  # without a key's order to keep, the time alone places a change
        raise BadKey(
            f"sequence_by begins with {first!r}, but the times stand in {config.time_column!r}",
            hint="The order of a key's changes begins with their time: otherwise a change of a later batch "
            "could be the older one.",
            about="sequence_by",
        )


def _check_rest(config: StreamConfig) -> None:
    if config.sink.delivery is Delivery.AT_LEAST_ONCE:
        raise ConfigError(
            "delivery 'at-least-once' is of a sink without Spark: a stream is written exactly once, always",
            hint="Leave 'delivery.guarantee' out.",
            about="delivery",
        )
    if "bad_rows_max" in config.model_fields_set and config.on_bad_row is BadRows.FAIL:
        raise ConfigError(
            "bad_rows_max has no effect where the first bad row stops the query",
            hint="Set on_bad_row to 'quarantine', or leave bad_rows_max out.",
            about="bad_rows_max",
        )
    if config.replaces_checkpoint is not None and config.checkpoint is None:
        raise ConfigError(
            "replaces_checkpoint is given, but no checkpoint goes on for the old one",
            hint="Give the checkpointLocation of this query.",
            about="replaces_checkpoint",
        )
    if config.tasks is not None and not config.sink.key:
        raise ConfigError(
            f"tasks has no effect in {config.sink.mode} mode without a key: rows are not shuffled",
            hint="Leave it out; repartition the stream itself for fewer files.",
            about="tasks",
        )
