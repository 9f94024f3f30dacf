"""A changefeed through calve into tables, each snapshot compared with the truth at its resolved time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import calve
from calve.config.columns import SourceColumn, SourceTable
from calve.config.types import arrow_type
from tests.support.changefeed.feed import Changefeed, Write
from tests.support.flow import Log
from tests.support.lake import NAMESPACE, Lake
from tests.support.readers import Reader, differences, read_snapshot, rows_of
from tests.support.truth import snapshots_of_main, summary_of


@dataclass(slots=True)
class FilesFlow:
    """A bucket, a feed over it, and the tables that it becomes."""

    spark: Any
    lake: Lake
    folder: Path
    changefeed: Changefeed
    prefix: str
    write: Callable[[Any], Any] = lambda writer: writer
    read: dict[str, Any] = field(default_factory=dict)
    declare: bool = True
    place: Path | None = None
    """Another folder than the bucket."""
    log: Log = field(default_factory=Log)

    @property
    def bucket(self) -> Path:
        (self.folder / "bucket").mkdir(parents=True, exist_ok=True)
        return self.folder / "bucket"

    def put(self, writes: Iterable[Write]) -> None:
        """Files appear in the bucket."""
        for write in writes:
            path = self.bucket / write.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(write.content)

    def tables(self) -> dict[str, SourceTable]:
        """As their columns were when the changefeed began."""
        history = self.changefeed.history
        found = {}
        for topic in history.tables:
            _, table = history.schema_at(topic, self.changefeed.started)
            columns = tuple(
                SourceColumn(name, kind, name not in table.nullable) for name, kind in table.columns
            )
            found[topic] = SourceTable(columns, table.key)
        return found

    def start(self, **trigger: Any) -> Any:
        feed = calve.read_stream(self.spark).cockroachdb(
            (self.place or self.bucket).as_uri(), tables=self.tables() if self.declare else None, **self.read
        )
        writer = self.write(calve.write_stream(feed)).catalog(
            self.lake.name,
            type="sql",
            uri=f"sqlite:///{self.lake.catalog_file}",
            warehouse=self.lake.warehouse,
        )
        return (
            writer.watch(self.log)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(**(trigger or {"availableNow": True}))
            .to_tables(f"{self.lake.name}.{NAMESPACE}.{self.prefix}_{{table}}")
        )

    def run(self) -> Any:
        query = self.start()
        query.awaitTermination()
        return query

    def name(self, topic: str) -> str:
        return f"{self.prefix}_{topic}"

    def check(self, reader: Reader) -> dict[str, list[int]]:
        """Compare every snapshot of every table with the truth; the frontiers of each."""
        return {topic: self._check(reader, topic) for topic in self.changefeed.history.tables}

    def _check(self, reader: Reader, topic: str) -> list[int]:
        table = self.lake.load(self.name(topic))
        frontiers = []
        for snapshot in snapshots_of_main(table):
            frontier = int(summary_of(snapshot)["calve.frontier"])
            schema = next(one for one in table.metadata.schemas if one.schema_id == snapshot.schema_id)
            like = pa.schema([(one.name, arrow_type(str(one.field_type))) for one in schema.fields])
            # A resolved time is inclusive, a frontier is not.
            truth = [
                {name: row.get(name) for name in like.names}
                for row in self.changefeed.state(topic, frontier - 1).values()
            ]
            shown = read_snapshot(reader, self.lake.at(self.name(topic)), snapshot.snapshot_id, like=like)
            wanted = rows_of(pa.Table.from_pylist(truth, schema=like), like)
            assert shown == wanted, f"{topic} at {frontier}\n{differences(shown, wanted)}"
            frontiers.append(frontier)
        return frontiers
