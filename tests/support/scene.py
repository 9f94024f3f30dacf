"""A scene: a table of ours, its sink's ledger, Spark as somebody else at work, and Spark as the judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calve import IcebergSink
from tests.support.lake import NAMESPACE, Lake, Published, publish
from tests.support.readers import SparkReader, differences, read_snapshot, rows_of
from tests.support.workload import Epoch, Ledger, Variant


def call(spark: Any, procedure: str, table: str, *arguments: str) -> list[Any]:
    """Run one of Iceberg's procedures."""
    words = ", ".join([f"table => '{NAMESPACE}.{table}'", *arguments])
    return spark.sql(f"CALL lake.system.{procedure}({words})").collect()


class Scene:
    """A table, its sink's ledger, and the reader that judges both."""

    def __init__(self, lake: Lake, spark: Any, table: str, variant: Variant) -> None:
        self.lake, self.spark, self.table, self.variant = lake, spark, table, variant
        self.ledger: Ledger = variant.ledger()
        self.published: list[Published] = []

    def sink(self) -> IcebergSink:
        return self.lake.sink(self.table, self.variant)

    def publish(self, sink: IcebergSink, epochs: int = 1) -> None:
        for _ in range(epochs):
            self.published.append(publish(self.lake, self.table, sink, self.ledger.next_epoch()))

    def publish_around(self, sink: IcebergSink, act: Callable[[], Any]) -> None:
        """One epoch, with something else happening between its rows and its commit."""
        epoch: Epoch = self.ledger.next_epoch()
        sink.begin_epoch(epoch.number)
        for changes in epoch.pieces:
            sink.write_batch(changes)
        sink.flush()
        act()
        sink.commit_epoch(epoch.number)
        self.published.append(Published(epoch.number, self.lake.head(self.table).snapshot_id, epoch.truth))

    def check(self, *, last: int | None = None) -> None:
        """Every snapshot that is still there, or the last ones, shows the truth of its epoch."""
        live = {snapshot.snapshot_id for snapshot in self.lake.load(self.table).metadata.snapshots}
        wanted = [one for one in self.published if one.snapshot_id in live]
        assert len(wanted) >= (last or 1)
        for one in wanted[-(last or len(wanted)) :]:
            self._compare(one.snapshot_id, one)

    def check_main(self) -> None:
        """main shows the ledger's truth, whoever wrote it."""
        head = self.lake.head(self.table).snapshot_id
        self._compare(head, Published(self.ledger.number, head, self.ledger.truth()))

    def _compare(self, snapshot_id: int, one: Published) -> None:
        at, schema = self.lake.at(self.table), one.truth.schema
        seen = read_snapshot(SparkReader(self.spark), at, snapshot_id, like=schema)
        truth = rows_of(one.truth, schema)
        assert seen == truth, f"epoch {one.epoch}: {differences(seen, truth)}"
