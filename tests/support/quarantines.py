"""A stream with a quarantine, played without Spark: tasks, plans and commits are those of the pipeline.

send(rows) ──▶ Task ──▶ files ──commit──▶ t__quarantine, then t          a micro-batch
rows(), waiting(), replay()  ──▶ what is in the table, what waits, and the replay of it
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import calve
from calve.config.sink import SinkConfig
from calve.config.stream import StreamConfig
from calve.model.batch import Batch
from calve.protocol.replay import positions
from calve.runtime.clock import SystemClock
from calve.runtime.replay.names import SOURCE, quarantine_config
from calve.runtime.rows import reading_of
from calve.runtime.spark.quarantine import bad_rows, quarantine_plan
from calve.runtime.spark.target import Holding, hold
from calve.table.build import Ready
from calve.writer.changes import TIME_COLUMN, arrive
from calve.writer.messages import Report
from calve.writer.quarantine import to_stream
from calve.writer.task import Slot, Task, TaskPlan, TimeLine
from tests.support.readers import DuckReader, duck_reader

NAME = "lake.ns.t"
UPSERT = {"mode": "upsert", "key": ("id",), "sequence_by": ("lsn",), "op_column": "_op"}
TIMED = {"time_column": "lsn", "frontier": "maximum"}
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("lsn", pa.int64()), ("_op", pa.string())])
STRICT = SCHEMA.set(1, pa.field("v", pa.int64(), nullable=False))
"""The table requires `v`: a row without it does not fit until that is changed."""
_OPEN = ExitStack()


@dataclass(slots=True)
class Stream:
    """A stream into `ns.t`."""

    folder: Path
    sink: dict[str, Any] = field(default_factory=lambda: dict(UPSERT))
    stream: dict[str, Any] = field(default_factory=dict)
    schema: pa.Schema = SCHEMA
    made_with: pa.Schema = STRICT
    checkpoint: str = field(default_factory=lambda: str(uuid.uuid4()))
    sent: int = 0

    @property
    def said(self) -> dict[str, str]:
        """What the catalog is, for those who ask by name."""
        uri = f"sqlite:///{self.folder / 'catalog.db'}"
        return {"type": "sql", "uri": uri, "warehouse": self.folder.as_uri()}

    @property
    def config(self) -> StreamConfig:
        sink = SinkConfig(namespace="ns", table="t", catalog={"name": "lake", **self.said}, **self.sink)
        return StreamConfig(sink=sink, checkpoint="c", on_bad_row="quarantine", **self.stream)

    @contextmanager
    def catalog(self) -> Iterator[SqlCatalog]:
        catalog = SqlCatalog("lake", uri=self.said["uri"], warehouse=self.said["warehouse"])
        try:
            yield catalog
        finally:
            catalog.close()

    def load(self, name: str = "t") -> Table:
        with self.catalog() as catalog:
            return catalog.load_table(("ns", name))

    # -- a micro-batch ----------------------------------------------------------------------------

    def send(
        self, *rows: tuple[Any, ...], frontier: int | None = None, only_quarantine: bool = False
    ) -> None:
        """A micro-batch. `frontier`: how far it takes a stream with times. `only_quarantine`: the driver dies
        before the table is committed."""
        table = pa.Table.from_pylist(
            [dict(zip(self.schema.names, row, strict=True)) for row in rows], self.schema
        )
        with self.catalog() as catalog:
            target, quarantine = self._hold(catalog)
            number, self.sent = self.sent, self.sent + 1
            upper = number + 1 if frontier is None else frontier
            batch = Batch(target.progress.frontier, upper)
            where = positions(self.checkpoint, number, f"digest {number}", 0)
            plan = target.plan(target.coordinator.base)
            kept = quarantine_plan(quarantine, target, self.config, where)
            times = None if frontier is None else TimeLine(batch.lower, batch.lower, estimated=True)
            task = TaskPlan(
                reading_of(self.config.sink), (Slot(batch, plan.write),), number, times, quarantine=kept
            )
            if frontier is not None:
                table = table.append_column(TIME_COLUMN, table["lsn"])
            report = _run(task, table)
            if report.quarantined:
                told = quarantine.plan(quarantine.coordinator.base)
                quarantine.coordinator.commit(
                    [Ready(kept.batch, report.quarantined, told.schema, told.premises, positions=where)]
                )
            if not only_quarantine and (report.files or report.quarantined):
                relies = plan.premises if report.files else None
                ready = Ready(batch, report.files, plan.schema, relies, brings_spec=plan.brings_spec)
                target.coordinator.commit([replace(ready, positions=where)])

    def _hold(self, catalog: SqlCatalog) -> tuple[Holding, Holding]:
        config, clock = self.config, SystemClock()
        source = "micro-batch" if config.time_column is None else "column lsn (bigint)"
        empty = pa.Table.from_batches([], self.made_with if self.sent == 0 else self.schema)
        arrival = arrive(reading_of(config.sink), empty, pa.chunked_array([], pa.int64()), 0)
        target = hold(config.sink, arrival, catalog, clock, source, None)
        return target, hold(quarantine_config(config.sink), bad_rows(), catalog, clock, SOURCE, None)

    # -- what a person does -----------------------------------------------------------------------

    def relax(self) -> None:
        """Mend the table: `v` becomes optional."""
        with self.catalog() as catalog, catalog.load_table(("ns", "t")).update_schema() as change:
            change.update_column("v", required=False)

    def replay(self, **how: Any) -> calve.Replayed:
        return calve.replay_quarantine(NAME, catalog=self.said, **how)

    def waiting(self) -> list[dict[str, Any]]:
        """The rows that wait."""
        return [one.row for one in calve.list_quarantine(NAME, catalog=self.said)]

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of the table, read by DuckDB."""
        place = self.load().metadata_location
        found = _duck().connection.execute(f"SELECT * FROM iceberg_scan('{place}')").fetchall()
        return sorted(found, key=repr)

    def snapshots(self) -> tuple[int, int]:
        """How many snapshots both tables have: a claim is one."""
        return len(self.load().metadata.snapshots), len(self.load("t__quarantine").metadata.snapshots)


@cache
def _duck() -> DuckReader:
    """One for the process: its extensions take long to load."""
    return _OPEN.enter_context(duck_reader())


def _run(plan: TaskPlan, rows: pa.Table) -> Report:
    tied: list[pa.Table] = []
    while True:
        report = Task(plan).run(rows.to_batches())
        if report.refused is not None:
            raise report.refused
        if report.tied is None:
            return report
        tied.append(report.tied)
        plan = replace(plan, tied=to_stream(pa.concat_tables(tied)))
