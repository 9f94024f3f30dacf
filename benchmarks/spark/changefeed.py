"""Rows of a changefeed's files through Spark: the source `calve-cockroachdb` against `spark.read.json`.

Three peers read the same files and let the rows go (`noop`). The first is `spark.read.json(path)` as people
write it, which looks for the columns first. The others are told them. One of these reads rows as they are:
times and keys stay text, and what is no row is null. The other makes of them what calve does, with Spark's
own functions: the time as a number, the keys of deletes, the file, the text of what does not parse; all but
the numbers of lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.changefeed import COLUMNS, TABLES, write_feed
from benchmarks.figure import Figure, at_least
from benchmarks.measure import duel
from benchmarks.place import scratch
from benchmarks.spark.session import spark_session
from calve.source.cockroachdb.datasource import register

_CORRUPT = "_corrupt_record"
_SPARK = {"long": "bigint", "timestamptz": "timestamp"}


def run(quick: bool) -> list[Figure]:
    files, rows_a_file, rounds = (2, 500, 1) if quick else (12, 200_000, 3)
    with scratch() as folder, spark_session(folder) as spark:
        paths = write_feed(folder / "feed", files, rows_a_file)
        source = register(spark)
        rows = files * rows_a_file
        size = sum(path.stat().st_size for path in paths)
        checked = _ours(spark, source, folder).where("t0.id is not null and error is null").count()
        if checked != rows:
            raise AssertionError(f"{checked} of {rows} rows")

        def ours(_: int) -> None:
            _gone(_ours(spark, source, folder))

        found = []
        for name, make, target in (
            ("as people write it", _inferred, at_least(1.5)),
            ("told the columns", _plain, at_least(1.5)),
            ("told the columns, and to the same rows", _same, None),
        ):

            def peer(_: int, make: Any = make) -> None:
                _gone(make(spark, paths))

            ours(0)
            peer(0)
            took = duel(rounds, ours, peer)
            found.append(
                Figure(
                    f"files of a changefeed, to typed rows; the peer {name}",
                    rows / took.ours_s,
                    "rows/s",
                    target,
                    rows / took.peer_s,
                    "spark.read.json",
                    took.speedup,
                    f"{size / took.ours_s / 1e6:.0f} MB/s of JSON; {rows:,} rows in {files} files",
                )
            )
    return found


def _gone(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _ours(spark: Any, source: str, folder: Path) -> Any:
    reader = spark.read.format(source).option("tables", TABLES).option("tasks_max", "4")
    return reader.load((folder / "feed").as_uri())


def _inferred(spark: Any, paths: list[Path]) -> Any:
    return spark.read.json([str(path) for path in paths])


def _plain(spark: Any, paths: list[Path], more: str = "") -> Any:
    fields = ", ".join(f"{name}: {_SPARK.get(kind, kind)}" for name, kind in COLUMNS)
    schema = f"after struct<{fields}>, key array<string>, updated string{more}"
    return spark.read.schema(schema).json([str(path) for path in paths])


def _same(spark: Any, paths: list[Path]) -> Any:
    from pyspark.sql import functions as F

    frame = _plain(spark, paths, f", {_CORRUPT} string")
    deleted = F.col("after").isNull()
    columns = [F.col(f"after.{name}") for name, _ in COLUMNS if name != "id"]
    time = F.when(
        F.col("updated").rlike(r"^[0-9]{1,28}\.[0-9]{10}$"), F.replace("updated", F.lit("."), F.lit(""))
    )
    return frame.select(
        F.lit("orders").alias("topic"),
        F.input_file_name().alias("file"),
        F.when(deleted, "delete").otherwise("upsert").alias("change"),
        time.cast("decimal(38,0)").alias("at"),
        F.lit(None).cast("decimal(38,0)").alias("mark"),
        F.when(F.col(_CORRUPT).isNotNull() | F.col("updated").isNull(), "it is no row").alias("error"),
        F.col(_CORRUPT).alias("raw"),
        F.struct(
            F.when(deleted, F.col("key")[0].cast("bigint")).otherwise(F.col("after.id")).alias("id"), *columns
        ).alias("t0"),
    )
