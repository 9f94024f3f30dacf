"""The quarantine in a stream: rows that do not fit, on their way to the table beside the target (P8).

Its batches are micro-batches, whatever the target's times are: a row that does not fit may have no time. It
is committed before the target, under a tag of its own; the micro-batch's number tells a replay from a new
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from calve.config.stream import StreamConfig
from calve.model.batch import Batch
from calve.model.progress import Progress
from calve.protocol.replay import BASE, CHECKPOINT, NUMBER, OFFSETS, base_of, positions
from calve.runtime.replay.names import ReadAs
from calve.runtime.spark.batches import MicroBatch, Written
from calve.runtime.spark.target import Holding
from calve.table.build import Ready
from calve.writer.changes import Arrival
from calve.writer.quarantine import SCHEMA, Origin, QuarantinePlan


def bad_rows() -> Arrival:
    """No rows, with the columns of the quarantine."""
    return Arrival(pa.Table.from_batches([], SCHEMA), None, 0)


def quarantine_plan(
    quarantine: Holding, target: Holding, config: StreamConfig, where: Mapping[str, Any]
) -> QuarantinePlan:
    """How the tasks of a micro-batch write rows that do not fit; `where` are its positions."""
    progress, number = quarantine.progress, where[NUMBER]
    upper = base_of(progress, where[CHECKPOINT]) + number + 1
    if upper <= progress.frontier and not _is_last(progress, where):
        # An older copy of the checkpoint: the number was another micro-batch before. Its rows are new here,
        # and what of them is not is dropped by its time (case 13).
        upper = progress.frontier + 1
    batch = Batch(min(progress.frontier, upper - 1), upper)
    origin = Origin(
        sink=config.sink.sink_id,
        target=str(target.coordinator.base.metadata.table_uuid),
        read_as=ReadAs.of(config.sink, config.time_column).to_json(),
        time=where[BASE] + number if config.time_column is None else None,
    )
    write = quarantine.plan(quarantine.coordinator.base).write
    return QuarantinePlan(write, batch, number, config.bad_rows_max, origin)


def _is_last(progress: Progress, where: Mapping[str, Any]) -> bool:
    """Whether the quarantine was last written by this very micro-batch."""
    return all(progress.positions.get(name) == where[name] for name in (CHECKPOINT, NUMBER, OFFSETS))


def quarantined(target: Holding, work: MicroBatch, written: Written) -> Ready:
    """The rows of a micro-batch that do not fit, ready to be committed."""
    assert work.quarantine is not None
    plan = target.plan(target.coordinator.base)
    checkpoint = work.positions[CHECKPOINT]
    base = base_of(target.progress, checkpoint)
    where = positions(checkpoint, work.number, work.positions[OFFSETS], base)
    return Ready(work.quarantine.batch, written.quarantined, plan.schema, plan.premises, positions=where)
