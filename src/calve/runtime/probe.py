"""Probe: start a Spark session in a process of its own, run a task in Python, and say what the session has.

    probe ──python -m calve.runtime.probe──▶ session ─▶ task ─▶ classes ──JSON, in a file──▶ Probed

A session that fails says much on stderr and may never come back: here it ends with its process group, after
so many seconds at the latest, and also when the caller is interrupted.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from calve.config.secret import redact
from calve.runtime.diagnosis import line_of

SECONDS_MAX = 180.0
_KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
_PORT = re.compile(r"java\.net\.BindException\b.*\bService '(\w+)' failed after .*\(starting from (\d+)\)")
_WORDS_MAX = 300
_EXCEPTION = re.compile(r'(?:Exception in thread "\S+" )?([a-z]\w*(?:\.\w+)+(?:Exception|Error)\b.*)')
_IDLE = ("Picked up ", "Using Spark's ", "WARNING")
_HINT = "Start `pyspark` by itself: it fails in the same way, and shows all of it."
_PORT_HINT = (
    "Another program listens there. Stop it, or let Spark take a free port: spark.ui.port=0 for SparkUI, "
    "spark.driver.port=0 for sparkDriver."
)


@dataclass(frozen=True, slots=True)
class Probed:
    """What a session has, or why there is none."""

    spark: str = ""
    master: str = ""
    has_kafka: bool = False
    has_iceberg: bool = False
    error: str = ""
    hint: str = ""


_NO_JVM = Probed(error="JAVA_GATEWAY_EXITED")
"""Only the log has the reason."""


def probe(seconds_max: float = SECONDS_MAX) -> Probed:
    """Start a session, and see what it has."""
    # A JVM that is killed may still be at work there for a moment.
    with tempfile.TemporaryDirectory(prefix="calve-probe-", ignore_cleanup_errors=True) as folder:
        answer, log = Path(folder, "answer.json"), Path(folder, "log")
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "calve.runtime.probe", str(answer)],
                env=_environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            try:
                process.wait(seconds_max)
            except subprocess.TimeoutExpired:
                return Probed(error=f"nothing came of it within {seconds_max:.0f} s", hint=_HINT)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # the JVM is of its group
                process.wait()
        probed = Probed(**json.loads(answer.read_text("utf-8"))) if answer.exists() else _NO_JVM
        return _by_log(log, _HINT) if probed == _NO_JVM else probed


def _environment(folder: str) -> dict[str, str]:
    """What Spark and its JVM put aside goes with the folder."""
    options = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={folder} -XX:-UsePerfData"
    mine = {"JAVA_TOOL_OPTIONS": options.strip(), "SPARK_LOCAL_DIRS": folder, "TMPDIR": folder}
    return {"PYSPARK_PYTHON": sys.executable, **os.environ, **mine}


def why_not(error: BaseException, log: Path | None, hint: str) -> Probed:
    """Why a session did not start: the JVM says it, or has left it in its log."""
    return _by_log(log, hint) if log is not None and _is_gone(error) else _failed(line_of(error), hint)


def _by_log(log: Path, hint: str) -> Probed:
    """Why a JVM did not start, or is gone: the first exception that it told of, or else its first word. What
    comes after that are scripts and Python, who miss it."""
    lines = [line.strip() for line in log.read_text("utf-8", errors="replace").splitlines()]
    said = [line for line in lines if line and not line.startswith(_IDLE)]
    raised = [found[1] for line in said if (found := _EXCEPTION.match(line)) is not None]
    why = next(iter([*raised, *said]), "it ended without a word")
    return _failed(why, hint)


def _failed(why: str, hint: str) -> Probed:
    port = _PORT.search(why)
    if port is not None:
        return Probed(
            error=f"its {port[1]} cannot listen at port {port[2]}, which is in use", hint=_PORT_HINT
        )
    return Probed(error=redact(why[:_WORDS_MAX]), hint=hint)


def _try_session() -> Probed:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.builder.appName("calve doctor").getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        # By way of Arrow and a Python of the executors, as a sink's rows go.
        session.range(1).mapInArrow(lambda batches: batches, "id long").collect()
        loader = session._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        found = Probed(
            session.version,
            session.sparkContext.master,
            _has(session, loader, _KAFKA),
            _has(session, loader, _ICEBERG),
        )
        session.stop()
        return found
    except (PySparkException, Py4JError, OSError) as error:
        return _NO_JVM if _is_gone(error) else _failed(line_of(error), _HINT)


def _has(session: Any, loader: Any, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        session._jvm.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError:
        return False
    return True


def _is_gone(error: BaseException) -> bool:
    """Whether the JVM did not start, or ended itself."""
    from py4j.protocol import Py4JNetworkError
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException):
        return bool(error.getCondition() == _NO_JVM.error)
    return isinstance(error, OSError | Py4JNetworkError)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(asdict(_try_session())), "utf-8")
