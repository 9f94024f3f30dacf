"""Checks: all that can be refused before a query starts, from schema, settings and the table as it is.

    frame ─▶ is it one that we can write? ─▶ columns: there, and of a type that serves? ─▶ table: does it fit?

Guarantee: nothing is created, claimed or written here. What passes can still meet a row that does not fit;
but no call that was wrong from the start becomes a running query. An error names the column and the nearest
right one.

Not here: settings that contradict one another (config/stream.py), where a catalog is (lakes.py).
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from calve.config.settings import label
from calve.config.sink import Mode, SinkConfig
from calve.config.stream import FrontierKind, StreamConfig
from calve.model.errors import About, BadKey, BadName, ConfigError, TableDiffers, TableMissing
from calve.model.progress import claimed_property
from calve.runtime.first import check_first, wanted_table
from calve.runtime.spark.frame import Clockwork
from calve.runtime.spark.run import arrival_of
from calve.runtime.spark.ship import is_local
from calve.runtime.start import check_fence, kind_of
from calve.store import check_location
from calve.store.reach import reach
from calve.table.commit import load
from calve.table.create import check_table
from calve.table.evolve import evolve
from calve.table.fileio import access_of
from calve.table.location import is_local as is_folder
from calve.table.plan import data_location
from calve.table.schema import nearest
from calve.writer.changes import Arrival

_log = logging.getLogger("calve.spark")

_RESERVED = "__calve_"
_WATERMARK = "spark.watermarkDelayMs"
"""Where Spark notes in a column's metadata that `withWatermark` named it."""

_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"


# ---------------------------------------------------------------- the frame


def check_frame(frame: object, *, streaming: bool) -> DataFrame:
    """The frame itself, if it is one that this process can write."""
    ours, other = ("write_stream", "write") if streaming else ("write", "write_stream")
    if not isinstance(frame, DataFrame):
        raise ConfigError(
            f"calve.{ours} takes a Spark DataFrame, not a {type(frame).__name__}",
            hint=f"For example calve.{ours}(spark.{'readStream' if streaming else 'read'}.…).",
        )
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise ConfigError(
            "this is a session of Spark Connect, which calve does not support: foreachBatch would run on the "
            "server, in a process that has neither this one's catalog nor what it knows of the query",
            hint="Run the job as a driver: spark-submit, or SparkSession.builder.master(…) without "
            "SPARK_REMOTE and with spark.api.mode=classic.",
        )
    if frame.isStreaming != streaming:
        raise ConfigError(
            f"calve.{ours} takes a {'streaming' if streaming else 'bounded'} DataFrame, and this one is "
            f"{'bounded' if streaming else 'a stream'}",
            hint=f"Use calve.{other}(…).",
        )
    if importlib.util.find_spec("pandas") is None:
        raise ConfigError(
            "PySpark needs pandas on the driver to hand rows to Python",
            hint="pip install 'pandas>=2.2,<3'. Executors need pyarrow alone.",
        )
    return frame


# ---------------------------------------------------------------- the query


def checkpoint_of(said: str | None, query_name: str | None, session: Mapping[str, str]) -> str:
    """Where the query's checkpoint is: as it was said, or where the session puts those of named queries."""
    if said is not None:
        return said
    folder = session.get(_CHECKPOINTS)
    if folder and query_name is not None:
        return f"{folder.rstrip('/')}/{query_name}"
    if folder:
        raise ConfigError(
            f"{_CHECKPOINTS} is set, but the query has no name: every start would begin in a new folder",
            hint="Name the query by .query_name('orders'), or give its folder by "
            ".option('checkpointLocation', '…').",
        )
    raise ConfigError(
        "there is no checkpointLocation: after a restart nobody would know what was read",
        hint="Give one by .option('checkpointLocation', '…'), on a file system that outlives the cluster.",
    )


def trigger_of(**said: Any) -> dict[str, Any]:
    """The trigger, as Spark takes it."""
    given = {name: value for name, value in said.items() if value is not None}
    if len(given) != 1:
        raise ConfigError(
            f"a query has one trigger, and {' and '.join(given) or 'none'} was given",
            hint="Take one of processingTime='1 minute', availableNow=True.",
        )
    ((name, value),) = given.items()
    if name in ("continuous", "realTime"):
        raise ConfigError(
            f"the trigger {name} has no micro-batches, and foreachBatch cannot be combined with it",
            hint="Use processingTime with a short interval, such as '1 second'.",
        )
    if name == "processingTime":
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(
                f"the trigger processingTime is a {type(value).__name__}",
                hint="Give text, such as '1 minute'.",
            )
    elif value is not True:
        raise ConfigError(f"the trigger {name} is {value!r}", hint=f"Say {name}=True, or leave it out.")
    return given


# ---------------------------------------------------------------- the columns


def check_columns(config: StreamConfig, schema: T.StructType, incoming: pa.Schema) -> Arrival:
    """The columns that the table gets. A stream that lacks one that was named, or has one that cannot serve,
    is refused."""
    _check_names(incoming.names)
    for what, name in _named(config):
        if name not in incoming.names:
            kind = BadKey if what in ("key", "sequence_by", "time_column") else ConfigError
            raise kind(
                f"{label(what)} names {name!r}, which is not among the columns of the stream",
                hint=nearest(name, incoming.names),
                about=About("sequence_by" if what == "time_column" else what, name),
            )
    if config.time_column is not None:
        _check_times(config, config.time_column, schema, incoming)
    clockwork = None if config.time_column is None else Clockwork(config, schema)
    arrival = arrival_of(config, incoming, clockwork)
    check_first(config.sink, arrival)
    return arrival


def _named(config: StreamConfig) -> Iterator[tuple[str, str]]:
    sink = config.sink
    yield from (("key", name) for name in sink.key)
    yield from (("sequence_by", name) for name in sink.sequence_by)
    if sink.mode is not Mode.APPEND and sink.op_column_is_explicit:
        yield "op_column", sink.op_column
    for what in ("time_column", "mark_column", "partition_column"):
        if (name := getattr(config, what)) is not None:
            yield what, name


def _check_names(names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.get(name.casefold())) is not None:
            raise BadName(
                f"the stream has the columns {other!r} and {name!r}: Spark and most engines see one name",
                hint="Rename one of the two, or leave it out.",
                about="source",
            )
        seen[name.casefold()] = name
        if name.startswith(_RESERVED):
            raise BadName(
                f"the column name {name!r} is the sink's own", hint="Rename the column.", about="source"
            )


def _check_times(config: StreamConfig, name: str, schema: T.StructType, incoming: pa.Schema) -> None:
    times = incoming.field(name).type
    if not _is_time(times):
        raise BadKey(
            f"the column of times {name!r} is {schema[name].dataType.simpleString()}",
            hint="Times are integers, decimals without a fraction, or timestamps. Cast it in the stream.",
            about="sequence_by",
        )
    if config.frontier is FrontierKind.WATERMARK and _WATERMARK not in schema[name].metadata:
        raise ConfigError(
            f"the frontier is Spark's watermark, but the column of times {name!r} has none",
            hint=f"Write .withWatermark({name!r}, '10 seconds') in the stream, or .frontier(maximum=True, "
            "delay='10 seconds') here.",
        )
    if config.mark_column is not None and not _comparable(incoming.field(config.mark_column).type, times):
        mark = schema[config.mark_column]
        raise ConfigError(
            f"the mark_column {mark.name!r} is {mark.dataType.simpleString()}, and the column of times "
            f"{name!r} is {schema[name].dataType.simpleString()}",
            hint="A mark is a time: give both one type.",
        )
    if config.partition_column is not None and pa.types.is_nested(
        incoming.field(config.partition_column).type
    ):
        raise ConfigError(
            f"the partition_column {config.partition_column!r} is nested, and names no partition",
            hint="Use a number or text, such as Kafka's partition.",
        )


def _is_time(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_timestamp(kind)
        or (pa.types.is_decimal(kind) and kind.scale == 0)
    )


def _comparable(mark: pa.DataType, times: pa.DataType) -> bool:
    """Whether a mark says something of these times: not across zones, and not beyond what they can hold."""
    if pa.types.is_timestamp(mark) and pa.types.is_timestamp(times):
        return (mark.tz is None) == (times.tz is None)
    numbers = not pa.types.is_timestamp(mark) and not pa.types.is_timestamp(times)
    return _is_time(mark) and numbers and (pa.types.is_decimal(times) or not pa.types.is_decimal(mark))


# ---------------------------------------------------------------- the table


def check_target(sink: SinkConfig, arrival: Arrival, catalog: Catalog) -> str:
    """Where the table is or will be. One that is there and is not what was asked for is refused. Nothing is
    created or claimed."""
    try:
        table = load(catalog, sink.identifier)
    except TableMissing:
        place = sink.location or catalog.properties.get("warehouse", "")
        if "://" in place or place.startswith("/"):  # a REST catalog's may be a name or an ARN
            check_location(place)
        return place
    reach(data_location(table.metadata), access_of(table.io))
    check_table(table, wanted_table(sink, pa.schema([])))
    _check_kind(sink, table.metadata.properties.get(claimed_property(sink.sink_id)))
    check_fence(sink, table)
    evolve(table.metadata, arrival.rows.schema, allowed=sink.schema_evolution)
    return table.location()


def check_reach(place: str, master: str) -> None:
    """Warn of a table on a disk that executors may not share: nobody here can look whether they do."""
    if "/" in place and is_folder(place) and not is_local(master):
        _log.warning(
            "%s is a folder, and executors run elsewhere (%s): every one of them must have the same folder "
            "mounted, or the table loses their files",
            place,
            master,
        )


def _check_kind(sink: SinkConfig, found: str | None) -> None:
    """A sink never goes on as another kind by a forgotten option."""
    if found not in (None, "true", kind_of(sink)):
        raise TableDiffers(
            f"sink {sink.sink_id} of {sink.table_name} is {found}, and is now asked to be {kind_of(sink)}",
            hint="Use the mode and key it was begun with, or another sink id ('writer.id').",
        )
