"""Named steps of a driver's life, and traps on them: the nemesis says at which step what is to happen.

    the pipeline's seams ─┐
    the store, catalog ───┼──▶ Steps ──name──▶ is there a trap on it? ──▶ SIGKILL or SIGSTOP, driver and JVM
    Spark's own logs ─────┤                                           └─▶ SIGKILL of this worker alone
    Python workers ───────┘

The product has no hook for this: a process wraps the seams around itself (docs/decisions/0010). A trap is a
file that any process of the driver may find; the one that takes it away acts, so that it goes off once. Every
process of a driver is in its session, and driver and JVM are in one process group of the same number.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

KILL, STOP, KILL_WORKER = "kill", "stop", "kill worker"

TASK = "task"
"""What steps in Python workers begin with."""
LOGS = {"offsets": "Spark's offsets: written", "commits": "Spark's commits: written"}
"""Steps of Spark itself, seen from its logs."""
LOGS_OF_THE_SOURCE = {"sources/0": "Spark's source log: written"}
SOURCE_FILE, RESOLVED_FILE = "source file", "resolved file"
COMMIT_SENT = "REST: commit sent"
"""The request is on its way, and its answer was not read (case 4)."""

_LOOK_S = 0.002
_PIECE_BYTES_MIN = 64
"""Arrow writes a Parquet file in many pieces of a few bytes; those are no steps of their own."""


@dataclass(frozen=True, slots=True)
class Trap:
    """What is to happen when a step is reached for the n-th time."""

    step: str
    nth: int
    act: str

    def set(self, folder: Path) -> None:
        """Lay it, in the place of the one before."""
        half = folder / ".trap"
        half.write_text(json.dumps(asdict(self)))
        (folder / "sprung").unlink(missing_ok=True)
        half.rename(folder / "trap")


def sprung(folder: Path) -> bool:
    """Whether the trap in a folder went off."""
    return (folder / "sprung").exists()


def disarm(folder: Path) -> bool:
    """Take a trap away; False if it went off before."""
    try:
        (folder / "trap").rename(folder / ".old trap")
    except FileNotFoundError:
        return False
    return True


class Steps:
    """The steps of one process."""

    def __init__(self, folder: Path, before_act: Callable[[str], None] | None = None) -> None:
        self._folder = folder
        self._before_act = before_act
        self._known: set[str] = set()
        self._trap: tuple[int, Trap] | None = None
        self._reached = 0
        self._lock = threading.RLock()

    def __call__(self, name: str) -> None:
        """A step is reached."""
        with self._lock:
            if name not in self._known:
                self._known.add(name)
                with (self._folder / "steps").open("a") as log:
                    log.write(name + "\n")
            trap = self.armed()
            if trap is None or trap.step != name:
                return
            self._reached += 1
            if self._reached < trap.nth:
                return
            with suppress(FileNotFoundError):
                # Whoever moves it away acts: a trap goes off once, in one process.
                (self._folder / "trap").rename(self._folder / "sprung")
                self._act(trap)

    def armed(self) -> Trap | None:
        """The trap that is laid now."""
        place = self._folder / "trap"
        try:
            laid = place.stat().st_mtime_ns
            if self._trap is None or self._trap[0] != laid:
                self._trap, self._reached = (laid, Trap(**json.loads(place.read_text()))), 0
        except FileNotFoundError:
            return None
        return self._trap[1]

    def around(self, owner: Any, attribute: str, name: Callable[..., str] | str) -> None:
        """Make each call of a function two steps."""
        original = getattr(owner, attribute)

        def stepped(*arguments: Any, **named: Any) -> Any:
            what = name if isinstance(name, str) else name(*arguments, **named)
            self(f"{what}: about to")
            result = original(*arguments, **named)
            self(f"{what}: done")
            return result

        setattr(owner, attribute, stepped)

    def _act(self, trap: Trap) -> None:
        if self._before_act is not None:
            self._before_act(trap.step)
        if trap.act == KILL_WORKER:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            os.killpg(os.getsid(0), signal.SIGKILL if trap.act == KILL else signal.SIGSTOP)
        if trap.act != STOP:
            signal.pause()  # the signal is on its way


# -------------------------------------------------------------------- in the driver


def install_in_driver(steps: Steps) -> None:
    """Wrap the seams of a driver's process, those of the table and those of the pipeline."""
    import calve.runtime.spark.batches as batches
    import calve.runtime.spark.process as process
    import calve.runtime.spark.run as run
    import calve.runtime.spark.target as target
    from calve.runtime.coordinator import Coordinator
    from calve.runtime.spark.feed import FeedRun
    from calve.runtime.spark.files import CheckpointFiles
    from calve.runtime.spark.pipeline import Pipeline

    _install_table(steps)
    steps.around(Coordinator, "claim", "claim")
    steps.around(Coordinator, "commit", "commit")
    for whole in (Pipeline, FeedRun):
        steps.around(whole, "__call__", "micro-batch")
    steps.around(process, "_published", "publishing")
    steps.around(run, "Stash", "stash: read")
    steps.around(target, "create_table", "table: create")
    steps.around(batches, "run_tasks", "files")
    steps.around(batches, "write_segment", "segment")
    steps.around(CheckpointFiles, "write_new", lambda _, name, *__: f"{checkpoint_kind(name)}: write")
    steps.around(CheckpointFiles, "_give_name", lambda *words: f"{checkpoint_kind(words[-1])}: name")
    steps.around(CheckpointFiles, "delete", lambda _, name: f"{checkpoint_kind(name)}: delete")


def _install_table(steps: Steps) -> None:
    """Every catalog and store that a lake may have: a driver meets those of its own."""
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.engine.default import DefaultDialect
    from urllib3.connection import HTTPConnection

    from calve.table.catalogs.rest import Rest

    for act in ("create_table", "load_table", "commit_table"):
        for catalog in (SqlCatalog, Rest):
            steps.around(catalog, act, f"catalog: {act.replace('_', ' ')}")
    steps.around(DefaultDialect, "do_commit", "SQL: commit")
    request = HTTPConnection.request

    def request_with_steps(self: Any, method: str, url: str, *more: Any, **named: Any) -> None:
        request(self, method, url, *more, **named)
        if method == "POST" and "/tables/" in url:
            steps(COMMIT_SENT)

    HTTPConnection.request = request_with_steps  # type: ignore[method-assign]
    install_store(steps, "")


def install_store(steps: Steps, where: str) -> None:
    """Wrap the files that a process writes to the warehouse, on a disk or in an object store: half written,
    about to be closed, closed. A small object goes out in the one request that its close is."""
    from calve.store import local, objects

    for kind in (local._Durable, objects._Parts):
        _wrap_file(steps, where, kind)


def install_source(steps: Steps, where: str) -> None:
    """Wrap the files of a changefeed that a process reads."""
    from calve.source.cockroachdb import reader

    rows: Any = getattr(reader, "_rows")  # noqa: B009 - no export, and read_file looks it up there

    def rows_with_steps(*arguments: Any) -> Iterator[Any]:
        steps(f"{where}{SOURCE_FILE}: about to")
        yield from rows(*arguments)
        steps(f"{where}{SOURCE_FILE}: done")

    setattr(reader, "_rows", rows_with_steps)  # noqa: B010
    steps.around(reader, "_mark", f"{where}{RESOLVED_FILE}")


def _wrap_file(steps: Steps, where: str, kind: Any) -> None:
    write, close = kind.write, kind.close

    def name(file: Any) -> str:
        return where + warehouse_kind(file._location)

    def write_in_halves(self: Any, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        if len(view) < _PIECE_BYTES_MIN:
            return int(write(self, view))
        middle = len(view) // 2
        written = int(write(self, view[:middle]))
        steps(f"{name(self)}: half written")
        return written + int(write(self, view[middle:]))

    def close_with_steps(self: Any) -> None:
        was_open = not self.closed
        if was_open:
            steps(f"{name(self)}: about to be closed")
        close(self)
        if was_open:
            steps(f"{name(self)}: closed")

    kind.write, kind.close = write_in_halves, close_with_steps


def watch_logs(steps: Steps, checkpoint: Path) -> None:
    """Make entries of Spark's own logs steps, as long as a trap is laid on them. Spark has no seam in Python
    there, so a thread looks at the folders."""
    folders = {**LOGS, **LOGS_OF_THE_SOURCE}
    known = {folder: set(_entries(checkpoint / folder)) for folder in folders}

    def look() -> None:
        while True:
            trap = steps.armed()
            watched = trap is not None and trap.step in folders.values()
            for folder, name in folders.items():
                for entry in set(_entries(checkpoint / folder)) - known[folder]:
                    known[folder].add(entry)
                    steps(name)
            time.sleep(_LOOK_S if watched else 0.2)

    threading.Thread(target=look, daemon=True).start()


def _entries(folder: Path) -> Iterator[str]:
    with suppress(FileNotFoundError):
        yield from (name for name in os.listdir(folder) if not name.startswith("."))


def warehouse_kind(location: str | Path) -> str:
    """What a file of the warehouse is, by its name."""
    name = Path(str(location)).name
    if name.endswith(".parquet"):
        return "data file" if name.startswith("data-") else "delete file"
    if name.endswith(".metadata.json"):
        return "metadata.json"
    return "manifest list" if name.startswith("snap-") else "manifest"


def checkpoint_kind(name: str) -> str:
    """What a file beside the checkpoint is, by its place."""
    kinds = {"stash": "stash manifest", "outbox": "outbox", "segments": "segment", "topics": "topic"}
    return next((kind for folder, kind in kinds.items() if name.startswith(f"calve/{folder}/")), "other file")
