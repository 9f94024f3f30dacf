"""Refs: the moves of main and of a sink's tag, and the requirement on a tag. Pure, from metadata alone.

When they are moved is the fence's to say (fence.py).
"""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, SetSnapshotRefUpdate

from calve.model.progress import tag_name

_LONGEST_AGE_MS = 2**63 - 1
_MAX_REF_AGE = "history.expire.max-ref-age-ms"


class AssertTag(AssertRefSnapshotId):
    """The requirement on a tag. PyIceberg's own check refuses every tag on a table without snapshots,
    also one that is required to be absent, so that a first claim would go without a fence."""

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        if base_metadata is not None and not base_metadata.snapshots and self.snapshot_id is None:
            return
        super().validate(base_metadata)


def move_tag(metadata: TableMetadata, sink_id: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """The sink's tag, at another snapshot."""
    # Engines drop old tags only where the table says how old a ref may be: there, ours gets the
    # longest age (case 65).
    age = _LONGEST_AGE_MS if _MAX_REF_AGE in metadata.properties else None
    return SetSnapshotRefUpdate(
        ref_name=tag_name(sink_id),
        type=SnapshotRefType.TAG,
        snapshot_id=snapshot_id,
        max_ref_age_ms=age,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def move_main(metadata: TableMetadata, snapshot_id: int) -> SetSnapshotRefUpdate:
    """main, at another snapshot."""
    main = metadata.refs.get(MAIN_BRANCH)
    return SetSnapshotRefUpdate(
        ref_name=MAIN_BRANCH,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        # What a user set on the branch stays.
        max_ref_age_ms=None if main is None else main.max_ref_age_ms,
        max_snapshot_age_ms=None if main is None else main.max_snapshot_age_ms,
        min_snapshots_to_keep=None if main is None else main.min_snapshots_to_keep,
    )
