"""Replay: whether a micro-batch is in the table, where its number is the only time that it has.

    time of micro-batch n  =  base + n          base: the table's frontier when the checkpoint was new

Numbers are bound to a checkpoint: under another one the same number is other rows. So progress keeps the
checkpoint's id, and a digest of what the source delivered in the last micro-batch that was committed. The
last number with the same digest is a replay; any other number below the frontier, or another digest, means
that the checkpoint is not the one that the table knows, and nothing is skipped on its word (cases 13, 69).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calve.model.errors import Diverged
from calve.model.progress import Progress

CHECKPOINT, NUMBER, OFFSETS, BASE = "checkpoint", "micro_batch", "offsets", "base"
DELIVERED = "delivered"
"""The last position of each partition of the source, where changes have positions."""


def positions(checkpoint: str, number: int, offsets: str, base: int) -> dict[str, Any]:
    """What progress keeps of the last micro-batch."""
    return {CHECKPOINT: checkpoint, NUMBER: number, OFFSETS: offsets, BASE: base}


def check_checkpoint(progress: Progress, checkpoint: str, replaces: str | None) -> None:
    """Refuse a checkpoint that the table does not know, until told that it goes on for the one before."""
    known = progress.positions.get(CHECKPOINT)
    if known in (None, checkpoint):
        return
    if replaces is None:
        raise Diverged(
            f"sink {progress.sink_id} was written from checkpoint {known}, and this query has {checkpoint}",
            hint="Start it with the checkpoint it had. If that is lost, and the stream begins at or before "
            f"what the table has (frontier {progress.frontier}, {progress.source}), say so: "
            f".replaces_checkpoint({str(known)!r}). For another stream into the same table use another sink "
            "id ('writer.id').",
        )
    if replaces != known:
        raise Diverged(
            f"this query replaces checkpoint {replaces}, but sink {progress.sink_id} was last written from "
            f"{known}",
            hint="Another checkpoint has replaced it since. Start the query with that one.",
        )


def base_of(progress: Progress, checkpoint: str) -> int:
    """The time of a checkpoint's micro-batch 0."""
    known: Mapping[str, Any] = progress.positions
    return int(known[BASE]) if known.get(CHECKPOINT) == checkpoint else progress.frontier


def is_replay(progress: Progress, checkpoint: str, number: int, offsets: str) -> bool:
    """Whether a micro-batch is in the table already."""
    if base_of(progress, checkpoint) + number >= progress.frontier:
        return False
    known = progress.positions
    if known.get(NUMBER) == number and known.get(OFFSETS) == offsets:
        return True
    raise Diverged(
        f"micro-batch {number} comes again with other rows: sink {progress.sink_id} was last written by "
        f"micro-batch {known.get(NUMBER)} of the same checkpoint",
        hint="Was an older copy of the checkpoint restored? Start with the newest one. Nothing was skipped "
        "and nothing was written.",
    )
