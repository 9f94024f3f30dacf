"""What a micro-batch brings, and what it became: the values that the steps of a pipeline hand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import DataFrame

from calve.model.batch import Batch
from calve.model.file import FileClosed
from calve.protocol.frontier import Frontier
from calve.runtime.spark.ahead import Ahead
from calve.runtime.spark.stash import Place, Segment
from calve.table.build import Ready
from calve.writer.messages import Counts
from calve.writer.quarantine import QuarantinePlan


@dataclass(frozen=True, slots=True)
class Written:
    """What a micro-batch became, before any of it is committed."""

    closed: int
    placed: int
    """Everything before it is in files; what is not waits in segments."""
    published: int
    ready: tuple[Ready, ...] = ()
    waiting: tuple[Ready, ...] = ()
    """Open batches with the files that this micro-batch wrote for them."""
    segments: tuple[Segment, ...] = ()
    frontier: Frontier = field(default_factory=Frontier)
    quarantined: tuple[FileClosed, ...] = ()
    ahead: tuple[Place, ...] = ()
    """Rows of the quarantine that are still to come again."""
    counts: Counts = field(default_factory=Counts)
    batches_closed: int = 0
    rows_stashed: int = 0
    until: int | None = None
    """Where the run is to end, if it is there."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What the partitions of a source said of how far it is."""

    marks: Mapping[str, int]
    resolved: Mapping[str, frozenset[int]]
    """All times that each partition said."""
    partitions: frozenset[str] | None = None
    """All that there are; `None`: as the configuration says."""
    files_late: int = 0
    """Files so far that appeared where the source had been read already."""

    @property
    def held_by(self) -> str:
        """The partition that the frontier waits for: one that has not spoken, or the one that is behind the
        others. Empty where none is."""
        if silent := sorted((self.partitions or frozenset()) - self.marks.keys()):
            return silent[0]
        least = min(self.marks.values(), default=0)
        behind = sorted(name for name, time in self.marks.items() if time == least)
        return behind[0] if len(behind) < len(self.marks) else ""

    def new(self, before: Mapping[str, int]) -> frozenset[int]:
        """The times that partitions said beyond what they had said before: to go back says nothing."""
        return frozenset(
            time for name, times in self.resolved.items() for time in times if time > before.get(name, 0)
        )


class Labels(Protocol):
    """What snapshots of a source say beside the sink's own keys."""

    def __call__(self, batch: Batch, files: Sequence[FileClosed]) -> Mapping[str, str]: ...


def no_labels(batch: Batch, files: Sequence[FileClosed]) -> Mapping[str, str]:  # noqa: ARG001
    """Of a source that has nothing more to say."""
    return {}


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What Spark hands over, and where it stands."""

    frame: DataFrame
    number: int
    positions: Mapping[str, Any]
    quarantine: QuarantinePlan | None = None
    watermark: int = 0
    """Spark's own, as it stood when the micro-batch began."""
    heard: Heard | None = None
    """What the partitions of the source said, where it has any."""
    delivered: Mapping[str, str] = field(default_factory=dict)
    """The last position of each partition after this micro-batch."""
    ahead: Ahead = field(default_factory=Ahead)
    """Rows that are in the quarantine since they came before."""
