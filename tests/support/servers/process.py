"""A server of the tests as a process: started, killed, and started again on the same ports and data.

    Server.start ──Popen──▶ process ◀──probe until it answers── wait
           kill  ──SIGKILL──▶            the folder stays: start() goes on from it
           stop  ──SIGTERM, then SIGKILL──▶

A server listens on 127.0.0.1 alone. Its ports are chosen once, below the range from which the kernel gives
ports to clients: a client that knocks while the server is down can neither take its port nor meet itself.
A server is ended by the id of its process, and nothing else is.
"""

from __future__ import annotations

import http.client
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

ROOT = Path(__file__).resolve().parents[3]
_PORTS = range(12_000, 32_000)
_LOG_LINES = 40


class ServerError(Exception):
    """A server did not start; the message ends with what it said last."""


class Server:
    """A server in a folder of its own. Sub-classes say what is run and when it answers."""

    name: ClassVar[str]
    starts_s: ClassVar[float] = 60
    stops_s: ClassVar[float] = 10
    host: ClassVar[str] = "127.0.0.1"

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"calve-{self.name}-"))
        self.process: subprocess.Popen[bytes] | None = None

    # -- what a server is

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """What its process gets beside PATH and HOME: nothing of the machine's own logins."""
        return {}

    def answers(self) -> bool:
        """Whether it does its work; called again and again while it starts."""
        raise NotImplementedError

    # -- its life

    def start(self) -> Self:
        """Start it, also after `kill` or `stop`, and return when it answers."""
        assert self.process is None, f"{self.name} runs already"
        environment = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG") if name in os.environ}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env={**environment, "HOME": str(self.folder), **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """SIGKILL: what it had not written is lost."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self._forget()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._forget()

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def requests(self) -> list[str]:
        """The requests that it has logged, `GET /path?query` each; empty for a server that logs none."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        found = re.findall(r"((?:GET|HEAD|PUT|POST|DELETE) /\S*) HTTP/1", text)
        return [urllib.parse.unquote(request) for request in found]

    def last_words(self) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-_LOG_LINES:])

    def _wait(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + self.starts_s
        while not self.answers():
            if self.process.poll() is not None:
                raise ServerError(f"{self.name} ended with {self.process.returncode}:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise ServerError(
                    f"{self.name} does not answer after {self.starts_s} s:\n{self.last_words()}"
                )
            time.sleep(0.02)

    def _end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(self.stops_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on."""
    chosen: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if len(chosen) == count:
            return chosen
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        chosen.append(port)
    raise ServerError("no port is free")


@dataclass(frozen=True)
class Answer:
    """What a URL answered; status 0 while nobody does."""

    status: int
    body: bytes = b""


def ask(
    url: str, headers: dict[str, str] | None = None, data: bytes | None = None, method: str | None = None
) -> Answer:
    """One request: a POST where there is data, if no other method is named."""
    request = urllib.request.Request(url, data=data, headers=headers or {}, method=method)
    try:
        with _OPENER.open(request, timeout=5) as answer:
            return Answer(answer.status, answer.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code)
    except (OSError, http.client.HTTPException):
        return Answer(0)


# A proxy that the machine's environment names is none of our servers' business, and their certificates are of
# CAs of the tests' own.
_TLS = ssl.create_default_context()
_TLS.check_hostname, _TLS.verify_mode = False, ssl.CERT_NONE
_OPENER = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_TLS)
)
