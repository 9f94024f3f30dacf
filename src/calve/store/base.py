"""The door of a store. Small on purpose: a sink creates and reads files; it never lists (P7)."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Store(Protocol):
    """Files by URI."""

    def create(self, location: str, *, overwrite: bool = False) -> pa.NativeFile:
        """A stream into a new file. Once `close` returned, the file survives a power loss; until then,
        it may be there in part. A file that exists is refused unless `overwrite` is set."""
        ...

    def open(self, location: str) -> pa.NativeFile:
        """A seekable stream out of a file."""
        ...

    def size(self, location: str) -> int:
        """The file's bytes."""
        ...

    def exists(self, location: str) -> bool: ...

    def delete(self, location: str) -> None:
        """Remove a file. One that is not there is an error."""
        ...
