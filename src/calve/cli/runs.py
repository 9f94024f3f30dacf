"""The runs of the demo: processes that stream the ledger, and the kills that meet them.

    start ──fork──▶ stream ──"open", "committed"──▶ Run
    kill_at ─── looks at the files ─── SIGKILL ────▶

A run knows nothing of kills. Its parent looks at the table's folder, and kills as soon as a file shows
how far the run is; where exactly the kill meets it is up to the machine. What is reported of a kill is
what the run had said by then.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow as pa

from calve.cli.ledger import Entries, Ledger
from calve.model.errors import CalveError
from calve.runtime.sink import IcebergSink

NAMESPACE, TABLE = "demo", "accounts"
_PIECES = 4
"""An epoch is handed over in so many calls."""
_PATIENCE_SECONDS = 50.0
_POLL_SECONDS = 0.0002


class DemoFailed(CalveError):
    """A run of the demo ended by itself where it should not have."""


class NotKilled(DemoFailed):
    """A run was done before the kill reached it: the machine was busy elsewhere."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill: a file of this pattern has appeared."""

    words: str
    pattern: str
    one_an_epoch: bool
    """Every epoch leaves one such file; else the pattern names the epoch itself."""

    def count(self, folder: Path, epoch: int) -> int:
        """How many such files there are."""
        return sum(1 for _ in (folder / NAMESPACE / TABLE).glob(self.pattern.format(upper=epoch + 1)))


WRITING = Moment("it wrote its files", "data/**/{upper}/**/*.parquet", one_an_epoch=False)
BETWEEN = Moment("it was between its files and the commit", "metadata/*-m0.avro", one_an_epoch=True)


@dataclass(slots=True)
class Run:
    """A process that streams, as its parent sees it."""

    process: BaseProcess
    messages: Connection
    resumed_at: int = 0
    """The epoch with which the table told it to begin."""
    took: dict[int, float] = field(default_factory=dict)
    """Milliseconds of each epoch that it committed."""
    error: str = ""

    @property
    def at_work_on(self) -> int:
        return max(self.took, default=self.resumed_at - 1) + 1

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
        except (EOFError, ConnectionError):
            return  # it is gone, and has said all that it will say

    def kill_at(self, moment: Moment, epoch: int, folder: Path, before: int) -> None:
        """SIGKILL when the moment has come; `before` is what it counted before the run."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.resumed_at and self._may_wait(deadline):
            self.listen(0.01)
        wanted = before + (epoch - self.resumed_at + 1 if moment.one_an_epoch else 1)
        while moment.count(folder, epoch) < wanted and self._may_wait(deadline):
            time.sleep(_POLL_SECONDS)
        self.process.kill()
        self._end(-signal.SIGKILL)

    def finish(self) -> None:
        """Let it stream to its end."""
        while self.process.is_alive():
            self.listen(0.05)
        self._end(0)

    def _may_wait(self, deadline: float) -> bool:
        return self.process.is_alive() and time.monotonic() < deadline

    def _end(self, wanted: int) -> None:
        self.process.join()
        self.listen()
        if self.process.exitcode == wanted:
            return
        kind = NotKilled if self.process.exitcode == 0 else DemoFailed
        raise kind(
            f"a run ended with exit code {self.process.exitcode}, not {wanted}. {self.error}".rstrip(),
            hint="Try again with more --rows if it was too fast to be killed; anything else is a defect.",
        )


def start(accounts: int, epochs: int, folder: Path) -> Run:
    """A new run, in a process of its own."""
    # A fork of this process, which has started no thread yet, is there at once; elsewhere a new one starts.
    if sys.platform == "linux":
        multiprocessing.set_start_method("fork", force=True)
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=stream, args=(accounts, epochs, folder, send))
    process.start()
    send.close()
    return Run(process, receive)


def stream(accounts: int, epochs: int, folder: Path, messages: Connection) -> None:
    """What a run does: ask the table which epochs it has, and stream the others."""
    try:
        with IcebergSink.from_options(sink_options(folder)) as sink:
            messages.send(("open", sink.frontier()))
            ledger = Ledger(accounts)
            for epoch in range(1, epochs + 1):
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
