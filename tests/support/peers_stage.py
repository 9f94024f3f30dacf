"""Servers, sources and values of this machine for the statements of peers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from calve.runtime.spark.job.job import Job
from calve.runtime.spark.job.run import Ran, Watch, run
from calve.sql.defined import Definitions
from tests.support.changefeed.feed import Write
from tests.support.peers import AWS, CATALOG, CUSTOMERS, ORDERS, SENSORS, SINK, TRADES, URL, Printed
from tests.support.servers import ministack as stack
from tests.support.servers import seaweedfs as weed
from tests.support.servers.iceberg_rest import IcebergRest
from tests.support.servers.vending import Seen

USER, PASSWORD = "materialize", "canary-of-the-peers-7d21"
WAREHOUSE = f"s3://{weed.BUCKET}/warehouse"
JOB = "1017"
_SECRETS = """CREATE SECRET iceberg_pass FROM ENV 'PEER_PASSWORD';
CREATE SECRET store_secret FROM ENV 'PEER_STORE_SECRET';
"""
_URI = "https://my.awesome.cat:8081/api/catalog"
_TABLE_BUCKET = f"arn:aws:s3tables:{weed.REGION}:000000000000:bucket/{weed.TABLE_BUCKET}"


@dataclass
class Stage:
    """What the statements are told, and who looks at their tables."""

    spark: Any
    folder: Path
    rest: IcebergRest
    guarded: Seen
    """The same server, for who has the login."""
    seaweedfs: weed.SeaweedFS
    ministack: stack.Ministack
    written: int = 0

    # ---------------------------------------------------------------- statements

    def materialized(self, *, type: str = "rest") -> str:
        """Materialize: connections and a sink, and the secrets that they speak of."""
        uri, warehouse, form = {
            "rest": (self.guarded.uri, WAREHOUSE, 0),
            "s3table": (self.seaweedfs.rest_uri, _TABLE_BUCKET, 1),
        }[type]
        values = {_URI: uri, "'...'": f"'{warehouse}'", '"..."': "iceberg_s3_conn"}
        sink = SINK.told({}, more={"CHECKPOINT": f"'checkpoint-{type}'"})
        return _SECRETS + self._aws() + CATALOG.told(values, form=form) + sink

    def _aws(self) -> str:
        values = {"ABC123": weed.KEY, '"...."': "SECRET store_secret", "eu-west-1": weed.REGION}
        return AWS.told(values, more={"ENDPOINT": f"'{self.seaweedfs.s3_uri}'"})

    @property
    def url(self) -> str:
        """CockroachDB's, by a URL."""
        values = {
            "<rest-endpoint>": self.rest.uri.removeprefix("http://"),
            "<namespace>": "shop",
            "<table>": "orders",
            "s3://…": WAREHOUSE,
        }
        url = URL.text
        for printed, local in values.items():
            url = url.replace(printed, local)
        return f"{url}&equality_delete_by=id"

    def changefeed(self) -> str:
        """A changefeed in files, to that URL."""
        bucket = (self.folder / "bucket").as_uri()
        return (
            _SECRETS
            + self._aws()
            + (
                f"CREATE SOURCE shop (id long, status string) FROM COCKROACHDB CHANGEFEED (URL = '{bucket}', "
                f"TOPIC = 'orders', JOB ID = '{JOB}') KEY (id);\n"
                f"CREATE SINK feed FROM shop INTO '{self.url}' USING AWS CONNECTION iceberg_s3_conn;\n"
            )
        )

    def told(self, printed: Printed) -> str:
        """LaminarDB's."""
        store = {
            "'storage.aws_endpoint'": f"'{self.seaweedfs.s3_uri}'",
            "'storage.aws_access_key_id'": f"'{weed.KEY}'",
            "'storage.aws_secret_access_key'": "SECRET store_secret",
        }
        region = {"'storage.aws_region'": f"'{weed.REGION}'"}
        glue = {
            "'catalog.prop.glue.endpoint'": f"'{self.ministack.uri}'",
            "'catalog.prop.aws_access_key_id'": f"'{stack.KEY}'",
            "'catalog.prop.aws_secret_access_key'": f"'{stack.SECRET}'",
        }
        lake = {"s3://data-lake/warehouse": WAREHOUSE}
        values, more = {
            TRADES: ({"http://iceberg-catalog:8181": self.rest.uri, **lake}, region),
            ORDERS: ({":123456789:": f":{stack.ACCOUNT}:", "s3://lakehouse/warehouse": WAREHOUSE}, glue),
            CUSTOMERS: ({"http://polaris:8181": self.rest.uri, **lake}, region),
            SENSORS: (
                {"http://nessie:19120/api/v1": self.rest.uri, "s3://iot-lake/warehouse": WAREHOUSE},
                region,
            ),
        }[printed]
        return _SECRETS + printed.told(values, more=store | more)

    # ---------------------------------------------------------------- at work

    def write(self, folder: str, name: str, *rows: dict[str, Any]) -> None:
        """A file of JSON lines that arrives."""
        place = self.folder / folder
        place.mkdir(exist_ok=True)
        (place / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.written += 1
        os.utime(place / name, (self.written, self.written))  # Spark takes files by their age

    def put(self, writes: Iterable[Write]) -> None:
        """Files of a changefeed that appear in its bucket."""
        for write in writes:
            path = self.folder / "bucket" / write.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(write.content)

    def job(self, text: str) -> Job:
        return Job(Definitions.of_text(text, self.folder), self.spark)

    def run(self, text: str) -> dict[str, Ran]:
        """What is there now, into all sinks."""
        job = self.job(text)
        names = list(job.definitions.sinks)
        ran = run([job.prepare(name) for name in names], Watch(), once=True)
        return {one.sink: one for one in ran}

    def load(self, *identifier: str) -> Table:
        """A table of Iceberg's REST server, by PyIceberg."""
        catalog = load_catalog("rest", type="rest", uri=self.rest.uri, **self.seaweedfs.storage())
        return catalog.load_table(identifier)

    def rows(self, table: str, at: int | None = None, *, catalog: str = "rest") -> list[tuple[Any, ...]]:
        """Rows as Iceberg's own runtime sees them, by the REST server, or by SeaweedFS's table bucket."""
        places = {
            "rest": {".uri": self.rest.uri},
            "tables": {
                ".uri": self.seaweedfs.rest_uri,
                ".warehouse": self.seaweedfs.warehouse,
                ".credential": f"{weed.KEY}:{weed.SECRET}",
            },
        }
        settings = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "rest",
            ".cache-enabled": "false",
            ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            ".client.region": weed.REGION,
            ".s3.endpoint": self.seaweedfs.s3_uri,
            ".s3.path-style-access": "true",
            ".s3.access-key-id": weed.KEY,
            ".s3.secret-access-key": weed.SECRET,
            **places[catalog],
        }
        for name, value in settings.items():
            self.spark.conf.set(f"spark.sql.catalog.peers_{catalog}{name}", value)
        when = "" if at is None else f" VERSION AS OF {at}"
        found = self.spark.sql(f"SELECT * FROM peers_{catalog}.{table}{when}").toArrow().to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)
