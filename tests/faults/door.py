"""A door to REST catalogs with a timeout on every call, until the product has one."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from requests import Session
from requests.adapters import HTTPAdapter

from calve.config.catalog import CatalogConfig, CatalogType
from calve.table import catalogs
from calve.table.commit import reaching
from calve.table.fileio import IO_IMPL


class _Timeout(HTTPAdapter):
    def __init__(self, timeout_ms: int) -> None:
        super().__init__()
        self._seconds = timeout_ms / 1000

    def send(self, *arguments: Any, **named: Any) -> Any:
        return super().send(*arguments, **{**named, "timeout": self._seconds})


class _Door(RestCatalog):
    def _create_session(self) -> Session:
        session = super()._create_session()
        session.mount("http://", _Timeout(int(self.properties["rest.timeout-ms"])))
        return session


def _open(config: CatalogConfig) -> Catalog:
    with reaching(("the catalog",)):
        return _Door(config.name, **{"py-io-impl": IO_IMPL, **config.reveal()})


catalogs._DOORS.setdefault(CatalogType.REST, _open)
