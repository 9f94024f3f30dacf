"""Where bytes go: files by URI, created once, durable when closed.

    store_for(location, access) ──▶ LocalStore                      file:///…, /…
                                └─▶ ObjectStore over S3, GCS, ADLS  s3://…, gs://…, abfss://…

`writer` puts data files here and `table` its metadata (through PyIceberg's FileIO), so that both have
one path to the disk. Paths are taken literally: a percent sign in a partition's folder is part of the
name, as Iceberg means it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from calve.model.errors import ConfigError, StoreError
from calve.store.access import NO_ACCESS, Access
from calve.store.base import Store
from calve.store.local import LocalStore, local_path

if TYPE_CHECKING:
    from calve.store.objects import ObjectStore

__all__ = ["NO_ACCESS", "Access", "LocalStore", "Store", "check_location", "local_path", "store_for"]

_MODULES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "adls",
    "abfss": "adls",
    "wasb": "adls",
    "wasbs": "adls",
}


def store_for(location: str, access: Access = NO_ACCESS) -> Store:
    """The store that holds a location. Nothing is asked of it yet."""
    module = check_location(location)
    return LocalStore() if module is None else _object_store(module, location, access)


def check_location(location: str) -> str | None:
    """Refuse a location in a store that nobody here knows. The module of its store; `None` for a disk."""
    scheme = urlsplit(location).scheme.lower()
    if scheme in ("", "file"):
        return None
    if scheme not in _MODULES:
        raise StoreError(
            f"{location!r} is in no store that calve knows",
            hint=f"Locations begin with file:, {', '.join(f'{known}:' for known in sorted(_MODULES))}.",
        )
    return _MODULES[scheme]


def _object_store(module: str, location: str, access: Access) -> ObjectStore:
    try:
        # Late: an executor that writes to a disk needs no obstore.
        opener = import_module(f"calve.store.{module}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{location!r} is in an object store, and {error.name} is not installed here",
            hint="pip install obstore, on every executor too.",
        ) from None
    return _opened(module, opener.split(location)[0], access.at(location))


@lru_cache(maxsize=32)
def _opened(module: str, bucket: str, access: Access) -> ObjectStore:
    """A client is kept: it holds connections, and credentials that it renews."""
    from obstore.exceptions import BaseError

    from calve.store.objects import ObjectStore, Opener, reason_of

    opener = cast(Opener, import_module(f"calve.store.{module}"))
    try:
        return ObjectStore(opener, opener.open_bucket(bucket, access), access)
    except (BaseError, ValueError, TypeError, OverflowError) as error:
        raise ConfigError(
            f"the store of {bucket} cannot be opened: {reason_of(error, access)}",
            hint="Look at the storage properties: a key or a certificate is not what it should be.",
        ) from None
