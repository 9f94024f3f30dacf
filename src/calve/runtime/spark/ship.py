"""Ship: how the code of tasks reaches executors.

    calve/{decode, model, reader, source/…, store, writer} ─▶ calve-<version>-<digest>.zip ─▶ tasks

An executor needs Python and pyarrow, and obstore where the table is in an object store; nothing else of ours
or of others: the rooms that run there import nothing but each other, these and the standard library. (A login
that boto3 resolves, a profile or a role, needs boto3 there too.) They are sent with the query, so that the
code that writes files is that of the driver, to the letter, whatever is installed on a worker.

The archive is the same for the same code, whoever makes it and when: its name carries its digest, so that two
releases in one session are two files and the same one is never sent twice.

Nothing is sent where executors are threads of the driver (`local[…]`): they have what the driver has.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from pathlib import Path
from typing import Any

from pyspark import SparkFiles

import calve
from calve.model.errors import StoreError

ROOMS = ("decode", "model", "reader", "source/cockroachdb", "source/postgres", "store", "writer")
"""The rooms that run in executors. They import pyarrow, obstore where they need it, and one another; a data
source also Spark's interface for them, which every executor has."""

_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the first date that a zip can hold

_shipped: set[str] = set()
_lock = threading.Lock()


def ship(spark: Any) -> None:
    """Let the executors of a session import what tasks need. Before the first frame that has such tasks:
    a frame names the code that goes with it when it is made."""
    context = spark.sparkContext
    if is_local(context.master):
        return
    with _lock:
        if context.applicationId in _shipped:
            return
        made = archive()
        context.addPyFile(str(made))
        # Spark puts the archive on the driver's own path too. There it is in the way: a process that the
        # driver starts would find these rooms, and miss all others.
        beside = str(Path(SparkFiles.getRootDirectory()) / made.name)
        sys.path[:] = [entry for entry in sys.path if entry != beside]
        _shipped.add(context.applicationId)


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver. `local-cluster[…]` starts processes of their own."""
    return master == "local" or master.startswith("local[")


@cache
def archive() -> Path:
    """The archive, as a file that stays until this process ends: executors fetch it from here."""
    content = pack()
    name = f"calve-{calve.__version__}-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    try:
        path = Path(_folder().name) / name
        path.write_bytes(content)
    except OSError as error:
        raise StoreError(
            f"the code for the executors cannot be written to {error.filename}: {error.strerror}",
            hint="Set TMPDIR to a folder of the driver that takes a small file.",
        ) from error
    return path


def pack() -> bytes:
    """The code of the rooms as a zip: the same bytes for the same code."""
    buffer = BytesIO()
    # Not compressed: compressors differ from machine to machine, and every worker would have to undo it.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as packed:
        for name, source in sorted(dict(_modules()).items()):  # two rooms may have one above them
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3  # Unix, wherever it is made
            packed.writestr(entry, source)
    return buffer.getvalue()


def _modules() -> Iterator[tuple[str, bytes]]:
    root = files(calve)
    yield "calve/__init__.py", (root / "__init__.py").read_bytes()
    for room in ROOMS:
        above, _, _ = room.rpartition("/")
        if above:
            yield f"calve/{above}/__init__.py", (root / above / "__init__.py").read_bytes()
        yield from _below(root.joinpath(*room.split("/")), f"calve/{room}")


def _below(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", entry.read_bytes()


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="calve-ship-")
