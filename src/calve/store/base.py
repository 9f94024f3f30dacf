"""The door of a store. Small on purpose: a sink creates and reads files; it never lists (P7)."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Store(Protocol):
    """Files by URI."""

    def create(self, location: str, *, overwrite: bool = False) -> pa.NativeFile:
        """A stream into a new file. Once `close` returned, the file survives a power loss; until then,
        it may be there in part. On a disk, a file that exists is refused unless `overwrite` is set; an object
        store is not asked: the names of our files are unique, and asking would cost a request each."""
        ...

    def open(self, location: str) -> pa.NativeFile:
        """A seekable stream out of a file."""
        ...

    def size(self, location: str) -> int:
        """The file's bytes."""
        ...

    def exists(self, location: str) -> bool: ...

    def delete(self, location: str) -> None:
        """Remove a file. One that is not there is an error, where the store can tell."""
        ...


class Upload(pa.PythonFile):  # type: ignore[misc]
    """A stream that can be let go of: what was written does not become a file."""

    def abandon(self) -> None:
        """Give the upload up."""
        raise NotImplementedError


def abandon(stream: pa.NativeFile) -> None:
    """Let go of a stream that is not to be finished. On a disk a part of the file stays behind, as an orphan;
    an upload is never completed."""
    if isinstance(stream, Upload):
        stream.abandon()
    else:
        stream.close()
