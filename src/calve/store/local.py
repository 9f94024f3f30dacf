"""Local disk, durable: a closed file and its folder are fsynced before anybody may name it.

A catalog's pointer must never lead to a file that a power loss took back: the file's bytes, its entry
in the folder and the entries of folders made for it are all on the disk when `close` returns.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from calve.model.errors import FileMissing, StoreError


class LocalStore:
    """Files on this machine's disk."""

    def create(self, location: str, *, overwrite: bool = False) -> pa.NativeFile:
        path = local_path(location)
        try:
            make_folder(path)
            flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if overwrite else os.O_EXCL)
            descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o644)
        except OSError as error:
            raise _failed("create", location, error) from error
        return pa.PythonFile(_Durable(descriptor, location, path), mode="w")

    def open(self, location: str) -> pa.NativeFile:
        try:
            return pa.OSFile(str(local_path(location)), "rb")
        except OSError as error:
            raise _failed("read", location, error) from error

    def size(self, location: str) -> int:
        try:
            return local_path(location).stat().st_size
        except OSError as error:
            raise _failed("look at", location, error) from error

    def exists(self, location: str) -> bool:
        return local_path(location).exists()

    def delete(self, location: str) -> None:
        try:
            local_path(location).unlink()
        except OSError as error:
            raise _failed("delete", location, error) from error


class _Durable(io.FileIO):
    """A file that is on the disk when it is closed."""

    def __init__(self, descriptor: int, location: str, path: Path) -> None:
        super().__init__(descriptor, mode="w")
        self._location = location
        self._path = path

    def write(self, data: Any, /) -> int:
        """All of the data, or an error. A raw file may write a part (a disk that fills up), and Arrow does
        not look at how much it was: the rest would be missing in the middle of a file that looks whole."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest:
                rest = rest[super().write(rest) :]
        except OSError as error:
            raise _failed("write", self._location, error) from error
        return size

    def close(self) -> None:
        if self.closed:
            return
        try:
            try:
                os.fsync(self.fileno())
            finally:
                super().close()
            _sync_folder(self._path.parent)
        except OSError as error:
            raise _failed("write", self._location, error) from error


def local_path(location: str) -> Path:
    """The path behind a location; `file:///a/b`, `file:/a/b` and `/a/b` are the same."""
    scheme = urlsplit(location).scheme
    if scheme not in ("", "file"):
        raise StoreError(
            f"{location!r} is not on local disk",
            hint="Local files are given as a folder or as file:///….",
        )
    path = location.removeprefix("file:") if scheme == "file" else location
    return Path("/" + path.lstrip("/")) if scheme == "file" else Path(path)


def make_folder(file: str | Path) -> None:
    """Make the folder of a file and those above it; each new entry is fsynced in its parent."""
    folder = Path(file).absolute().parent
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        _sync_folder(new.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(act: str, location: str, error: OSError) -> StoreError:
    # Arrow's errors carry the number, and a text that names the file once more.
    reason = os.strerror(error.errno) if error.errno else str(error)
    if isinstance(error, FileNotFoundError) and act in ("read", "look at", "delete"):
        return FileMissing(
            f"cannot {act} {location}: {reason}",
            hint="It was deleted or moved by somebody else. Nothing of this batch was committed: put it "
            "back, then start again, and look for what deletes files there.",
        )
    return StoreError(
        f"cannot {act} {location}: {reason}",
        hint="Nothing of this batch was committed. Make room or mend the folder's rights, then start again.",
    )
