"""Kept: the rows that wait in a quarantine, as dictionaries of its columns.

A row that was replayed stays in the quarantine's table as it is: what waits follows from the progress of
replays (`protocol/readmit.py`). A row that was put back is there once more, with the same id and the reason
that it was put back for: it stands for the older one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from calve.config.sink import SinkConfig
from calve.model.errors import Diverged
from calve.model.progress import replay_sink_id
from calve.protocol.readmit import Round, Tables, draw
from calve.runtime.replay.names import again_config, quarantine_config
from calve.runtime.replay.scan import rows_with
from calve.table.base import Base
from calve.table.fence import read_progress
from calve.writer.quarantine import SCHEMA

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kept:
    """What waits, as both tables show it."""

    tables: Tables
    round: Round
    taken: tuple[Entry, ...]
    """What the replay that is due has still to decide on."""
    others: tuple[Entry, ...]
    """What waits for a later one: put back by this one, or newer than it."""

    @property
    def waiting(self) -> tuple[Entry, ...]:
        """All that waits, in the order in which it came."""
        return tuple(sorted((*self.taken, *self.others), key=lambda one: (one["batch"], one["id"])))


def read_kept(config: SinkConfig, target: Base, quarantine: Base) -> Kept:
    """What waits in the quarantine of a stream's sink."""
    progress = read_progress(quarantine.table, quarantine_config(config).sink_id)
    tables = Tables(
        target=str(target.metadata.table_uuid),
        quarantine=str(quarantine.metadata.table_uuid),
        frontier=0 if progress is None else progress.frontier,
    )
    due = draw(
        read_progress(target.table, replay_sink_id(config.sink_id)),
        read_progress(quarantine.table, again_config(config).sink_id),
        tables,
    )
    wanted = pa.table({"sink": [config.sink_id], "target": [tables.target]})
    _check_columns(config, quarantine)
    rows = rows_with(quarantine, wanted, SCHEMA.names).to_pylist()
    back = [row for row in rows if row["replay"] == due.number]
    gone = {row["id"] for row in back}
    taken = [row for row in rows if due.takes(row["batch"], row["replay"]) and row["id"] not in gone]
    newer = [row for row in rows if row["replay"] is None and row["batch"] > due.until]
    return Kept(tables, due, tuple(sorted(taken, key=_order)), (*back, *newer))


def _order(entry: Entry) -> tuple[int, str]:
    return entry["batch"], entry["id"]


def _check_columns(config: SinkConfig, quarantine: Base) -> None:
    missing = set(SCHEMA.names) - set(quarantine.metadata.schema().column_names)
    if missing:
        raise Diverged(
            f"the quarantine of {config.table_name} has no column {', '.join(sorted(missing))}",
            hint="An older release wrote it, or somebody changed it. Its rows are readable: 'row' as text, "
            "'arrow' as an Arrow stream.",
        )
