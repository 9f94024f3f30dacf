"""Gates: the test's side of tests/support/executor/gate_daemon.py.

gate = gates.hold("written", host="127.0.0.2")
arrived = gate.arrived()      # a Python worker stands at the step, and waits
…                             # kill its executor, let a twin overtake it
gate.open()                   # it goes on, if it lives
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODULE = "gate_daemon"
MODULE_FOLDER = Path(__file__).parent / "executor"
_ARRIVES_S = 180
_LOOKS_S = 1.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """Who stands at a gate."""

    pid: int
    executor: int
    """The process of its executor."""
    host: str
    path: str


class Gate:
    """A step of a table's writes at which so many are held, or fail."""

    def __init__(self, folder: Path, wanted: Mapping[str, Any]) -> None:
        made = folder.parent.with_name(f"gate-{folder.name}")  # elsewhere, until it is whole
        made.mkdir()
        for name in ("arrived", "go"):
            os.mkfifo(made / name)
        # Open at both ends: a worker never waits for the test to look, nor sees an end.
        self._arrived = os.open(made / "arrived", os.O_RDWR | os.O_NONBLOCK)
        self._go = os.open(made / "go", os.O_RDWR)
        self._places = int(wanted["places"])
        self._said = b""
        (made / "wanted").write_text(json.dumps(wanted), encoding="utf-8")
        made.rename(folder)

    def arrived(self, ended: Callable[[], object] = lambda: None) -> Arrived:
        """The next that arrives. Nobody will, once the job says that it has ended."""
        until = time.monotonic() + _ARRIVES_S
        while b"\n" not in self._said:
            if select.select([self._arrived], [], [], _LOOKS_S)[0]:
                self._said += os.read(self._arrived, 4096)
            elif (end := ended()) is not None or time.monotonic() > until:
                raise AssertionError(f"nobody came to the gate; the job: {end}")
        line, _, self._said = self._said.partition(b"\n")
        return Arrived(**json.loads(line))

    def open(self) -> None:
        """Let all go on."""
        os.write(self._go, b"." * self._places)

    def close(self) -> None:
        os.close(self._arrived)
        os.close(self._go)


class Gates:
    """The gates of an application."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[Gate] = []
        (folder / "gates").mkdir(parents=True)

    def settings(self) -> dict[str, str]:
        """What puts the gates into the executors of an application."""
        return {
            "spark.python.daemon.module": MODULE,
            "spark.executorEnv.PYTHONPATH": str(MODULE_FOLDER),
            "spark.executorEnv.CALVE_TEST_GATES": str(self._folder / "gates"),
        }

    def hold(self, table: str, step: str, *, places: int = 1, host: str | None = None) -> Gate:
        """So many writes of a table wait at the step, on this host; others pass. The table is named, because
        a task that lost to its twin may still be at work for the one before."""
        return self._make(table, step, fails=False, places=places, host=host)

    def fail(self, table: str, step: str, *, places: int = 1) -> Gate:
        """So many writes of a table fail at the step, as on a broken disk; others pass."""
        return self._make(table, step, fails=True, places=places, host=None)

    def close(self) -> None:
        """Let all go on that still wait."""
        for gate in self._made:
            gate.open()
            gate.close()

    def _make(self, table: str, step: str, **more: object) -> Gate:
        folder = self._folder / "gates" / f"{len(self._made):03d}"
        gate = Gate(folder, {"table": table, "step": step, **more})
        self._made.append(gate)
        return gate
