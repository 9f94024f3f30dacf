"""Where bytes go: files by URI, created once, durable when closed.

`writer` puts data files here and `table` its metadata (through PyIceberg's FileIO), so that both have
one path to the disk. Paths are taken literally: a percent sign in a partition's folder is part of the
name, as Iceberg means it.
"""

from calve.store.base import Store
from calve.store.local import LocalStore, local_path

__all__ = ["LocalStore", "Store", "local_path", "store_for"]


def store_for(location: str) -> Store:
    """The store that holds a location. Local files here; object stores come behind the same door."""
    local_path(location)
    return LocalStore()
