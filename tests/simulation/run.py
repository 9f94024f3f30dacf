"""A run of the sink, as the sink of one process drives its coordinator: claim, plan, write, commit, retry.

Every way in which a call can end is checked here against what the checker knows: a run that is told
`Fenced` was overtaken indeed, one that is told that nothing was committed can rely on it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from calve.config.sink import FenceKind
from calve.model.batch import Batch, batch_id
from calve.model.errors import (
    AccessDenied,
    CalveError,
    CatalogError,
    CatalogWithoutTags,
    CommitConflict,
    CommitUnknown,
    Diverged,
    Fenced,
    ForeignRows,
    PremiseBroken,
    RolledBack,
    StoreError,
    TableMissing,
    TableReplaced,
)
from calve.protocol.retry import RetryPolicy
from calve.table.build import Ready
from tests.simulation.faults import Crash
from tests.simulation.ledger import SINK, Violation
from tests.simulation.world import WatchedCoordinator, World


class State(Enum):
    """Where a run is in its life."""

    NEW = "new"
    HOLDS = "holds the sink"
    ENDED = "ended"


class Run:
    """One process that runs the sink."""

    def __init__(
        self, world: World, *, halt_on_foreign_rows: bool = False, attempts_max: int | None = None
    ) -> None:
        self.world = world
        self.name = world.next_run_name()
        policy = RetryPolicy(attempts_max=attempts_max or world.random.randint(1, 4), first_ms=1, most_ms=4)
        self.coordinator = WatchedCoordinator(world, policy=policy, halt_on_foreign_rows=halt_on_foreign_rows)
        self.state = State.NEW
        self.ending: BaseException | None = None
        self.waiting: list[Ready] = []
        """Batches that are written and not known to be committed."""
        self._must_rewrite = False

    @property
    def alive(self) -> bool:
        return self.state is not State.ENDED

    def act(self) -> None:
        """One call of the sink, whatever comes of it."""
        if not self.alive:
            return
        self.world.catalog.client = self
        self._guard(self.claim if self.state is State.NEW else self.commit_next)

    def claim(self) -> None:
        self.world.say(f"{self.name} claims")
        progress = self.coordinator.claim()
        self._check(progress.writer == self.coordinator.writer, "P4: a claim returned another run's progress")
        self.state = State.HOLDS
        self.world.met["claimed"] += 1

    def commit_next(self) -> None:
        """Write what comes next, or what must be written again, and commit it."""
        random = self.world.random
        if self._must_rewrite:
            self.coordinator.refresh()
            self.write([ready.batch for ready in self.waiting])
        if not self.waiting:
            if random.random() < 0.3:
                self.coordinator.refresh()
            self.write(self._next_bounds())
        if self.waiting:
            self.commit(self.waiting)

    def write(self, bounds: list[Batch]) -> list[Ready]:
        evolve = self.world.random.random() < 0.08
        self.waiting = self.world.worker.write_group(self.coordinator.base, bounds, evolve=evolve)
        self._must_rewrite = False
        return self.waiting

    def commit(self, group: list[Ready]) -> None:
        bounds = f"[{group[0].batch.lower}, {group[-1].batch.upper})"
        self.world.say(f"{self.name} commits {bounds}, {len(group)} batches")
        try:
            progress = self.coordinator.commit(group)
        except CommitConflict:
            self._certainly_not_committed(group)
            raise
        self._check(progress.frontier == group[-1].batch.upper, "a commit returned another frontier")
        self._check(self._is_committed(group), f"P3: {bounds} was reported as committed and is not")
        self.waiting = []
        self.world.met["committed"] += 1
        self.world.met["group"] += len(group) > 1

    def _next_bounds(self) -> list[Batch]:
        random, horizon = self.world.random, self.world.source.horizon
        lower = self.coordinator.progress.frontier
        bounds: list[Batch] = []
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            upper = min(lower + random.choice((1, 1, 2)), horizon)
            if upper > lower:
                bounds.append(Batch(lower, upper))
            lower = upper
        return bounds

    # -- how a call ends --------------------------------------------------------------------------

    def _guard(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Crash as crash:
            self._end(crash)
        except (AccessDenied, TableMissing, TableReplaced, RolledBack, Diverged, CatalogWithoutTags) as error:
            self._check_refusal(error)
            self._end(error)
        except (Fenced, ForeignRows) as error:
            self._check_refusal(error)
            self._end(error)
        except PremiseBroken as error:
            self._heard(error)
            self._must_rewrite = True
        except (CommitConflict, CommitUnknown, CatalogError, StoreError) as error:
            self._heard(error)
            # The same files again, or the same batches written anew: both must be safe.
            self._must_rewrite = bool(self.waiting) and self.world.random.random() < 0.3

    def _end(self, error: BaseException) -> None:
        self._heard(error)
        self.state, self.ending = State.ENDED, error

    def _heard(self, error: BaseException) -> None:
        words = error.message if isinstance(error, CalveError) else ""
        self.world.say(f"{self.name}: {type(error).__name__} {words}")
        self.world.met[type(error).__name__] += 1

    def _check_refusal(self, error: CalveError) -> None:
        """A run may stop only for a reason that is true."""
        world, ledger = self.world, self.world.checker.ledger
        loses_tags = not world.setting.keeps_tags and world.setting.fence is FenceKind.TAG
        holder = None if ledger.progress is None else ledger.progress.writer
        true = {
            # A sink whose tag or table went before its first commit may begin again under a number that was
            # used: then a stale answer cannot be told from a fresh one.
            Fenced: (holder is not None and holder != self.coordinator.writer)
            or world.met["tag removed"] + world.met["recreated"] > 0,
            RolledBack: world.met["rolled back"] > 0,
            # Where the catalog keeps no tags, a second run finds the mark of the first and no tag.
            Diverged: world.met["tag removed"] + world.met["recreated"] > 0 or loses_tags,
            TableMissing: world.met["dropped"] > 0,
            TableReplaced: world.met["recreated"] > 0,
            CatalogWithoutTags: loses_tags or world.met["tag removed"] > 0,
            ForeignRows: world.met["foreign append"] > 0,
        }
        self._check(true.get(type(error), True), f"{self.name} stopped for no reason: {error}")

    def _certainly_not_committed(self, group: list[Ready]) -> None:
        """`CommitConflict` says: certainly not, and not later either."""
        self._check(not self._is_committed(group), "CommitConflict for a batch that is committed")
        for request in self.world.catalog.pending:
            still = request.client is self and self.world.catalog.would_take(request)
            self._check(not still, "CommitConflict while a request is under way that can still land")

    def _is_committed(self, group: list[Ready]) -> bool:
        # Asked for the table of the coordinator: another may stand under the name by now.
        uuid = self.coordinator.base.metadata.table_uuid
        ids = [batch_id(SINK, uuid, ready.batch.upper) for ready in group]
        writers = self.world.checker.ledger.batches
        return any(writers.get(id_) == self.coordinator.writer for id_ in ids)

    def _check(self, holds: bool, message: str) -> None:
        if not holds:
            raise Violation(message)
