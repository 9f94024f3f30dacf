"""What is listed is what is there: rows of manifest lists, and the totals of a summary."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table.snapshots import Snapshot

from tests.simulation.ledger import Violation
from tests.simulation.reader import ADDED, DATA_CONTENT, Manifest


def row_is_right(manifest: Manifest) -> None:
    """A manifest list's row says what is in the manifest: readers skip manifests by it."""
    row, files = manifest.row, manifest.files
    for state, status in (("existing", 0), ("added", 1), ("deleted", 2)):
        of_state = [file for file in files if file.status == status]
        if (row[f"{state}_files_count"], row[f"{state}_rows_count"]) != (
            len(of_state),
            sum(f.records for f in of_state),
        ):
            raise Violation(f"{manifest.path} does not have {row[f'{state}_files_count']} {state} files")
    live = manifest.live
    if live and row["min_sequence_number"] > min(file.sequence for file in live):
        raise Violation(f"{manifest.path} holds a file older than {row['min_sequence_number']}")
    if any(file.status == ADDED and file.snapshot_id != row["added_snapshot_id"] for file in files):
        raise Violation(f"{manifest.path} has a file that another snapshot added")
    contents = {file.content == DATA_CONTENT for file in files}
    if contents and contents != {row["content"] == 0}:
        raise Violation(f"{manifest.path} has files of another content than {row['content']}")


def total_is_right(snapshot: Snapshot, name: str, count: int) -> None:
    """A summary's total is the sum of what its manifests have."""
    summary: Mapping[str, str] = {} if snapshot.summary is None else snapshot.summary.additional_properties
    if int(summary.get(name, "-1")) != count:
        raise Violation(f"snapshot {snapshot.snapshot_id} says {name} {summary.get(name)}, and has {count}")
