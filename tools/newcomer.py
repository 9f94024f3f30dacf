"""A newcomer: someone with an empty home, a terminal and an interpreter, who does what a page says (walk.py).

    block ──shell──────▶ bash, with the environment and the folder that the block before left
          └─interpret──▶ one Python, which remembers, as a notebook does

Guarantee: nothing of this machine's home and settings is seen, and nothing that a block has started outlives
the walk. A terminal has 80 columns and no colour. What goes to stderr is not shown, as long as all is well:
there is progress, which a terminal wipes away, and what Spark says of itself.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import IO, Self

COLUMNS = 80
_KEPT = (
    "COVERAGE",
    "JAVA_HOME",
    "PIP_",
    "REQUESTS_CA",
    "SSL_CERT",
    "UV_",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
"""What a fresh environment has of this one: how to measure, where Java is, how to reach packages."""
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for seconds is quicker so. A reader need not know."""
_INTERPRETER = """
import os, sys, traceback
namespace = {"__name__": "__main__"}
answers = os.fdopen(int(sys.argv[1]), "w", buffering=1)
for name in sys.stdin:
    with open(name.strip(), encoding="utf-8") as file:
        code = file.read()
    try:
        exec(compile(code, name.strip(), "exec"), namespace)
        well = True
    except BaseException:
        traceback.print_exc()
        well = False
    sys.stdout.flush()
    print("well" if well else "failed", file=answers)
"""


class Failed(Exception):
    """A block that did not do what it should."""

    def __init__(self, why: str, seen: str) -> None:
        super().__init__(why)
        self.why, self.seen = why, seen


@dataclass(slots=True)
class Newcomer:
    home: Path
    environment: dict[str, str]
    folder: Path
    """Where the shell is."""
    is_equipped: bool
    """Whether calve is installed already."""
    _scratch: Path
    seconds_max: float = 300
    """How long a block may take."""
    _count: int = 0
    _groups: list[int] = field(default_factory=list)
    _terminals: list[int] = field(default_factory=list)
    _python: _Interpreter | None = None

    @classmethod
    def at(cls, home: Path, programs: Path | None, *, folder: Path | None = None) -> Self:
        """At home, or in a folder; with the programs of an environment in front of the machine's own, or with
        none, to install them."""
        scratch = home / ".walk"
        scratch.mkdir()
        path = [*([] if programs is None else [str(programs)]), "/usr/local/bin", "/usr/bin", "/bin"]
        environment = {
            **{name: value for name, value in os.environ.items() if name.startswith(_KEPT)},
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "PATH": ":".join(path),
            "SPARK_SUBMIT_OPTS": _QUICK,
            "TERM": "xterm",
            "TMPDIR": str(scratch),
            "TZ": "UTC",
        }
        _bring_extensions(home)
        return cls(home, environment, folder or home, programs is not None, scratch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._python is not None:
            self._python.close()
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        for terminal in self._terminals:
            os.close(terminal)

    def write(self, name: str, text: str) -> None:
        """Save a file, as a page says."""
        (self.folder / name).write_text(text, "utf-8")

    def shell(self, text: str, exit_code: int = 0) -> str:
        """Type a block; what the terminal shows."""
        script, errors, left = (self._file(kind) for kind in ("sh", "err", "left"))
        script.write_text(f"trap 'env -0 > {left}; pwd > {left}.pwd' EXIT\n{text}", "utf-8")
        ours, theirs = pty.openpty()
        self._terminals.append(ours)  # open until the end: what a block leaves running may still write
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        with errors.open("wb") as file:
            bash = subprocess.Popen(
                ["bash", "-euo", "pipefail", str(script)],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=file,
                start_new_session=True,
            )
        os.close(theirs)
        self._groups.append(bash.pid)
        said = _read(ours, bash, self.seconds_max)
        told = errors.read_text("utf-8", errors="replace")
        if bash.poll() is None:
            raise Failed(f"not done after {self.seconds_max} s", said + told)
        if bash.returncode != exit_code:
            raise Failed(f"ended with exit code {bash.returncode}, not {exit_code}", said + told)
        pairs = left.read_text("utf-8").rstrip("\0").split("\0")
        self.environment = dict(pair.split("=", 1) for pair in pairs)
        self.folder = Path(Path(f"{left}.pwd").read_text("utf-8").rstrip("\n"))
        return said + told if exit_code else said

    def interpret(self, text: str) -> str:
        """Run a block in the interpreter; what it prints."""
        if self._python is None:
            self._python = _Interpreter.start(self.environment, self.folder, self._scratch)
            self._groups.append(self._python.process.pid)
        script = self._file("py")
        script.write_text(text, "utf-8")
        return self._python.run(script)

    def _file(self, kind: str) -> Path:
        self._count += 1
        return self._scratch / f"block-{self._count}.{kind}"


def _read(terminal: int, process: subprocess.Popen[bytes], seconds_max: float) -> str:
    """What a terminal shows until a process has ended; what that left running may hold it for longer."""
    pieces = []
    until = time.monotonic() + seconds_max
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            try:
                pieces.append(os.read(terminal, 1 << 16))
            except OSError:  # nobody has it open any more
                process.wait()
                break
        elif process.poll() is not None:
            break
    return b"".join(pieces).decode("utf-8", errors="replace").replace("\r\n", "\n")


@dataclass(slots=True)
class _Interpreter:
    """A Python that does what it is told."""

    process: subprocess.Popen[str]
    answers: IO[str]
    out: Path
    errors: Path
    _seen: int = 0

    @classmethod
    def start(cls, environment: dict[str, str], folder: Path, scratch: Path) -> Self:
        receive, send = os.pipe()
        out, errors = scratch / "python.out", scratch / "python.err"
        with out.open("wb") as said, errors.open("wb") as told:
            process = subprocess.Popen(
                ["python", "-u", "-c", _INTERPRETER, str(send)],
                executable=shutil.which("python", path=environment["PATH"]),
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=told,
                text=True,
                pass_fds=[send],
                start_new_session=True,
            )
        os.close(send)
        return cls(process, os.fdopen(receive, encoding="utf-8"), out, errors)

    def run(self, script: Path) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{script}\n")
        self.process.stdin.flush()
        well = self.answers.readline() == "well\n"
        said = self.out.read_text("utf-8", errors="replace")
        new, self._seen = said[self._seen :], len(said)
        if not well:
            raise Failed("the example failed", new + self.errors.read_text("utf-8", errors="replace"))
        return new

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.answers.close()


def _bring_extensions(home: Path) -> None:
    """What DuckDB's INSTALL would fetch from its server comes from packages: nothing is fetched here."""
    import duckdb

    ((platform,),) = duckdb.sql("SELECT platform FROM pragma_platform()").fetchall()
    for name in ("avro", "iceberg"):
        package = Path(str(files(f"duckdb_extension_{name}"))) / "extensions"
        for file in package.glob(f"*/{name}.duckdb_extension"):
            place = home / ".duckdb" / "extensions" / file.parent.name / platform
            place.mkdir(parents=True, exist_ok=True)
            (place / file.name).symlink_to(file)
