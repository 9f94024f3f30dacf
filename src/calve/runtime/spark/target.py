"""A table that a run holds: created or adopted, checked against the checkpoint, then claimed.

Nothing is created or claimed before it is known that this checkpoint is the one that the table was written
from, and that the table has all that the checkpoint says was committed: a query with a wrong checkpoint, or
on a table that was put back, changes nothing and fences nobody (cases 12, 14, 28, 29, 69).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from calve.config.sink import SinkConfig
from calve.model.errors import Diverged, RolledBack, TableMissing, TableReplaced
from calve.model.progress import Progress
from calve.protocol.replay import check_checkpoint
from calve.runtime.clock import Clock
from calve.runtime.coordinator import Coordinator
from calve.runtime.first import check_first, wanted_table
from calve.runtime.plan import EpochPlan, epoch_plan
from calve.runtime.start import claim_table
from calve.table.base import Base
from calve.table.commit import load
from calve.table.create import check_table, create_table
from calve.table.evolve import evolve
from calve.table.fence import read_progress
from calve.table.schema import to_arrow
from calve.table.sinks import check_not_dropped
from calve.writer.changes import Arrival
from calve.writer.nulls import required_and_nullable


@dataclass(frozen=True, slots=True)
class Holding:
    """A table that this run holds, and the columns that its rows come with."""

    config: SinkConfig
    coordinator: Coordinator
    incoming: pa.Schema
    """Without the op column and marks, with what a changelog adds."""

    @property
    def progress(self) -> Progress:
        return self.coordinator.progress

    def plan(self, base: Base, *, older_rows: bool = False) -> EpochPlan:
        """How a batch is written on the table as it is now."""
        allowed = self.config.schema_evolution
        nulls_in: frozenset[str] = frozenset()
        if allowed:
            # Spark tells before the rows come whether a field may have nulls; which rows have, nobody does.
            table = to_arrow(base.metadata.schema())
            nulls_in = required_and_nullable(self.incoming, table) - {*self.config.key}
        evolution = evolve(base.metadata, self.incoming, allowed=allowed, nulls_in=nulls_in)
        return epoch_plan(self.config, base, evolution, older_rows=older_rows)


@dataclass(frozen=True, slots=True)
class Known:
    """What a checkpoint says of the table."""

    checkpoint: str
    replaces: str | None
    published: int = 0
    """Everything before it was committed."""
    table: str | None = None
    """The uuid of the table that it was written to."""
    written: frozenset[str] = frozenset()
    """The uuids of all tables that it may have committed to, also by the micro-batch that comes again."""


def hold(
    config: SinkConfig, arrival: Arrival, catalog: Catalog, clock: Clock, source: str, known: Known | None
) -> Holding:
    """Make a table this run's own: created if it is not there, refused if it is not what was asked for."""
    try:
        table = load(catalog, config.identifier)
    except TableMissing:
        if known is not None and known.table is not None:
            raise
        create_table(catalog, config.identifier, check_first(config, arrival))
    else:
        check_table(table, wanted_table(config, pa.schema([])))
        evolve(table.metadata, arrival.rows.schema, allowed=config.schema_evolution)

    def check(table: Table) -> None:
        # On the table that is claimed, not on the one that was looked at before: another query may commit in
        # between, and then this one would write its rows a second time.
        if known is not None:
            _check_known(config, table, known)

    coordinator = claim_table(config, catalog, clock, source=source, check=check)
    return Holding(config, coordinator, arrival.rows.schema)


def _check_known(config: SinkConfig, table: Table, known: Known) -> None:
    """Refuse a checkpoint that the table does not know, and a table that was replaced (case 29) or put back
    behind it (case 14)."""
    if known.table not in (None, str(table.metadata.table_uuid)):
        raise TableReplaced(
            f"the checkpoint was written for the table {known.table}, and {config.table_name} is "
            f"{table.metadata.table_uuid} now",
            hint="The table was dropped and created again. Start with a new checkpoint, or bring the old "
            "table back.",
        )
    progress = read_progress(table, config.sink_id)
    if progress is not None:
        check_checkpoint(progress, known.checkpoint, known.replaces)
    elif str(table.metadata.table_uuid) in known.written:
        raise _forgotten(config, table)
    frontier = 0 if progress is None else progress.frontier
    if frontier < known.published:
        raise RolledBack(
            f"the checkpoint says that {config.table_name} was committed up to {known.published}, but it "
            f"ends at {frontier}",
            hint="The table, or the tag of its sink, was put back behind the checkpoint. Put it forward to "
            "the snapshot that it had, or start anew: an empty table, another sink id, a new checkpoint.",
        )


def _forgotten(config: SinkConfig, table: Table) -> Diverged:
    """What is kept beside a checkpoint is kept after a claim: the table had progress. Whoever begins again
    without it may write rows a second time, those of the micro-batch that comes again above all (P6)."""
    check_not_dropped(config.table_name, table.metadata, config.sink_id)
    return Diverged(
        f"{config.table_name} was written from this checkpoint, and has no progress of sink "
        f"{config.sink_id} any more",
        hint="Was the sink dropped, or its tag removed? A new start from zero needs a new checkpoint. To go "
        "on, create the tag again at the sink's last snapshot.",
    )
