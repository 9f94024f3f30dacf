"""A lake of the tests: one SQLite catalog, one local warehouse, and the sinks that write into it.

    Ledger ──epoch──▶ IcebergSink ──▶ table ──▶ Published(snapshot id, truth)

Every published epoch is kept with the snapshot that it became and with what that snapshot must show, so that
a reader can be asked for all of them afterwards. The catalog is PyIceberg's own, opened anew for each look:
nothing that the sink holds in memory takes part in the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from calve import IcebergSink
from calve.model.progress import Progress, default_sink_id, fence_property, tag_name
from calve.table.fence import read_progress
from tests.support.workload import Epoch, Variant

NAMESPACE = "ns"


@dataclass(frozen=True, slots=True)
class TableAt:
    """Where a reader finds a table: by its catalog's name, by its folder, or by its metadata file."""

    name: str
    location: str
    metadata_location: str


@dataclass(frozen=True, slots=True)
class Published:
    """An epoch, the snapshot that it became, and what that snapshot must show."""

    epoch: int
    snapshot_id: int
    truth: pa.Table


@dataclass(frozen=True, slots=True)
class Lake:
    """A catalog and a warehouse in one folder."""

    folder: Path
    name: str = "lake"

    @property
    def catalog_file(self) -> Path:
        return self.folder / "catalog.db"

    @property
    def warehouse(self) -> str:
        return self.folder.as_uri()

    def options(self, table: str) -> dict[str, object]:
        """The options of a sink that writes to a table of this lake."""
        return {
            "namespace": NAMESPACE,
            "table.name": table,
            "catalog.type": "sql",
            "catalog.uri": f"sqlite:///{self.catalog_file}",
            "catalog.name": self.name,
            "warehouse": self.warehouse,
        }

    def sink(self, table: str, variant: Variant) -> IcebergSink:
        return IcebergSink.from_options({**self.options(table), **variant.sink_options()})

    @contextmanager
    def catalog(self) -> Iterator[SqlCatalog]:
        """PyIceberg's own."""
        catalog = SqlCatalog(self.name, uri=f"sqlite:///{self.catalog_file}", warehouse=self.warehouse)
        try:
            yield catalog
        finally:
            catalog.close()

    def load(self, table: str) -> Table:
        """The table as its catalog shows it now."""
        with self.catalog() as catalog:
            return catalog.load_table((NAMESPACE, table))

    def full_name(self, table: str) -> str:
        """A table's name, as sessions that know the lake have it."""
        return f"{self.name}.{NAMESPACE}.{table}"

    def at(self, table: str) -> TableAt:
        loaded = self.load(table)
        return TableAt(self.full_name(table), loaded.location(), loaded.metadata_location)

    def progress(self, table: str) -> Progress:
        """What the table remembers of its sink."""
        loaded, sink_id = self.load(table), default_sink_id((NAMESPACE,), table)
        if fence_property(sink_id) in loaded.properties:
            progress = read_progress(loaded, sink_id)  # which may be in an older metadata file
            assert progress is not None
            return progress
        snapshot = loaded.snapshot_by_id(loaded.metadata.refs[tag_name(sink_id)].snapshot_id)
        assert snapshot is not None
        assert snapshot.summary is not None
        return Progress.from_summary(snapshot.summary.additional_properties)

    def head(self, table: str) -> Snapshot:
        """The snapshot that main points at."""
        snapshot = self.load(table).current_snapshot()
        assert snapshot is not None
        return snapshot


def publish(lake: Lake, table: str, sink: IcebergSink, epoch: Epoch) -> Published:
    """Run one epoch through an open sink."""
    sink.begin_epoch(epoch.number)
    for changes in epoch.pieces:
        sink.write_batch(changes)
    sink.commit_epoch(epoch.number)
    return Published(epoch.number, lake.head(table).snapshot_id, epoch.truth)


def pour(lake: Lake, table: str, variant: Variant, *, epochs: int | None = None) -> list[Published]:
    """All epochs of a variant, through a sink that is closed and opened again half way."""
    ledger = variant.ledger()
    count = epochs or variant.epochs
    published = []
    for run in (range(count // 2), range(count // 2, count)):
        with lake.sink(table, variant) as sink:
            published += [publish(lake, table, sink, ledger.next_epoch()) for _ in run]
    return published
