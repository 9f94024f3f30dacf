"""A sink whose times are what a test says they are: no Spark, real files, a snapshot a batch.

    Timed(warehouse, source="hlc") ──put(upper, rows)──▶ batch [frontier, upper) ──▶ snapshot

And what others do to its table: a rewrite, an insert, an expiry, a rollback.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from calve import SinkConfig
from calve.model.batch import Batch
from calve.runtime.coordinator import Coordinator
from calve.runtime.epoch import Epoch
from calve.runtime.start import claim_table
from calve.table.base import last_sequence, read_base
from calve.table.build import Ready
from calve.table.catalogs import open_catalog
from calve.table.create import Wanted, create_table
from calve.table.refs import move_main
from calve.table.unchanged import unchanged
from tests.support.sinks import NAME, MovableClock, Warehouse
from tests.support.truth import summary_of

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@dataclass(slots=True)
class Timed:
    """One run of a sink into `ns.t`."""

    warehouse: Warehouse
    source: str = "column n (bigint)"
    options: Mapping[str, Any] = field(default_factory=dict)
    clock: MovableClock = field(default_factory=MovableClock)
    positions: Mapping[str, Any] = field(default_factory=dict)
    run: Coordinator = field(init=False)
    config: SinkConfig = field(init=False)

    def __post_init__(self) -> None:
        asked = {"write_mode": "upsert", "equality_delete_columns": "id", **self.options}
        self.config = SinkConfig.from_options(self.warehouse.options(**asked))
        catalog = open_catalog(self.config.catalog)
        if not catalog.table_exists(NAME):
            create_table(catalog, NAME, Wanted(SCHEMA, key=("id",)))
        self.run = claim_table(self.config, catalog, self.clock, source=self.source)

    def put(self, *uppers: int, ids: tuple[int, ...] = (1,)) -> list[int]:
        """Batches up to each of these, all in one commit; the snapshots that they are."""
        lower, ready = self.run.progress.frontier, []
        self.run.refresh()
        for upper in uppers:
            ready.append(self.ready(Batch(lower, upper), ids))
            lower = upper
        self.run.commit(ready)
        found = {}
        for one in self.warehouse.load().metadata.snapshots:
            says = summary_of(one)
            if says.get("calve.sink-id") == self.config.sink_id and is_commit(one):
                found[says["calve.frontier"]] = one.snapshot_id
        return [found[str(upper)] for upper in uppers]

    def ready(self, batch: Batch, ids: tuple[int, ...]) -> Ready:
        """The files of a batch."""
        spill = Path(tempfile.gettempdir()) / "calve-spill"
        epoch = Epoch(self.config, 0, batch, spill, "w0", self.clock, self.positions)
        rows = pa.table({"id": pa.array(ids, pa.int64()), "v": [f"before {batch.upper}"] * len(ids)})
        epoch.add(rows, self.run.base, self.run.refresh)
        return epoch.close_files(self.run.base)


def insert(warehouse: Warehouse, *ids: int) -> int:
    """A user's INSERT, by PyIceberg; the snapshot that it is."""
    with warehouse.catalog() as catalog:
        table = catalog.load_table(NAME)
        rows = {"id": pa.array(ids, pa.int64()), "v": pa.array(["foreign"] * len(ids))}
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
        table.append(pa.table(rows, schema))
        return head(table)


def rewrite(warehouse: Warehouse, removed_equality_deletes: int = 0) -> int:
    """What a compaction leaves in the metadata: main at a snapshot of the same content, called a replace."""
    with warehouse.catalog() as catalog:
        table = catalog.load_table(NAME)
        new_id = last_sequence(table.metadata) + 1
        made, _ = unchanged(read_base(table), table.metadata.current_snapshot(), new_id, 0, {})
        assert made.summary is not None
        says = {**made.summary.additional_properties}
        if removed_equality_deletes:
            says["removed-equality-delete-files"] = str(removed_equality_deletes)
        made = made.model_copy(update={"summary": Summary(Operation.REPLACE, **says)})
        catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=made), move_main(table.metadata, new_id)))
    return new_id


def expire(warehouse: Warehouse, *snapshot_ids: int) -> None:
    """An expiry of these; refs keep theirs."""
    with warehouse.catalog() as catalog:
        catalog.load_table(NAME).maintenance.expire_snapshots().by_ids(list(snapshot_ids)).commit()


def set_ref(warehouse: Warehouse, name: str, snapshot_id: int, kind: str = "tag") -> None:
    """A tag or a branch, main among them, is put somewhere."""
    said = {"ref-name": name, "type": kind, "snapshot-id": snapshot_id}
    with warehouse.catalog() as catalog:
        update = SetSnapshotRefUpdate.model_validate(said)
        catalog.commit_table(catalog.load_table(NAME), (), (update,))


def is_commit(snapshot: Snapshot) -> bool:
    return summary_of(snapshot).get("calve.committed") == str(snapshot.snapshot_id)


def head(table: Table) -> int:
    found = table.refresh().metadata.current_snapshot_id
    assert found is not None
    return found
