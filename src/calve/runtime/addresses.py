"""Addresses: where a table is that a person names, and which of its sinks is meant.

    lake.sales.orders, --sink ─┐
    iceberg://…?writer.id=… ───┴─▶ Address(catalog, identifier, sink id) ──opened──▶ catalog, given back

For what looks at a table and runs nothing. The catalog is found as for a stream, but for the Spark session:
in the call, in PyIceberg's configuration, or embedded in a local folder. A catalog that is not there is an
error: to look at nothing must not make it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog import Catalog

from calve.config.catalog import CatalogConfig
from calve.config.sink import SinkConfig
from calve.config.url import is_sink_url, url_options
from calve.runtime.spark.lakes import find_lake
from calve.table.catalogs import check_there, open_catalog


@dataclass(frozen=True, slots=True)
class Address:
    """A table in a catalog; and a sink of it, where one was said."""

    catalog: CatalogConfig
    identifier: tuple[str, ...]
    sink_id: str | None = None
    checkpoint: str | None = None
    """Where that of its stream is, as a pipeline says. It may be on another machine."""

    @property
    def table_name(self) -> str:
        """As the catalog knows it."""
        return ".".join(self.identifier)

    @property
    def name(self) -> str:
        """As a person names it."""
        return f"{self.catalog.name}.{self.table_name}"

    @property
    def sink(self) -> SinkConfig:
        """A sink of the table: the one that was said, or the one that has the table's own name."""
        *namespace, table = self.identifier
        said = {} if self.sink_id is None else {"sink_id": self.sink_id}
        return SinkConfig(namespace=tuple(namespace), table=table, catalog=self.catalog, **said)


def find_address(table: str, sink: str | None = None, catalog: Mapping[str, Any] | None = None) -> Address:
    """The address of a table by its name or its URL. `catalog`: what the catalog is, where it is not
    configured."""
    lake = find_lake(table, dict(catalog or {}), {})
    return Address(lake.catalog, (*lake.namespace, lake.table), sink or _writer_of(table))


@contextmanager
def opened(address: Address) -> Iterator[Catalog]:
    """The catalog of an address, which must be there."""
    check_there(address.catalog)
    catalog = open_catalog(address.catalog)
    try:
        yield catalog
    finally:
        catalog.close()


def _writer_of(table: str) -> str | None:
    """The writer.id that a URL names."""
    named = url_options(table).get("writer.id") if is_sink_url(table) else None
    return None if named is None else str(named)
