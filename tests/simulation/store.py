"""SimStore: files in memory, by location, with counters and faults; and PyIceberg's FileIO over it.

Data and delete files have no bytes here: their rows are kept by path. Whoever opens one to commit it, or
lists a folder, breaks P7: there is no way to list, and opening a data file is counted.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from calve.model.errors import StoreError
from tests.simulation.faults import Fault, ReadFault, WriteFault, answer
from tests.simulation.source import Row

LOCATION = "sim://table"
DATA = f"{LOCATION}/data/"

Content = bytes | Callable[[], bytes]
Draw = Callable[[str, type[Any]], Fault | None]


class SimStore:
    """Files by location."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._files: dict[str, Content] = {}
        self.rows: dict[str, tuple[Row, ...]] = {}
        """What a data file holds; of a delete file, rows whose key columns are deleted."""
        self.counts: Counter[str] = Counter()
        self.dropped: set[str] = set()
        """What was removed from the store, by whomever."""

    # -- what a sink does -----------------------------------------------------------------------

    def create(self, location: str, *, overwrite: bool = False) -> _Out:
        if location in self._files and not overwrite:
            raise StoreError(f"{location} exists", hint="Names are unique.")
        return _Out(self, location)

    def open(self, location: str) -> io.BytesIO:
        self._count("read", location)
        fault = self._draw(f"read {_short(location)}", ReadFault)
        if fault is not None:
            raise answer(fault)
        return io.BytesIO(self.read(location))

    def size(self, location: str) -> int:
        return len(self.read(location))

    def exists(self, location: str) -> bool:
        return location in self._files

    def delete(self, location: str) -> None:
        self._count("delete", location)
        self.drop(location)

    # -- what the world does --------------------------------------------------------------------

    def finish(self, location: str, content: bytes) -> None:
        """A file is closed: where a fault has it, it is there and the writer never hears of it."""
        fault = self._draw(f"write {_short(location)}", WriteFault)
        if fault is WriteFault.FULL or fault is WriteFault.CRASH_BEFORE:
            raise answer(fault)
        self._count("write", location)
        self._files[location] = content
        if fault is not None:
            raise answer(fault)

    def put(self, location: str, content: Content) -> None:
        """A file that is simply there: a catalog's metadata is made into bytes only if it is read."""
        self._files[location] = content

    def put_rows(self, location: str, rows: tuple[Row, ...]) -> None:
        self._files[location] = b"PAR1"
        self.rows[location] = rows

    def read(self, location: str) -> bytes:
        content = self._files.get(location)
        if content is None:
            raise StoreError(f"{location} is not there", hint="Somebody removed it.")
        return content if isinstance(content, bytes) else content()

    def drop(self, location: str) -> None:
        if location not in self._files:
            raise StoreError(f"{location} is not there", hint="Somebody removed it.")
        del self._files[location]
        self.dropped.add(location)

    def _count(self, act: str, location: str) -> None:
        kind = "data" if location.startswith(DATA) else "metadata"
        self.counts[f"{act} {kind}"] += 1


class SimFileIO(FileIO):
    """A SimStore as PyIceberg wants it."""

    def __init__(self, store: SimStore) -> None:
        super().__init__({})
        self._store = store

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._store)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self._store)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._store.delete(location if isinstance(location, str) else location.location)


class _Input(InputFile):
    def __init__(self, location: str, store: SimStore) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return self._store.size(self.location)

    def exists(self) -> bool:
        return self._store.exists(self.location)

    def open(self, seekable: bool = True) -> InputStream:
        return cast(InputStream, self._store.open(self.location))


class _Output(OutputFile):
    def __init__(self, location: str, store: SimStore) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return self._store.size(self.location)

    def exists(self) -> bool:
        return self._store.exists(self.location)

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._store)

    def create(self, overwrite: bool = False) -> OutputStream:
        return cast(OutputStream, self._store.create(self.location, overwrite=overwrite))


class _Out(io.BytesIO):
    """A file is in the store when it is closed, unless its writer died in it."""

    def __init__(self, store: SimStore, location: str) -> None:
        super().__init__()
        self._store = store
        self._location = location

    def __exit__(self, kind: Any, *_: Any) -> None:
        content = self.getvalue()
        super().close()
        if kind is None:
            self._store.finish(self._location, content)


def _short(location: str) -> str:
    return location.rpartition("/")[2][:24]
