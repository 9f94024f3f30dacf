"""A small disk: a file system of a few megabytes that a server of the tests writes to, and that can be full.

    holder (unshare: its own users and mounts) ── tmpfs of some MB on a folder ──▶ seen by whoever is `inside`
                                                        ▲
    tests ── /proc/<holder>/root/… ─────────────────────┘  fill, free

Nobody else sees the mount, no right of root is needed, and it is gone with its holder. A server that is
killed and started again inside finds its files.
"""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path
from typing import Self

_MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && echo ready && exec sleep infinity'
_CHUNK = 64 * 1024


class SmallDisk:
    """A file system of its own on a folder that is there."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._folder = folder
        self._megabytes = megabytes
        self._holder: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNT, "sh"]
        self._holder = subprocess.Popen(
            [*command, f"{self._megabytes}m", str(self._folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline().strip()
        assert said == "ready", f"this machine gives no file system to a user: {said}"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._holder is not None
        self._holder.kill()
        self._holder.communicate()

    def inside(self, command: list[str]) -> list[str]:
        """A command that sees the disk."""
        assert self._holder is not None
        enter = ["nsenter", f"--target={self._holder.pid}", "--user", "--mount", "--preserve-credentials"]
        return [*enter, "--", *command]

    @property
    def path(self) -> Path:
        """The disk, as this process reaches it."""
        assert self._holder is not None
        return Path(f"/proc/{self._holder.pid}/root{self._folder}")

    def fill(self) -> int:
        """Take all that is left; how many bytes that were."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * _CHUNK)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            return file.tell()

    def free(self) -> None:
        self._filler.unlink()

    @property
    def _filler(self) -> Path:
        return self.path / "filler"
