"""Runs: two competitors for one sink, and somebody who inserts rows beside them.

    competitor ──▶ open (claim) ──▶ epoch, epoch, … ──Fenced──▶ a pause ──▶ open …
    competitor ──▶ …                                 ──lost its catalog──▶ open …
    somebody   ──▶ INSERT by PyIceberg, at the server itself

A competitor does what a careful user does: it asks the sink where to go on, sends an epoch again after
`CommitUnknown` and `CommitConflict`, now and then gives one up and begins it again, and starts a new run
where a run is over. Whatever a sink raises beyond that is a defect, and ends the round.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException, NoSuchTableError
from pyiceberg.table import Table
from requests.exceptions import ConnectionError

from calve import (
    AccessDenied,
    CalveError,
    CatalogError,
    CommitConflict,
    CommitUnknown,
    Diverged,
    Fenced,
    IcebergSink,
)
from calve.runtime.clock import SystemClock
from tests.faults.checker import Told
from tests.faults.source import Source, foreign_rows
from tests.support.truth import summary_of

_AGAIN_MAX = 40
_ROLLBACKS = 0.15


class HastyClock(SystemClock):
    """The machine's clock, whose pauses are short: what is waited for is on this machine."""

    def wait_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 20_000)


@dataclass(slots=True)
class Scene:
    """What competitors share."""

    identifier: tuple[str, ...]
    source: Source
    make_sink: Callable[[str], IcebergSink]
    """A sink for a run, by the run's name; it goes through the proxy."""
    direct: Callable[[], Catalog]
    """PyIceberg's own catalog, at the server itself."""
    deadline: float
    expected: tuple[type[CalveError], ...] = ()
    """What may end a call beside an answer of the catalog: a store that is away, for example."""
    told: Told = field(default_factory=Told)
    ends: Counter[str] = field(default_factory=Counter)
    """How runs ended."""
    met: Counter[str] = field(default_factory=Counter)
    """Errors after which an epoch was committed again."""
    failure: BaseException | None = None
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_over(self) -> bool:
        return self.over.is_set() or time.monotonic() > self.deadline

    def fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self.over.set()


class Competitor(threading.Thread):
    """Runs of one sink, one after the other."""

    def __init__(self, name: str, scene: Scene, random: Random) -> None:
        super().__init__(name=name, daemon=True)
        self._scene = scene
        self._random = random
        self._runs = 0
        self._gave_up = self._may_meet_another = False

    def run(self) -> None:
        try:
            while not self._scene.is_over():
                self._runs += 1
                ended = self._one_run(f"{self.name}{self._runs}")
                with self._scene.lock:
                    self._scene.ends[ended] += 1
                # The other gets on for a while, and not for ever.
                self._scene.over.wait(self._random.uniform(0, 0.5))
        except BaseException as error:  # noqa: BLE001 (told to the main thread, which raises it)
            self._scene.fail(error)

    def _one_run(self, name: str) -> str:
        """One run, from its claim to its end; what ended it."""
        sink = self._scene.make_sink(name)
        self._gave_up = False
        try:
            sink.open()
            self._may_meet_another = sink.schema() is None
            self._epochs(sink)
        except self._ends as error:
            if self._is_defect(error):
                raise
            return type(error).__name__
        except Diverged:
            # What was given up landed after all, or another run was faster to make the table.
            if not (self._gave_up or self._may_meet_another):
                raise
            return "Diverged"
        finally:
            self._note_fence(sink)
            sink.close()
        return "the end"

    @property
    def _ends(self) -> tuple[type[CalveError], ...]:
        """What a call may end with, and what is then sent again."""
        return Fenced, CommitConflict, CommitUnknown, CatalogError, *self._scene.expected

    def _is_defect(self, error: CalveError) -> bool:
        """A token that expired is renewed (case 26): then no right is missing."""
        return isinstance(error, AccessDenied) and AccessDenied not in self._scene.expected

    def _epochs(self, sink: IcebergSink) -> None:
        done = -1
        while not self._scene.is_over():
            epoch = max(sink.frontier(), done + 1)  # an epoch without changes leaves the frontier where it is
            if epoch >= self._scene.source.horizon:
                self._scene.over.set()
            elif self._one_epoch(sink, epoch):
                done = epoch

    def _one_epoch(self, sink: IcebergSink, epoch: int) -> bool:
        """An epoch, until it is in the table or given up. What it is told of is noted."""
        if not sink.begin_epoch(epoch):
            self._scene.told.skipped.append(epoch)
            sink.commit_epoch(epoch)
            return True
        rows = self._scene.source.rows(epoch)
        if rows is not None:
            sink.write_batch(rows)
        for _ in range(_AGAIN_MAX):
            try:
                result = sink.commit_epoch(epoch)
            except self._ends as error:
                if isinstance(error, Fenced) or self._scene.is_over() or self._is_defect(error):
                    raise
                with self._scene.lock:
                    self._scene.met[type(error).__name__] += 1
                if self._random.random() < _ROLLBACKS:
                    sink.rollback_epoch(epoch)
                    self._gave_up = True
                    return False
                continue
            if result.snapshot_id is not None:
                self._scene.told.acknowledged.append((epoch, result.snapshot_id))
            return True
        raise CommitUnknown(f"epoch {epoch} was sent {_AGAIN_MAX} times", hint="Look into the log.")

    def _note_fence(self, sink: IcebergSink) -> None:
        """Who holds the sink when a run is told that it is not the one: asked at the server itself."""
        if not isinstance(sink._life.failure, Fenced) or sink._coordinator is None:
            return
        table = self._loaded()
        tag = table.metadata.refs[f"calve-{sink.config.sink_id}"]
        held = next(one for one in table.metadata.snapshots if one.snapshot_id == tag.snapshot_id)
        self._scene.told.fenced.append((str(sink._coordinator.writer), summary_of(held)["calve.writer"]))

    def _loaded(self) -> Table:
        """The table as the server has it. It may be down at this moment, and comes back."""
        left = _AGAIN_MAX
        while True:
            try:
                catalog = self._scene.direct()
                try:
                    return catalog.load_table(self._scene.identifier)
                finally:
                    catalog.close()
            except ConnectionError:
                left -= 1
                if left < 0:
                    raise
                time.sleep(0.25)


class Somebody(threading.Thread):
    """Inserts rows now and then."""

    def __init__(self, scene: Scene, random: Random) -> None:
        super().__init__(name="somebody", daemon=True)
        self._scene = scene
        self._random = random
        self.inserted = 0

    def run(self) -> None:
        number = 0
        catalog = self._scene.direct()
        try:
            while not self._scene.over.wait(self._random.uniform(0.2, 1.5)) and not self._scene.is_over():
                number += 1
                try:
                    table = catalog.load_table(self._scene.identifier)
                    table.append(foreign_rows(number).cast(table.schema().as_arrow()))
                except NoSuchTableError:
                    continue  # there is none yet
                except (BadRequestError, CommitFailedException, ValueError):
                    continue  # the sink was faster: the server or PyIceberg itself refuses
                self.inserted += 1
        except BaseException as error:  # noqa: BLE001 (told to the main thread, which raises it)
            self._scene.fail(error)
        finally:
            catalog.close()
