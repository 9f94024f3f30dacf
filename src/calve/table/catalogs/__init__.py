"""The door to catalogs: one small module a back end, one way in."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.catalog import Catalog

from calve.config.catalog import CatalogConfig, CatalogType
from calve.model.errors import ConfigError
from calve.table.catalogs import memory, rest, s3tables, sql

_DOORS: dict[CatalogType, Callable[[CatalogConfig], Catalog]] = {
    CatalogType.SQL: sql.open_catalog,
    CatalogType.MEMORY: memory.open_catalog,
    CatalogType.REST: rest.open_catalog,
    CatalogType.S3TABLE: s3tables.open_catalog,
}


def open_catalog(config: CatalogConfig) -> Catalog:
    """The catalog that a configuration names."""
    door = _DOORS.get(config.type)
    if door is None:
        raise ConfigError(
            f"catalogs of type '{config.type}' cannot be opened by this release",
            hint=f"It opens: {', '.join(sorted(_DOORS))}. "
            "Leave type and uri out for SQLite in a local folder.",
        )
    return door(config)
