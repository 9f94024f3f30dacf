"""What people use today: Iceberg's own streaming append, and `foreachBatch` with `MERGE INTO`.

Peers write through Iceberg's Spark runtime into a catalog of the same kind as ours, SQLite by JDBC, with our
codec, level and target size, in Iceberg's own defaults for all else. They are given what helps them: the
table is there before the clock starts, no key comes twice in a micro-batch (so no window has to find the
last change of one), and no column is compared but the key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.spark.feed import Feed
from benchmarks.spark.meter import TRIGGER, Running

CATALOG = "peer"
_NAMESPACE = "bench"

_TABLE = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "3",
    "write.target-file-size-bytes": str(128 * 1024 * 1024),
}

COPY_ON_WRITE = MappingProxyType(
    {f"write.{act}.mode": "copy-on-write" for act in ("merge", "update", "delete")}
)
MERGE_ON_READ = MappingProxyType(
    {f"write.{act}.mode": "merge-on-read" for act in ("merge", "update", "delete")}
)


def settings(folder: Path) -> dict[str, str]:
    """The session settings of the peers' catalog."""
    prefix = f"spark.sql.catalog.{CATALOG}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": f"jdbc:sqlite:{folder}/peer.db",
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.warehouse": (folder / "peer-warehouse").as_uri(),
    }


def full_name(table: str) -> str:
    """A table as Spark's SQL names it."""
    return f"{CATALOG}.{_NAMESPACE}.{table}"


def create_table(
    session: Any, table: str, schema: Any, properties: Mapping[str, str] = MappingProxyType({})
) -> str:
    """An empty table of such rows; its full name."""
    name = full_name(table)
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{_NAMESPACE}")
    pairs = ", ".join(f"'{key}'='{value}'" for key, value in {**_TABLE, **properties}.items())
    session.sql(f"CREATE TABLE {name} ({schema.toDDL()}) USING iceberg TBLPROPERTIES ({pairs})")
    return name


def append(session: Any, folder: Path, table: str, schema: Any, files_a_micro_batch: int) -> Running:
    """Spark's own stream into an Iceberg table."""
    feed = Feed(folder / f"peer-feed-{table}")
    name = create_table(session, table, schema)

    def start() -> Any:
        writer = feed.stream(session, schema, files_a_micro_batch).writeStream.format("iceberg")
        writer = writer.option("checkpointLocation", str(folder / f"peer-checkpoint-{table}"))
        return writer.outputMode("append").trigger(processingTime=TRIGGER).toTable(name)

    return Running("writeStream", feed, start)


def merge(
    session: Any, folder: Path, table: str, schema: Any, properties: Mapping[str, str], rows: Sequence[Path]
) -> Running:
    """A table that holds rows, and a stream of changes that are merged into it."""
    feed = Feed(folder / f"peer-feed-{table}")
    kept = type(schema)([field for field in schema if field.name != "_op"])
    columns = kept.names
    name = create_table(session, table, kept, properties)
    session.read.parquet(*map(str, rows)).select(*columns).writeTo(name).append()

    def start() -> Any:
        writer = feed.stream(session, schema).writeStream.foreachBatch(_merge_into(name, columns))
        writer = writer.option("checkpointLocation", str(folder / f"peer-checkpoint-{table}"))
        return writer.trigger(processingTime=TRIGGER).start()

    return Running(f"MERGE {properties['write.merge.mode']}", feed, start)


def _merge_into(name: str, columns: Sequence[str]) -> Callable[[Any, int], None]:
    updates = ", ".join(f"t.{column} = s.{column}" for column in columns)
    statement = f"""
        MERGE INTO {name} t USING changes s ON t.id = s.id
        WHEN MATCHED AND s._op = 'delete' THEN DELETE
        WHEN MATCHED THEN UPDATE SET {updates}
        WHEN NOT MATCHED AND s._op <> 'delete' THEN
            INSERT ({", ".join(columns)}) VALUES ({", ".join(f"s.{column}" for column in columns)})
    """

    def merge_micro_batch(frame: Any, _: int) -> None:
        frame.createOrReplaceTempView("changes")
        frame.sparkSession.sql(statement)

    return merge_micro_batch
