"""The door: what a person asks to be compared.

    a sink of a pipeline   the table, as of its frontier or of a time, with its source
    two snapshots          of one table, or of two

A table whose times are the source's own is compared as of its frontier, whatever has come since. Where times
are micro-batches, it is compared with all that the source has: what was not read yet is missing in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.sink import Mode, SinkConfig
from calve.model.errors import BadStatement, ConfigError, TableMissing
from calve.model.meaning import Meaning
from calve.model.progress import Progress
from calve.runtime.addresses import Address, opened
from calve.runtime.clock import Clock, SystemClock
from calve.runtime.spark.job.job import Prepared
from calve.runtime.spark.planning import Planned
from calve.runtime.spark.read import frame_of
from calve.runtime.spark.verify.compare import Compared, compare
from calve.runtime.spark.verify.postgres import LiveTable, live_table
from calve.runtime.spark.verify.source import expected, spark_columns
from calve.runtime.spark.verify.state import last_of
from calve.table.as_of import resolve
from calve.table.at import Pinned, snapshot_at
from calve.table.catalogs import is_there
from calve.table.commit import load
from calve.table.fence import read_progress
from calve.table.scan import plan_scan

_CLOCKED = ("hlc", "mz_timestamp", "lsn")
_POLL_MS = 500
_ALL = "Times are micro-batches: it was compared with all that the source has."


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of it."""

    table: str
    source: str
    snapshot_id: int | None
    frontier: str
    """As its source prints it; empty where two snapshots were compared."""
    compared: Compared
    note: str = ""

    @property
    def equal(self) -> bool:
        return self.compared.equal

    def to_json(self) -> dict[str, Any]:
        one = self.compared
        return {
            "table": self.table,
            "source": self.source,
            "snapshot_id": self.snapshot_id,
            "frontier": self.frontier,
            "equal": self.equal,
            "rows_in_source": one.rows_left,
            "rows_in_table": one.rows_right,
            "missing": one.missing,
            "extra": one.extra,
            "different": one.different,
            "doubled": one.doubled,
            "differences": [difference.to_json() for difference in one.differences],
            "note": self.note,
        }


def verify_sink(prepared: Prepared, at: str | None = None, limit: int = 10) -> Iterator[Verified]:
    """Compare the tables of a sink with its source."""
    for one in prepared.tables():
        if one.config is None:
            raise ConfigError(
                f"the columns of topic {one.topic!r} are not declared",
                hint="Declare them in CREATE SOURCE, so that both sides are read alike.",
            )
        sink = one.config.sink
        address = Address(one.lake.catalog, sink.identifier, sink.sink_id)
        if not is_there(one.lake.catalog):
            raise _nothing_yet(sink)
        with opened(address) as catalog:
            yield _verified(prepared, one, catalog, at, limit)


def _verified(prepared: Prepared, one: Planned, catalog: Catalog, at: str | None, limit: int) -> Verified:
    assert one.config is not None
    sink = one.config.sink
    try:
        table = load(catalog, sink.identifier)
    except TableMissing:
        raise _nothing_yet(sink) from None
    progress = read_progress(table, sink.sink_id)
    if progress is None or not progress.frontier:
        raise _nothing_yet(sink)
    pinned, upper = _as_of(table, progress, at)
    meaning = Meaning(progress.source)
    shown = _frame(prepared.spark, table, pinned)
    key: tuple[str, ...] = sink.key
    if sink.mode is Mode.CHANGELOG:
        shown = _last_rows(shown, key, sink.changelog_op_column, sink.changelog_time_column)
    wanted = expected(prepared, one.topic, one.config, upper if _is_clock(progress) else None)
    note = "" if _is_clock(progress) else _ALL
    return Verified(
        Address(one.lake.catalog, sink.identifier).name,
        prepared.source.name,
        None if pinned.snapshot is None else pinned.snapshot.snapshot_id,
        meaning.text(upper),
        compare(wanted, shown, key if sink.mode is not Mode.APPEND else (), limit),
        note,
    )


def _nothing_yet(sink: SinkConfig) -> ConfigError:
    return ConfigError(
        f"sink {sink.sink_id} of {sink.table_name} has committed nothing yet",
        hint="Run it first: calve run --once.",
    )


def _as_of(table: Table, progress: Progress, at: str | None) -> tuple[Pinned, int]:
    if at is None:
        return snapshot_at(table, None), progress.frontier
    if not _is_clock(progress):
        raise ConfigError(
            "times of this sink are numbers of micro-batches: what the source had then, nobody can say",
            hint="Leave --at out: the table is compared with all that the source has.",
        )
    found = resolve(table, at, progress.sink_id)
    return snapshot_at(table, found.snapshot_id), found.frontier


def verify_live(
    prepared: Prepared,
    uri: str,
    source_table: str,
    *,
    wait_ms: int = 0,
    limit: int = 10,
    clock: Clock | None = None,
) -> Verified:
    """Compare the table of a sink with a live table of PostgreSQL.

    Both sides are of one moment each: the server's snapshot, at an LSN that is told, and the table's. Rows
    that changed between the two differ until the sink has them. So it is tried again, as long as `wait_ms`
    says, whenever the table has a new snapshot: equal once is equal; what stays different is different.
    """
    clock = clock or SystemClock()
    end = clock.now_ms() + wait_ms
    (one,) = prepared.tables()
    if one.config is None:
        raise ConfigError("the columns of the source are not declared", hint="Declare them in CREATE SOURCE.")
    sink = one.config.sink
    address = Address(one.lake.catalog, sink.identifier, sink.sink_id)
    while True:
        with opened(address) as catalog, live_table(uri, source_table) as live:
            table = load(catalog, sink.identifier)
            pinned = snapshot_at(table, None)
            shown = _frame(prepared.spark, table, pinned)
            rows = _live_rows(prepared, one.topic, live, shown)
            done = compare(rows, shown, sink.key, limit)
        seen = None if pinned.snapshot is None else pinned.snapshot.snapshot_id
        found = Verified(address.name, f"{live.name} of PostgreSQL at {live.lsn}", seen, "", done)
        if found.equal or not _news(address, seen, end, clock):
            return found


def _live_rows(prepared: Prepared, topic: str | None, live: LiveTable, shown: DataFrame) -> DataFrame:
    """The rows of a live table, as the view shows them. What it leaves out need not be comparable."""
    if prepared.view is None:
        return live.rows(prepared.spark, shown.schema)
    columns = spark_columns(prepared, topic)
    comparable = T.StructType([one for one in columns if live.refused(one) is None])
    try:
        return prepared.view.over_rows(live.rows(prepared.spark, comparable))
    except BadStatement:
        live.rows(prepared.spark, columns)  # which says why a column is not there
        raise


def _news(address: Address, seen: int | None, end: int, clock: Clock) -> bool:
    """Wait for another snapshot of a table; whether one came in time."""
    while clock.now_ms() < end:
        with opened(address) as catalog:
            now = load(catalog, address.identifier).metadata.current_snapshot_id
        if now != seen:
            return True
        clock.wait_ms(_POLL_MS)
    return False


def verify_snapshots(
    spark: SparkSession,
    left: tuple[Address, str | int | None],
    right: tuple[Address, str | int | None],
    key: tuple[str, ...],
    limit: int = 10,
) -> Verified:
    """Compare two snapshots, of one table or of two. Each is named as `calve.read` takes it."""
    frames, names, ids = [], [], []
    for address, at in (left, right):
        with opened(address) as catalog:
            table = load(catalog, address.identifier)
        is_id = isinstance(at, str) and at.isdecimal() and table.metadata.snapshot_by_id(int(at)) is not None
        pinned = snapshot_at(table, int(at) if is_id and at else at, address.sink_id)
        frames.append(_frame(spark, table, pinned))
        ids.append(None if pinned.snapshot is None else pinned.snapshot.snapshot_id)
        names.append(f"{address.name} at {ids[-1]}")
        known = table.schema()
        key = key or tuple(sorted(known.find_field(one).name for one in known.identifier_field_ids))
    done = compare(frames[0], frames[1], key, limit)
    return Verified(names[1], names[0], ids[1], "", done)


def _frame(spark: SparkSession, table: Table, pinned: Pinned) -> DataFrame:
    plan = plan_scan(table.io, table.metadata, pinned.snapshot, pinned.schema)
    return frame_of(spark, dict(spark.conf.getAll), table, plan)


def _last_rows(changelog: DataFrame, key: tuple[str, ...], op: str, time: str) -> DataFrame:
    """The rows that a changelog leads to."""
    if not key:
        raise ConfigError(
            "a changelog without a key leads to no rows that could be compared",
            hint="Compare two of its snapshots instead.",
        )
    rows = [name for name in changelog.columns if name not in (op, time)]
    return last_of(changelog.withColumn(time, F.col(time)), key, (time,), op, rows)


def _is_clock(progress: Progress) -> bool:
    return progress.source in _CLOCKED or progress.source.startswith("column ")
