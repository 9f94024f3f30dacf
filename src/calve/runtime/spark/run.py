"""A run of a query: the table that it holds, and what waits beside its checkpoint.

It begins in the first micro-batch, so that a start that Spark refuses fences nobody.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog

from calve.config.stream import BadRows, StreamConfig
from calve.model.errors import Diverged, StoreError, TableMissing
from calve.protocol.replay import base_of
from calve.runtime.clock import Clock
from calve.runtime.replay.names import SOURCE, quarantine_config
from calve.runtime.rows import reading_of
from calve.runtime.spark.ahead import Lookout
from calve.runtime.spark.files import CheckpointFiles
from calve.runtime.spark.frame import Clockwork
from calve.runtime.spark.outbox import Outboxes
from calve.runtime.spark.quarantine import bad_rows
from calve.runtime.spark.stash import Files, Stash
from calve.runtime.spark.target import Holding, Known, hold
from calve.table.commit import load
from calve.table.fence import read_progress
from calve.writer.carry import unpacked
from calve.writer.changes import Arrival, arrive

_LOG_OFFSET = re.compile(r'\{"logOffset":(\d+)\}')


@dataclass(frozen=True, slots=True)
class Run:
    """What one run holds from its claim on."""

    target: Holding
    quarantine: Holding | None
    checkpoint: str
    """The id of the query, which is the checkpoint's own."""
    files: CheckpointFiles
    stash: Stash
    outboxes: Outboxes
    base: int
    """The time of micro-batch 0, where times are micro-batches."""
    lookout: Lookout = field(default_factory=Lookout)

    @property
    def generation(self) -> int:
        return self.target.progress.generation

    @property
    def keeps_state(self) -> bool:
        """Whether Spark keeps state of the stream, as it does for aggregates, joins and duplicates."""
        return bool(self.files.names("state"))

    def with_columns(self, incoming: pa.Schema) -> Run:
        """The same run, whose rows come with other columns from now on."""
        return replace(self, target=replace(self.target, incoming=incoming))

    def refresh(self) -> None:
        """Read the tables again: what is written next is planned on what is there now."""
        for table in (self.target, self.quarantine):
            if table is not None:
                table.coordinator.refresh()

    def log(self, micro_batch: int) -> OffsetLog:
        """What Spark wrote down of a micro-batch before it began."""
        text = self.files.read(f"offsets/{micro_batch}")
        if text is None:
            raise StoreError(
                f"the checkpoint has no offsets/{micro_batch}, which Spark writes before anything else",
                hint="Is checkpointLocation the folder that the query was started with?",
            )
        return offset_log(text, self.files)


@dataclass(frozen=True, slots=True)
class OffsetLog:
    """What Spark says of a micro-batch."""

    digest: str
    """Of what the sources deliver: the same micro-batch has the same."""
    watermark_ms: int
    sources: tuple[str, ...] = ()
    """Where each source stands after the micro-batch, in its own words."""


def offset_log(text: str, files: Files) -> OffsetLog:
    """What a file of Spark's offset log says. The first line is its format, the second this run's settings;
    then comes a line for each source."""
    _, settings, *sources = text.splitlines()
    said = [line + _files_of(number, line, files) for number, line in enumerate(sources)]
    digest = hashlib.sha256("\n".join(said).encode()).hexdigest()
    return OffsetLog(digest, int(json.loads(settings).get("batchWatermarkMs", 0)), tuple(sources))


def _files_of(source: int, offset: str, files: Files) -> str:
    """What an offset of Spark's file source stands for. It is a number in a log beside the offsets, and in a
    checkpoint that was restored the same number may be other files (case 69)."""
    match = _LOG_OFFSET.fullmatch(offset.strip())
    if match is None:
        return ""
    number = int(match[1])
    text = files.read(f"sources/{source}/{number}") or files.read(f"sources/{source}/{number}.compact") or ""
    # A compacted log repeats all files so far; each tells by which entry it came.
    return "".join(sorted(line for line in text.splitlines() if f'"batchId":{number}}}' in line))


def arrival_of(config: StreamConfig, incoming: pa.Schema, clockwork: Clockwork | None) -> Arrival:
    """No rows, with the columns that the table gets."""
    if config.mark_column is not None:
        incoming = incoming.remove(incoming.get_field_index(config.mark_column))
    decimal = clockwork is not None and clockwork.is_decimal
    time = pa.decimal128(38, 0) if decimal else pa.int64()
    empty = unpacked(pa.Table.from_batches([], incoming), config.carried)
    return arrive(reading_of(config.sink), empty, pa.chunked_array([], time), 0)


def _is_new(config: StreamConfig, catalog: Catalog) -> bool:
    """Whether nothing was committed to the table by this sink."""
    try:
        progress = read_progress(load(catalog, config.sink.identifier), config.sink.sink_id)
    except TableMissing:
        return True
    return progress is None or progress.committed is None


def begin(
    config: StreamConfig,
    arrival: Arrival,
    catalog: Catalog,
    spark: Any,
    micro_batch: int,
    source: str,
    clock: Clock,
    *,
    folder: str | None = None,
) -> Run:
    """Check, create what is missing, and claim. `folder`: of a table beside others, which may join a stream
    that has begun."""
    assert config.checkpoint is not None
    checkpoint = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    files = CheckpointFiles(spark, config.checkpoint, folder)
    stash = Stash(files)
    before = stash.before(micro_batch)
    joins = folder is not None and _is_new(config, catalog)
    if before is None and micro_batch and config.time_column is not None and not joins:
        raise Diverged(
            f"the checkpoint is at micro-batch {micro_batch}, but what waited after micro-batch "
            f"{micro_batch - 1} is gone: there is no calve/stash in it",
            hint="Restore the whole checkpoint folder, calve/ included, or begin with a new checkpoint at or "
            "before the table's frontier.",
        )
    known = Known(checkpoint, config.replaces_checkpoint, written=stash.tables)
    if before is not None:
        known = replace(known, published=before.published, table=before.table)
    target = hold(config.sink, arrival, catalog, clock, source, known)
    quarantine = None
    if config.on_bad_row is BadRows.QUARANTINE:
        # It has rows of few micro-batches, and may know an older checkpoint than the target does.
        quarantine = hold(quarantine_config(config.sink), bad_rows(), catalog, clock, SOURCE, None)
    base = base_of(target.progress, checkpoint)
    # Read again: up to the claim another run may have written and removed manifests.
    return Run(target, quarantine, checkpoint, files, Stash(files), Outboxes(files), base)
