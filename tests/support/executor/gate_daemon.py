"""Spark's Python daemon, in which a write can be held or made to fail. It runs in executors.

    spark.python.daemon.module = gate_daemon

Two calls of the operating system are wrapped before the daemon begins, so that every Python worker that it
forks has them: the code under test is as it was sent. A step is `created` (a data file was made, and nothing
of it is there) or `written` (all of it was written, and it is not closed). What happens at a step is said by
folders that the test makes (tests/support/gates.py); without one, nothing does.
"""

from __future__ import annotations

import errno
import json
import os
from typing import Any

GATES = os.environ["CALVE_TEST_GATES"]
HOST = os.environ.get("SPARK_LOCAL_IP", "")

_open, _fsync = os.open, os.fsync


def open_(path: Any, flags: int, *more: Any, **named: Any) -> int:
    descriptor = _open(path, flags, *more, **named)
    if flags & os.O_CREAT and is_data(str(path)):
        step("created", str(path))
    return descriptor


def fsync(fd: Any) -> None:
    path = os.readlink(f"/proc/self/fd/{fd}")
    if is_data(path):
        step("written", path)
    _fsync(fd)


def is_data(path: str) -> bool:
    return path.endswith(".parquet") and "/data/" in path


def step(name: str, path: str) -> None:
    for gate in sorted(os.listdir(GATES)):
        folder = os.path.join(GATES, gate)
        with open(os.path.join(folder, "wanted"), encoding="utf-8") as file:
            wanted = json.load(file)
        here = (
            wanted["step"] == name and wanted["host"] in (None, HOST) and wanted["table"] in path.split("/")
        )
        if here and takes_place(folder, wanted["places"]):
            arrived = {"pid": os.getpid(), "executor": executor(), "host": HOST, "path": path}
            say(os.path.join(folder, "arrived"), json.dumps(arrived) + "\n")
            if wanted["fails"]:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            with open(os.path.join(folder, "go"), "rb", buffering=0) as go:
                go.read(1)  # waits for the test


def takes_place(folder: str, places: int) -> bool:
    """Whether one of the gate's places was free: a folder is made by one process alone."""
    for place in range(places):
        try:
            os.mkdir(os.path.join(folder, f"place-{place}"))
        except FileExistsError:
            continue
        return True
    return False


def executor() -> int:
    """The process of the executor: the daemon's parent."""
    with open(f"/proc/{os.getppid()}/stat", encoding="utf-8") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def say(fifo: str, line: str) -> None:
    descriptor = _open(fifo, os.O_WRONLY)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    os.open, os.fsync = open_, fsync
    from pyspark import daemon

    daemon.manager()
