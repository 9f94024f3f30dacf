"""A standalone Spark cluster of the tests' own: a master and workers, each a process, on loopback addresses.

    application (spark-submit) ──▶ master 127.0.0.1 ──▶ worker 127.0.0.1 ──▶ executor ──▶ Python, pyarrow
                                                  └───▶ worker 127.0.0.2 ──▶ executor ──▶ Python, pyarrow

The pieces are those of the pip-installed PySpark. Two addresses are two hosts to Spark: without them it would
not run a task twice at once (speculation), nor know that the shuffle files of a lost host are gone. Ports are
free ones that the processes choose; what they say in their logs tells that they are ready. Processes are
ended by their ids.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import calve
from tools.venvs import executor

SCRIPT = Path(__file__).with_name("application.py")
MASTER_HOST = "127.0.0.1"
WORKER_HOSTS = ("127.0.0.1", "127.0.0.2")
_STARTS_S = 120
_ANSWERS_S = 180
_STOPS_S = 20
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Like those of tests/support/spark.py, for processes that live a few seconds.
SETTINGS = {
    "spark.driver.bindAddress": MASTER_HOST,
    "spark.driver.extraJavaOptions": _JVM,
    "spark.driver.host": MASTER_HOST,
    "spark.driver.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": _JVM,
    "spark.executor.memory": "512m",
    "spark.python.worker.reuse": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Log:
    """What a process says: kept in a file, and awaited line by line."""

    def __init__(self, stream: IO[str], path: Path) -> None:
        self.path = path
        self._lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def wait_for(self, pattern: str, timeout_s: float = _STARTS_S) -> re.Match[str]:
        """The first line that matches, said already or still to come."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self.find(pattern), timeout_s)
            found = self.find(pattern)
        if found is None:
            raise AssertionError(f"{self.path.name} never said {pattern!r}; its end:\n{self.tail()}")
        return found

    def tail(self, lines: int = 40) -> str:
        return "".join(self._lines[-lines:])

    def join(self) -> None:
        """Until the process has said its last."""
        self._thread.join(_STOPS_S)

    def find(self, pattern: str) -> re.Match[str] | None:
        """The first line that matches, if it was said."""
        return next((match for line in self._lines if (match := re.search(pattern, line))), None)

    def _read(self, stream: IO[str]) -> None:
        with self.path.open("w", encoding="utf-8") as file, stream:
            for line in stream:
                file.write(line)
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor as the operating system sees it: a JVM that a worker started."""

    pid: int
    host: str
    number: int

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Told:
    """Something that an application was told to do."""

    log: Log
    pattern: str

    def answer(self) -> Any:
        """What it says when that is done."""
        return json.loads(self.log.wait_for(self.pattern, _ANSWERS_S)[1])

    def ended(self) -> str | None:
        """What it has said, if it has said it."""
        found = self.log.find(self.pattern)
        return None if found is None else found[1]


class Application:
    """spark-submit with a script in it, which does what it is told: tests/support/application.py."""

    def __init__(self, process: subprocess.Popen[str], log: Log, commands: int) -> None:
        self.process = process
        self.log = log
        self._commands = commands
        self._sent = 0

    def tell(self, do: str, **words: object) -> Told:
        """Let it do something."""
        self._sent += 1
        os.write(self._commands, (json.dumps({"do": do, "number": self._sent, **words}) + "\n").encode())
        return Told(self.log, rf"^ANSWER {self._sent} (.*)$")

    def ask(self, do: str, **words: object) -> Any:
        return self.tell(do, **words).answer()

    def wait_for_executor(self, number: int) -> None:
        """Until the driver knows the executor of this number. Each that is started gets the next one."""
        self.log.wait_for(rf"Registered executor .* with ID {number}\b")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running master with its workers."""

    folder: Path
    url: str
    workers: Mapping[str, subprocess.Popen[str]]

    @contextmanager
    def submit(
        self,
        name: str,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        python: Path | None = None,
    ) -> Iterator[Application]:
        """Run an application. It is ended at the end. Its executors have pyarrow alone, or a Python that is
        named."""
        command = [str(spark_home() / "bin" / "spark-submit"), "--master", self.url, *options]
        for key, value in {**SETTINGS, **(settings or {})}.items():
            command += ["--conf", f"{key}={value}"]
        fifo = self.folder / f"{name}.commands"
        os.mkfifo(fifo)
        commands = os.open(fifo, os.O_RDWR)
        # The driver runs the code under test; executors get what is sent to them, and nothing by a path.
        env = {
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": str(python or executor()),
            "PYTHONPATH": str(Path(calve.__file__).parents[1]),
            # The folder of the script is not on its path: modules beside it have names of Python's own.
            "PYTHONSAFEPATH": "1",
            "SPARK_LOCAL_IP": MASTER_HOST,
        }
        try:
            with _process([*command, str(SCRIPT), str(fifo)], self.folder / f"{name}.log", env) as started:
                yield Application(*started, commands)
        finally:
            os.close(commands)

    def executors(self) -> list[Executor]:
        """The executors that live now, in the order of their hosts."""
        return [one for host, worker in self.workers.items() for one in _executors_of(worker.pid, host)]


@contextmanager
def standalone_cluster(folder: Path, hosts: Sequence[str] = WORKER_HOSTS) -> Iterator[Cluster]:
    """A master and a worker of one core on each host, as long as the context lives."""
    with ExitStack() as opened:
        master, log = opened.enter_context(
            _daemon("master.Master", folder / "master.log", MASTER_HOST, "--host", MASTER_HOST)
        )
        url = log.wait_for(r"Starting Spark master at (spark://\S+)")[1]
        log.wait_for("New state: ALIVE")
        workers = {}
        for host in hosts:
            words = ("--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / host), url)
            workers[host] = opened.enter_context(
                _daemon("worker.Worker", folder / f"worker-{host}.log", host, *words)
            )
        for _, said in workers.values():
            said.wait_for("Successfully registered with master")
        assert master.poll() is None
        yield Cluster(folder, url, {host: worker for host, (worker, _) in workers.items()})


def spark_home() -> Path:
    """Where the pip-installed PySpark is."""
    import pyspark

    return Path(pyspark.__file__).parent


@contextmanager
def _daemon(name: str, log: Path, host: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], Log]]:
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--port", "0"]
    env = {
        "SPARK_DAEMON_JAVA_OPTS": _JVM,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": host,  # its web server binds there, not to all addresses
    }
    with _process([*command, "--webui-port", "0", *words], log, env) as started:
        yield started


@contextmanager
def _process(
    command: Sequence[str], log: Path, more: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[str], Log]]:
    log.parent.mkdir(parents=True, exist_ok=True)
    # Neither the coverage of this process nor its paths are theirs.
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTHON", "SPARK"))
    }
    process = subprocess.Popen(
        command,
        cwd=log.parent,
        env={**env, "SPARK_HOME": str(spark_home()), **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    assert process.stdout is not None
    said = Log(process.stdout, log)
    try:
        yield process, said
    finally:
        _end(process)
        said.join()


def _end(process: subprocess.Popen[str]) -> None:
    """A worker that is asked to end takes its executors with it."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_STOPS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _executors_of(worker: int, host: str) -> Iterator[Executor]:
    """The worker's children, as the kernel lists them."""
    for children in Path(f"/proc/{worker}/task").glob("*/children"):
        for pid in map(int, _read(children).split()):
            words = _read(Path(f"/proc/{pid}/cmdline")).split("\0")
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
                yield Executor(pid, host, int(words[words.index("--executor-id") + 1]))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it ended meanwhile
