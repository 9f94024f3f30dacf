"""The same streams through calve's door: the only place of these benchmarks that knows how it is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

import calve
from benchmarks.spark.feed import Feed
from benchmarks.spark.meter import TRIGGER, Running
from calve.runtime.spark.progress import SinkListener, SinkProgress

_NAMESPACE = "bench"
NAME = "calve"


class Durations(SinkListener):
    """How long the steps of each micro-batch took, by the sink's own clock."""

    def __init__(self) -> None:
        self.seen: list[Mapping[str, float]] = []

    def on_progress(self, progress: SinkProgress) -> None:
        self.seen.append(progress.durations_ms)

    def forget(self) -> None:
        """Leave out what was seen so far."""
        self.seen.clear()


def table_folder(folder: Path, table: str) -> Path:
    """Where the files of a table are."""
    return folder / "lake" / _NAMESPACE / table


def metadata_location(folder: Path, table: str) -> str:
    """What the table is now, for readers that need no catalog."""
    return _catalog(folder).load_table((_NAMESPACE, table)).metadata_location


def _catalog(folder: Path) -> SqlCatalog:
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/lake.db", warehouse=(folder / "lake").as_uri())


def to_table(
    stream: Any,
    folder: Path,
    table: str,
    *,
    upsert: bool,
    available_now: bool = False,
    options: Mapping[str, object] = MappingProxyType({}),
    watch: SinkListener | None = None,
) -> Any:
    """Start a query that writes a stream into a table of the folder's lake, until it is stopped or, if only
    what is available is asked for, until that is written."""
    writer = calve.write_stream(stream).catalog(
        "lake", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=(folder / "lake").as_uri()
    )
    if upsert:
        writer = writer.mode("upsert").key("id").op("_op").sequence_by("lsn")
    else:
        writer = writer.mode("append")
    writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{table}")).options(**options)
    if watch is not None:
        writer = writer.watch(watch)
    writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=TRIGGER)
    return writer.to_table(f"lake.{_NAMESPACE}.{table}")


def stream(
    session: Any,
    folder: Path,
    table: str,
    schema: Any,
    *,
    name: str = NAME,
    upsert: bool = False,
    files_a_micro_batch: int | None = None,
    options: Mapping[str, object] = MappingProxyType({}),
    watch: SinkListener | None = None,
) -> Running:
    """A stream of files into a table of ours."""
    feed = Feed(folder / f"feed-{table}")

    def start() -> Any:
        frame = feed.stream(session, schema, files_a_micro_batch)
        return to_table(frame, folder, table, upsert=upsert, options=options, watch=watch)

    return Running(name, feed, start)
