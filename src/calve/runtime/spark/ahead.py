"""Ahead: what the quarantine has and the checkpoint does not know.

    quarantine   ├──── known to the manifest before ────┤─── ahead ───┤
                                                        │             └─ frontier
                                    an earlier writing of this micro-batch; or, where an older copy of the
                                    checkpoint was restored, all that was written after the copy was made

Rows that are ahead come again, because Spark reads again from where the checkpoint is, and the quarantine
has them (case 13, P8). Neither the time of such a row tells that, which may lie at or above the table's
frontier or be none, nor the number of the micro-batch: Spark may cut micro-batches otherwise now, and the row
may come in any of them. So each is waited for, through as many micro-batches and runs as it takes, and is
left out once (settled.py). What has not come stands in the manifest, which goes back with the checkpoint if
that does.

Cost: nothing where nothing is ahead. Else a scan of the quarantine's files of the batches that are ahead, in
the first micro-batch of a run, and their rows in the plan of each task. A row whose source is gone never
comes: it is waited for as long as the checkpoint lasts, and the first row that equals it in all columns is
taken for it, because nothing tells the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from calve.runtime.replay.scan import rows_with
from calve.runtime.spark.stash import Manifest, Place
from calve.runtime.spark.target import Holding
from calve.writer.settled import alike, settled_stream


@dataclass(frozen=True, slots=True)
class Ahead:
    """Rows of the quarantine that are to come again, those that are equal together."""

    kinds: tuple[tuple[Place, ...], ...] = ()
    stream: bytes | None = None
    """The rows, for tasks; `None` if there is none."""

    def left(self, come: Mapping[int, int]) -> tuple[Place, ...]:
        """What is still to come, after so many of each kind came."""
        rest = [places[come.get(kind, 0) :] for kind, places in enumerate(self.kinds)]
        return tuple(place for places in rest for place in places)


@dataclass(slots=True)
class Lookout:
    """Finds what is ahead, for the micro-batches of one run."""

    _batches: tuple[int, ...] = ()
    _rows: list[dict[str, Any]] = field(default_factory=list)
    """Of these batches, as they were read last: rows of a batch do not change."""

    def look(
        self, quarantine: Holding, target: Holding, sink: str, before: Manifest | None, first: int
    ) -> Ahead:
        """What is ahead of the manifest before a micro-batch; where there is none, of the batch up to
        `first`, which is the last that an earlier micro-batch can have brought."""
        known, waited = first, set[str]()
        if before is not None and before.quarantined is not None:
            known, waited = before.quarantined, {place.id for place in before.ahead}
        beyond = range(known + 1, quarantine.progress.frontier + 1)
        batches = (*(() if before is None else sorted({place.batch for place in before.ahead})), *beyond)
        if not batches:
            return Ahead()
        rows = self._read(quarantine, target, sink, batches)
        rows = [row for row in rows if row["batch"] > known or row["id"] in waited]
        return _ahead(rows)

    def _read(
        self, quarantine: Holding, target: Holding, sink: str, batches: tuple[int, ...]
    ) -> list[dict[str, Any]]:
        if batches != self._batches:
            count = len(batches)
            wanted = pa.table(
                {
                    "sink": [sink] * count,
                    "target": [str(target.coordinator.base.metadata.table_uuid)] * count,
                    "batch": list(batches),
                    "replay": pa.nulls(count),  # not those that a replay put back: they are there already
                }
            )
            names = ["batch", "id", "arrow"]
            self._rows = rows_with(quarantine.coordinator.base, wanted, names).to_pylist()
            self._batches = batches
        return self._rows


def _ahead(rows: Sequence[Mapping[str, Any]]) -> Ahead:
    if not rows:
        return Ahead()
    arrows = [row["arrow"] for row in rows]
    kinds = alike(arrows)
    places = tuple(tuple(Place(rows[one]["batch"], rows[one]["id"]) for one in kind) for kind in kinds)
    return Ahead(places, settled_stream(arrows, kinds))
