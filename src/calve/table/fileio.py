"""PyIceberg's files over our stores: metadata takes the same durable way to the disk as data (case 36), and
to an object store the same clients, with the same credentials.

PyIceberg makes one for each table that it loads, from the catalog's properties and from what the server says
of that table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Any, cast

import pyarrow as pa
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties

from calve.store import NO_ACCESS, Access, Store, store_for
from calve.store.access import Refresh

IO_IMPL = f"{__name__}.StoreFileIO"
"""The value of PyIceberg's `py-io-impl`."""

NOTE = "while reading "
"""How the note begins that says which file was read when something was raised."""


class StoreFileIO(FileIO):
    """Files by location, in whichever store holds them."""

    def __init__(
        self,
        properties: Properties = EMPTY_DICT,
        refresh: Refresh | None = None,
        scoped: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        place: str = "",
    ) -> None:
        """`scoped` are settings for some prefixes alone, `place` is the table's own folder."""
        super().__init__(properties)
        by_prefix = tuple((prefix, tuple(sorted(given.items()))) for prefix, given in sorted(scoped.items()))
        self.access = replace(Access.of(properties, refresh), scoped=by_prefix, place=place)

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._store(location))

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self._store(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        path = location if isinstance(location, str) else location.location
        self._store(path).delete(path)

    def _store(self, location: str) -> Store:
        return store_for(location, self.access)


def access_of(io: FileIO) -> Access:
    """How the files of a table are reached."""
    return io.access if isinstance(io, StoreFileIO) else NO_ACCESS


class _Input(InputFile):
    def __init__(self, location: str, store: Store) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return self._store.size(self.location)

    def exists(self) -> bool:
        return self._store.exists(self.location)

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 (all of ours are)
        return cast(InputStream, _Placed(self._store.open(self.location), self.location))


class _Placed:
    """A stream that notes its place on whatever is raised while it is read: a parser knows only bytes."""

    def __init__(self, stream: pa.NativeFile, location: str) -> None:
        self._stream = stream
        self._location = location

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _Placed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        if error is not None:
            error.add_note(f"{NOTE}{self._location}")


class _Output(OutputFile):
    def __init__(self, location: str, store: Store) -> None:
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
