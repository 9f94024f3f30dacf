"""Backends: every catalog that the conformance suite runs over, each with a namespace that no other test has.

name ──▶ server of the session ──▶ options of a sink ──▶ Backend, for one test
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from calve import IcebergSink, SinkConfig
from calve.table.catalogs import open_catalog
from tests.support.tagless import tagless

Options = dict[str, object]
_number = itertools.count()


@dataclass
class Backend:
    """A catalog that sinks and others are let into, for one test."""

    name: str
    folder: Path
    catalog_options: Options
    namespace: tuple[str, ...] = field(default_factory=lambda: (unique("ns"),))
    table: str = "t"
    fence: str = "tag"
    shared: Catalog | None = None
    """A catalog that lives in this process alone: sinks are given it."""
    opened: list[Catalog] = field(default_factory=list)

    @property
    def identifier(self) -> tuple[str, ...]:
        return (*self.namespace, self.table)

    @property
    def sink_id(self) -> str:
        """The sink's name where none is given."""
        return ".".join(self.identifier)

    @property
    def options(self) -> Options:
        return {
            "namespace": ".".join(self.namespace),
            "table.name": self.table,
            "write.mode": "upsert",
            "equality.delete.columns": "id",
            "fence": self.fence,
            **self.catalog_options,
        }

    def sink(self, **options: object) -> IcebergSink:
        return IcebergSink(SinkConfig.from_options(self.options | options), catalog=self.shared)

    def catalog(self) -> Catalog:
        if self.shared is not None:
            return self.shared
        catalog = open_catalog(SinkConfig.from_options(self.options).catalog)
        self.opened.append(catalog)
        return catalog

    def load(self) -> Table:
        return self.catalog().load_table(self.identifier)

    def insert(self, rows: pa.Table) -> None:
        """Somebody else's rows."""
        table = self.load()
        table.append(rows.cast(table.schema().as_arrow()))

    def close(self) -> None:
        for catalog in (*self.opened, *filter(None, [self.shared])):
            catalog.close()


def unique(word: str) -> str:
    """A name that no other test has, in any process of this run."""
    return f"{word}_{os.getpid()}_{next(_number)}"


# What a sink is told of each catalog: from its server, if it has one, and the folder of the test.
_OPTIONS: dict[str, tuple[str | None, Callable[[Any, Path], Options]]] = {
    "sqlite": (None, lambda _, folder: sql_options(f"sqlite:///{folder}/catalog.db", folder)),
    "sqlite, fence on main": (None, lambda _, folder: sql_options(f"sqlite:///{folder}/catalog.db", folder)),
    "without tags, fence on main": (
        None,
        lambda _, folder: sql_options(f"sqlite:///{folder}/catalog.db", folder),
    ),
    "memory": (None, lambda _, folder: {"catalog.type": "memory", "warehouse": str(folder / "warehouse")}),
    "postgresql": ("postgresql", lambda server, folder: sql_options(server, folder)),
    "seaweedfs-oauth2": ("seaweedfs", lambda server, _: server.oauth2()),
    "seaweedfs-sigv4": ("seaweedfs", lambda server, _: server.sigv4()),
    "glue": ("ministack", lambda server, folder: server.options(folder / "warehouse")),
    "s3tables, fence on main": ("ministack", lambda server, _: server.s3tables()),
    "hive": ("metastore", lambda server, folder: server.options(folder / "warehouse")),
    "iceberg-rest": ("iceberg_rest", lambda server, _: server.options()),
    "iceberg-rest-s3": ("iceberg_rest_s3", lambda server, _: server.options()),
}

ALL = tuple(
    pytest.param(name, marks=[] if server is None else pytest.mark.servers)
    for name, (server, _) in _OPTIONS.items()
)
OF_PROCESSES = tuple(
    param for param in ALL if param.values[0] not in ("memory", "without tags, fence on main")
)
"""Those that several processes can use at once."""


def make_backend(name: str, request: pytest.FixtureRequest, folder: Path) -> Backend:
    server, options = _OPTIONS[name]
    made = Backend(name, folder, options(server and request.getfixturevalue(server), folder))
    made.fence = "main" if name.endswith("fence on main") else "tag"
    if name.startswith(("memory", "without tags")):
        made.shared = open_catalog(SinkConfig.from_options(made.options).catalog)
    if name.startswith("without tags"):
        made.shared = tagless(made.catalog())
    return made


def sql_options(uri: str, folder: Path) -> Options:
    return {"catalog.type": "sql", "catalog.uri": uri, "warehouse": str(folder / "warehouse")}
