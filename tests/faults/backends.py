"""Real catalog servers, as the rounds reach them: through the proxy by a sink, directly by PyIceberg."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog

from tests.faults.rounds import TIMEOUT_MS
from tests.support.servers.iceberg_rest import IcebergRest


@dataclass(frozen=True, slots=True)
class ReferenceServer:
    """Iceberg's own REST server over a local folder; it asks nobody who they are, so the proxy does."""

    server: IcebergRest
    own_tokens: bool = True

    @property
    def uri(self) -> str:
        return self.server.uri

    def options(self, uri: str, run: str) -> dict[str, object]:
        return {
            "catalog.type": "rest",
            "catalog.uri": uri,
            "catalog.prop.credential": "a-client:its-secret",
            "catalog.prop.oauth2-server-uri": f"{uri}/v1/oauth/tokens",
            "catalog.prop.header.X-Run": run,
            "catalog.prop.rest.timeout-ms": str(TIMEOUT_MS),
        }

    def direct(self) -> Catalog:
        return RestCatalog("direct", uri=self.uri)
