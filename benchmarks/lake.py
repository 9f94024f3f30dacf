"""Tables to measure on: catalogs, sinks, and histories of thousands of snapshots that are made quickly.

A history is made by group commits of batches whose files are named and never written: a commit opens no
data file (P7), and neither does the peer's append. Nobody can scan such a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema

from benchmarks.measure import CpuClock
from calve import IcebergSink
from calve.config.catalog import CatalogConfig
from calve.config.sink import SinkConfig
from calve.model.batch import Batch
from calve.model.file import ColumnMetrics, FileClosed, FileKind
from calve.runtime.coordinator import Coordinator
from calve.runtime.hold import Identity
from calve.table.build import Ready
from calve.table.catalogs import open_catalog
from calve.table.create import Wanted, create_table
from calve.table.premises import Premises

NAMESPACE = "bench"
GROUP = 250
"""Batches of one commit when a history is made: few commits, and manifest lists that stay short."""

ROWS = pa.schema(
    [pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("amount", pa.float64())]
)
"""The columns of the small tables whose commits are measured."""


def catalog(folder: Path) -> Catalog:
    """SQLite beside a warehouse, as the sink opens it when nothing is configured."""
    return open_catalog(
        CatalogConfig(type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    )


def plain_catalog(folder: Path) -> Catalog:
    """The same catalog as a user of PyIceberg opens it, with PyIceberg's own files."""
    return SqlCatalog("calve", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def new_sink(
    folder: Path,
    table: str,
    options: Mapping[str, object] = MappingProxyType({}),
    *,
    catalog: Catalog | None = None,
) -> IcebergSink:
    """A sink on a table of the folder's catalog, opened. Its own durations are CPU time."""
    named = {
        "namespace": NAMESPACE,
        "table.name": table,
        "catalog.uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": str(folder),
        "spill.folder": str(folder / "spill"),
    }
    return IcebergSink(
        SinkConfig.from_options(named | dict(options)), catalog=catalog, clock=CpuClock()
    ).open()


def small_rows(epoch: int, count: int = 10) -> pa.Table:
    """A few rows, other ones in each epoch."""
    first = epoch * count
    return pa.table(
        [
            pa.array(range(first, first + count), pa.int64()),
            pa.array([f"name {number}" for number in range(first, first + count)]),
            pa.array([number / 7 for number in range(first, first + count)], pa.float64()),
        ],
        schema=ROWS,
    )


def commit_epoch(sink: IcebergSink, epoch: int) -> None:
    """One small epoch from its first row to its snapshot."""
    sink.begin_epoch(epoch)
    sink.write_batch(small_rows(epoch))
    sink.commit_epoch(epoch)


def new_table(catalog: Catalog, table: str) -> tuple[str, ...]:
    """An empty table with the small columns."""
    identifier = (NAMESPACE, table)
    create_table(catalog, identifier, Wanted(schema=ROWS))
    return identifier


def coordinator(catalog: Catalog, identifier: tuple[str, ...]) -> Coordinator:
    """The coordinator of the sink that `new_sink` opens on the same table; claimed."""
    run = Coordinator(catalog, Identity(identifier, ".".join(identifier), "epoch"))
    run.claim()
    return run


def ready_batches(run: Coordinator, count: int) -> list[Ready]:
    """The next batches of a run, a file each; the files are named and not there."""
    schema = run.base.metadata.schema()
    location = run.base.metadata.location
    first = run.progress.frontier
    return [_ready(Batch(time, time + 1), schema, location) for time in range(first, first + count)]


def grow(run: Coordinator, snapshots: int) -> None:
    """Commit batches until the table has so many snapshots; those of claims count too."""
    while (missing := snapshots - len(run.base.metadata.snapshots)) > 0:
        run.commit(ready_batches(run, min(missing, GROUP)))


def table_with_history(folder: Path, table: str, snapshots: int) -> tuple[str, ...]:
    """A table with so many snapshots."""
    opened = catalog(folder)
    identifier = new_table(opened, table)
    grow(coordinator(opened, identifier), snapshots)
    return identifier


def _ready(batch: Batch, schema: Schema, location: str) -> Ready:
    return Ready(batch, (named_file(batch, schema, location),), schema, Premises(schema))


def named_file(batch: Batch, schema: Schema, location: str, partition: Sequence[int] = ()) -> FileClosed:
    """A message like that of a real file of ten rows: counts and bounds for every column."""
    ids = [column.field_id for column in schema.fields]
    first, last = batch.lower * 10, batch.lower * 10 + 9
    return FileClosed(
        batch=batch,
        worker="w0",
        path=f"{location}/data/{NAMESPACE}/{batch.lower:020d}/w0/00000-data.parquet",
        kind=FileKind.DATA,
        schema_id=schema.schema_id,
        spec_id=UNPARTITIONED_PARTITION_SPEC.spec_id,
        partition=tuple(partition),
        record_count=10,
        file_bytes=1871,
        metrics=ColumnMetrics(
            column_bytes=dict.fromkeys(ids, 131),
            value_counts=dict.fromkeys(ids, 10),
            null_counts=dict.fromkeys(ids, 0),
            nan_counts={},
            lower_bounds={field_id: first.to_bytes(8, "little") for field_id in ids},
            upper_bounds={field_id: last.to_bytes(8, "little") for field_id in ids},
        ),
        split_offsets=(4,),
    )
