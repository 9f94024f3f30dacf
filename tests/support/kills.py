"""A nursery of real processes that run a sink and are killed or stopped at a named step.

    test ──Job──▶ nursery ──fork──▶ child: wraps the seams, runs, dies at step n
         ◀─Ended─         ◀─status, what it reported, its stderr

The nursery has imported everything and started no thread, so that a child begins within milliseconds
and hundreds of kills take seconds. It is a process of its own because pytest's has threads, and a fork
of a process with threads may hang. A child is killed by its own SIGKILL: nothing of it runs after that,
no finally, no flush.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

import calve
from tests.support.kill_steps import DiskEvents, Steps, install
from tests.support.kill_truth import CATALOG, VARIANTS, Epoch, Variant, check_shown, read_table, workload

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Job:
    """What a child does: run the sink of a variant in a folder, and end or stop at a step."""

    folder: str
    variant: str
    kill_at: int | str | None = None
    stop_at: int | str | None = None
    trace: bool = False
    """Report the names of all steps."""
    from_start: bool = True
    """Send all epochs, also those that are in the table; else only those from the frontier on."""
    epochs: int | None = None
    """So many epochs at most; all of them otherwise."""
    check: bool = False
    """Read the table before and after, and report what is wrong with it."""
    watch_disk: bool = False
    lose_fsync: bool = False
    """fsync does nothing: a disk that lies, to see that the watch sees it."""
    file_bytes_max: int | None = None
    """A file that would grow larger cannot be written: a disk that is full."""
    options: dict[str, str] = field(default_factory=dict)
    replay: str | None = None
    """Replay the quarantine of this table instead, in the catalog of the options."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended, or that it was stopped."""

    pid: int
    signal: int | None
    code: int | None
    stopped: bool
    report: dict[str, Any]
    stderr: str

    @property
    def killed(self) -> bool:
        return self.signal == signal.SIGKILL


class Nursery:
    """The test's side."""

    def __init__(self) -> None:
        # Children that die by SIGKILL have no coverage to report, and the others nothing new.
        env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kills"],
            cwd=ROOT,
            env={**env, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, job: Job) -> Ended:
        """Fork a child for a job, and wait until it ended or stopped itself."""
        return self._ask({"fork": asdict(job)})

    def wake(self, stopped: Ended) -> Ended:
        """Let a stopped child go on, and wait until it ended."""
        return self._ask({"continue": stopped.pid})

    def _ask(self, question: dict[str, Any]) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The session is the nursery's own: children that hang or are stopped go with it.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


# -- the nursery's side --------------------------------------------------------------------------


@dataclass(slots=True)
class _Child:
    pid: int
    report: Any
    stderr: Any

    def wait(self) -> Ended:
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return Ended(self.pid, None, None, True, {}, "")
        self.report.seek(0)
        self.stderr.seek(0)
        report = json.loads(self.report.read() or "{}")
        for module in report.pop("imported", ()):
            # What a child had to import, the next one finds imported.
            with suppress(ImportError):
                importlib.import_module(module)
        by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        return Ended(self.pid, by, code, False, report, self.stderr.read().decode())


def _serve() -> None:
    children: dict[int, _Child] = {}
    gc.disable()  # a collection in a child would copy the pages that it shares with the nursery
    for line in sys.stdin:
        question = json.loads(line)
        if "fork" in question:
            child = _fork(Job(**question["fork"]))
            children[child.pid] = child
        else:
            child = children[question["continue"]]
            os.kill(child.pid, signal.SIGCONT)
        ended = child.wait()
        if not ended.stopped:
            del children[child.pid]
        sys.stdout.write(json.dumps(asdict(ended)) + "\n")
        sys.stdout.flush()


def _fork(job: Job) -> _Child:
    report, stderr = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
    gc.freeze()
    pid = os.fork()
    if pid:
        return _Child(pid, report, stderr)
    code = 1
    try:
        os.dup2(stderr.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        _Run(job, report).run()
        code = 0
    except BaseException:  # noqa: BLE001 - a process prints what ended it, whatever that was
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


class _Run:
    """The child's side: one run of a sink."""

    def __init__(self, job: Job, report: Any) -> None:
        self.job = job
        self.folder = Path(job.folder)
        self.variant = VARIANTS[job.variant]
        self.epochs, self.truths = workload(self.variant)
        self.report: dict[str, Any] = {"wrong": []}
        self._out = report

    def run(self) -> None:
        before = set(sys.modules)
        self._check()
        at = self.job.kill_at if self.job.kill_at is not None else self.job.stop_at
        act = self._kill if self.job.kill_at is not None else self._stop
        steps = Steps(at, act, look=self.folder if self.job.trace else None)
        events = DiskEvents()
        if self.job.file_bytes_max is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.job.file_bytes_max, resource.RLIM_INFINITY))
        if self.job.watch_disk:
            events.watch(lose_fsync=self.job.lose_fsync)
        else:
            install(steps)
        try:
            self._pour(steps)
        finally:
            if self.job.trace:
                self.report["steps"] = steps.names
                self.report["states"] = steps.states
            self.report["commits"] = events.commits
            self.report["seen"] = sorted(events.seen)
            self.report["imported"] = sorted(set(sys.modules) - before)
            self._check()
            self._tell()

    def _pour(self, steps: Steps) -> None:
        if self.job.replay is not None:
            done = calve.replay_quarantine(self.job.replay, catalog=self.job.options)
            self.report["replayed"] = [done.replay, done.applied, done.superseded, len(done.left)]
            return
        options = {**sink_options(self.folder, self.variant), **self.job.options}
        with calve.IcebergSink.from_options(options) as sink:
            first = 1 if self.job.from_start else max(sink.frontier(), 1)
            self.report["resumed_at"] = sink.frontier()
            for epoch in self.epochs[first - 1 : self.job.epochs]:
                steps(f"epoch {epoch.number}: about to begin")
                sink.begin_epoch(epoch.number)
                for piece in pieces(epoch):
                    sink.write_batch(piece)
                    steps(f"epoch {epoch.number}: rows taken in")
                sink.commit_epoch(epoch.number)
                steps(f"epoch {epoch.number}: committed")

    def _check(self) -> None:
        if self.job.check:
            shown = read_table(self.folder, self.variant.columns)
            self.report["wrong"] += check_shown(shown, self.truths)
            self.report["frontiers"] = [snapshot.frontier for snapshot in shown.main]

    def _kill(self, name: str) -> None:
        self.report["step"] = name
        self._tell()
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    def _stop(self, name: str) -> None:
        self.report["step"] = name
        os.kill(os.getpid(), signal.SIGSTOP)

    def _tell(self) -> None:
        self._out.seek(0)
        self._out.truncate()
        self._out.write(json.dumps(self.report).encode())
        self._out.flush()


def sink_options(folder: Path, variant: Variant) -> dict[str, object]:
    """The options of a sink on a SQLite catalog and a warehouse in one folder."""
    return {
        "namespace": "ns",
        "table.name": "t",
        "catalog.uri": f"sqlite:///{folder / CATALOG}",
        "warehouse": str(folder),
        "spill.folder": str(folder / "spill"),
        **variant.options,
    }


def pieces(epoch: Epoch) -> list[pa.Table]:
    """An epoch in two calls."""
    table = pa.Table.from_pylist(epoch.rows)
    if epoch.ops is not None:
        table = table.append_column("_op", pa.array(epoch.ops))
    middle = table.num_rows // 2
    return [table.slice(0, middle), table.slice(middle)]


if __name__ == "__main__":
    _serve()
