"""Start: a run of the one-process sink claims its table. Its times are epoch numbers."""

from __future__ import annotations

import logging

from pyiceberg.catalog import Catalog

from calve.config.sink import ForeignRows, SinkConfig
from calve.protocol.retry import RetryPolicy
from calve.runtime.clock import Clock
from calve.runtime.coordinator import Coordinator
from calve.runtime.hold import Identity

_log = logging.getLogger("calve.sink")

_SOURCE = "epoch"


def claim_table(config: SinkConfig, catalog: Catalog, clock: Clock) -> Coordinator:
    """The coordinator of a new run, which holds the table from here on."""
    identity = Identity(config.identifier, config.sink_id, _SOURCE)
    coordinator = Coordinator(
        catalog,
        identity,
        policy=RetryPolicy(attempts_max=config.commit_attempts_max, patience_ms=config.commit_timeout_ms),
        clock=clock,
        halt_on_foreign_rows=config.foreign_rows is ForeignRows.HALT,
    )
    progress = coordinator.claim()
    _log.info(
        "claimed %s as generation %s, frontier %s",
        config.table_name,
        progress.generation,
        progress.frontier,
    )
    return coordinator
