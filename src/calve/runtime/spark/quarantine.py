"""The quarantine in a stream: rows that do not fit, on their way to the table beside the target (P8).

Its batches are micro-batches, whatever the target's times are: a row that does not fit may have no time. It
is committed before the target, under a tag of its own; the micro-batch's number tells a replay from a new
one.

    written     quarantine landed          target did not, and its files cannot be committed any more
    again       its rows are settled       all others are judged by the table as it is now
                └─▶ left out               └─▶ files, or a further batch of the quarantine

What is settled is what the quarantine has beyond the manifest before the micro-batch (ahead.py): from an
earlier writing, or from all that was done since a copy of the checkpoint was made that is restored now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog

from calve.config.sink import SinkConfig
from calve.config.stream import StreamConfig
from calve.model.batch import Batch
from calve.model.errors import ConfigError, TableMissing
from calve.model.progress import Progress
from calve.protocol.replay import BASE, CHECKPOINT, NUMBER, OFFSETS, base_of, positions
from calve.runtime.replay.names import ReadAs, quarantine_config
from calve.runtime.spark.ahead import Ahead, Lookout
from calve.runtime.spark.stash import Manifest
from calve.runtime.spark.target import Holding
from calve.runtime.spark.work import MicroBatch, Written
from calve.table.build import Ready
from calve.table.commit import load
from calve.table.fence import read_progress
from calve.writer.changes import Arrival
from calve.writer.quarantine import SCHEMA, Origin, QuarantinePlan


def bad_rows() -> Arrival:
    """No rows, with the columns of the quarantine."""
    return Arrival(pa.Table.from_batches([], SCHEMA), None, 0)


def quarantine_plan(
    quarantine: Holding,
    target: Holding,
    config: StreamConfig,
    where: Mapping[str, Any],
    settled: bytes | None = None,
) -> QuarantinePlan:
    """How the tasks of a micro-batch write rows that do not fit; `where` are its positions."""
    progress, number = quarantine.progress, where[NUMBER]
    # A number below the frontier is this very micro-batch, or another one that had it before an older copy of
    # the checkpoint was restored (case 13). Its settled rows do not come here; what does is new.
    upper = max(base_of(progress, where[CHECKPOINT]) + number, progress.frontier) + 1
    origin = Origin(
        sink=config.sink.sink_id,
        target=str(target.coordinator.base.metadata.table_uuid),
        read_as=ReadAs.of(config.sink, config.time_column).to_json(),
        time=where[BASE] + number if config.time_column is None else None,
    )
    write = quarantine.plan(quarantine.coordinator.base).write
    return QuarantinePlan(
        plan=write,
        batch=Batch(progress.frontier, upper),
        micro_batch=number,
        rows_max=config.bad_rows_max,
        origin=origin,
        settled=settled,
    )


def look_ahead(
    lookout: Lookout,
    quarantine: Holding,
    target: Holding,
    config: StreamConfig,
    where: Mapping[str, Any],
    before: Manifest | None,
) -> Ahead:
    """What the quarantine has that is to come again."""
    first = base_of(quarantine.progress, where[CHECKPOINT]) + where[NUMBER]
    return lookout.look(quarantine, target, config.sink.sink_id, before, first)


def check_not_there(config: SinkConfig, catalog: Catalog, where: Mapping[str, Any]) -> None:
    """Refuse a run without a quarantine where rows of its micro-batch are in one: judged anew, those that fit
    by now would be in both tables. Where it was not committed, the rows are the run's to refuse."""
    beside = quarantine_config(config)
    try:
        progress = read_progress(load(catalog, beside.identifier), beside.sink_id)
    except TableMissing:
        return
    if progress is not None and _is_of(progress, where):
        raise ConfigError(
            f"rows of micro-batch {where[NUMBER]} are in the quarantine {beside.table_name} since the run "
            f"before, whose commit of {config.table_name} did not follow; this run has no quarantine",
            hint="Start it with .on_bad_row('quarantine') once more, until this micro-batch is through; then "
            "change it.",
        )


def _is_of(progress: Progress, where: Mapping[str, Any]) -> bool:
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


def known_then(
    quarantine: Holding | None, work: MicroBatch, written: Written, before: Manifest | None
) -> dict[str, Any]:
    """What the checkpoint knows of the quarantine once a micro-batch is through, for its manifest."""
    if quarantine is None or work.quarantine is None:
        # A run without a quarantine sees none of its rows; a later one with it goes on from there.
        return {} if before is None else {"quarantined": before.quarantined, "ahead": before.ahead}
    upper = work.quarantine.batch.upper if written.quarantined else quarantine.progress.frontier
    return {"quarantined": upper, "ahead": written.ahead}
