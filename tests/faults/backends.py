"""Real catalog servers, as the rounds reach them: through the proxy by a sink, directly by PyIceberg."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog

from tests.support.servers.iceberg_rest import IcebergRest
from tests.support.servers.seaweedfs import BUCKET, KEY, REGION, SECRET, SeaweedFS


@dataclass(frozen=True, slots=True)
class ReferenceServer:
    """Iceberg's own REST server over a local folder; it asks nobody who they are, so the proxy does."""

    server: IcebergRest
    own_tokens: bool = True

    @property
    def uri(self) -> str:
        return self.server.uri

    def options(self, uri: str, run: str, timeout_ms: int) -> dict[str, object]:
        return {
            "catalog.type": "rest",
            "catalog.uri": uri,
            "catalog.prop.credential": "a-client:its-secret",
            "catalog.prop.oauth2-server-uri": f"{uri}/v1/oauth/tokens",
            "catalog.prop.header.X-Run": run,
            "catalog.prop.rest.timeout-ms": str(timeout_ms),
        }

    def direct(self) -> Catalog:
        return RestCatalog("direct", uri=self.uri)


@dataclass(frozen=True, slots=True)
class BucketServer:
    """Iceberg's own REST server over a bucket of SeaweedFS: catalog and store are two processes."""

    server: IcebergRest
    store: SeaweedFS
    store_retries: int | None = None
    own_tokens: bool = True

    @staticmethod
    def catalog_of(store: SeaweedFS) -> IcebergRest:
        return IcebergRest.on_s3(f"s3://{BUCKET}/warehouse", store.s3_uri, KEY, SECRET, REGION)

    @property
    def uri(self) -> str:
        return self.server.uri

    def options(self, uri: str, run: str, timeout_ms: int) -> dict[str, object]:
        options = ReferenceServer(self.server).options(uri, run, timeout_ms)
        retries = {} if self.store_retries is None else {"storage.store.retries": str(self.store_retries)}
        return {**options, **_storage(self.store), **retries}

    def direct(self) -> Catalog:
        return RestCatalog("direct", uri=self.uri, **_s3(self.store))


@dataclass(frozen=True, slots=True)
class SeaweedServer:
    """SeaweedFS as catalog and store, with a login that is really checked."""

    server: SeaweedFS
    own_tokens: bool = False

    @property
    def uri(self) -> str:
        return self.server.rest_uri

    def options(self, uri: str, run: str, timeout_ms: int) -> dict[str, object]:
        return {
            "catalog.type": "rest",
            "catalog.uri": uri,
            "warehouse": self.server.warehouse,
            "catalog.prop.credential": f"{KEY}:{SECRET}",
            "catalog.prop.header.X-Run": run,
            "catalog.prop.rest.timeout-ms": str(timeout_ms),
            **_storage(self.server),
        }

    def direct(self) -> Catalog:
        login = {"credential": f"{KEY}:{SECRET}", "oauth2-server-uri": f"{self.uri}/v1/oauth/tokens"}
        return RestCatalog(
            "direct", uri=self.uri, warehouse=self.server.warehouse, **login, **_s3(self.server)
        )


def _s3(store: SeaweedFS) -> dict[str, str]:
    return {
        "s3.endpoint": store.s3_uri,
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.region": REGION,
        "s3.path-style-access": "true",
    }


def _storage(store: SeaweedFS) -> dict[str, object]:
    return {f"storage.{name}": value for name, value in _s3(store).items()}
