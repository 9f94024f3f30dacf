"""Iceberg's own REST server 1.11 over a SQLite file: the reference for what a commit means.

It asks nobody who they are. Tables go to a local folder, or to S3 by properties of the catalog behind it.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tests.support.servers.java import JARS, jars_of, java
from tests.support.servers.process import Server, ask, free_ports

_LAUNCHER = Path(__file__).with_name("RestServer.java")


class IcebergRest(Server):
    name: ClassVar[str] = "iceberg-rest"

    def __init__(self, warehouse: str = "", **properties: str) -> None:
        """`properties` are the catalog's, `_` for `.`; those with a dash come in a dict: `**{"a-b": "c"}`."""
        super().__init__()
        self.warehouse = warehouse or (self.folder / "warehouse").as_uri()
        self._properties = properties
        (self._port,) = free_ports(1)

    @classmethod
    def on_s3(
        cls, warehouse: str, endpoint: str, key: str, secret: str, region: str, *, vends: bool = False
    ) -> IcebergRest:
        """Tables in a bucket; with `vends` the server hands its own login to whoever loads a table."""
        properties = {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": endpoint,
            "s3.access-key-id": key,
            "s3.secret-access-key": secret,
            "s3.path-style-access": "true",
            "client.region": region,
            "include-credentials": str(vends).lower(),
        }
        return cls(warehouse, **properties)

    @property
    def uri(self) -> str:
        return f"http://{self.host}:{self._port}"

    def options(self) -> dict[str, object]:
        """How a sink finds it, and where its store is; the login of the store is the server's to hand out."""
        place = {name: self._properties[name] for name in ("s3.endpoint",) if name in self._properties}
        if "client.region" in self._properties:
            place["s3.region"] = self._properties["client.region"]
        storage = {f"storage.{name}": value for name, value in place.items()}
        return {"catalog.type": "rest", "catalog.uri": self.uri, **storage}

    def command(self) -> list[str]:
        properties = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{self.folder / 'catalog.db'}",
            "jdbc.schema-version": "V1",
            "warehouse": self.warehouse,
            **self._properties,
        }
        file = self.folder / "catalog.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
        file.chmod(0o600)
        return java(_LAUNCHER, str(self._port), file, path=class_path())

    def answers(self) -> bool:
        return ask(f"{self.uri}/v1/config").status == 200


def class_path() -> str:
    """The set `rest` of the jars, SQLite's driver, and Hadoop's client out of PySpark."""
    import pyspark

    sqlite = sorted(JARS.glob("sqlite-jdbc-*.jar"))
    hadoop = sorted(Path(pyspark.__file__).parent.joinpath("jars").glob("hadoop-client-*.jar"))
    return ":".join([jars_of("rest"), *map(str, [*sqlite, *hadoop])])
