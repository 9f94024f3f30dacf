"""The schedule of a seed: who does what when, until the end; then the weather clears and all must be well.

python -m tests.simulation.soak --seed 17 [--fence main]        the schedule of one seed, step by step
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from pyiceberg.table.snapshots import Snapshot

from calve.config.sink import FenceKind
from calve.model.errors import Diverged, ForeignRows, RolledBack, TableError, TableMissing
from tests.simulation.catalog import SimCatalog
from tests.simulation.faults import CLEARED, Weather
from tests.simulation.ledger import Ledger, Violation, note_of
from tests.simulation.run import Run, State
from tests.simulation.source import KEYS
from tests.simulation.world import World

_ACTIONS = (6, 14)
_HEALED_ACTS_MAX = 30


class SeedFailed(AssertionError):
    """A seed broke a promise; the message has all that is needed to see it again."""

    def __init__(self, seed: int, world: World, cause: BaseException) -> None:
        steps = "\n".join(f"    {step}" for step in world.trace)
        super().__init__(
            f"seed {seed}: {type(cause).__name__}: {cause}\n"
            f"  setting: {world.setting}\n  schedule:\n{steps}\n"
            f"  replay: python -m tests.simulation.soak --seed {seed} --fence {world.setting.fence}"
        )
        self.seed = seed


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a seed met, and how much of it was checked."""

    met: Counter[object]
    snapshots: int
    trace: tuple[str, ...]


def run_seed(seed: int, fence: FenceKind = FenceKind.TAG) -> Outcome:
    """Play one seed to its end. Raises `SeedFailed` if a promise broke. The fence on main is played on a
    catalog without tags."""
    world = World(seed, weather=Weather.drawn(Random(seed * 2 + 1)), fence=fence)
    with _Reported(seed, world):
        Schedule(world).play()
    return Outcome(Counter(world.met), world.checker.snapshots_checked, tuple(world.trace))


class _Reported:
    """Whatever a seed raises is a finding, and is raised again with all that is needed to see it."""

    def __init__(self, seed: int, world: World) -> None:
        self._seed = seed
        self._world = world

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise SeedFailed(self._seed, self._world, error) from error


class Schedule:
    """Plays a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.runs: list[Run] = []
        self._rolled_back_from: int | None = None
        self._compaction_of: Snapshot | None = None
        # Most seeds have nobody who takes the table away: the others would never get far.
        self._harsh = world.random.random() < 0.35
        self._halts = world.random.random() < 0.05
        world.interrupt = self._interruption

    def play(self) -> None:
        random = self.world.random
        for _ in range(random.randint(*_ACTIONS)):
            self.world.clock.ms += random.randint(0, 3)
            self._action()
        self._heal()
        self.world.checker.at_the_end(None if self.world.catalog.current is None else self.world.metadata)

    # -- who acts -----------------------------------------------------------------------------------

    def _action(self) -> None:
        random = self.world.random
        alive = [run for run in self.runs if run.alive]
        roll = random.random()
        if not alive or roll < 0.08:
            self._start()
        elif roll < 0.75:
            # Mostly the newest; an older one that acts is a zombie, or does not know yet that it is one.
            (alive[-1] if random.random() < 0.75 else random.choice(alive)).act()
        else:
            self._somebody_else()

    def _interruption(self) -> None:
        random = self.world.random
        if random.random() < 0.35:
            self._other_run()
        else:
            self._somebody_else()

    def _other_run(self) -> None:
        idle = [run for run in self.runs if run.alive and run is not self.world.catalog.client]
        if idle and self.world.random.random() < 0.6:
            self.world.random.choice(idle).act()
        else:
            self._start()

    def _start(self) -> None:
        run = Run(self.world, halt_on_foreign_rows=self._halts)
        self.runs.append(run)
        run.act()

    def _somebody_else(self) -> None:
        world = self.world
        if world.catalog.current is None:
            self._recreate()
            return
        acts: list[tuple[int, Callable[[], None]]] = [
            (4, self._append),
            (4, self._compact),
            (3, self._expire),
            (1, self._change_spec),
            (1, self._change_schema),
        ]
        if self._harsh:
            acts += [(7, self._roll_back), (1, self._remove_tag), (2, self._drop), (4, self._restore)]
        (act,) = world.random.choices([act for _, act in acts], [weight for weight, _ in acts])
        act()

    # -- what others do -----------------------------------------------------------------------------

    def _append(self) -> None:
        random, source = self.world.random, self.world.source
        # Keys of its own, or keys of the sink: then a delete that was left out shows.
        rows = [source.row(random.randrange(-3, KEYS), random.randrange(10**6, 2 * 10**6)) for _ in range(2)]
        self._note("foreign append", f"somebody inserts {[row.id for row in rows]}")
        self.world.foreign.append(rows)

    def _compact(self) -> None:
        random, metadata = self.world.random, self.world.metadata
        since = self._compaction_of
        still = since is not None and metadata.snapshot_by_id(since.snapshot_id) is not None
        descends = still and self._ledger.descends(
            metadata.current_snapshot_id, since.snapshot_id if since else None
        )
        if since is None and random.random() < 0.3:
            self._compaction_of = metadata.current_snapshot()
            self.world.say("a compaction begins")
            return
        self._compaction_of = None
        partial = random.random() < 0.4
        if since is not None and not descends:
            return
        if self.world.foreign.compact(partial, since):
            self._note("compaction", f"a compaction ends, {'partial' if partial else 'full'}")

    def _expire(self) -> None:
        erase = self.world.random.random() < 0.5
        self._note("expiry", f"all that no ref names is expired, parents {'erased' if erase else 'kept'}")
        self.world.foreign.expire(erase)

    def _change_spec(self) -> None:
        self._note("spec change", "the partition spec is changed")
        self.world.foreign.change_spec()

    def _change_schema(self) -> None:
        self._note("schema change", "the schema is changed")
        self.world.foreign.change_schema()

    def _roll_back(self) -> None:
        main = self.world.metadata.current_snapshot_id
        if self.world.foreign.roll_back():
            self._note("rolled back", "main is rolled back")
            self._rolled_back_from = self._rolled_back_from or main

    def _restore(self) -> None:
        """The person reads the hint and takes main back to where it was."""
        main = self._rolled_back_from
        if main is not None and self.world.metadata.snapshot_by_id(main) is not None:
            self._rolled_back_from = None
            self.world.say("main is taken back to where it was")
            self.world.foreign.restore_main(main)

    def _remove_tag(self) -> None:
        # What is on main is the sink's only where a run has claimed on it.
        on_main = self.world.setting.fence is FenceKind.MAIN
        if self._ledger.progress is not None and (self._is_noted() or not on_main):
            self._note("tag removed", "the sink's tag is removed")
            self.world.foreign.remove_tag()

    def _drop(self) -> None:
        self._note("dropped", "the table is dropped")
        self.world.catalog.drop()

    def _recreate(self) -> None:
        self._note("recreated", "another table is created under the name")
        # A run may hear only now that its batch landed before the drop. Ids of batches name their table.
        self.world.checker.ledger = Ledger(batches=self.world.checker.ledger.batches)
        self.world.create_table()

    def _note(self, kind: str, words: str) -> None:
        self.world.met[kind] += 1
        self.world.say(words)

    @property
    def _ledger(self) -> Ledger:
        return self.world.checker.ledger

    # -- the end ------------------------------------------------------------------------------------

    def _heal(self) -> None:
        """No fault any more: a new run either brings the table to the end of the source or says why not."""
        world = self.world
        world.say("-- the weather clears")
        world.weather, world.interrupt = CLEARED, None
        run = Run(world, attempts_max=4)
        for _ in range(_HEALED_ACTS_MAX):
            if not run.alive or (
                run.state is State.HOLDS and run.coordinator.progress.frontier >= world.source.horizon
            ):
                break
            run.act()
        self._check_end(run, world.catalog)

    def _check_end(self, run: Run, catalog: SimCatalog) -> None:
        ledger = self._ledger
        wanted = self._reason_to_refuse(catalog)
        if wanted is not None:
            if not isinstance(run.ending, wanted):
                raise Violation(
                    f"P6: a run ended with {run.ending!r} where it must refuse with {wanted.__name__}"
                )
            return
        if not run.alive and isinstance(run.ending, ForeignRows):
            return
        if not run.alive or run.waiting:
            raise Violation(f"nothing stands in the way, but {run.name} ended with {run.ending!r}")
        if ledger.progress is None or ledger.progress.frontier != self.world.source.horizon:
            raise Violation(f"the table did not come to its end: {ledger.progress}")

    def _reason_to_refuse(self, catalog: SimCatalog) -> type[Exception] | None:
        ledger = self._ledger
        if catalog.current is None:
            return TableMissing
        on_main = self.world.setting.fence is FenceKind.MAIN
        if not catalog.keeps_tags and not on_main:
            return TableError
        metadata = catalog.current.metadata
        if ledger.progress is None:
            return None
        if not self._is_noted():
            return Diverged
        root = ledger.held if on_main else ledger.progress.committed
        return None if ledger.descends(metadata.current_snapshot_id, root) else RolledBack

    def _is_noted(self) -> bool:
        return note_of(self.world.setting.fence, self.world.metadata) is not None
