"""A warehouse of one test: sinks that write into it, PyIceberg that looks at it, a clock that is moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from calve import EpochResult, IcebergSink, SinkConfig
from calve.store import LocalStore

NAME = ("ns", "t")


class MovableClock:
    """A clock that stands still until it is moved. Waiting moves it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000
        self.waits: list[int] = []

    def now_ms(self) -> int:
        return self.now

    def ticks_ms(self) -> float:
        return float(self.now)

    def wait_ms(self, duration_ms: int) -> None:
        self.waits.append(duration_ms)
        self.now += duration_ms


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A folder with an SQLite catalog and the tables that it names."""

    folder: Path

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.folder / 'catalog.db'}"

    def options(self, **options: object) -> dict[str, object]:
        """Options of a sink into `ns.t`; `write_mode` stands for `write.mode`."""
        given = {name.replace("_", "."): value for name, value in options.items()}
        return {"warehouse": str(self.folder), "namespace": "ns", "table.name": "t", **given}

    def sink(self, clock: Any = None, **options: Any) -> IcebergSink:
        return IcebergSink(SinkConfig.from_options(self.options(**options)), clock=clock)

    def upsert(self, clock: Any = None, **options: Any) -> IcebergSink:
        return self.sink(clock, **{"write_mode": "upsert", "equality_delete_columns": "id", **options})

    @contextmanager
    def catalog(self) -> Iterator[SqlCatalog]:
        """PyIceberg's own catalog, as anybody else would open it."""
        catalog = SqlCatalog("calve", uri=self.uri, warehouse=f"file://{self.folder}")
        try:
            yield catalog
        finally:
            catalog.close()

    def load(self, name: tuple[str, ...] = NAME) -> Table:
        with self.catalog() as catalog:
            return catalog.load_table(name)

    def exists(self) -> bool:
        with self.catalog() as catalog:
            return catalog.table_exists(NAME)

    def files(self) -> dict[str, int]:
        """All files but the catalog's own, with their sizes."""
        return {
            str(path.relative_to(self.folder)): path.stat().st_size
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not path.name.startswith("catalog.db")
        }


def commit(sink: IcebergSink, epoch: int, *tables: pa.Table | pa.RecordBatch) -> EpochResult:
    """One epoch from its begin to its commit."""
    sink.begin_epoch(epoch)
    for table in tables:
        sink.write_batch(table)
    return sink.commit_epoch(epoch)


def changes(*rows: tuple[Any, ...], names: tuple[str, ...] = ("id", "v", "_op")) -> pa.Table:
    """Changes from tuples: `(1, "a", "I")`."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.table({name: pa.array(column) for name, column in zip(names, columns, strict=True)})


class CountingStore(LocalStore):
    """The local store, which notes what is asked of it."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.opened: list[str] = []
        self.looked_at: list[str] = []
        self.deleted: list[str] = []

    def create(self, location: str, *, overwrite: bool = False) -> pa.NativeFile:
        self.created.append(location)
        return super().create(location, overwrite=overwrite)

    def open(self, location: str) -> pa.NativeFile:
        self.opened.append(location)
        return super().open(location)

    def size(self, location: str) -> int:
        self.looked_at.append(location)
        return super().size(location)

    def exists(self, location: str) -> bool:
        self.looked_at.append(location)
        return super().exists(location)

    def delete(self, location: str) -> None:
        self.deleted.append(location)
        super().delete(location)
