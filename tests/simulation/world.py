"""A simulated world: a source, a store, a catalog, a clock, runs of one sink, everybody else; from a seed.

    runs ──real Coordinator──▶ SimCatalog, SimStore ──every applied change──▶ Checker
              ▲                        │
              └── faults, crashes, ◀───┘ others act in the middle of a call

Nothing here sleeps, and nothing but file names is drawn outside the seed's own Random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from uuid import UUID

from pyiceberg.table.metadata import TableMetadata

from calve.config.sink import FenceKind
from calve.protocol.judge import Verdict
from calve.runtime.coordinator import Coordinator
from calve.runtime.hold import Identity
from calve.table.build import Prepared
from calve.table.fence import make_fence
from tests.simulation.catalog import IDENTIFIER, SimCatalog
from tests.simulation.checker import Checker
from tests.simulation.faults import (
    CALM,
    CommitFault,
    Crash,
    Fault,
    LoadFault,
    ReadFault,
    Weather,
    WriteFault,
)
from tests.simulation.foreign import Foreign
from tests.simulation.ledger import SINK
from tests.simulation.source import Source
from tests.simulation.store import SimStore
from tests.simulation.worker import BY_REGION, UNPARTITIONED, Worker, counter, table_schema

IDENTITY = Identity(table=IDENTIFIER, sink_id=SINK, source="epoch")

_CRASHES: dict[type[Any], tuple[Fault, ...]] = {
    CommitFault: (CommitFault.CRASH_BEFORE, CommitFault.CRASH_AFTER),
    LoadFault: (LoadFault.CRASH,),
    WriteFault: (WriteFault.CRASH_BEFORE, WriteFault.CRASH_AFTER),
    ReadFault: (ReadFault.CRASH,),
}
_ORDINARY: dict[type[Any], tuple[Fault, ...]] = {
    kind: tuple(fault for fault in kind if fault not in crashes) for kind, crashes in _CRASHES.items()
}


class SimClock:
    """Time that moves only when somebody waits, or the world says so."""

    def __init__(self, waited: Callable[[], None]) -> None:
        self.ms = 1_700_000_000_000
        self._waited = waited

    def now_ms(self) -> int:
        return self.ms

    def ticks_ms(self) -> float:
        return float(self.ms)

    def wait_ms(self, duration_ms: int) -> None:
        self.ms += duration_ms
        self._waited()


@dataclass(frozen=True, slots=True)
class Setting:
    """What kind of table a world has."""

    partitioned: bool = False
    moving: bool = False
    horizon: int = 8
    properties: dict[str, str] = field(default_factory=dict)
    keeps_tags: bool = True
    fence: FenceKind = FenceKind.TAG

    @classmethod
    def drawn(cls, random: Random) -> Setting:
        properties = {"commit.manifest.min-count-to-merge": str(random.choice((2, 3, 4, 100)))}
        if random.random() < 0.2:
            properties["history.expire.max-ref-age-ms"] = "1"
        if random.random() < 0.2:
            properties["write.avro.compression-codec"] = "uncompressed"
        return cls(
            partitioned=random.random() < 0.6,
            moving=random.random() < 0.5,
            properties=properties,
            keeps_tags=random.random() > 0.01,
        )


class World:
    """Everything of one seed."""

    def __init__(
        self,
        seed: int,
        setting: Setting | None = None,
        weather: Weather = CALM,
        fence: FenceKind = FenceKind.TAG,
    ) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.setting = setting or Setting.drawn(self.random)
        if fence is FenceKind.MAIN:
            self.setting = replace(self.setting, fence=fence, keeps_tags=False)
        self.weather = weather
        self.script: dict[type[Any], list[Fault | None]] = {kind: [] for kind in _CRASHES}
        self._before: dict[type[Any], list[Callable[[], None]]] = {kind: [] for kind in _CRASHES}
        self.met: Counter[Fault | Verdict | str] = Counter()
        self.trace: list[str] = []
        self.interrupt: Callable[[], None] | None = None
        """Called in the middle of a run's call, if the weather has it."""
        self.clock = SimClock(lambda: self.step("wait"))
        self.source = Source(self.random, self.setting.horizon, self.setting.moving)
        self.store = SimStore(self.draw)
        self.checker = Checker(self.store, self.source, self.setting.fence)
        self.catalog = SimCatalog(
            self.store,
            self.random,
            self.clock.now_ms,
            self.draw,
            self.checker.applied,
            self.setting.keeps_tags,
        )
        self.numbers = counter()
        self.worker = Worker(self.store, self.source, self.step, self.numbers)
        self.foreign = Foreign(self.catalog, self.store, self.checker.reader, self.random, self.numbers)
        self._depth = 0
        self._runs = 0
        self.create_table()

    @property
    def metadata(self) -> TableMetadata:
        return self.foreign.metadata

    def create_table(self) -> None:
        spec = BY_REGION if self.setting.partitioned else UNPARTITIONED
        uuid = UUID(int=self.random.getrandbits(128), version=4)
        self.catalog.create(table_schema(), spec, self.setting.properties, uuid)

    def next_run_name(self) -> str:
        self._runs += 1
        return f"run{self._runs}"

    def say(self, what: str) -> None:
        self.trace.append("  " * self._depth + what)

    def plan(self, *faults: Fault) -> None:
        """What the next calls of each kind meet, in this order."""
        for fault in faults:
            self.script[type(fault)].append(fault)

    def before(self, kind: type[Any], action: Callable[[], None]) -> None:
        """Do something right before the next call of a kind takes effect."""
        self._before[kind].append(action)

    # -- the middle of a call -------------------------------------------------------------------

    def draw(self, what: str, kind: type[Any]) -> Any:
        """The fault that a call meets, if any. Before that, somebody else may act."""
        self._interleave()
        if self._before[kind]:
            self._before[kind].pop(0)()
        fault = self.script[kind].pop(0) if self.script[kind] else self._drawn(kind)
        if fault is not None:
            self.met[fault] += 1
            self.say(f"{what}: {fault.value}")
        return fault

    def step(self, what: str) -> None:
        """A step that no call of catalog or store belongs to: a pause, a data file."""
        self._interleave()
        if self.random.random() < self.weather.crash / 4:
            self.say(f"crash at {what}")
            self.met["crash at a step"] += 1
            raise Crash

    def _drawn(self, kind: type[Any]) -> Fault | None:
        weather = self.weather
        roll = self.random.random()
        if roll < weather.crash:
            return self.random.choice(_CRASHES[kind])
        chance = {CommitFault: weather.commit, LoadFault: weather.load}.get(kind, weather.store)
        if roll < weather.crash + chance:
            return self.random.choice(_ORDINARY[kind])
        return None

    def _interleave(self) -> None:
        late = self.catalog.pending and self.random.random() < self.weather.late
        if late and self.catalog.settle_pending():
            self.met["late request"] += 1
            self.say("a request of long ago is applied")
        if self._depth or self.interrupt is None or self.random.random() >= self.weather.interleave:
            return
        client = self.catalog.client
        self._depth += 1
        try:
            self.interrupt()
        finally:
            self._depth -= 1
            self.catalog.client = client


class WatchedCoordinator(Coordinator):
    """The real one; its verdicts are counted."""

    def __init__(self, world: World, **settings: Any) -> None:
        super().__init__(
            world.catalog.as_catalog(),
            IDENTITY,
            clock=world.clock,
            random=Random(world.random.getrandbits(64)),
            fence=make_fence(world.setting.fence, SINK),
            **settings,
        )
        self._world = world

    def _look(self, prepared: tuple[Prepared, ...]) -> Verdict | None:
        verdict = super()._look(prepared)
        self._world.met[verdict or "no verdict"] += 1
        self._world.say(f"verdict: {'none' if verdict is None else verdict.value}")
        return verdict
