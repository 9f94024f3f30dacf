"""Spilled parts on disk: a folder of one process's own, and Arrow streams cut by hash.

    <spill folder>/spool-<pid>-<uuid>.lock     held by the process as long as it lives
    <spill folder>/spool-<pid>-<uuid>/         its parts, readable by their owner only
        0.arrows  1.arrows  …                  whole Arrow streams, one after the other

Guarantee: what a process that died left behind can be told from what a living one uses, and only the
former is swept. The operating system gives a lock back when its holder dies, however it dies; a process
id in a name would not do, because ids are used again.

Appending is a whole new stream at the end of the file, so no file stays open between two spills, and
what was written is never rewritten. It is all or nothing: a part ends where its last whole append ended.
What a full disk left beyond that is not read, and is cut off by the next append, so rows that are spilled
again are not there twice. Nothing here outlives a run: nothing is fsynced.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from calve.model.errors import StoreError

FAN_OUT = 16
"""Parts of one split. A power of two: the part is taken from the low bits of the hash."""

_SPLIT_ROWS = 256 * 1024
"""Rows hashed and cut at a time: about 16,000 a part, enough for Arrow, little for memory."""

_WRITE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)
"""Without threads: handing a small table's columns to them costs more than compressing them."""

Hash = Callable[[pa.Table], pa.Array]


@dataclass(frozen=True, slots=True)
class Scratch:
    """What a worker may take for rows that wait: a folder on disk, and so much memory."""

    folder: Path
    memory_bytes_max: int


class SpillFolder:
    """A folder of this process's own, until it is removed or the process dies."""

    def __init__(self, parent: Path) -> None:
        with _disk("make a spill folder in", parent):
            parent.mkdir(parents=True, exist_ok=True)
            self._lock, self._lock_path = _locked(parent)
            self.path = self._lock_path.with_suffix("")
            self.path.mkdir(mode=0o700)
        self._count = 0

    def part(self) -> Part:
        """A new part, with nothing in it."""
        self._count += 1
        return Part(self.path / f"{self._count}.arrows")

    def remove(self) -> None:
        with _disk("remove", self.path):
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock_path.unlink(missing_ok=True)
            os.close(self._lock)


@dataclass(slots=True)
class Part:
    """The rows of one part, in the order in which they were written."""

    path: Path
    rows: int = 0
    arrow_bytes: int = 0
    file_bytes: int = 0
    chunk_bytes_max: int = 0
    """The Arrow bytes of the largest table that was written: as large is what is read at a time."""

    def tables(self) -> Generator[pa.Table, None, None]:
        """The rows, a record batch at a time."""
        if not self.rows:
            return
        with _disk("read", self.path), pa.OSFile(str(self.path), "rb") as file:
            while file.tell() < self.file_bytes:
                for record_batch in pa.ipc.open_stream(file, options=_READ):
                    yield pa.Table.from_batches([record_batch])

    def schema(self) -> pa.Schema:
        """The columns of what was written."""
        with _disk("read", self.path), pa.OSFile(str(self.path), "rb") as file:
            return pa.ipc.open_stream(file).schema

    def count(self, rows: pa.Table) -> None:
        """Take note of rows that were written."""
        arrow_bytes = rows.nbytes
        self.rows += rows.num_rows
        self.arrow_bytes += arrow_bytes
        self.chunk_bytes_max = max(self.chunk_bytes_max, arrow_bytes)

    def remove(self) -> None:
        with _disk("remove", self.path):
            self.path.unlink(missing_ok=True)


def append(tables: Iterable[pa.Table], schema: pa.Schema, parts: list[Part], hashed: Hash | None) -> None:
    """Write rows to the end of parts: each row to the part of its hash, or all to the one that there is.
    If it fails, the parts have what they had."""
    longer = [replace(part) for part in parts]
    with _disk("write", parts[0].path.parent):
        with ExitStack() as stack:
            files = [stack.enter_context(_opened_at_end(part)) for part in parts]
            streams = [stack.enter_context(pa.ipc.new_stream(file, schema, options=_WRITE)) for file in files]
            for table in tables:
                for start in range(0, table.num_rows, _SPLIT_ROWS):
                    for place, rows in enumerate(_cut(table.slice(start, _SPLIT_ROWS), hashed)):
                        streams[place].write_table(rows)
                        longer[place].count(rows)
        for part in longer:
            part.file_bytes = part.path.stat().st_size
    # Only now, when the last buffer of the last file is written: closing a file can fail as well.
    parts[:] = longer


def _opened_at_end(part: Part) -> IO[bytes]:
    """A part's file, cut back to its last whole append."""
    file = part.path.open("ab")
    try:
        if file.tell() != part.file_bytes:
            file.truncate(part.file_bytes)
            file.seek(part.file_bytes)
    except BaseException:
        file.close()
        raise
    return file


def gathered(tables: Iterable[pa.Table], bytes_max: int) -> Iterator[pa.Table]:
    """The same rows in fewer, larger tables, each of about `bytes_max`."""
    waiting: list[pa.Table] = []
    waiting_bytes = 0
    for table in tables:
        waiting.append(table)
        waiting_bytes += table.nbytes
        if waiting_bytes >= bytes_max:
            yield pa.concat_tables(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def sweep(folder: Path) -> int:
    """Remove what dead processes left in a spill folder; how many spools that were."""
    swept = 0
    for lock_path in sorted(folder.glob("spool-*.lock")):
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # its owner, or another sweep, was faster; or it is another user's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # its process lives
        else:
            shutil.rmtree(lock_path.with_suffix(""), ignore_errors=True)
            lock_path.unlink(missing_ok=True)
            swept += 1
        finally:
            os.close(lock)
    return swept


def _cut(table: pa.Table, hashed: Hash | None) -> list[pa.Table]:
    if hashed is None:
        return [table]
    places = pc.bit_wise_and(hashed(table), pa.scalar(FAN_OUT - 1, pa.uint32()))
    return [table.filter(pc.equal(places, pa.scalar(place, pa.uint32()))) for place in range(FAN_OUT)]


def _locked(parent: Path) -> tuple[int, Path]:
    """A new lock file that this process holds."""
    while True:
        path = parent / f"spool-{os.getpid()}-{uuid.uuid4().hex}.lock"
        lock = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:
                return lock, path
        except BlockingIOError:
            pass
        # A sweep came between the making of the file and its lock, and took it for a dead one's.
        os.close(lock)


@contextmanager
def _disk(act: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot {act} {path}: {error.strerror or error}",
            hint="Nothing was committed. Make room for the spill, or name another spill folder.",
        ) from error
