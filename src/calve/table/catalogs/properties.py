"""What every back end is told of files: all of them go through our own stores, by one FileIO."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from calve.config.catalog import CatalogConfig
from calve.config.units import nearest
from calve.model.errors import ConfigError
from calve.store.access import ALIASES
from calve.store.known import KNOWN, unknown
from calve.table.catalogs import known
from calve.table.fileio import IO_IMPL
from calve.table.location import as_uri, is_local

_log = logging.getLogger("calve.catalog")

_IO = "py-io-impl"


def file_properties(config: CatalogConfig) -> dict[str, str]:
    """All properties of a catalog, secrets revealed: for PyIceberg, never for a message."""
    properties = config.reveal()
    if properties.get(_IO, IO_IMPL) != IO_IMPL:
        raise ConfigError(
            f"the property {_IO!r} names another FileIO, and calve's files go through its own stores",
            hint="Take it out. Stores are told by storage properties, such as s3.endpoint.",
        )
    properties[_IO] = IO_IMPL
    for name in config.storage.keys() & config.properties.keys() & ALIASES.keys():
        # One spelling for two logins: the store's goes under the name that is a store's alone.
        properties.setdefault(ALIASES[name], config.storage[name].reveal())
    for name in unknown(config.storage):
        _tell("store", "storage", name, nearest(name, KNOWN))
    for name in known.unknown(config.properties):
        _tell("catalog", "catalog", name, nearest(name, known.ALL))
    warehouse = properties.get("warehouse")
    if warehouse is not None and is_local(warehouse):
        properties["warehouse"] = as_uri(warehouse)
    return properties


def _tell(who: str, kind: str, name: str, near: str | None) -> None:
    meant = f"; did you mean {near}?" if near else ""
    _log.warning("no %s follows the %s property %r%s", who, kind, name, meant)


def is_on(properties: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """A property that is true or false."""
    word = str(properties.get(name, default)).strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"the catalog property {name!r} is neither true nor false", hint="Write one.")
    return word == "true"


def missing_boto(error: ModuleNotFoundError) -> ConfigError:
    """A login of AWS without its library."""
    return ConfigError(
        f"this catalog needs {error.name}, which is not installed", hint="pip install 'calve[aws]'."
    )
