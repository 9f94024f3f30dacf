"""The in-memory catalog: gone with the process. Its tables' files are real.

SQLite keeps what is in memory to one connection, and SQLAlchemy has one for each thread. Here all threads
share one: Spark calls a sink from a thread of its own.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from calve.config.catalog import CatalogConfig
from calve.table.catalogs.properties import file_properties


def open_catalog(config: CatalogConfig) -> Catalog:
    """A catalog that knows nothing yet."""
    properties = file_properties(config)
    catalog = InMemoryCatalog(config.name, properties.pop("warehouse"), **properties)
    catalog.engine.dispose()
    catalog.engine = create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    catalog.create_tables()
    return catalog
