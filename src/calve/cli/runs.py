"""The runs of the demo: drivers as child processes, and the kills that meet them.

    start ──▶ driver.py ──"file", "progress", "stopped"──▶ Run
    kill_at ── waits for a word ── SIGKILL to the driver and its JVM ──▶

A driver is killed as soon as its parent hears the word that shows how far it is; where exactly the kill meets
it is up to the machine, and the table tells afterwards. Driver and JVM are one process group, and get the
signal together: neither has time to tidy up for the other.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

from calve.cli.driver import SCRATCH
from calve.model.error import CalveError, Effect
from calve.runtime.spark.progress import SinkProgress

_PATIENCE_SECONDS = 300.0
"""How long a run may say nothing."""
_LOG_LINES = 8
_NOT_INHERITED = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_REMOTE")
"""What would make the demo's session another one than it asks for."""


class DemoFailed(CalveError):
    """A run of the demo ended by itself where it should not have."""

    code = "CALVE-890"
    effect = Effect.NOTHING  # the demo has a folder of its own
    advice = "Try again; if it stays so, please report it with what it says."


class NotKilled(DemoFailed):
    """A run was done before the kill reached it."""

    code = "CALVE-891"
    advice = "Try again with more --rows."


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill: the driver makes a file of this pattern, or tells that a batch is committed."""

    words: str
    pattern: str | None

    def is_shown_by(self, event: str, run: Run) -> bool:
        """Whether what a run has just told shows that it has come."""
        if self.pattern is None:
            return event == "progress" and run.progress is not None and run.progress.batches_committed > 0
        return event == "file" and fnmatch(run.file, self.pattern)


MANIFESTS = Moment("it wrote the manifests of its commit", "metadata/*-m0.avro")
POINTER = Moment("it wrote the metadata that the catalog was to point at", "metadata/*.metadata.json")
UNTOLD = Moment("its batch was in the table and Spark was about to write that down", None)
MOMENTS = (MANIFESTS, POINTER, UNTOLD)


@dataclass(slots=True)
class Run:
    """A driver, as its parent sees it. Its process group ends with the `with` block at the latest."""

    process: subprocess.Popen[bytes]
    messages: Connection
    log: Path
    watch: Callable[[SinkProgress], None] = lambda _: None
    told: list[SinkProgress] = field(default_factory=list)
    """What became of each of its micro-batches."""
    file: str = ""
    """The file of the table that it made last."""
    error: str = ""
    gone: bool = False
    """It has said all that it will say."""

    @property
    def progress(self) -> SinkProgress | None:
        return self.told[-1] if self.told else None

    def hear(self, seconds: float | None = None) -> str | None:
        """Take in the next thing that it says; which kind that is. `None`: it is gone, or has said nothing
        for so long."""
        try:
            if not self.messages.poll(seconds):
                return None
            event, text = json.loads(self.messages.recv_bytes())
        except (EOFError, OSError):
            self.gone = True  # its end of the pipe is closed, perhaps in the middle of a word
            return None
        match event:
            case "progress":
                self.told.append(SinkProgress.from_json(text))
                self.watch(self.told[-1])
            case "file":
                self.file = text
            case "stopped":
                self.error = text
        return str(event)

    def kill_at(self, moment: Moment, micro_batch: int) -> None:
        """SIGKILL when the moment has come in this micro-batch, or the first time after it."""
        while (event := self.hear(_PATIENCE_SECONDS)) is not None:
            if self.at_work_on(event) >= micro_batch and moment.is_shown_by(event, self):
                self.kill()
                break
        self._end(-signal.SIGKILL)

    def at_work_on(self, event: str = "") -> int:
        """The micro-batch that it is at work on, as far as it has told; -1 before it has told of any."""
        if self.progress is None:
            return -1
        return self.progress.micro_batch + (event != "progress")

    def finish(self) -> None:
        """Let it stream to its end."""
        self._end(0)

    def kill(self) -> None:
        """SIGKILL to the driver and its JVM. Python workers have groups of their own, and go with the JVM."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.communicate()
        self.messages.close()

    def _end(self, wanted: int) -> None:
        while self.hear(_PATIENCE_SECONDS) is not None:
            pass
        if not self.gone:
            raise DemoFailed(
                f"a run said nothing for {_PATIENCE_SECONDS:.0f} s; the last was: {self._last_lines()}",
                hint="Try again when the machine has less to do; if it stays so, it is a defect.",
            )
        code = self.process.wait()
        if code == wanted:
            return
        kind = NotKilled if code == 0 else DemoFailed
        raise kind(
            f"a run ended with exit code {code}, not {wanted}: {self.error or self._last_lines()}",
            hint="Try again with more --rows if it was done before it was killed; anything else is a defect.",
        )

    def _last_lines(self) -> str:
        lines = self.log.read_text("utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:]) or "it has left no word"


def start(folder: Path, number: int, watch: Callable[[SinkProgress], None]) -> Run:
    """A new driver. What Spark itself says goes to a file."""
    scratch, log = folder / SCRATCH, folder / f"run-{number}.log"
    scratch.mkdir(exist_ok=True)
    env = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    receive, send = multiprocessing.Pipe(duplex=False)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "calve.cli.driver", str(folder), str(send.fileno())],
            cwd=folder,
            env={**env, "TMPDIR": str(scratch)},
            stdin=subprocess.PIPE,  # never written to: it ends when this process does
            stdout=out,
            stderr=out,
            pass_fds=[send.fileno()],
            start_new_session=True,
        )
    send.close()
    return Run(process, receive, log, watch)
