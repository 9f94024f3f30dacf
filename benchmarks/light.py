"""A catalog in this process whose commit does not grow with the table's history.

PyIceberg's own catalogs read and write all of metadata.json in every commit, so that ten thousand commits in
a row would be hours of theirs around minutes of ours. This one checks the requirements, applies the updates
that a sink sends, and adds to the one list of snapshots that there is. Only for one run at a time, and only
to measure: nothing of it outlives the process.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)

from calve.table.fileio import StoreFileIO


class LightCatalog:
    """One table, whose first metadata another catalog made."""

    def __init__(self, made_by: Catalog, identifier: tuple[str, ...]) -> None:
        self._identifier = identifier
        table = made_by.load_table(identifier)
        self._metadata: TableMetadata = table.metadata
        self._location = table.metadata_location

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        if identifier != self._identifier:
            raise NoSuchTableError(f"there is only {self._identifier}")
        return Table(identifier, self._metadata, self._location, StoreFileIO(), self)  # type: ignore[arg-type]

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        del table
        for requirement in requirements:
            requirement.validate(self._metadata)
        for update in updates:
            self._apply(update)
        # `model_construct`, because checking a response walks through all snapshots.
        return CommitTableResponse.model_construct(metadata=self._metadata, metadata_location=self._location)

    def _apply(self, update: TableUpdate) -> None:
        changed: dict[str, Any]
        match update:
            case AddSnapshotUpdate(snapshot=snapshot):
                self._metadata.snapshots.append(snapshot)
                changed = {
                    "last_sequence_number": snapshot.sequence_number,
                    "last_updated_ms": snapshot.timestamp_ms,
                }
            case SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot_id):
                ref = SnapshotRef.model_validate({"snapshot-id": snapshot_id, "type": kind})
                changed = {"refs": self._metadata.refs | {name: ref}}
                if name == MAIN_BRANCH:
                    changed["current_snapshot_id"] = snapshot_id
            case _:  # what only a claim or a first commit sends may take the long way
                self._metadata = update_table_metadata(self._metadata, (update,))
                return
        self._metadata = self._metadata.model_copy(update=changed)
