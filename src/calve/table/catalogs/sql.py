"""Catalogs in a SQL database: SQLite, the embedded default, and PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)

from calve.config.catalog import CatalogConfig
from calve.model.errors import CatalogError, ConfigError
from calve.store.local import make_folder
from calve.table.catalogs.properties import file_properties

_OPENINGS_MAX = 3
_CONNECT_SECONDS = 5


def open_catalog(config: CatalogConfig) -> Catalog:
    """A SQL catalog; its tables in the database are made where they are missing."""
    properties = file_properties(config)
    try:
        properties["uri"] = _with_patience(properties["uri"])
        _make_sqlite_folder(properties["uri"])
        return _open(config.name, properties)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise ConfigError(
            f"{config.uri} needs a driver that is not installed: {_module(error)}",
            hint="For PostgreSQL: pip install 'calve[postgres]'.",
        ) from None
    except (ArgumentError, ValueError):
        raise ConfigError(
            f"{config.uri} is not a database", hint="It reads sqlite:///… or postgresql://…."
        ) from None
    except OSError as error:
        raise CatalogError(
            f"the catalog at {config.uri} cannot be opened: {error.strerror or error}",
            hint="Is its folder there, and may this user write to it?",
        ) from error
    except SQLAlchemyError as error:
        # The driver's own words may hold the URI with its password: they go through the redaction.
        said = " ".join(config.secrets.redact(str(error.args[0])).split())
        raise CatalogError(
            f"the catalog at {config.uri} cannot be opened: {said}",
            hint="Is the database up, and does the login have the right to create tables in it?",
        ) from None


def is_there(config: CatalogConfig) -> bool:
    """Whether the file of a SQLite catalog is there; of others nobody can say before they are opened."""
    try:
        url = make_url(config.reveal().get("uri", ""))
    except (ArgumentError, ValueError):
        return True  # opening it says what is wrong
    file = url.database if url.get_backend_name() == "sqlite" else None
    return not file or file.startswith("file:") or Path(file).exists()


def check_there(config: CatalogConfig) -> None:
    """Refuse a SQLite catalog whose file is not there."""
    if not is_there(config):
        raise CatalogError(
            f"there is no catalog at {config.uri}",
            hint="Is this the right folder? Nothing was made. Say where the catalog is, or configure it for "
            "PyIceberg.",
        )


def _open(name: str, properties: dict[str, str]) -> Catalog:
    for _ in range(_OPENINGS_MAX - 1):
        try:
            return SqlCatalog(name, **properties)
        except (IntegrityError, OperationalError, ProgrammingError):
            # Of two processes that make the catalog's own tables at once, one fails; then they are there.
            continue
    return SqlCatalog(name, **properties)


def _with_patience(uri: str) -> str:
    """A PostgreSQL that takes a connection and says nothing is not waited for without end."""
    url = make_url(uri)
    if url.get_backend_name() != "postgresql" or "connect_timeout" in url.query:
        return uri
    patient = url.update_query_dict({"connect_timeout": str(_CONNECT_SECONDS)})
    return patient.render_as_string(hide_password=False)


def _module(error: ImportError | NoSuchModuleError) -> str:
    return str(error.name if isinstance(error, ImportError) else error)


def _make_sqlite_folder(uri: str) -> None:
    url = make_url(uri)
    if url.get_backend_name() == "sqlite" and url.database:
        make_folder(url.database)
