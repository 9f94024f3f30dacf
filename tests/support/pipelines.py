"""Pipelines of SQL in a folder, into the lake of the tests. `INTO IT` in a text is a sink's table there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from calve.config.types import arrow_type
from calve.runtime.addresses import Address, find_address
from calve.runtime.spark.job.job import Job
from calve.runtime.spark.job.run import Ran, Watch, run
from calve.sql.defined import Definitions
from tests.support.lake import NAMESPACE, Lake
from tests.support.readers import Reader, read_snapshot


@dataclass(slots=True)
class Pipeline:
    """A folder with sources, and the session that runs what is written over them."""

    spark: Any
    lake: Lake
    folder: Path
    table: str

    def into(self, table: str) -> str:
        return (
            f"INTO ICEBERG CATALOG CONNECTION {self.lake.name} (NAMESPACE = '{NAMESPACE}', TABLE = '{table}')"
        )

    def job(self, text: str) -> Job:
        connection = (
            f"CREATE CONNECTION {self.lake.name} TO ICEBERG CATALOG (TYPE = 'sql', "
            f"URI = 'sqlite:///{self.lake.catalog_file}', WAREHOUSE = '{self.lake.warehouse}');"
        )
        whole = connection + text.replace("INTO IT", self.into(self.table))
        return Job(Definitions.of_text(whole, self.folder), self.spark)

    def run(self, text: str) -> dict[str, Ran]:
        """What is there now, into all sinks."""
        job = self.job(text)
        names = list(job.definitions.sinks)
        ran = run([job.prepare(name) for name in names], Watch(), once=True)
        return {one.sink: one for one in ran}

    def rows(self, reader: Reader, table: str | None = None) -> list[Any]:
        """The rows of a table, by an engine that we did not write."""
        name = table or self.table
        loaded = self.lake.load(name)
        like = pa.schema([(one.name, arrow_type(str(one.field_type))) for one in loaded.schema().fields])
        snapshot = loaded.current_snapshot()
        assert snapshot is not None
        return read_snapshot(reader, self.lake.at(name), snapshot.snapshot_id, like=like)

    @property
    def qualified(self) -> str:
        """The table, for Spark's SQL with Iceberg's runtime."""
        return f"{self.lake.name}.{NAMESPACE}.{self.table}"

    @property
    def address(self) -> Address:
        said = {"type": "sql", "uri": f"sqlite:///{self.lake.catalog_file}", "warehouse": self.lake.warehouse}
        return find_address(self.qualified, None, said)

    def write(self, folder: str, name: str, *rows: dict[str, Any]) -> None:
        """A file of JSON lines that arrives."""
        place = self.folder / folder
        place.mkdir(exist_ok=True)
        (place / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
