"""The demo: a stream whose process is killed twice, and every snapshot compared with the truth.

    run 1 ──epochs──▶ table      SIGKILL when the first file of an epoch appears
    run 2 ──epochs──▶ table      SIGKILL when the first manifest of an epoch appears: its files are closed
    run 3 ──epochs──▶ table      goes on to the end
    then: every snapshot of the table == the ledger after that epoch, row by row, and its sum

Each run asks the table where to go on. The comparison reads the table's files, not what the runs said; only
the milliseconds are theirs.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from calve.cli.ledger import Ledger, owner_of
from calve.cli.reading import main_snapshots, read_rows
from calve.cli.runs import BETWEEN, NAMESPACE, TABLE, WRITING, Moment, NotKilled, Run, start
from calve.config.catalog import EMBEDDED_FILE

CATALOG = "calve"
_ATTEMPTS_MAX = 5
"""On a machine that is busy elsewhere a run may be done before it is killed: then the demo begins again."""


@dataclass(frozen=True, slots=True)
class Demo:
    """What is asked of the demo."""

    accounts: int = 2_000
    epochs: int = 8
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Kill:
    """A SIGKILL that a run really got."""

    run: int
    epoch: int
    """The one that it was at work on."""
    moment: str
    resumed_at: int = 0
    """The first epoch that a later run committed."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A snapshot, and whether it equals the ledger after its epoch."""

    snapshot_id: int
    epoch: int
    frontier: int
    run: int
    rows: int
    total: int
    files: int
    milliseconds: float | None
    """`None` where the run was killed before it could say."""
    matches: bool


@dataclass(slots=True)
class Outcome:
    """All that the demo did and found."""

    demo: Demo
    folder: str
    metadata: str = ""
    total: int = 0
    seconds: float = 0.0
    kills: list[Kill] = field(default_factory=list)
    snapshots: list[Compared] = field(default_factory=list)

    @property
    def matches(self) -> bool:
        """Every epoch is one snapshot, in order, and each is right."""
        epochs = [snapshot.epoch for snapshot in self.snapshots]
        return epochs == list(range(1, self.demo.epochs + 1)) and all(one.matches for one in self.snapshots)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "matches": self.matches}


def run_demo(demo: Demo) -> Outcome:
    """Stream, kill, go on, compare."""
    started = time.perf_counter()
    attempts = 0
    while True:
        attempts += 1
        folder = Path(tempfile.mkdtemp(prefix="calve-demo-"))
        keep = False
        try:
            outcome = _try_demo(demo, folder)
            outcome.seconds = time.perf_counter() - started
            keep = demo.keep
            return outcome
        except NotKilled:
            if attempts == _ATTEMPTS_MAX:
                raise
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)


def _try_demo(demo: Demo, folder: Path) -> Outcome:
    outcome = Outcome(demo, str(folder))
    took: dict[int, float] = {}
    plan = ((1 + demo.epochs // 3, WRITING), (1 + 2 * demo.epochs // 3, BETWEEN))
    for number, (epoch, moment) in enumerate(plan, start=1):
        before = moment.count(folder, epoch)
        run = start(demo.accounts, demo.epochs, folder)
        run.kill_at(moment, epoch, folder, before)
        outcome.kills.append(_kill_of(number, run, moment, epoch))
        took |= run.took
    last = start(demo.accounts, demo.epochs, folder)
    last.finish()
    _compare(demo, folder, outcome, took | last.took)
    return outcome


def _kill_of(number: int, run: Run, moment: Moment, epoch: int) -> Kill:
    late = run.at_work_on != epoch
    return Kill(number, run.at_work_on, "it was at work" if late else moment.words)


# -- the comparison ------------------------------------------------------------------------------


def _compare(demo: Demo, folder: Path, outcome: Outcome, took: dict[int, float]) -> None:
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{folder / EMBEDDED_FILE}", warehouse=folder.as_uri())
    try:
        table = catalog.load_table((NAMESPACE, TABLE))
    finally:
        catalog.close()
    ledger = Ledger(demo.accounts)
    outcome.metadata, outcome.total = table.metadata_location, ledger.total
    epoch = 0
    for snapshot in main_snapshots(table):
        frontier = int(_summary(snapshot)["calve.frontier"])
        while epoch < frontier - 1:
            ledger.next_epoch()
            epoch += 1
        outcome.snapshots.append(_compared(table, snapshot, ledger, epoch, took.get(epoch)))
    outcome.kills = [_with_resumption(kill, outcome.snapshots) for kill in outcome.kills]


def _compared(table: Table, snapshot: Snapshot, ledger: Ledger, epoch: int, took: float | None) -> Compared:
    rows = read_rows(table, snapshot)
    seen = sorted(zip(*(rows[name].to_pylist() for name in ("account", "owner", "balance")), strict=True))
    truth = [(account, owner_of(account), ledger.balances[account]) for account in sorted(ledger.balances)]
    total = sum(balance for _, _, balance in seen)
    summary = _summary(snapshot)
    return Compared(
        snapshot_id=snapshot.snapshot_id,
        epoch=epoch,
        frontier=int(summary["calve.frontier"]),
        run=int(summary["calve.generation"]),
        rows=len(seen),
        total=total,
        files=sum(int(summary.get(name, "0")) for name in ("added-data-files", "added-delete-files")),
        milliseconds=took,
        matches=seen == truth and total == ledger.total,
    )


def _with_resumption(kill: Kill, snapshots: list[Compared]) -> Kill:
    later = [snapshot.epoch for snapshot in snapshots if snapshot.run > kill.run]
    return replace(kill, resumed_at=min(later, default=0))


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)
