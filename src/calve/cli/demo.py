"""The demo: a ledger is streamed by a process that is killed twice, and every snapshot is compared with the truth.

    run 1 ──epochs──▶ table      SIGKILL when the first file of an epoch appears
    run 2 ──epochs──▶ table      SIGKILL when the first manifest of an epoch appears: its files are closed
    run 3 ──epochs──▶ table      goes on to the end
    then: every snapshot of the table == the ledger after that epoch, row by row, and its sum

Nothing is staged: the runs know nothing of the kills, and where exactly a kill meets them is up to the machine. Each
run asks the table where to go on. The comparison reads files, not what the runs said.
"""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from calve.cli.ledger import Entries, Ledger, owner_of
from calve.cli.reading import main_snapshots, read_rows
from calve.config.catalog import EMBEDDED_FILE
from calve.model.errors import CalveError
from calve.runtime.sink import IcebergSink

NAMESPACE, TABLE, CATALOG = "demo", "accounts", "calve"
_PIECES = 4
"""An epoch is handed over in so many calls."""
_PATIENCE_SECONDS = 50.0
_POLL_SECONDS = 0.0002


class DemoFailed(CalveError):
    """A run of the demo ended by itself where it should not have."""


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
    moment: str
    resumed_at: int
    """The epoch from which the table told the next run to go on."""


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
    folder = Path(tempfile.mkdtemp(prefix="calve-demo-"))
    outcome = Outcome(demo, str(folder))
    try:
        took = _stream(demo, folder, outcome)
        _compare(demo, folder, outcome, took)
    finally:
        if not demo.keep:
            shutil.rmtree(folder, ignore_errors=True)
    outcome.seconds = time.perf_counter() - started
    return outcome


def sink_options(folder: Path) -> dict[str, object]:
    """The demo's sink: SQLite and local files in one folder."""
    return {
        "namespace": NAMESPACE,
        "table.name": TABLE,
        "warehouse": str(folder),
        "write.mode": "upsert",
        "equality.delete.columns": "account",
        "partition.spec": "bucket(4, account)",
    }


# -- the runs ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Run:
    """A process that streams, as its parent sees it."""

    number: int
    process: BaseProcess
    messages: Connection
    resumed_at: int = 0
    took: dict[int, float] = field(default_factory=dict)
    error: str = ""

    def listen(self, seconds: float = 0.0) -> None:
        """Take in what it has said."""
        try:
            while self.messages.poll(seconds):
                match self.messages.recv():
                    case ("open", int(frontier)):
                        self.resumed_at = max(frontier, 1)
                    case ("committed", int(epoch), float(milliseconds)):
                        self.took[epoch] = milliseconds
                    case ("failed", str(error)):
                        self.error = error
        except EOFError:
            return  # it is gone, and has said all that it will say


def _stream(demo: Demo, folder: Path, outcome: Outcome) -> dict[int, float]:
    """Three runs; what each epoch took, as far as the runs could say."""
    moments = (
        (1 + demo.epochs // 3, "it wrote the data files", "data/**/{upper}/**/*.parquet"),
        (1 + 2 * demo.epochs // 3, "it was between the files and the commit", "metadata/*-m0.avro"),
    )
    took: dict[int, float] = {}
    for number, (epoch, moment, sign) in enumerate(moments, start=1):
        run = _start(demo, folder, number)
        _kill_at(run, folder / NAMESPACE / TABLE, epoch, sign)
        took |= run.took
        outcome.kills.append(Kill(number, epoch, moment, 0))
    last = _start(demo, folder, len(moments) + 1)
    while last.process.is_alive():
        last.listen(0.05)
    last.listen()
    _check_ended(last, 0)
    return took | last.took


def _start(demo: Demo, folder: Path, number: int) -> _Run:
    # A fork of this process, which has started no thread yet, is there at once; elsewhere a new one starts.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(demo, str(folder), send), name=f"calve-demo-{number}")
    process.start()
    send.close()
    return _Run(number, process, receive)


def _kill_at(run: _Run, table: Path, epoch: int, sign: str) -> None:
    """SIGKILL as soon as a file appears that the epoch before has not left."""
    pattern = sign.format(upper=epoch + 1)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while epoch - 1 not in run.took and run.process.is_alive() and time.monotonic() < deadline:
        run.listen(0.01)
    before = set(table.glob(pattern))
    while not set(table.glob(pattern)) - before and run.process.is_alive() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    run.process.kill()
    run.process.join()
    run.listen()
    _check_ended(run, -signal.SIGKILL)


def _check_ended(run: _Run, wanted: int) -> None:
    run.process.join()
    if run.process.exitcode != wanted:
        raise DemoFailed(
            f"run {run.number} ended with exit code {run.process.exitcode}, not {wanted}: {run.error or 'see above'}",
            hint="Try again with more --rows if it was too fast to be killed; anything else is a defect.",
        )


def _run(demo: Demo, folder: str, messages: Connection) -> None:
    """What a run does: ask the table where to go on, and stream from there."""
    try:
        with IcebergSink.from_options(sink_options(Path(folder))) as sink:
            messages.send(("open", sink.frontier()))
            ledger = Ledger(demo.accounts)
            for epoch in range(1, demo.epochs + 1):
                entries = ledger.next_epoch()
                if sink.begin_epoch(epoch):
                    for piece in _pieces(entries):
                        sink.write_batch(piece)
                result = sink.commit_epoch(epoch)
                if not result.skipped:
                    messages.send(("committed", epoch, result.milliseconds))
    except CalveError as error:
        messages.send(("failed", f"{type(error).__name__}: {error}"))
        raise


def _pieces(entries: Entries) -> list[pa.Table]:
    table = pa.table(
        {
            "account": pa.array(entries.account, pa.int64()),
            "owner": entries.owner,
            "balance": pa.array(entries.balance, pa.int64()),
            "_op": entries.op,
        }
    )
    size = -(-table.num_rows // _PIECES)
    return [table.slice(start, size) for start in range(0, table.num_rows, size)]


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
    return Kill(kill.run, kill.epoch, kill.moment, min(later, default=0))


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)
