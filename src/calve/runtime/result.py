"""What the calls of a sink answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What one call took in."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class EpochResult:
    """What became of an epoch."""

    epoch: int
    snapshot_id: int | None
    """The snapshot that it is; `None` for an epoch that was skipped or had no changes."""
    skipped: bool = False
    """It was in the table already."""
    rows: int = 0
    files: int = 0
    milliseconds: float = 0.0
