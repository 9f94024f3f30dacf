"""Lakes: where the tables of the nemesis live, as each of those who look at them finds its way there.

                 ┌─ words ──────────▶ a driver: `.catalog(name, **words)`
    Lake ────────┼─ metadata ───────▶ the checker: the table as its catalog shows it now
                 ├─ open_to_duckdb ─▶ the engine that reads every snapshot
                 └─ spark_settings ─▶ the other engine, which compacts and expires

A lake knows neither calve nor PyIceberg: the pointer comes from SQLite or from the REST server by plain HTTP,
so that what the checker sees is what any other client would. Each round has a lake of its own: a folder, or a
namespace of a server that they share.
"""

from __future__ import annotations

import json
import sqlite3
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from tests.support.servers.seaweedfs import SeaweedFS

TABLE = "t"
QUARANTINE = f"{TABLE}__quarantine"
LOCATION = "location of metadata"
"""Where a table's metadata says that it came from."""

_CATALOG = "catalog.db"
_ANSWERS_S = 30
# A proxy that the machine names is not on the way to loopback.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Lake(Protocol):
    """One catalog and its store, for the tables of one round."""

    absent_steps: ClassVar[tuple[str, ...]]
    """Steps that a driver does not take on this lake, by how their names begin."""
    together: ClassVar[bool]
    """Whether its catalog commits to several tables at once."""

    @property
    def namespace(self) -> str: ...

    @property
    def words(self) -> dict[str, str]:
        """How a driver is told of the catalog."""
        ...

    @property
    def spark_settings(self) -> dict[str, str]:
        """How Spark with Iceberg's runtime is told of it, by the end of each setting's name."""
        ...

    def open_to_duckdb(self, connection: Any) -> None:
        """Let DuckDB read its files."""
        ...

    def metadata(self, table: str = TABLE) -> dict[str, Any] | None:
        """A table as its catalog shows it now; `None` before there is one."""
        ...


Lakes = Callable[[Path, str], Lake]
"""A new lake for a round, from its folder and its name."""


def sink_id(lake: Lake, table: str = TABLE) -> str:
    return f"{lake.namespace}.{table}"


@dataclass(frozen=True)
class LocalLake:
    """SQLite and a folder."""

    folder: Path
    namespace: str = "ns"
    absent_steps: ClassVar[tuple[str, ...]] = ("REST: ",)
    together: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)

    @property
    def words(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self._catalog}", "warehouse": self.folder.as_uri()}

    @property
    def spark_settings(self) -> dict[str, str]:
        return {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{self._catalog}",
            "jdbc.schema-version": "V1",
            "warehouse": self.folder.as_uri(),
        }

    def open_to_duckdb(self, connection: Any) -> None:
        """It reads files anyway."""

    def metadata(self, table: str = TABLE) -> dict[str, Any] | None:
        if not self._catalog.exists():
            return None
        with sqlite3.connect(f"file:{self._catalog}?mode=ro", uri=True, timeout=30) as database:
            try:
                found = database.execute(
                    "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?", [table]
                ).fetchone()
            except sqlite3.OperationalError as error:
                if "no such table" not in str(error):
                    raise
                return None
        if found is None:
            return None
        path = Path("/" + found[0].removeprefix("file:").lstrip("/"))
        return {**json.loads(path.read_bytes()), LOCATION: found[0]}

    @property
    def _catalog(self) -> Path:
        return self.folder / _CATALOG


def local_lake(folder: Path, _: str) -> LocalLake:
    """SQLite and a folder of the round."""
    return LocalLake(folder / "lake")


@dataclass(frozen=True)
class RestLake:
    """A namespace of SeaweedFS: an Iceberg REST catalog that asks for a login by OAuth2, and S3."""

    server: SeaweedFS
    name: str
    absent_steps: ClassVar[tuple[str, ...]] = ("SQL: ", "metadata.json: ")  # the server writes it
    together: ClassVar[bool] = True
    namespace: str = field(init=False)

    def __post_init__(self) -> None:
        unique = f"{self.name.replace('-', '_')}_{uuid.uuid4().hex[:8]}"
        object.__setattr__(self, "namespace", unique)

    @property
    def words(self) -> dict[str, str]:
        return {
            "type": "rest",
            "uri": self.server.rest_uri,
            "warehouse": self.server.warehouse,
            "credential": self._credential,
            **self._store,
            "s3.region": self._region,
        }

    @property
    def spark_settings(self) -> dict[str, str]:
        return {
            "type": "rest",
            "uri": self.server.rest_uri,
            "warehouse": self.server.warehouse,
            "credential": self._credential,
            "oauth2-server-uri": f"{self.server.rest_uri}/v1/oauth/tokens",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            **self._store,
            "s3.path-style-access": "true",
            "client.region": self._region,
        }

    def open_to_duckdb(self, connection: Any) -> None:
        """Load what reads S3, from a file, and give it the login."""
        (version,) = connection.execute("SELECT version()").fetchone()
        extension = files("duckdb_extension_httpfs") / "extensions" / version / "httpfs.duckdb_extension"
        connection.execute(f"LOAD '{extension}'")
        store = self._store
        connection.execute(
            f"CREATE OR REPLACE SECRET seaweedfs (TYPE s3, KEY_ID '{store['s3.access-key-id']}', "
            f"SECRET '{store['s3.secret-access-key']}', REGION '{self._region}', URL_STYLE 'path', "
            f"ENDPOINT '{store['s3.endpoint'].removeprefix('http://')}', USE_SSL false)"
        )

    def metadata(self, table: str = TABLE) -> dict[str, Any] | None:
        from tests.support.servers.seaweedfs import TABLE_BUCKET

        place = f"v1/{TABLE_BUCKET}/namespaces/{self.namespace}/tables/{table}"
        token = self._ask("v1/oauth/tokens", data=urllib.parse.urlencode(self._form).encode())
        try:
            answer = self._ask(place, headers={"Authorization": f"Bearer {token['access_token']}"})
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return None
                raise
        return {**answer["metadata"], LOCATION: answer["metadata-location"]}

    def object_store(self, bucket: str) -> Any:
        """A bucket of its store, for who looks at the objects themselves."""
        from obstore.store import S3Store

        return S3Store(
            bucket,
            endpoint=self.server.s3_uri,
            access_key_id=self._store["s3.access-key-id"],
            secret_access_key=self._store["s3.secret-access-key"],
            region=self._region,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

    def _ask(self, place: str, **more: Any) -> Any:
        request = urllib.request.Request(f"{self.server.rest_uri}/{place}", **more)
        with _OPENER.open(request, timeout=_ANSWERS_S) as answer:
            return json.load(answer)

    @property
    def _store(self) -> dict[str, str]:
        from tests.support.servers.seaweedfs import KEY, SECRET

        return {
            "s3.endpoint": self.server.s3_uri,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
        }

    @property
    def _credential(self) -> str:
        store = self._store
        return f"{store['s3.access-key-id']}:{store['s3.secret-access-key']}"

    @property
    def _form(self) -> dict[str, str]:
        client, _, secret = self._credential.partition(":")
        return {"grant_type": "client_credentials", "client_id": client, "client_secret": secret}

    @property
    def _region(self) -> str:
        from tests.support.servers.seaweedfs import REGION

        return REGION


def rest_lakes(server: SeaweedFS) -> Lakes:
    """A namespace of a server for each round."""
    return lambda _, name: RestLake(server, name)
