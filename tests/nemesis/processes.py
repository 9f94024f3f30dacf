"""Drivers as processes: started, told, awaited, stopped and killed, and none of them left behind.

A driver leads a session of its own, which its JVM and its Python workers never leave. So all processes of a
driver are found by the session's number, and ended by their own. Should the nemesis itself be killed, the
kernel ends driver and JVM, and the workers end when the JVM is gone.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from tests.nemesis import archive
from tests.nemesis.checker import Violation
from tests.nemesis.driver import Job, Start

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 180.0
"""How long anything may take on a machine that has other work too, before it counts as hung."""

_LOOK_S_MAX = 2.0

Event = dict[str, Any]


class Patience:
    """A time-out that does not count the time in which the nemesis itself stood still."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._looked = time.monotonic()

    def left(self) -> float:
        """Seconds, counted from look to look."""
        now = time.monotonic()
        self._left -= min(now - self._looked, _LOOK_S_MAX)
        self._looked = now
        return self._left


class Driver:
    """One driver, from the nemesis's side."""

    def __init__(self, name: str, folder: Path, settings: Mapping[str, str]) -> None:
        self.name = name
        self.folder = folder
        folder.mkdir(parents=True)
        start = Start(str(folder), dict(settings), parent=os.getpid())
        # Its coverage would be lost with it, and slows it down.
        env = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "SPARK"))}
        env |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.nemesis.driver", json.dumps(asdict(start))],
                cwd=folder,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.events: list[Event] = []
        self.query: str | None = None
        self._gone = False
        self._queue: queue.Queue[Event | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def ended(self) -> Event | None:
        """What it said last, if it ended by itself."""
        self._take_all()
        return next((event for event in self.events if event["event"] == "ended"), None)

    @property
    def trapped(self) -> str | None:
        """The step at which it fell into its last trap."""
        self._take_all()
        return next((one["step"] for one in reversed(self.events) if one["event"] == "trapped"), None)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def is_stopped(self) -> bool:
        """Whether it stands still, by SIGSTOP."""
        return any(pid == self.pid and state == "T" for pid, _, state in _processes())

    @property
    def micro_batches(self) -> int:
        self._take_all()
        # A feed says it once for each of its tables.
        return len({event["number"] for event in self.events if event["event"] == "micro-batch"})

    def begin(self, job: Job) -> None:
        """Give it its job, once it is ready."""
        self.wait_for("ready")
        self._say(json.dumps(asdict(job)))

    def stop_query(self) -> None:
        """Ask it to end its query and itself."""
        self._say("stop")

    def wait_for(self, event: str, timeout_s: float = PATIENCE_S) -> Event:
        """The first event of a name, said already or still to come."""
        if not self.wait_until(lambda: self._find(event) is not None, timeout_s):
            raise Violation(f"{self.name} never said {event!r}: {self.report()}")
        found = self._find(event)
        assert found is not None
        return found

    def wait_until(self, is_so: Callable[[], bool], timeout_s: float = PATIENCE_S) -> bool:
        """Until something is so, looking at each event; False if it ended or took too long before."""
        patience = Patience(timeout_s)
        while not is_so():
            left = patience.left()
            if left <= 0:
                return False
            try:
                event = self._queue.get(timeout=min(left, 0.2))
            except queue.Empty:
                continue
            if event is None:
                self._queue.put(None)
                self.process.wait()
                return is_so()
            self._note(event)
        return True

    def signal(self, number: signal.Signals) -> None:
        """To driver and JVM."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """End all of it, by the ids of its processes. Again, until nobody is left who may have forked."""
        patience = Patience(PATIENCE_S)
        while not self._gone and (left := session_of(self.pid)):
            if patience.left() <= 0:
                raise Violation(f"{self.name} cannot be killed: {left}")
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            time.sleep(0.01)  # a killed process is gone a moment later
        self._gone = True  # from here on its number may be another process's
        self.process.wait()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def report(self) -> str:
        """What is known of it, for people."""
        self._take_all()
        lines = (self.folder / "log").read_text(errors="replace").splitlines()
        said = [line for line in lines if "WARN" not in line][-25:]
        code = self.process.poll()
        return f"exit code {code}, last events {self.events[-3:]}, its log ends with:\n" + "\n".join(said)

    def _find(self, name: str) -> Event | None:
        return next((event for event in self.events if event["event"] == name), None)

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                with suppress(json.JSONDecodeError):  # a line that a kill cut
                    self._queue.put(json.loads(line))
        self._queue.put(None)

    def _take_all(self) -> None:
        with suppress(queue.Empty):
            while True:
                event = self._queue.get_nowait()
                if event is None:
                    self._queue.put(None)
                    return
                self._note(event)

    def _note(self, event: Event) -> None:
        self.events.append(event)
        if event["event"] == "started":
            self.query = event["query"]


class Pool:
    """Drivers that wait for a job: one is always being started, because a JVM takes its time."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, spares: int = 1) -> None:
        self._folder = folder
        self._settings = {
            "spark.driver.extraJavaOptions": archive.options(archive.place()),
            "spark.master": "local[2,4]",
            **(settings or {"spark.python.daemon.module": "tests.nemesis.workers"}),
        }
        self._spares_wanted = spares
        self._spares: list[Driver] = []
        self._all: list[Driver] = []

    def take(self) -> Driver:
        """A driver that is ready, or about to be. To be called by the thread that outlives them all: the
        kernel ends a child when the thread that forked it ends."""
        driver = self._spares.pop(0) if self._spares else self._new()
        self.prepare()
        return driver

    def prepare(self) -> None:
        """Start what is to be ready next."""
        while len(self._spares) < self._spares_wanted:
            self._spares.append(self._new())

    def no_more(self) -> None:
        """No driver will be needed after those that wait."""
        self._spares_wanted = 0

    def steps(self) -> set[str]:
        """The steps that drivers have reached so far."""
        found: set[str] = set()
        for driver in self._all:
            with suppress(FileNotFoundError):
                found |= set((driver.folder / "steps").read_text().splitlines())
        return found

    def pids(self) -> list[int]:
        return [driver.pid for driver in self._all]

    def _new(self) -> Driver:
        number = len(self._all)
        driver = Driver(f"driver {number}", self._folder / f"driver-{number}", self._settings)
        self._all.append(driver)
        return driver

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for driver in self._all:
            driver.kill()


def session_of(leader: int) -> list[int]:
    """The processes of a session, those that have ended and wait for their parent left out."""
    return [pid for pid, session, state in _processes() if session == leader and state not in "ZX"]


def _processes() -> Iterator[tuple[int, int, str]]:
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            status = Path("/proc", entry, "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The name is in brackets and may hold anything; after it come state, parent, group and session.
        state, _, _, session = status.rpartition(")")[2].split()[:4]
        yield int(entry), int(session), state
