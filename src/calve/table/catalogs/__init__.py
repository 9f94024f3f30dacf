"""The door to catalogs: one small module a back end, one way in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module

from pyiceberg.catalog import Catalog

from calve.config.catalog import CatalogConfig, CatalogType
from calve.model.errors import ConfigError
from calve.table.catalogs import memory, rest, s3tables, sql


def _with_extra(module: str, extra: str, config: CatalogConfig) -> Catalog:
    """A door whose library not everybody has installed."""
    try:
        door = import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a {config.type} catalog needs a package that is not installed: {error.name}",
            hint=f"pip install 'calve[{extra}]'.",
        ) from None
    opened: Catalog = door.open_catalog(config)
    return opened


_DOORS: dict[CatalogType, Callable[[CatalogConfig], Catalog]] = {
    CatalogType.GLUE: partial(_with_extra, "glue", "aws"),
    CatalogType.HIVE: partial(_with_extra, "hive", "hive"),
    CatalogType.SQL: sql.open_catalog,
    CatalogType.MEMORY: memory.open_catalog,
    CatalogType.REST: rest.open_catalog,
    CatalogType.S3TABLE: s3tables.open_catalog,
}


def open_catalog(config: CatalogConfig) -> Catalog:
    """The catalog that a configuration names."""
    return _DOORS[config.type](config)


def is_there(config: CatalogConfig) -> bool:
    """Whether a catalog can be opened without being made."""
    return config.type is not CatalogType.SQL or sql.is_there(config)


def check_there(config: CatalogConfig) -> None:
    """Refuse an embedded catalog that is not there: opening it would make it, empty."""
    if config.type is CatalogType.SQL:
        sql.check_there(config)
