"""Frontier: how far a source has come, from what it says of itself or from what was seen of it.

    marks of its partitions ──least of all──▶ a promise
    the greatest time so far ──less a delay──▶ an estimate        ──▶ Frontier, which never goes back
    a watermark ────────────────────────────▶ an estimate

A partition that has not spoken yet may still say anything: until all have, there is no frontier (case 55).
A mark that goes back says nothing new. The difference between a promise and an estimate is what a change
below it means: under a promise it is a replay, under an estimate it is late.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from calve.model.errors import Diverged
from calve.model.time import check_time


@dataclass(frozen=True, slots=True)
class Frontier:
    """No change before `time` is to come; 0 as long as nothing is known."""

    time: int = 0
    marks: Mapping[str, int] = field(default_factory=dict)
    """What each partition said last."""

    def seen(self, greatest: int | None, delay: int) -> Frontier:
        """After changes up to `greatest`: those that are `delay` behind it are expected to have arrived."""
        if greatest is None:
            return self
        return self.reached(greatest - delay)

    def reached(self, time: int) -> Frontier:
        """After a watermark, or any other word that no change before `time` is to come."""
        return replace(self, time=max(self.time, check_time(max(time, 0), "frontier")))

    def heard(self, said: Mapping[str, int], partitions: Collection[str]) -> Frontier:
        """After marks of partitions, which are these: one that is new holds the frontier until it speaks, and
        one that is gone holds it no longer."""
        marks = {name: time for name, time in self._with(said).items() if name in partitions}
        frontier = replace(self, marks=marks)
        return frontier.reached(min(marks.values())) if marks and len(marks) == len(partitions) else frontier

    def _with(self, said: Mapping[str, int]) -> dict[str, int]:
        marks = dict(self.marks)
        for partition, time in said.items():
            marks[partition] = max(marks.get(partition, 0), check_time(time, "mark"))
        return marks

    def told(self, said: Mapping[str, int], partitions: int) -> Frontier:
        """After marks of partitions, of which there are so many."""
        marks = self._with(said)
        if len(marks) > partitions:
            raise Diverged(
                f"{len(marks)} partitions of the source have spoken, but there should be {partitions}: "
                + ", ".join(sorted(marks)),
                hint="Say how many partitions the source has (partitions=…), and stop the query before that "
                "changes.",
            )
        frontier = replace(self, marks=marks)
        return frontier.reached(min(marks.values())) if len(marks) == partitions else frontier
