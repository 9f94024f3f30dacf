"""CatalogConfig: which catalog holds the table, and with which login.

With nothing said it is SQLite in a local folder, beside the tables: `calve-warehouse/catalog.db`. What is
left out follows from what is there: the type from the URI, the URI of an embedded catalog from its warehouse.
Which types a release can open is the catalogs' door to say, not this page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from calve.config.names import check_catalog
from calve.config.secret import FrozenMap, Hidden, Secrets, hide_property, hide_uri, refuse_secrets
from calve.config.settings import Settings
from calve.config.units import parse_property, parse_text
from calve.model.errors import ConfigError, about

DEFAULT_WAREHOUSE = "calve-warehouse"
EMBEDDED_FILE = "catalog.db"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_NESSIE = re.compile(r"(.*)/api/v[12]/?", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class CatalogType(StrEnum):
    """What a catalog speaks."""

    REST = "rest"
    S3TABLE = "s3table"
    GLUE = "glue"
    HIVE = "hive"
    MEMORY = "memory"
    SQL = "sql"


_TAKES_URI = {
    CatalogType.REST: (("http", "https"), "http://host:8181 or https://host/…"),
    CatalogType.HIVE: (("thrift",), "thrift://host:9083"),
    CatalogType.SQL: (
        ("sqlite", "postgresql"),
        "sqlite:///folder/catalog.db or postgresql://user@host/database",
    ),
}
_NEEDS_WAREHOUSE = frozenset({CatalogType.SQL, CatalogType.GLUE, CatalogType.HIVE, CatalogType.S3TABLE})


def _hide_uri(value: object) -> Hidden | None:
    if value is None or isinstance(value, Hidden):
        return value
    if isinstance(value, str) and value.partition("://")[2].split("/")[0].count("@") > 1:
        # A driver would cut the login at the first one and show the rest of the password as a host (P10).
        raise ConfigError("catalog.uri has several '@' before its host", hint="Write an @ of a login as %40.")
    return hide_uri(check_place(parse_text(value, "catalog.uri"), "catalog.uri", shown=False), "catalog.uri")


def _hide_properties(value: object) -> FrozenMap[Hidden]:
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"properties are a {type(value).__name__}", hint="Give a mapping of names to texts."
        )
    return FrozenMap(
        {
            parse_text(name, "the name of a property"): entry
            if isinstance(entry, Hidden)
            else hide_property(name, parse_property(entry, f"the property '{name}'"))
            for name, entry in value.items()
        }
    )


def _show(hidden: Hidden | None) -> str | None:
    return None if hidden is None else str(hidden)


def _show_all(properties: FrozenMap[Hidden]) -> dict[str, str]:
    return {name: str(hidden) for name, hidden in properties.items()}


HiddenUri = Annotated[Hidden | None, BeforeValidator(_hide_uri), PlainSerializer(_show)]
Properties = Annotated[FrozenMap[Hidden], BeforeValidator(_hide_properties), PlainSerializer(_show_all)]


class CatalogConfig(Settings):
    """Where the catalog is. Secrets are hidden; `reveal` gives them to the door that opens it."""

    PLACE: ClassVar[str] = "catalog."

    if TYPE_CHECKING:
        # Texts and lists are taken where a field holds a parsed value: type checkers may not know that.
        def __init__(self, **data: Any) -> None: ...

    type: CatalogType = CatalogType.SQL
    uri: HiddenUri = None
    warehouse: Annotated[str, Field(strict=True)] | None = None
    """A folder or a URI; for REST also a name that the server knows, or nothing."""
    name: Annotated[str, Field(strict=True)] = "calve"
    properties: Properties = Field(default_factory=FrozenMap)
    storage: Properties = Field(default_factory=FrozenMap)
    """Login and place of the object store, under the store's own names."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        return complete(data) if isinstance(data, dict) else data

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        return check_catalog(name)

    @field_validator("warehouse")
    @classmethod
    def _check_warehouse(cls, warehouse: str | None) -> str | None:
        return None if warehouse is None else check_place(warehouse, "warehouse")

    @model_validator(mode="after")
    def _check_uri(self) -> CatalogConfig:
        missing = lacks(self.type, self.uri is not None, self.warehouse is not None)
        if missing:
            raise ConfigError(
                f"a {self.type} catalog lacks {' and '.join(missing)}",
                hint="Give what is missing, or leave catalog type and uri out for SQLite in a local folder.",
                about="catalog.type",
            )
        if self.uri is not None:
            with about("catalog.uri"):
                _check_uri_fits(self.type, self.uri)
        return self

    @property
    def secrets(self) -> Secrets:
        """All that must not show of this catalog."""
        found = Secrets()
        for hidden in (self.uri, *self.properties.values(), *self.storage.values()):
            found |= hidden.parts if hidden is not None else Secrets()
        return found

    @property
    def is_embedded(self) -> bool:
        """Whether the catalog is the SQLite file inside the warehouse, which the sink may create."""
        return (
            self.type is CatalogType.SQL
            and self.warehouse is not None
            and _is_local(self.warehouse)
            and self.uri == Hidden(embedded_uri(self.warehouse))
        )

    def replace(self, **changes: Any) -> Self:
        """A copy with other values. An embedded catalog moves with its warehouse."""
        return super().replace(**({"uri": None} if self.is_embedded else {}) | changes)

    def reveal(self) -> dict[str, str]:
        """uri, warehouse and all properties with their secrets, for the door that opens the catalog."""
        revealed = {
            name: hidden.reveal() for name, hidden in (*self.storage.items(), *self.properties.items())
        }
        if self.uri is not None:
            revealed["uri"] = self.uri.reveal()
        if self.warehouse is not None:
            revealed["warehouse"] = self.warehouse
        return revealed


def complete(data: Mapping[str, Any]) -> dict[str, Any]:
    """What was said of a catalog, with type, uri and warehouse where they follow from the rest."""
    done = {name: value for name, value in data.items() if value is not None}
    if isinstance(done.get("type"), str):
        done["type"] = done["type"].strip().lower()
    if done.get("type") == CatalogType.HIVE:
        _take_thrift_uri(done)
    uri = done.get("uri")
    if "type" not in done:
        done["type"] = CatalogType.SQL if uri is None or _is_sql(uri) else CatalogType.REST
    if uri is None and done["type"] in (CatalogType.SQL, CatalogType.MEMORY):
        warehouse = done.setdefault("warehouse", DEFAULT_WAREHOUSE)
        if done["type"] == CatalogType.SQL and isinstance(warehouse, str):
            done["uri"] = embedded_uri(check_place(warehouse, "warehouse"))
    return done


def _take_thrift_uri(done: dict[str, Any]) -> None:
    """Let the property `thrift_uri` stand for the uri of a Hive metastore, where no other is given."""
    properties = done.get("properties")
    thrift = properties.get("thrift_uri") if isinstance(properties, Mapping) else None
    if thrift is None:
        return
    if _plain(done.setdefault("uri", thrift)) != _plain(thrift):
        raise ConfigError(
            "'catalog.uri' and 'catalog.prop.thrift_uri' name two metastores",
            hint="Leave one of the two out. Servers of one metastore are written with commas between.",
            about="catalog.prop.thrift_uri",
        )


def embedded_uri(warehouse: str) -> str:
    """The SQLite file inside a local warehouse."""
    if not _is_local(warehouse):
        raise ConfigError(
            f"the embedded catalog cannot stand in the warehouse {warehouse!r}",
            hint="It needs a local folder without '?'. Otherwise name a catalog by 'catalog.uri'.",
            about="warehouse",
        )
    folder = "/" + warehouse[len("file:") :].lstrip("/") if _scheme(warehouse) else warehouse
    return f"sqlite:///{folder.rstrip('/')}/{EMBEDDED_FILE}"


def lacks(kind: CatalogType, has_uri: bool, has_warehouse: bool) -> list[str]:
    """The options that a catalog of this type cannot do without."""
    missing = ["'catalog.uri'"] if kind in _TAKES_URI and not has_uri else []
    return [*missing, "'warehouse'"] if kind in _NEEDS_WAREHOUSE and not has_warehouse else missing


def check_place(place: str, what: str, *, shown: bool = True) -> str:
    """The text itself, if it can be a folder or a URI that everybody may read."""
    with about(what):
        if not place.strip():
            raise ConfigError(f"{what} is empty", hint="Name a folder or a URI.")
        if _CONTROL.search(place):
            raise ConfigError(
                f"{what} holds a control character", hint="Take line breaks and tabs out of it."
            )
        return refuse_secrets(place, what) if shown else place


def _is_local(warehouse: str) -> bool:
    return _scheme(warehouse) in ("", "file") and "?" not in warehouse


def _plain(value: object) -> object:
    return value.reveal() if isinstance(value, Hidden) else value


def _is_sql(uri: object) -> bool:
    text = _plain(uri)
    return isinstance(text, str) and _scheme(text).partition("+")[0] in ("sqlite", "postgresql", "postgres")


def _scheme(uri: str) -> str:
    match = _SCHEME.match(uri)
    return "" if match is None else match[1].lower()


def _check_uri_fits(kind: CatalogType, uri: Hidden) -> None:
    if kind is CatalogType.MEMORY:
        raise ConfigError(
            f"a memory catalog has no uri, and was given {uri}",
            hint="Leave 'catalog.uri' out, or use 'catalog.type' = 'sql'.",
        )
    if kind is CatalogType.GLUE:
        return
    schemes, example = _TAKES_URI[CatalogType.REST if kind is CatalogType.S3TABLE else kind]
    if _scheme(uri.reveal()).partition("+")[0] not in schemes:
        raise ConfigError(f"a {kind} catalog cannot stand at {uri}", hint=f"Its uri reads {example}.")
    nessie = _NESSIE.fullmatch(str(uri)) if kind is CatalogType.REST else None
    if nessie is not None:
        raise ConfigError(
            f"{uri} is Nessie's own interface, not the Iceberg REST one",
            hint=f"Nessie answers Iceberg clients at another path: {nessie[1]}/iceberg.",
        )
    if re.fullmatch(r"sqlite(\+\w+)?://(/|/:memory:)?", uri.reveal()):
        raise ConfigError(
            "a SQLite catalog without a file forgets the tables and the sink's progress",
            hint="Name a file, such as sqlite:///folder/catalog.db, or take 'catalog.type' = 'memory'.",
        )
