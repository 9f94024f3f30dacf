"""The demo: a stream on Spark whose driver is killed, and every snapshot compared with the truth.

    ledger ─▶ feed: files, some changes late, some twice
    run 1 ──micro-batches──▶ table      SIGKILL in the middle of a commit
    run 2 ──micro-batches──▶ table      … as often as was asked for; the last run goes on to the end
    then: every snapshot of the table == the ledger as of its frontier, row by row, and its sum

Nobody tells a run where to go on: checkpoint and table do. The comparison reads the table's files, not what
the runs said; only the milliseconds are theirs.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from calve.cli.driver import CATALOG, FEED, NAMESPACE, SCRATCH, TABLE, WAREHOUSE
from calve.cli.feed import Feed, deliver
from calve.cli.ledger import MINUTE, Ledger, owner_of
from calve.cli.reading import main_snapshots, read_rows
from calve.cli.runs import MOMENTS, Moment, Run, start
from calve.config.catalog import EMBEDDED_FILE

_MINUTES_MIN = 8
_MINUTES_A_RUN = 3
"""A run tells of a micro-batch or two before it is killed in another one."""


@dataclass(frozen=True, slots=True)
class Demo:
    """What is asked of the demo."""

    accounts: int = 2_000
    kills: int = 1
    keep: bool = False

    @property
    def minutes(self) -> int:
        """Of the ledger; each arrives as a micro-batch of its own."""
        return max(_MINUTES_MIN, _MINUTES_A_RUN * (self.kills + 1))


@dataclass(frozen=True, slots=True)
class Kill:
    """A SIGKILL that a run got."""

    run: int
    micro_batch: int
    """The one that it was at work on, as far as it had told."""
    moment: str
    landed: bool = False
    """The kill came after the commit."""
    sent_again: bool = False
    """Spark sent the micro-batch to the next run too."""
    files_reused: bool = False
    """The next run committed the files that this one had closed."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A snapshot, and whether it equals the ledger as of its frontier."""

    snapshot_id: int
    lower: int
    frontier: int
    run: int
    rows: int
    total: int
    files: int
    milliseconds: float | None
    """Of its micro-batch; `None` where the run was killed before it could say."""
    matches: bool


@dataclass(slots=True)
class Outcome:
    """All that the demo did and found."""

    demo: Demo
    folder: str
    feed: Feed
    total: int = 0
    last_frontier: int = 0
    """How far the table must come."""
    waiting: int = 0
    """Changes of the ledger after that: the delay is not over for them."""
    metadata: str = ""
    seconds: float = 0.0
    kills: list[Kill] = field(default_factory=list)
    snapshots: list[Compared] = field(default_factory=list)

    @property
    def matches(self) -> bool:
        """Every snapshot is right, they tile the ledger's time, and nothing that was closed is missing."""
        bounds = [0, *(one.frontier for one in self.snapshots)]
        tiled = all(one.lower == before for one, before in zip(self.snapshots, bounds, strict=False))
        return tiled and bounds[-1] == self.last_frontier and all(one.matches for one in self.snapshots)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "matches": self.matches}


def run_demo(demo: Demo, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Stream, kill, go on, compare; and say how far it is."""
    started = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="calve-demo-"))
    keep = False
    try:
        outcome = _run(demo, folder, say)
        outcome.seconds = time.perf_counter() - started
        keep = demo.keep
        return outcome
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _run(demo: Demo, folder: Path, say: Callable[[str], None]) -> Outcome:
    # It ends now, so that a frontier is minutes behind the clock, as it is with a source that is alive.
    start_of_ledger = (time.time_ns() // 1000 // MINUTE - demo.minutes) * MINUTE
    ledger = Ledger(demo.accounts, demo.minutes, start_of_ledger)
    feed = deliver(ledger, folder / FEED)
    outcome = Outcome(demo, str(folder), feed, ledger.total, feed.last_frontier)
    outcome.waiting = sum(change.at >= feed.last_frontier for change in ledger.changes)
    killed: list[tuple[Run, Moment]] = []
    for number in range(1, demo.kills + 1):
        moment = MOMENTS[(number - 1) % len(MOMENTS)]
        with _started(folder, number, say) as run:
            run.kill_at(moment, number * demo.minutes // (demo.kills + 1))
        killed.append((run, moment))
    with _started(folder, demo.kills + 1, say) as last:
        last.finish()
    shutil.rmtree(folder / SCRATCH)
    runs = [*(run for run, _ in killed), last]
    _compare(folder, outcome, ledger, runs)
    outcome.kills = [_kill_of(number, killed, runs, outcome) for number in range(1, demo.kills + 1)]
    return outcome


def _started(folder: Path, number: int, say: Callable[[str], None]) -> Run:
    say(f"run {number}: Spark starts …")
    return start(folder, number, lambda progress: say(f"run {number}: {progress}"))


def _kill_of(number: int, killed: list[tuple[Run, Moment]], runs: list[Run], outcome: Outcome) -> Kill:
    run, moment = killed[number - 1]
    assert run.progress is not None
    told = run.progress.frontier or 0
    micro_batch = run.at_work_on("progress" if moment.pattern is None else "")
    landed = moment.pattern is None or any(
        one.run == number and one.frontier > told for one in outcome.snapshots
    )
    after = next((one for one in runs[number].told if one.micro_batch == micro_batch), None)
    reused = after is not None and after.batches_committed > 0 and "write" not in after.durations_ms
    return Kill(number, micro_batch, moment.words, landed, after is not None, reused)


# -- the comparison ------------------------------------------------------------------------------


def _compare(folder: Path, outcome: Outcome, ledger: Ledger, runs: list[Run]) -> None:
    uri = f"sqlite:///{folder / WAREHOUSE / EMBEDDED_FILE}"
    catalog = SqlCatalog(CATALOG, uri=uri, warehouse=(folder / WAREHOUSE).as_uri())
    try:
        table = catalog.load_table((NAMESPACE, TABLE))
    finally:
        catalog.close()
    outcome.metadata = table.metadata_location
    took = {one.last_snapshot_id: one for run in runs for one in run.told if one.batches_committed}
    for snapshot in main_snapshots(table):
        progress = took.get(snapshot.snapshot_id)
        milliseconds = None if progress is None else progress.durations_ms["total"]
        outcome.snapshots.append(_compared(table, snapshot, ledger, milliseconds))


def _compared(table: Table, snapshot: Snapshot, ledger: Ledger, milliseconds: float | None) -> Compared:
    rows = read_rows(table, snapshot)
    seen = sorted(zip(*(rows[name].to_pylist() for name in ("account", "owner", "balance")), strict=True))
    summary = {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)
    frontier = int(summary["calve.frontier"])
    balances = ledger.before(frontier)
    truth = [(account, owner_of(account), balances[account]) for account in sorted(balances)]
    total = sum(balance for _, _, balance in seen)
    return Compared(
        snapshot_id=snapshot.snapshot_id,
        lower=int(summary["calve.lower"]),
        frontier=frontier,
        run=int(summary["calve.generation"]),
        rows=len(seen),
        total=total,
        files=sum(int(summary.get(name, "0")) for name in ("added-data-files", "added-delete-files")),
        milliseconds=milliseconds,
        matches=seen == truth and total == ledger.total,
    )
