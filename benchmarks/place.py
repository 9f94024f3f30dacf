"""Where benchmarks put their files: in memory, where the disk is not what is measured.

`BENCH_FOLDER` names another place. There every durable file costs its fsync, ours and those of a peer that
calls it; in memory an fsync costs nothing and what is left is the work of the code.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="calve-bench-", dir=_parent()) as folder:
        yield Path(folder)


def _parent() -> str | None:
    named = os.environ.get("BENCH_FOLDER")
    if named:
        return named
    return str(_IN_MEMORY) if _IN_MEMORY.is_dir() else None
