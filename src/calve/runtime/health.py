"""What a person or a supervisor asks of a sink: is it well, what has it done, what can it do.

All of it may be asked from any thread, also while the sink is at work.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from calve.config.sink import Delivery, Mode, SinkConfig
from calve.runtime.foreign import Foreign
from calve.runtime.life import Life, State


class Health(Enum):
    """How a sink is."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"  # it goes on, and somebody should look
    UNHEALTHY = "unhealthy"  # it does not go on


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """How a sink is, why, and what to do."""

    health: Health
    reason: str = ""
    hint: str = ""

    @classmethod
    def of(cls, life: Life, foreign: Foreign | None) -> HealthStatus:
        """How a sink is, by its life and by what others did to its table."""
        if life.failure is not None:
            return cls(Health.UNHEALTHY, life.failure.message, life.failure.hint)
        if life.state is not State.OPEN:
            return cls(Health.UNHEALTHY, f"the sink is {life.state.value}", life.next_step)
        if foreign is not None and foreign.rewrites_that_dropped_deletes:
            return cls(
                Health.DEGRADED,
                "another engine rewrote files and removed equality deletes",
                "A partial rewrite can bring deleted rows back: compare the table with its source.",
            )
        return cls(Health.HEALTHY)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a sink can do."""

    exactly_once: bool
    idempotent: bool = True
    upsert: bool = True
    partitioned: bool = True
    changelog: bool = True
    schema_evolution: bool = True

    @classmethod
    def of(cls, config: SinkConfig) -> Capabilities:
        """What a sink can do, as it is configured."""
        return cls(
            exactly_once=config.delivery is Delivery.EXACTLY_ONCE,
            upsert=config.mode is Mode.UPSERT,
            changelog=config.mode is Mode.CHANGELOG,
            schema_evolution=config.schema_evolution,
        )


@dataclass(slots=True)
class SinkMetrics:
    """What a sink has done since it was opened. What each field says stands in docs/metrics.md, too."""

    rows_written: int = 0
    """Taken in by `write_batch`; those of skipped epochs are not counted here."""
    rows_flushed: int = 0
    """Moved on from the buffer, to a spool or into files."""
    bytes_written: int = 0
    """The size of all files that were closed."""
    flushes: int = 0
    """How often the buffer was emptied before the end of an epoch."""
    commits: int = 0
    """Epochs that became a snapshot."""
    epochs_skipped: int = 0
    """Begun again though the table has them."""
    rows_skipped: int = 0
    """Written to skipped epochs, and dropped: the table has them."""
    epochs_empty: int = 0
    """Committed without a change: no snapshot was made."""
    epochs_rolled_back: int = 0
    """Given up by the caller, or open when the sink was closed."""
    batches_rewritten: int = 0
    """Written once more because the table changed under them."""
    data_files_written: int = 0
    """Files of rows that were closed."""
    delete_files_written: int = 0
    """Files of deleted keys that were closed."""
    conflicts: int = 0
    """Commits that the catalog refused because somebody else was first."""
    unknown_answers: int = 0
    """Commits and claims whose answer was lost; the table was then asked."""
    foreign_rows: int = 0
    """Added to the table by others, as far as this sink has looked."""
    foreign_snapshots: int = 0
    """Committed by others, of rows, deletes or rewrites."""
    errors: int = 0
    """Calls that ended with an error."""
    last_flush_ms: float = 0.0
    """How long it took to empty the buffer, or to close the files of an epoch."""
    last_commit_ms: float = 0.0
    """How long the last commit took, attempts and waiting included."""
    last_catalog_ms: float = 0.0
    """The part of it that the catalog took."""
    last_snapshot_id: int | None = None
    """The snapshot that this run committed last; none before its first."""
    frontier: int = 0
    """The first epoch that is not in the table."""
    open_ms: float = 0.0
    """Since the sink was opened."""

    @property
    def records_per_second(self) -> float:
        """Rows that reached files, over the time since the sink was opened."""
        return self.rows_flushed / self.open_ms * 1000 if self.open_ms > 0 else 0.0
