"""Object stores, through obstore: one class over S3, GCS and ADLS, told apart by how each is opened.

    create ─▶ parts of a fixed size, a few at a time ─▶ close: the object is there, or not at all
    open   ─▶ small objects in one request, large ones by ranges

Guarantee: an object appears whole, when `close` returns, or never; an upload that was not completed is no
object (case 34). A part that fails is sent again, under the credentials of that moment, so that credentials
may change in the middle of an upload (cases 32, 37). What an open file holds in memory is the part size times
the parts under way. A store that forbids deletes is not asked for any.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from calve.model.errors import AccessDenied, CalveError, FileMissing, StoreError
from calve.store.access import Access
from calve.store.base import Upload

PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 4
_SMALL_BYTES = 4 * 1024 * 1024
"""Objects up to this size are read by one request."""


class Opener(Protocol):
    """One kind of store: how a location is read, and how its bucket is opened."""

    def split(self, location: str) -> tuple[str, str]:
        """The bucket, as `open_bucket` takes it, and the key in it."""
        ...

    def open_bucket(self, bucket: str, access: Access) -> Any:
        """obstore's client for a bucket."""
        ...

    @property
    def hint(self) -> str:
        """What to look at when the store cannot be reached."""
        ...


@dataclass(frozen=True)
class ObjectStore:
    """The objects of one bucket."""

    opener: Opener
    client: Any
    access: Access

    def create(self, location: str, *, overwrite: bool = False) -> pa.NativeFile:  # noqa: ARG002 (see base)
        self._key(location)
        return _ObjectUpload(_Parts(self, location), mode="w")

    def open(self, location: str) -> pa.NativeFile:
        key = self._key(location)
        with self._errors("read", location):
            answer = obstore.get(self.client, key)  # its body is not read yet
            if answer.meta["size"] <= _SMALL_BYTES:
                return pa.BufferReader(answer.bytes().to_bytes())
            return pa.PythonFile(_Ranges(self, location, obstore.open_reader(self.client, key)), mode="r")

    def size(self, location: str) -> int:
        with self._errors("look at", location):
            return int(obstore.head(self.client, self._key(location))["size"])

    def modified(self, location: str) -> float:
        """When the object was written, by the store's own clock, in seconds since 1970."""
        with self._errors("look at", location):
            return obstore.head(self.client, self._key(location))["last_modified"].timestamp()

    def exists(self, location: str) -> bool:
        with self._errors("look at", location):
            try:
                obstore.head(self.client, self._key(location))
            except FileNotFoundError:
                return False
            return True

    def delete(self, location: str) -> None:
        if not self.access.is_on("s3.delete-enabled", default=True):
            raise StoreError(
                f"{location} stays: its store forbids deletes",
                hint="The store removes what no snapshot names by itself.",
            )
        with self._errors("delete", location):
            obstore.delete(self.client, self._key(location))

    def list_after(self, folder: str, after: str, page: int) -> Iterator[str]:
        """Paths below a folder, from behind one of them on, page by page."""
        prefix = self._prefix(folder)
        offset = f"{prefix}{after}" if after else None
        with self._errors("list", f"{folder.rstrip('/')}/*"):
            for chunk in obstore.list(self.client, prefix or None, offset=offset, chunk_size=page):
                yield from (meta["path"].removeprefix(prefix) for meta in chunk)

    def entries(self, root: str) -> Callable[[str], list[str]]:
        """What stands in a folder below `root`; names of folders end with a slash."""
        prefix = self._prefix(root)

        def entries(folder: str) -> list[str]:
            with self._errors("list", f"{root.rstrip('/')}/*"):
                found = obstore.list_with_delimiter(self.client, prefix + folder or None)
            folders = [f"{path.rstrip('/')}/" for path in found["common_prefixes"]]
            paths = [*folders, *(meta["path"] for meta in found["objects"])]
            return [path.removeprefix(prefix + folder) for path in paths]

        return entries

    def _prefix(self, folder: str) -> str:
        """What keys below a folder begin with."""
        return self._key(folder.rstrip("/")) + "/" if self.opener.split(folder)[1].strip("/") else ""

    def _key(self, location: str) -> str:
        key = self.opener.split(location)[1]
        if any(part in ("", ".", "..") for part in key.split("/")):
            raise StoreError(
                f"{location!r} has a part that is empty, '.' or '..'",
                hint="Write the warehouse, or the table's location, without doubled slashes and dots.",
            )
        return key

    @contextmanager
    def _errors(self, act: str, location: str) -> Iterator[None]:
        """The library's errors as ours, with the place and the reason, and without secrets."""
        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise AccessDenied(
                f"the store denies to {act} {location}: {self._reason(error, location)}",
                hint="Look at the login of the store (storage.…), and whether it has the rights to read and "
                "write there. Nothing of this batch was committed; its files are kept.",
            ) from None
        except FileNotFoundError:
            kind = FileMissing if act in ("read", "look at") else StoreError
            raise kind(
                f"cannot {act} {location}: there is no such object, or no such bucket",
                hint="Is the name of the bucket right? A file that a table names and that is gone was "
                "removed by somebody else.",
            ) from None
        except (BaseError, OSError, ValueError) as error:
            reason = self._reason(error, location)
            raise StoreError(f"cannot {act} {location}: {reason}", hint=self.opener.hint) from None

    def _reason(self, error: Exception, location: str) -> str:
        """The library's first lines: what follows them repeats the same for those who debug the library. It
        names the object twice, which our message has: what the store said stands behind that."""
        text = reason_of(error, self.access)
        key = self._key(location)
        for name in (key, quote(key)):
            text = text.replace(f" for path {name}", "").replace(f"/{name} ", "/… ")
        return text[:400]


def reason_of(error: Exception, access: Access) -> str:
    """What the library says, without secrets, and without what it repeats for those who debug it."""
    return access.redact(" ".join(str(error).partition("\n\nDebug source")[0].split()))


def parts_of(access: Access) -> tuple[int, int]:
    """The bytes of a part, and how many are under way at once. Stores take no smaller part but the last."""
    size = access.number("s3.multipart.part-size-bytes", PART_BYTES, 5 * 1024**2, 1024**3)
    return int(size), int(access.number("s3.multipart.num-threads", PARTS_AT_ONCE, 1, 64))


class _Parts(io.RawIOBase):
    """An object that is being written: in one request when it is closed, or in parts once it passes one."""

    def __init__(self, store: ObjectStore, location: str) -> None:
        self._store, self._location, self._key = store, location, store._key(location)
        self._part_bytes, self._threads = parts_of(store.access)
        self._held = bytearray()
        self._writer: Any = None
        self._failed: CalveError | None = None
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        rest = memoryview(data).cast("B")
        with self._errors():
            if self._writer is not None:
                self._writer.write(rest)
            else:
                self._held += rest
                if len(self._held) > self._part_bytes:
                    self._begin_parts()
        self._written += len(rest)
        return len(rest)

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        with self._errors():
            if self._writer is not None:
                self._writer.close()
            else:
                obstore.put(self._store.client, self._key, bytes(self._held), use_multipart=False)

    def abandon(self) -> None:
        """Without its end, an upload is no object."""
        self._writer = None
        super().close()

    def _begin_parts(self) -> None:
        self._writer = obstore.open_writer(
            self._store.client,
            self._key,
            buffer_size=self._part_bytes,
            max_concurrency=self._threads,
        )
        self._writer.write(self._held)
        self._held = bytearray()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        if self._failed is not None:
            raise self._failed
        try:
            with self._store._errors("write", self._location):
                try:
                    yield
                except OSError as error:
                    if self._writer is not None and type(error) is OSError:
                        # The library's writer of parts says everything as one kind: a look tells a login that
                        # is refused from a store that is away.
                        self._look()
                    raise
        except CalveError as error:
            # The library's writer forgets its key when an upload cannot begin: closed after that, it sends
            # what it holds to the bucket itself, which on S3 makes a bucket.
            self._writer, self._held, self._failed = None, bytearray(), error
            raise

    def _look(self) -> None:
        try:
            obstore.head(self._store.client, self._key)
        except FileNotFoundError:
            return  # as it should be: the object is not complete


class _ObjectUpload(Upload):
    def __init__(self, parts: _Parts, mode: str) -> None:  # noqa: ARG002 (Arrow reads both before this is called)
        self._parts = parts

    def abandon(self) -> None:
        self._parts.abandon()


class _Ranges(io.RawIOBase):
    """A large object, read by ranges."""

    def __init__(self, store: ObjectStore, location: str, reader: Any) -> None:
        self._store, self._location, self._reader = store, location, reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        with self._store._errors("read", self._location):
            return bytes(self._reader.readall() if size < 0 else self._reader.read(size))

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def size(self) -> int:
        return int(self._reader.size)
