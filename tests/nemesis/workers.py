"""What Spark starts in the place of its own daemon of Python workers: the same, with steps in every worker.

    JVM ──python -m tests.nemesis.workers──▶ daemon: wraps the store ──fork──▶ worker: runs tasks

The daemon wraps the seams itself, before it forks: a worker then begins with everything imported.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = "NEMESIS_FOLDER"
"""The variable that says where the driver's traps are laid."""


def install() -> None:
    """Wrap the seams of this process and of all that it forks."""
    import calve.writer.task as task
    from tests.nemesis.steps import TASK, Steps, install_source, install_store

    steps = Steps(Path(os.environ[FOLDER]))
    install_store(steps, f"{TASK}: ")
    install_source(steps, f"{TASK}: ")
    steps.around(task.Task, "run", TASK)


if __name__ == "__main__":
    from pyspark.daemon import manager

    install()
    manager()
