"""Start: a run of a sink claims its table."""

from __future__ import annotations

import logging

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from calve.config.sink import Delivery, ForeignRows, SinkConfig
from calve.protocol.retry import RetryPolicy
from calve.runtime.claim import Check
from calve.runtime.clock import Clock
from calve.runtime.coordinator import Coordinator
from calve.runtime.hold import Identity
from calve.table.fence import make_fence

_log = logging.getLogger("calve.sink")

_SOURCE = {Delivery.EXACTLY_ONCE: "epoch", Delivery.AT_LEAST_ONCE: "epoch, at least once"}
"""What the times mean. An epoch that is written again moves the frontier of an at-least-once sink on, past
epochs that never came: so such a sink never goes on as an exactly-once one, which would skip them."""


def claim_table(
    config: SinkConfig,
    catalog: Catalog,
    clock: Clock,
    *,
    source: str | None = None,
    check: Check | None = None,
) -> Coordinator:
    """The coordinator of a new run, which holds the table from here on. `source` says what its times mean;
    they are epochs when nothing is said. `check` may refuse the table as it is when it is claimed."""
    identity = Identity(
        config.identifier, config.sink_id, source or _SOURCE[config.delivery], kind_of(config)
    )
    coordinator = Coordinator(
        catalog,
        identity,
        policy=RetryPolicy(attempts_max=config.commit_attempts_max, patience_ms=config.commit_timeout_ms),
        clock=clock,
        halt_on_foreign_rows=config.foreign_rows is ForeignRows.HALT,
        fence=make_fence(config.fence, config.sink_id),
    )
    progress = coordinator.claim(check)
    _log.info(
        "claimed %s as generation %s, frontier %s",
        config.table_name,
        progress.generation,
        progress.frontier,
    )
    return coordinator


def check_fence(config: SinkConfig, table: Table) -> None:
    """Refuse a sink that was begun with another fence, or whose progress is lost. Nothing is claimed."""
    fence = make_fence(config.fence, config.sink_id)
    if fence.find(table) is None:
        fence.check_begin(config.table_name, table.metadata)


def kind_of(config: SinkConfig) -> str:
    """What the sink makes of changes: it never goes on as another kind by a forgotten option."""
    return f"{config.mode} ({', '.join(config.key)})" if config.key else str(config.mode)
