"""Named steps of a sink's life: the seams where a process that runs it may be killed or stopped.

    LocalStore, its files, os.fsync ──┐
    SqlCatalog, its SQL transaction ──┼──▶ Steps: "data file: half written", "SQL: about to commit", …
    spill, claim, commit ─────────────┘

The product has no hook for this. A child process wraps the seams around itself, after it was forked:
each call is a step before its effect and one after it, and a write is one in its middle too. The same
work takes the same steps, so a step that a first run recorded can be reached again by its number.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from inspect import getattr_static
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.engine.default import DefaultDialect

import calve.runtime.sink
import calve.store.local
import calve.writer.spill
import calve.writer.spool
from calve.runtime.coordinator import Coordinator
from calve.store.local import LocalStore, local_path

_PIECE_BYTES_MIN = 64
"""Arrow writes a Parquet file in many pieces of a few bytes; those are no steps of their own."""


class Steps:
    """Counts steps, and acts when a certain one is reached."""

    def __init__(
        self, at: int | str | None = None, act: Callable[[str], None] | None = None, look: Path | None = None
    ) -> None:
        """`at`: a step's number, or its name behind that of the last step of an epoch, as
        `epoch 2: rows taken in > SQL: commit: done`. `look`: a folder whose state is noted at each step."""
        self.names: list[str] = []
        self.states: list[int] = []
        """Equal for two steps if nothing on the disk changed between them."""
        self._look = look
        self._epoch = ""
        self._at = at
        self._act = act

    def __call__(self, name: str) -> None:
        self.names.append(name)
        if self._look is not None:
            self.states.append(disk_state(self._look))
        if name.startswith("epoch"):
            self._epoch = name
        if self._act is not None and self._at in (len(self.names) - 1, f"{self._epoch} > {name}"):
            self._act(name)

    def around(self, owner: Any, attribute: str, name: Callable[..., str] | str) -> None:
        """Make each call of a function two steps."""
        original = getattr(owner, attribute)

        @wraps(original)
        def stepped(*arguments: Any, **named: Any) -> Any:
            what = name if isinstance(name, str) else name(*arguments, **named)
            self(f"{what}: about to")
            result = original(*arguments, **named)
            self(f"{what}: done")
            return result

        is_static = isinstance(getattr_static(owner, attribute), staticmethod)
        setattr(owner, attribute, staticmethod(stepped) if is_static else stepped)


def install(steps: Steps) -> None:
    """Wrap all seams of this process."""
    _wrap_files(steps)
    steps.around(LocalStore, "open", lambda _, location: f"{kind_of(location)}: read")
    steps.around(os, "fsync", lambda descriptor: f"{_kind_of_descriptor(descriptor)}: fsync")
    for act in ("create_namespace", "create_table", "load_table", "commit_table"):
        steps.around(SqlCatalog, act, f"catalog: {act.replace('_', ' ')}")
    steps.around(SqlCatalog, "_write_metadata", "catalog: write metadata.json")
    steps.around(DefaultDialect, "do_commit", "SQL: commit")
    steps.around(Coordinator, "claim", "sink: claim")
    steps.around(Coordinator, "commit", "sink: commit")
    steps.around(calve.runtime.sink, "sweep", "spill: sweep")
    steps.around(calve.writer.spool, "append", "spill: append")
    steps.around(calve.writer.spill, "_locked", "spill: lock")
    steps.around(calve.writer.spill.SpillFolder, "remove", "spill: remove")


def disk_state(folder: Path) -> int:
    """What another process would find in a folder, as a number."""
    found = []
    for parent, _, names in os.walk(folder):
        for name in ("", *names):
            status = os.stat(os.path.join(parent, name))
            found.append((parent, name, status.st_size if name else 0, status.st_mtime_ns if name else 0))
    return hash(tuple(sorted(found)))


def kind_of(location: str | Path) -> str:
    """What a file is, by its name."""
    name = Path(str(location)).name
    if name.endswith(".parquet"):
        return "data file" if name.startswith("data-") else "delete file"
    if name.endswith(".metadata.json"):
        return "metadata.json"
    if name.endswith(".avro"):
        return "manifest list" if name.startswith("snap-") else "manifest"
    return "other file"


def _wrap_files(steps: Steps) -> None:
    steps.around(LocalStore, "create", lambda _, location, **__: f"{kind_of(location)}: create")
    durable = calve.store.local._Durable
    write, close = durable.write, durable.close

    def write_in_halves(self: Any, data: Any, /) -> int:
        kind, view = kind_of(self._path), memoryview(data).cast("B")
        if len(view) < _PIECE_BYTES_MIN:
            return write(self, view)
        steps(f"{kind}: about to be written")
        middle = len(view) // 2
        written = write(self, view[:middle])
        steps(f"{kind}: half written")
        return written + write(self, view[middle:])

    def close_with_steps(self: Any) -> None:
        if self.closed:
            close(self)
            return
        steps(f"{kind_of(self._path)}: about to be closed")
        close(self)
        steps(f"{kind_of(self._path)}: closed")

    durable.write = write_in_halves  # type: ignore[method-assign]
    durable.close = close_with_steps  # type: ignore[method-assign]


def _kind_of_descriptor(descriptor: int) -> str:
    path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    return "folder" if path.is_dir() else kind_of(path)


class DiskEvents:
    """What reached the disk, in order, for the question of a power loss: what would have been there?

    A file is durable once it was fsynced after its last write and its folder after it was made; a folder,
    once its own parent was fsynced after it was made.
    """

    def __init__(self) -> None:
        self.dirty: set[str] = set()
        self.unlinked: set[str] = set()
        """Files and folders whose entry in their folder is not on the disk yet."""
        self.seen: set[str] = set()
        self.commits: list[dict[str, list[str]]] = []
        """What was not durable at each commit of the SQL catalog."""

    def watch(self, *, lose_fsync: bool = False) -> None:
        """Wrap what touches the disk. `lose_fsync` is a disk that says yes and does nothing."""
        events = self
        create, fsync, commit = LocalStore.create, os.fsync, DefaultDialect.do_commit
        mkdir, write = Path.mkdir, calve.store.local._Durable.write

        def created(store: LocalStore, location: str, *, overwrite: bool = False) -> Any:
            stream = create(store, location, overwrite=overwrite)
            events.seen.add(str(local_path(location)))
            events.unlinked.add(str(local_path(location)))
            events.dirty.add(str(local_path(location)))
            return stream

        def written(file: Any, data: Any, /) -> int:
            events.dirty.add(str(file._path))
            return write(file, data)

        def made(folder: Path, *arguments: Any, **named: Any) -> None:
            mkdir(folder, *arguments, **named)
            events.unlinked.add(str(folder))

        def synced(descriptor: int) -> None:
            if lose_fsync:
                return
            fsync(descriptor)
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            events.dirty.discard(path)
            events.unlinked -= {entry for entry in events.unlinked if os.path.dirname(entry) == path}

        def committed(dialect: Any, connection: Any) -> None:
            events.commits.append({"dirty": sorted(events.dirty), "unlinked": sorted(events.unlinked)})
            commit(dialect, connection)

        LocalStore.create = created  # type: ignore[method-assign, assignment]
        calve.store.local._Durable.write = written  # type: ignore[method-assign]
        Path.mkdir = made  # type: ignore[method-assign, assignment]
        os.fsync = synced  # type: ignore[assignment]
        DefaultDialect.do_commit = committed  # type: ignore[method-assign]
