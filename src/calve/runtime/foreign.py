"""Others at work: what somebody else committed to the table between two commits of ours."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table.snapshots import Operation, Snapshot

from calve.model.errors import ForeignRows
from calve.model.progress import SINK_ID, replay_sink_id
from calve.table.lineage import Lineage


class Foreign:
    """Counts foreign rows and rewrites; each foreign snapshot once."""

    def __init__(self, table_name: str, sink_id: str, halt: bool) -> None:
        self._table_name = table_name
        self._sink_id = sink_id
        self._halt = halt
        self._last_counted: int | None = None
        self.rows = 0
        self.snapshots = 0
        self.rewrites_that_dropped_deletes = 0

    def count(self, lineage: Lineage) -> None:
        """Take note of what lies between our last commit and main, newest first."""
        newest = self._last_counted
        for snapshot in lineage.foreign:
            if snapshot.snapshot_id == newest:
                break
            self._take_note(snapshot)
        if lineage.foreign:
            self._last_counted = lineage.foreign[0].snapshot_id

    def _take_note(self, snapshot: Snapshot) -> None:
        summary: Mapping[str, str] = (
            {} if snapshot.summary is None else snapshot.summary.additional_properties
        )
        if summary.get(SINK_ID) in (self._sink_id, replay_sink_id(self._sink_id)):
            # A commit of ours whose answer was lost, or of the run that fenced this one; or rows of our own
            # that were replayed from the quarantine.
            return
        operation = None if snapshot.summary is None else snapshot.summary.operation
        self.snapshots += 1
        if operation is Operation.REPLACE:
            if int(summary.get("removed-equality-delete-files", "0")):
                self.rewrites_that_dropped_deletes += 1
            return
        rows = int(summary.get("added-records", "0"))
        self.rows += rows
        if rows and self._halt:
            raise ForeignRows(
                f"{self._table_name} got {rows} rows from somebody else in snapshot {snapshot.snapshot_id}",
                hint="Find who writes to the table, or set foreign_rows = 'count' to go on beside them.",
            )
