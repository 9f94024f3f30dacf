"""Lakes: where the catalog of a table is configured. It is found where its user already has it.

    iceberg://…       ─▶ what the URL says, and nothing else
    lake.sales.orders ─▶ 1. what was said of `lake` in the call
                         2. PyIceberg's configuration: .pyiceberg.yaml, PYICEBERG_CATALOG__LAKE__…
                         3. the session's spark.sql.catalog.lake.*, as Iceberg's Spark runtime spells it
                         4. nothing anywhere: SQLite in a local folder, under the name `lake`

Guarantee: the first place that describes the catalog counts, and it counts alone. The embedded catalog is
taken only where no catalog is configured at all: a misspelt name never makes a new, empty lake. No value is
shown in an error (P10).

Not here: what Iceberg's Spark names mean (translate.py), opening a catalog (table/catalogs).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import strictyaml  # type: ignore[import-untyped]
from pyiceberg.utils.config import Config

from calve.config.catalog import CatalogConfig
from calve.config.options.read import read_options
from calve.config.sink import SinkConfig
from calve.config.units import nearest
from calve.config.url import is_sink_url, show_name, url_options
from calve.model.errors import BadName, ConfigError
from calve.runtime.spark.translate import Description, from_spark

_log = logging.getLogger("calve.spark")

DEFAULT_NAME = "calve"
"""The catalog of a table that is named without one."""

_SESSION = "spark.sql.catalog."
_PLUGINS = ("org.apache.iceberg.spark.SparkCatalog", "org.apache.iceberg.spark.SparkSessionCatalog")
_METASTORES = ("spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris", "hive.metastore.uris")
_PYICEBERG_TYPES = {"in-memory": "memory"}
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


@dataclass(frozen=True, slots=True)
class Lake:
    """A catalog, and where in it a table stands."""

    catalog: CatalogConfig
    namespace: tuple[str, ...]
    table: str
    table_defaults: Mapping[str, str] = field(default_factory=dict)
    """Properties that the catalog gives to every table that is created in it, unless told otherwise."""
    table_overrides: Mapping[str, str] = field(default_factory=dict)
    """The same, whatever is told."""


def find_lake(name: str, said: Mapping[str, Any], session: Mapping[str, str]) -> Lake:
    """The lake of a table. `said` are the arguments of a CatalogConfig that the call gave, `session` is all
    that the Spark session is configured with."""
    if is_sink_url(name):
        return _by_url(name, said)
    parts = parse_name(name)
    places = _Places(session)
    catalog = _catalog_name(name, parts, said.get("name"), places)
    inside = parts if len(parts) == 2 else parts[1:]
    found = _find(catalog, {key: value for key, value in said.items() if key != "name"}, places, name)
    return Lake(found.catalog, inside[:-1], inside[-1], found.table_defaults, found.table_overrides)


def _by_url(url: str, said: Mapping[str, Any]) -> Lake:
    """What the URL says. How its store is reached may be said beside it: a URL holds no login."""
    if said.keys() - {"storage"}:
        raise ConfigError(
            "the table is named by an iceberg:// URL, and the catalog is described beside it",
            hint="A URL says where its catalog is: leave .catalog() and the 'catalog.…' options out.",
        )
    asked = read_options(url_options(url))
    catalog = dict(asked.get("catalog", {}))
    beside, inside = dict(said.get("storage", {})), catalog.get("storage", {})
    if both := beside.keys() & inside.keys():
        raise ConfigError(
            f"the iceberg:// URL says 'storage.{min(both)}', and it is said beside it", hint="Say it once."
        )
    if beside:
        catalog["storage"] = {**inside, **beside}
    config = SinkConfig(namespace=asked["namespace"], table=asked["table"], catalog=CatalogConfig(**catalog))
    return Lake(config.catalog, config.namespace, config.table)


def parse_name(name: object) -> tuple[str, ...]:
    """The parts of `lake.sales.orders`; a part in backticks is taken literally."""
    if not isinstance(name, str):
        raise BadName(f"the table's name is a {type(name).__name__}", hint=_NAME_HINT)
    if "://" in name:
        raise BadName(
            f"the table's name {show_name(name)!r} is a URL of another kind than iceberg://", hint=_NAME_HINT
        )
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(name, position)
        if match is None:
            raise BadName(f"the table's name {name!r} cannot be read", hint=_NAME_HINT)
        parts.append(match[2] or match[1].replace("``", "`"))
        position = match.end()
        if position == len(name):
            break
        if name[position] != ".":
            raise BadName(f"the table's name {name!r} cannot be read", hint=_NAME_HINT)
        position += 1
    if len(parts) < 2:
        raise BadName(f"the table {name!r} has no namespace", hint=_NAME_HINT)
    return tuple(parts)


TABLE, TOPIC = "{table}", "{topic}"
"""What stands for a topic in the name of its table: the last part of its name, or all of it."""


def is_pattern(name: str) -> bool:
    """Whether a name stands for a table of each topic."""
    return TABLE in name or TOPIC in name


def table_of(topic: str, pattern: str) -> str:
    """The table of a topic, by a pattern of names."""
    words = {TABLE: topic.rpartition(".")[2], TOPIC: topic.replace(".", "_")}

    def filled(text: str, written: Callable[[str], str]) -> str:
        for word, name in words.items():
            text = text.replace(word, written(name))
        return text

    if is_sink_url(pattern):
        return filled(pattern, lambda name: quote(name, safe=""))
    parts = [filled(part, str) for part in parse_name(pattern)]
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


_NAME_HINT = "Write catalog.namespace.table, such as 'lake.sales.orders'."


@dataclass(frozen=True, slots=True)
class _Found:
    catalog: CatalogConfig
    table_defaults: Mapping[str, str] = field(default_factory=dict)
    table_overrides: Mapping[str, str] = field(default_factory=dict)


def _catalog_name(name: str, parts: tuple[str, ...], said: str | None, places: _Places) -> str:
    if len(parts) == 2:
        if parts[0] == said or (said is None and parts[0] in places.known):
            raise BadName(
                f"{name!r} names the catalog {parts[0]!r} and a table, but no namespace",
                hint=f"Write {parts[0]}.<namespace>.{parts[1]}.",
            )
        return said or DEFAULT_NAME
    if said is not None and said != parts[0]:
        raise BadName(
            f"{name!r} begins with the catalog {parts[0]!r}, but what was said describes {said!r}",
            hint=f"Write {said}.{'.'.join(parts[1:])}, or {said}.{name} if {parts[0]!r} is a namespace.",
        )
    return parts[0]


def _find(catalog: str, said: dict[str, Any], places: _Places, table: str) -> _Found:
    if "type" in said or "uri" in said:
        with _place(f".catalog({catalog!r})"):
            return _Found(CatalogConfig(name=catalog, **said))
    found = places.describe(catalog)
    if found is None and places.known:
        raise _unknown(catalog, table, places.known)
    if found is None:
        extras = {"properties", "storage"} & said.keys()
        if extras:
            raise ConfigError(
                f".catalog({catalog!r}) has properties, but nothing says what the catalog is",
                hint="Give its type and uri too, or configure it for PyIceberg or for the Spark session.",
            )
        embedded = CatalogConfig(name=catalog, **said)
        _log.info("no catalog is configured: %r is SQLite in %s", catalog, embedded.warehouse)
        return _Found(embedded)
    place, description = found
    with _place(place):
        if description.type == "sql" and description.uri is None:
            raise ConfigError(
                "a catalog in a SQL database lacks its uri",
                hint="Give it: sqlite:///folder/catalog.db, or jdbc:sqlite:folder/catalog.db for Spark.",
            )
        return _Found(
            CatalogConfig(
                name=catalog,
                type=description.type,
                uri=description.uri,
                warehouse=said.get("warehouse", description.warehouse),
                properties={**description.properties, **said.get("properties", {})},
                storage={**description.storage, **said.get("storage", {})},
            ),
            description.table_properties,
            description.table_overrides,
        )


def _unknown(catalog: str, table: str, known: frozenset[str]) -> ConfigError:
    names = sorted(known)
    near = nearest(catalog, names)
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    if catalog == DEFAULT_NAME and len(parse_name(table)) == 2:
        return ConfigError(
            f"{table!r} does not say in which catalog; configured are: {shown}",
            hint=f"Write {names[0] if len(names) == 1 else '<catalog>'}.{table}.",
        )
    return ConfigError(
        f"no catalog {catalog!r} is configured; there are: {shown}",
        hint=(f"Did you mean {near}? " if near else "")
        + f"Otherwise say what it is: .catalog({catalog!r}, type=…, uri=…, warehouse=…); for SQLite in a "
        "local folder, type='sql' and the folder as warehouse.",
    )


class _Places:
    """The places outside the call where catalogs may be configured."""

    def __init__(self, session: Mapping[str, str]) -> None:
        self._session = session
        self._pyiceberg = _read_pyiceberg()

    @property
    def known(self) -> frozenset[str]:
        """The names of all catalogs that are configured anywhere."""
        spark = {
            name
            for key in self._session
            if key.startswith(_SESSION)
            for name in [key.removeprefix(_SESSION).partition(".")[0]]
            # Every session has it. It is a lake only where Iceberg's plugin stands in for it.
            if name != "spark_catalog" or self._session.get(_SESSION + name) in _PLUGINS
        }
        return frozenset(spark | self._pyiceberg.keys())

    def describe(self, catalog: str) -> tuple[str, Description] | None:
        """Where a catalog is described, and what is said there."""
        properties = self._pyiceberg.get(catalog.lower())
        if properties is not None:
            place = f"catalog {catalog!r} of PyIceberg's configuration"
            with _place(place):
                return place, _from_pyiceberg(properties)
        plugin = self._session.get(_SESSION + catalog)
        prefix = f"{_SESSION}{catalog}."
        spark = {
            key.removeprefix(prefix): value for key, value in self._session.items() if key.startswith(prefix)
        }
        if plugin is None and not spark:
            return None
        place = f"catalog {catalog!r} of the Spark session ({prefix}*)"
        if plugin is not None and plugin not in _PLUGINS:
            raise ConfigError(
                f"{place} is no Iceberg catalog: its class is {plugin[:120]}",
                hint="Name an Iceberg catalog, or describe one by .catalog(name, type=…, uri=…).",
            )
        metastore = next((self._session[key] for key in _METASTORES if self._session.get(key)), None)
        with _place(place):
            return place, from_spark(spark, metastore=metastore)


def _read_pyiceberg() -> dict[str, Mapping[str, Any]]:
    """Every catalog that PyIceberg knows of, by its name in small letters."""
    try:
        catalogs: Any = Config().config.get("catalog", {})
    except (OSError, ValueError, strictyaml.YAMLError) as error:
        # PyIceberg's and YAML's own words quote what they could not read, which may be a secret.
        reason = f"PyIceberg's configuration cannot be read: {type(error).__name__}"
    else:
        if isinstance(catalogs, Mapping) and all(isinstance(entry, Mapping) for entry in catalogs.values()):
            return dict(catalogs)
        reason = "PyIceberg's configuration has a 'catalog' that is no mapping of names to settings"
    raise ConfigError(
        reason,
        hint="Look at .pyiceberg.yaml ($PYICEBERG_HOME, the home folder, this folder) and at the variables "
        "PYICEBERG_… of the environment.",
    )


def _from_pyiceberg(properties: Mapping[str, Any]) -> Description:
    flat = dict(_flat(properties))
    if "py-catalog-impl" in flat:
        raise ConfigError(
            "its py-catalog-impl is a class of its own, and calve opens PyIceberg's own catalogs only",
            hint="Name the catalog's type and uri.",
        )
    uri, kind = flat.pop("uri", None), flat.pop("type", None)
    kind = _type_of(uri) if kind is None else kind.strip().lower()
    described = Description(_PYICEBERG_TYPES.get(kind, kind), uri, flat.pop("warehouse", None))
    for name, value in flat.items():
        described.put(name, value)
    return described


def _type_of(uri: str | None) -> str:
    """The type of a catalog by its uri, as PyIceberg sees it."""
    for start, kind in (("http", "rest"), ("thrift", "hive"), ("sqlite", "sql"), ("postgresql", "sql")):
        if uri is not None and uri.startswith(start):
            return kind
    raise ConfigError(
        "it has no type, and none follows from its uri",
        hint="Give its type: rest, sql, hive, glue or in-memory.",
    )


def _flat(properties: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings (`auth`, `ssl`) with dots between their names."""
    for name, value in properties.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


@contextmanager
def _place(place: str) -> Iterator[None]:
    """The same errors, with the place where the catalog is described."""
    try:
        yield
    except ConfigError as error:
        raise type(error)(f"{place}: {error.message}", hint=error.hint) from None
