"""Peak memory of one epoch of 10,000,000 changes under a limit of 512 MB, for the whole process (P9).

The epoch is written in a process of its own, whose greatest resident size the kernel tells afterwards: with
Python, Arrow and all libraries in it. Changes are made and handed over 100,000 at a time, over half as many
keys; the table has rows already, so that a delete is written for every key. The spill goes to a real folder,
not to one in memory: what is spilled there would be memory all the same, only not this process's.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, at_most

_LIMIT_MB = 512
_ROWS_A_CALL = 100_000


def run(quick: bool) -> list[Figure]:
    count = 20_000 if quick else 10_000_000
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as folder:
        told = _child(Path(folder), count)
    return [
        Figure(
            f"peak memory, one epoch of {count:,} changes, limit {_LIMIT_MB} MB",
            told["peak_mb"],
            "MB",
            at_most(768, "MB"),
            note=f"{told['seconds']:.1f} s, {told['cpu_s']:.1f} s of CPU; {told['files']} files; "
            f"before the first row the process had {told['start_mb']:.0f} MB",
        )
    ]


def _child(folder: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.memory", str(folder), str(count)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _write(folder: Path, count: int) -> dict[str, Any]:
    """What the process of its own does."""
    from benchmarks.changes import changes, rows
    from benchmarks.lake import new_sink

    options = {"write.mode": "upsert", "equality.delete.columns": "id", "memory.limit": f"{_LIMIT_MB}MB"}
    sink = new_sink(folder, "memory", options)
    sink.begin_epoch(0)
    sink.write_batch(rows(0, 1_000))
    sink.commit_epoch(0)
    start_mb, started = _peak_mb(), time.perf_counter()
    sink.begin_epoch(1)
    for first in range(0, count, _ROWS_A_CALL):
        sink.write_batch(changes(first, min(_ROWS_A_CALL, count - first), keys=count // 2))
    result = sink.commit_epoch(1)
    seconds = time.perf_counter() - started
    sink.close()
    return {
        "peak_mb": _peak_mb(),
        "start_mb": start_mb,
        "seconds": seconds,
        "cpu_s": time.process_time(),
        "files": result.files,
    }


def _peak_mb() -> float:
    """The greatest resident size so far. Linux tells it of this program alone; what `getrusage` tells holds
    what the process was before it became this program."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) / 1024 for line in _lines(status) if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # macOS counts in bytes


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").splitlines()


if __name__ == "__main__":
    print(json.dumps(_write(Path(sys.argv[1]), int(sys.argv[2]))))
