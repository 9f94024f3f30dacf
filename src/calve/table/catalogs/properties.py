"""What every back end is told of files: local ones go through our own store, which fsyncs them."""

from __future__ import annotations

from urllib.parse import urlsplit

from calve.config.catalog import CatalogConfig
from calve.table.fileio import IO_IMPL
from calve.table.location import as_uri


def file_properties(config: CatalogConfig) -> dict[str, str]:
    """All properties of a catalog, secrets revealed: for PyIceberg, never for a message."""
    properties = config.reveal()
    warehouse = properties.get("warehouse")
    if warehouse is not None and urlsplit(warehouse).scheme in ("", "file"):
        properties["warehouse"] = as_uri(warehouse)
        properties.setdefault("py-io-impl", IO_IMPL)
    return properties
