"""Reading a snapshot by `calve.read`, against Iceberg's Spark runtime, in the same session, in turns.

Tables of every kind of delete: none; ten batches of upserts, whose equality deletes reach all partitions or
their own alone; what Iceberg's own `DELETE` leaves behind, as positions and as vectors. Of each an aggregate
over all rows; of some also their number alone, and all columns of all rows, written nowhere. And two columns
of a hundred, of one day of forty. That day is asked for in our call (`where=`), and in the query alone of
Iceberg's runtime, which finds it there; where files are many a line tells what we take without `where=`.

What is told of time is that of the call and its query together: both begin with the table's metadata. Both
must answer the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import calve
from benchmarks.figure import Figure, Target, at_least
from benchmarks.place import scratch
from benchmarks.spark import data, ours, peers
from benchmarks.spark.meter import cpu_seconds
from benchmarks.spark.session import spark_session

_BATCHES = 10
_BUCKETS = 8
_DAYS = 40
_DAY = "day = 7"
_WARM_UPS = 2
_ROWS_A_FILE = 500_000

Query = Callable[[Any], list[Any]]


@dataclass(frozen=True, slots=True)
class Read:
    """A table, as both read it."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A table, and a query on it: what it answers is compared."""

    what: str
    read: Read
    query: Query
    target: Target | None = field(default_factory=lambda: at_least(0.5))
    """`None` where a number is only told."""


def run(quick: bool) -> list[Figure]:
    rows, changes, wide, rounds, warm_ups = (
        (4_000, 200, 800, 1, 0) if quick else (4_000_000, 50_000, 400_000, 5, _WARM_UPS)
    )
    with scratch() as folder, spark_session(folder, peers.settings(folder)) as session:
        return [_figure(case, rounds, warm_ups) for case in _cases(session, folder, rows, changes, wide)]


def _cases(session: Any, folder: Path, rows: int, changes: int, wide: int) -> Iterator[Case]:
    """A table is made when the cases before it are done."""
    scanned = _scanned(session, folder, rows)
    yield Case(f"aggregate over {rows:,} rows", scanned, _aggregate)
    yield Case(f"count of {rows:,} rows", scanned, _count)
    yield Case(f"all columns of {rows:,} rows", scanned, _written)
    for files in (_DAYS, 4 * _DAYS):
        what = f"2 of 101 columns, 1 of {_DAYS} days, of {wide:,} rows in {files} files"
        table = _pruned(session, folder, wide, files)
        yield Case(what, _of_ours(session, folder, table, where=_DAY), _day)
        if files > _DAYS:
            yield Case(f"{what}, without where=", _of_ours(session, folder, table), _day, target=None)
    half = rows // 2
    upserts = f"{half:,} rows after {_BATCHES} batches of {changes:,} upserts"
    upserted = _upserted(session, folder, "upserted", half, changes)
    yield Case(f"aggregate over {upserts}", upserted, _totals)
    yield Case(f"count of {upserts}", upserted, _count)
    yield Case(f"all columns of {upserts}", upserted, _written)
    scoped = _upserted(session, folder, "scoped", half, changes, f"bucket({_BUCKETS}, id)")
    yield Case(f"aggregate over {upserts}, in {_BUCKETS} partitions", scoped, _totals)
    for version, places in ((2, "positions"), (3, "vectors")):
        deleted = _deleted(session, folder, half, version)
        yield Case(f"aggregate over {half:,} rows, a twentieth deleted by {places}", deleted, _totals)
        yield Case(f"all columns of {half:,} rows, a twentieth deleted by {places}", deleted, _written)


# ---------------------------------------------------------------- tables


def _scanned(session: Any, folder: Path, rows: int) -> Read:
    files = data.write_files(folder / "source" / "scan", data.SHAPES["numbers"], 8, rows // 8)
    _writer(session.read.parquet(*map(str, files)), folder).mode("append").to_table("lake.bench.scan")
    return _of_ours(session, folder, "scan")


def _pruned(session: Any, folder: Path, rows: int, files: int) -> str:
    from pyspark.sql import functions as F

    source = data.write_files(folder / "source" / "pruned", data.SHAPES["wide"], 4, rows // 4)
    frame = session.read.parquet(*map(str, source)).withColumn("day", F.col("id") % _DAYS)
    frame = frame.repartition(files // _DAYS)  # a task writes a file a day
    table = f"pruned_{files}"
    _writer(frame, folder).mode("append").partitioned_by("day").to_table(f"lake.bench.{table}")
    return table


def _upserted(session: Any, folder: Path, table: str, rows: int, changes: int, by: str = "") -> Read:
    base = data.write_rows(folder / "source" / "rows", rows, _ROWS_A_FILE)
    rounds = data.change_rounds(folder / "source" / "changes", rows, changes, _BATCHES)
    for version, files in enumerate([base, *rounds], start=1):
        writer = _writer(session.read.parquet(*map(str, files)), folder).mode("upsert").key("id").op("_op")
        writer = writer.partitioned_by(by) if by else writer
        writer.sequence_by("lsn").version(version).to_table(f"lake.bench.{table}")
    return _of_ours(session, folder, table)


def _deleted(session: Any, folder: Path, rows: int, version: int) -> Read:
    """Written by the peer: a twentieth of the rows of each file is deleted."""
    table = peers.full_name(f"deleted_{version}")
    session.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING, amount DOUBLE, at TIMESTAMP) USING iceberg "
        f"TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read')"
    )
    source = data.write_rows(folder / "source" / "deleted", rows, _ROWS_A_FILE)
    session.read.parquet(*map(str, source)).select("id", "name", "amount", "at").writeTo(table).append()
    session.sql(f"DELETE FROM {table} WHERE id % 20 = 3")
    return Read(lambda: calve.read(session, table), lambda: session.table(table))


def _writer(frame: Any, folder: Path) -> Any:
    return calve.write(frame).catalog("lake", **_words(folder))


def _words(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": (folder / "lake").as_uri()}


def _of_ours(session: Any, folder: Path, table: str, where: str | None = None) -> Read:
    location = ours.metadata_location(folder, table)
    return Read(
        lambda: calve.read(session, f"lake.bench.{table}", where=where, catalog=_words(folder)),
        lambda: session.read.format("iceberg").load(location),
    )


# ---------------------------------------------------------------- queries


def _aggregate(frame: Any) -> list[Any]:
    from pyspark.sql import functions as F

    grouped = frame.groupBy("code").agg(F.count(F.lit(1)), F.sum("device"), F.max("at"), F.avg("value"))
    return grouped.collect()


def _day(frame: Any) -> list[Any]:
    from pyspark.sql import functions as F

    return frame.where(_DAY).agg(F.sum("measure_3"), F.count("name_2")).collect()


def _totals(frame: Any) -> list[Any]:
    from pyspark.sql import functions as F

    return frame.agg(F.count(F.lit(1)), F.sum("amount"), F.max("at"), F.max("name")).collect()


def _count(frame: Any) -> list[Any]:
    return [(frame.count(),)]


def _written(frame: Any) -> list[Any]:
    """Every value is made, and none is kept. There is no answer: aggregates have compared the rows."""
    frame.write.format("noop").mode("overwrite").save()
    return []


# ---------------------------------------------------------------- turns


def _figure(case: Case, rounds: int, warm_ups: int) -> Figure:
    took: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    calls: list[float] = []
    answers: dict[str, list[Any]] = {}
    for number in range(warm_ups + rounds):
        for name, read in (("ours", case.read.ours), ("theirs", case.read.theirs)):
            wall, cpu = time.perf_counter(), cpu_seconds()
            frame = read()
            called = time.perf_counter() - wall
            answers[name] = sorted(map(_rounded, case.query(frame)))
            if number >= warm_ups:
                took[name].append((time.perf_counter() - wall, cpu_seconds() - cpu))
                calls += [called] if name == "ours" else []
    if answers["ours"] != answers["theirs"]:
        raise RuntimeError(f"{case.what}: {answers['ours'][:3]} and {answers['theirs'][:3]}")
    pairs = list(zip(took["ours"], took["theirs"], strict=True))
    mine, theirs = (median(one[0] for one in took[name]) for name in ("ours", "theirs"))
    return Figure(
        case.what,
        1000 * mine,
        "ms",
        case.target,
        1000 * theirs,
        "Iceberg's runtime",
        median(theirs[0] / mine[0] for mine, theirs in pairs),
        f"by CPU time {median(theirs[1] / mine[1] for mine, theirs in pairs):.2f}×; "
        f"{1000 * median(calls):.0f} ms of ours are the call itself",
    )


def _rounded(row: Any) -> tuple[Any, ...]:
    """Sums of floats depend on the order in which they are added."""
    return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row)
