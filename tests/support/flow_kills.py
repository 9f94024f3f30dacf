"""Drivers that are killed at named steps: many of them in one process, because a JVM is slow to start.

    test ──scenes, steps──▶ child: a session, a query a scene; each stops dead at its step
         ◀─what was reached─       when all of them stand: SIGKILL, driver and JVM at once

A query that stands at its step has done what came before it and nothing of what comes after, and the others
do not know of it: each has a catalog, a warehouse and a checkpoint of its own. The kill then takes all at
once, as it would take one. The seams are those of the nemesis; the product has no hook (docs/decisions/0010).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.nemesis.steps import Steps, install_in_driver
from tests.support.flow import Flow
from tests.support.lake import Lake

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 3
"""Queries that run at a time; those that stand at their step do not count."""
HALF_A_FILE = "task: half a file"
"""The step of a task that has written rows to a file which is still open."""

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("lsn", pa.int64()), ("_op", pa.string())])
MAXIMUM = {"time_column": "lsn", "frontier": "maximum", "frontier_delay": 2}
UPSERT = {"mode": "upsert", "key": ("id",), "sequence_by": ("lsn",), "op_column": "_op"}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # All there is: rows that wait, files, rows that do not fit, two tables.
    "timed": (UPSERT, {**MAXIMUM, "on_bad_row": "quarantine"}),
    "numbered": (UPSERT, {"on_bad_row": "quarantine"}),
    # Files of open batches, which wait.
    "append": ({"mode": "append"}, {**MAXIMUM, "commit_interval": 6}),
}
MICRO_BATCHES = 3


@dataclass(frozen=True, slots=True)
class Scene:
    """A query of a kind in a folder of its own, and the step at which it stops dead."""

    kind: str
    folder: str
    kill_at: str | None = None
    """A step as `Reached` names it; without one the query runs to its end."""

    def flow(self, spark: Any) -> Flow:
        """The query, with all that was sent before."""
        place = Path(self.folder)
        (place / "lake").mkdir(parents=True, exist_ok=True)
        sink, stream = KINDS[self.kind]
        flow = Flow(spark, Lake(place / "lake"), "t", place, SCHEMA, dict(sink), dict(stream))
        if not (place / "source").exists():
            for number in range(MICRO_BATCHES):
                flow.put(*self.rows(number))
        else:
            flow.sent.extend(list(self.rows(number)) for number in range(MICRO_BATCHES))
        if self.kill_at is not None and HALF_A_FILE in self.kill_at:
            flow.transform = _standing(place, int(self.kill_at.partition(" ")[0]))
        return flow

    def rows(self, number: int) -> Iterator[dict[str, Any]]:
        """Four changes, and in the second micro-batch one that does not fit."""
        at = number * 4
        yield {"id": 1, "v": f"a{number}", "lsn": at, "_op": "u"}
        yield {"id": 2 + number % 2, "v": f"b{number}", "lsn": at + 1, "_op": "u"}
        yield {"id": 2, "v": None, "lsn": at + 2, "_op": "D"}
        yield {"id": 10 + number, "v": f"c{number}", "lsn": at + 3, "_op": "I"}
        if number == 1 and "on_bad_row" in KINDS[self.kind][1]:
            yield {"id": None, "v": "bad", "lsn": at, "_op": "u"}


@dataclass(slots=True)
class Reached:
    """What became of a scene."""

    steps: list[str] = field(default_factory=list)
    """As `<micro-batch> <step> <how often before in it>`: the same work takes the same steps."""
    stands_at: str | None = None
    error: str | None = None


def run(scenes: list[Scene], log: Path) -> dict[str, Reached]:
    """Let a child run the scenes, and kill it when each has ended or stands at its step; by their folders."""
    job = [[scene.kind, scene.folder, scene.kill_at] for scene in scenes]
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with log.open("ab") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.support.flow_kills"],
            cwd=ROOT,
            env={**env, "PYTHONPATH": f"{ROOT}{os.pathsep}{env.get('PYTHONPATH', '')}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(job) + "\n")
        child.stdin.flush()
        told = child.stdout.readline()
        ended = child.poll()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    if not told:
        raise AssertionError(f"the child ended by itself ({ended}):\n{log.read_text()[-3000:]}")
    return {folder: Reached(**one) for folder, one in json.loads(told).items()}


# -- the child ------------------------------------------------------------------------------------


class _Standing:
    """The scenes of this process, and which of them the present thread works on."""

    def __init__(self, scenes: list[Scene]) -> None:
        self.scenes = {str(Path(scene.folder, "checkpoint")): scene for scene in scenes}
        self.reached = {scene.folder: Reached() for scene in scenes}
        self._counts: dict[str, Counter[str]] = {scene.folder: Counter() for scene in scenes}
        self._left = len(scenes)
        self._changed = threading.Condition()
        self._free = threading.Semaphore(AT_ONCE)
        self._here = threading.local()
        self._held: list[int] = []

    def begin(self, checkpoint: str, micro_batch: int) -> None:
        """The present thread works on a micro-batch of a scene."""
        self._here.scene, self._here.micro_batch = self.scenes[checkpoint], micro_batch

    def step(self, name: str) -> None:
        scene: Scene | None = getattr(self._here, "scene", None)
        if scene is None:
            return
        counts, reached = self._counts[scene.folder], self.reached[scene.folder]
        key = f"{self._here.micro_batch} {name}"
        step = f"{key} {counts[key]}"
        counts[key] += 1
        reached.steps.append(step)
        if step == scene.kill_at:
            self.stand(scene, step)
            threading.Event().wait()

    def stand(self, scene: Scene, step: str) -> None:
        self.reached[scene.folder].stands_at = step
        self._done()

    def query(self, spark: Any, scene: Scene) -> None:
        """Run a scene. It returns only if its step was never reached."""
        self._free.acquire()
        try:
            flow = scene.flow(spark)
            if flow.transform is not None:
                threading.Thread(target=self._listen, args=(scene,), daemon=True).start()
            flow.run()
        except BaseException as error:  # noqa: BLE001 - the test is told, whatever it was
            self.reached[scene.folder].error = f"{type(error).__name__}: {error}"[:2000]
        self._done()

    def _listen(self, scene: Scene) -> None:
        """Until the task says that it stands. It goes on standing as long as this process holds the pipe."""
        self._held.append(os.open(Path(scene.folder, "hold"), os.O_RDWR))
        if Path(scene.folder, "here").read_text():
            self.stand(scene, str(scene.kill_at))

    def _done(self) -> None:
        self._free.release()
        with self._changed:
            self._left -= 1
            self._changed.notify_all()

    def wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._left <= 0)


class _FlowSteps(Steps):
    """The seams of the nemesis, told to whom they concern."""

    def __init__(self, standing: _Standing) -> None:
        self._standing = standing

    def __call__(self, name: str) -> None:
        self._standing.step(name)


def _standing(place: Path, number: int) -> Any:
    """A stage of the stream whose task hands on its rows, and then goes no further in one micro-batch."""
    here, hold = place / "here", place / "hold"
    for pipe in (here, hold):
        if not pipe.exists():
            os.mkfifo(pipe)
    first = number * 4

    def transform(frame: Any) -> Any:
        def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch
                if first in batch.column(batch.schema.get_field_index("lsn")).to_pylist():
                    here.write_text("here")
                    hold.read_text()  # until the driver is gone

        return frame.mapInArrow(pass_on, frame.schema)

    return transform


def _main() -> None:
    scenes = [Scene(*words) for words in json.loads(sys.stdin.readline())]
    out = os.dup(1)
    os.dup2(2, 1)  # what the session prints is for the log
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    from calve.runtime.spark.pipeline import Pipeline
    from tests.support.spark import start_session

    spark = start_session(Path(scenes[0].folder) / "session")
    standing = _Standing(scenes)
    install_in_driver(_FlowSteps(standing))
    call = Pipeline.__call__

    def begin(self: Any, frame: Any, micro_batch: int) -> None:
        standing.begin(self._config.checkpoint, micro_batch)
        call(self, frame, micro_batch)

    Pipeline.__call__ = begin  # type: ignore[method-assign]
    for scene in scenes:
        threading.Thread(target=standing.query, args=(spark, scene), daemon=True).start()
    standing.wait()
    told = {
        folder: {"steps": one.steps, "stands_at": one.stands_at, "error": one.error}
        for folder, one in standing.reached.items()
    }
    os.write(out, (json.dumps(told) + "\n").encode())
    signal.pause()


def _end_with_the_test() -> None:
    """The test's process keeps the other end open as long as it lives."""
    sys.stdin.read()
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _main()
