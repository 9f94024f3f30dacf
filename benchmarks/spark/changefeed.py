"""Rows of a changefeed's files through Spark: the source `calve-cockroachdb` against `spark.read.json`.

Both read the same files into the same typed columns and let them go (`noop`). The peer is told the schema,
so that it reads the files once, and gets the time as the text that it is; calve also makes it a number,
takes the key of a delete apart and says where each row stands.
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

_SPARK = {"long": "bigint", "timestamptz": "timestamp"}


def run(quick: bool) -> list[Figure]:
    files, rows_a_file, rounds = (2, 500, 1) if quick else (8, 100_000, 5)
    with scratch() as folder, spark_session(folder) as spark:
        paths = write_feed(folder / "feed", files, rows_a_file)
        source = register(spark)
        rows = files * rows_a_file
        size = sum(path.stat().st_size for path in paths)
        checked = _ours(spark, source, folder).where("t0.id is not null and error is null").count()
        if checked != rows:
            raise AssertionError(f"{checked} of {rows} rows")

        def ours(_: int) -> None:
            _ours(spark, source, folder).write.format("noop").mode("overwrite").save()

        def peer(_: int) -> None:
            _peer(spark, paths).write.format("noop").mode("overwrite").save()

        ours(0)
        peer(0)
        found = duel(rounds, ours, peer)
    return [
        Figure(
            "files of a changefeed, to typed rows",
            rows / found.ours_s,
            "rows/s",
            at_least(1.5),
            rows / found.peer_s,
            "spark.read.json",
            found.speedup,
            f"{size / found.ours_s / 1e6:.0f} MB/s of JSON; {rows:,} rows in {files} files",
        )
    ]


def _ours(spark: Any, source: str, folder: Path) -> Any:
    reader = spark.read.format(source).option("tables", TABLES).option("tasks_max", "4")
    return reader.load((folder / "feed").as_uri())


def _peer(spark: Any, paths: list[Path]) -> Any:
    fields = ", ".join(f"{name}: {_SPARK.get(kind, kind)}" for name, kind in COLUMNS)
    schema = f"after struct<{fields}>, key array<string>, updated string"
    return spark.read.schema(schema).json([str(path) for path in paths])
