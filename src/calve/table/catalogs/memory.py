"""The in-memory catalog: gone with the process. Its tables' files are real."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog

from calve.config.catalog import CatalogConfig
from calve.table.catalogs.properties import file_properties


def open_catalog(config: CatalogConfig) -> Catalog:
    """A catalog that knows nothing yet."""
    properties = file_properties(config)
    return InMemoryCatalog(config.name, properties.pop("warehouse"), **properties)
