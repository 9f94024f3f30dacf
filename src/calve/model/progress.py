"""Progress: what the table itself remembers of a sink, in the summary of the snapshot that its tag names.

One look-up, no walk. Every key that a commit of this sink writes is here, and nothing else reads or
writes them. The tag is the fence, the summary is the memory: both move in one compare-and-swap. Where a
catalog loses tags, a table property names the snapshot, and main is the fence (`table/fence.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calve.model.errors import BadName, Diverged
from calve.model.time import check_time

_PREFIX = "calve."
SINK_ID = _PREFIX + "sink-id"
"""The key of a summary that says whose a snapshot is."""
DROPPED = _PREFIX + "dropped"
"""The key of a summary that says which sink was dropped with a snapshot."""
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a sink stands: the frontier, which run holds it, and what the times mean."""

    sink_id: str
    frontier: int
    """No change before it is still to be committed: the next batch's lower."""
    lower: int
    """The lower of the last committed batch, or the frontier itself before the first."""
    generation: int
    """Which run of the sink holds it: grows by one with every claim."""
    writer: uuid.UUID
    """The run that claimed the sink."""
    source: str
    """What the times mean: `epoch`, `hlc`, …; a sink never goes on under another meaning."""
    batch_id: uuid.UUID | None = None
    committed: int | None = None
    """The snapshot id of the sink's last data commit; `None` before the first."""
    anchor: int | None = None
    """A snapshot of main that was found to descend from `committed`: a later look need not go further back,
    where expiry may have cut the chain."""
    positions: Mapping[str, Any] = field(default_factory=dict)
    """Per partition of the source, the least position that is still needed."""

    def __post_init__(self) -> None:
        check_sink_id(self.sink_id)
        check_time(self.frontier, "frontier")
        check_time(self.lower, "lower")

    def to_summary(self) -> dict[str, str]:
        """The keys of a snapshot summary."""
        summary = {
            "sink-id": self.sink_id,
            "frontier": str(self.frontier),
            "lower": str(self.lower),
            "generation": str(self.generation),
            "writer": str(self.writer),
            "source": self.source,
        }
        if self.batch_id is not None:
            summary["batch-id"] = str(self.batch_id)
        if self.committed is not None:
            summary["committed"] = str(self.committed)
        if self.anchor is not None:
            summary["anchor"] = str(self.anchor)
        if self.positions:
            summary["positions"] = json.dumps(self.positions, sort_keys=True, separators=(",", ":"))
        return {_PREFIX + key: value for key, value in summary.items()}

    @classmethod
    def from_summary(cls, summary: Mapping[str, str]) -> Progress:
        """What a snapshot summary says. A summary that cannot be read stops the sink (P6)."""
        kept = {key.removeprefix(_PREFIX): value for key, value in summary.items() if key.startswith(_PREFIX)}
        try:
            return cls(
                sink_id=kept["sink-id"],
                frontier=int(kept["frontier"]),
                lower=int(kept["lower"]),
                generation=int(kept["generation"]),
                writer=uuid.UUID(kept["writer"]),
                source=kept["source"],
                batch_id=uuid.UUID(kept["batch-id"]) if "batch-id" in kept else None,
                committed=int(kept["committed"]) if "committed" in kept else None,
                anchor=int(kept["anchor"]) if "anchor" in kept else None,
                positions=json.loads(kept.get("positions", "{}")),
            )
        except (KeyError, ValueError) as error:
            raise Diverged(
                f"the progress in the table cannot be read: {error!r}",
                hint="The sink's tag was moved by hand, or a newer release wrote it. "
                "Point the tag back at the sink's last snapshot, or use that release.",
            ) from error


def check_sink_id(sink_id: str) -> str:
    """The id itself, if it can be part of a tag, of a path and of a summary."""
    if not _NAME.fullmatch(sink_id) or ".." in sink_id:
        raise BadName(
            f"{sink_id!r} cannot be a sink's id",
            hint="Use 1 to 128 letters, digits, '_', '-' or '.', without '..', not beginning with '.' or "
            "'-'.",
        )
    return sink_id


def default_sink_id(namespace: tuple[str, ...], table: str) -> str:
    """The id that a sink has when its user names none: derived from the table, so that it is the same
    at every start. Characters that an id cannot have are replaced, and a hash keeps two names apart."""
    name = ".".join((*namespace, table))
    if _NAME.fullmatch(name) and ".." not in name:
        return name
    cleaned = re.sub(r"[^A-Za-z0-9_-]|^-", "_", name)[:100]
    return f"{cleaned}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def replay_sink_id(sink_id: str) -> str:
    """The id under which rows of a sink's quarantine are written to its table."""
    return f"{sink_id}.replay"


def tag_name(sink_id: str) -> str:
    """The tag that carries a sink's progress."""
    return f"calve-{sink_id}"


def fence_property(sink_id: str) -> str:
    """The table property that names the snapshot with a sink's progress, where the fence is main."""
    return f"calve.fence.{sink_id}"


def claimed_property(sink_id: str) -> str:
    """The table property that says that a sink was here, should its tag and snapshots be lost (P6)."""
    return f"calve.sink.{sink_id}"


def dropped_property(sink_id: str) -> str:
    """The table property that says that a sink was dropped: it does not begin again by itself (P6)."""
    return f"calve.dropped.{sink_id}"
