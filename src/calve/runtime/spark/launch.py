"""Launch: a session of Spark's for a command, where nobody gave one.

Under spark-submit the session is what was submitted, and is left as it is. Otherwise it is a local one, and
what the JVM says goes to a file: a terminal is for what a person asked. What matters of it comes as an error.

A session is started and stopped apart (apart.py), so that Ctrl-C ends a command at any moment. On the main
thread PySpark would also take Ctrl-C for itself, and cancel all jobs at it: for a stream that is a failure in
the middle of a micro-batch.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from calve.model.errors import ConfigError
from calve.runtime.probe import why_not
from calve.runtime.spark.apart import apart

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, in the process that it starts."""
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.master": "local[*]",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_HINT = "`calve doctor` looks at Java and Spark; `calve --debug …` shows all that Spark said."
_ALWAYS = {"spark.sql.session.timeZone": "UTC"}


def is_submitted() -> bool:
    """Whether spark-submit started this process."""
    return _SUBMITTED in os.environ


@contextmanager
def session(settings: Mapping[str, str], *, log: bool = True) -> Iterator[SparkSession]:
    """A session for a while. `log`: what the JVM says goes to a file, and not to the terminal."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="calve-", ignore_cleanup_errors=True) as scratch:
        # Spark makes a folder for its own tables where it is started, though it has none.
        local = {**_LOCAL, "spark.sql.warehouse.dir": Path(scratch, "spark").as_uri()}
        given = {**_ALWAYS, **({} if is_submitted() else local), **settings}
        builder: Any = SparkSession.builder.appName("calve")
        for name, value in given.items():
            builder = builder.config(name, value)
        place = Path(scratch, "spark.log") if log and not is_submitted() else None
        with _aside(place):
            spark = _started(builder, place)
        try:
            yield spark
        finally:
            apart(spark.stop)


def _started(builder: Any, log: Path | None) -> SparkSession:
    """A session, or why there is none. Who leaves before it is there leaves no JVM behind: one that lost its
    Python while it was starting waits for it without end."""

    def start() -> SparkSession:
        spark: SparkSession = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        return spark

    before = _offspring()
    try:
        return apart(start)
    except (PySparkException, Py4JError, OSError) as error:
        why = why_not(error, log, _HINT)
        raise ConfigError(f"Spark does not start: {why.error}", hint=why.hint) from error
    except BaseException:
        for process in _offspring() - before:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        raise


def _offspring() -> set[int]:
    """The processes that this one has started, and those that they have, where /proc tells: Spark's JVM comes
    by way of a shell, and another JVM that puts its command together."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name of a program stands in parentheses, and may have some itself.
            parent = stat.read_text("utf-8", errors="replace").rpartition(")")[2].split()[1]
            parents[int(stat.parent.name)] = int(parent)
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


@contextmanager
def _aside(place: Path | None) -> Iterator[None]:
    """What processes that start here say goes to a file. A JVM that does not come up says so on stdout, where
    a program may read a result."""
    if place is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in kept:
        os.dup2(file, number)
    os.close(file)
    try:
        yield
    finally:
        for number, before in kept.items():
            os.dup2(before, number)
            os.close(before)
