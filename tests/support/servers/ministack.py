"""ministack 1.5: an emulator of AWS; of it, Glue, S3 Tables, S3 and STS. It takes any login.

What it gets wrong stands in README.md, each with a test that fails when it is put right.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

from tests.support.servers.process import Server, ask, free_ports

ACCOUNT = "000000000000"
REGION = "us-east-1"
KEY = "calve-of-the-tests"
SECRET = "canary-of-ministack-5c2e"
LOGIN = {"client.access-key-id": KEY, "client.secret-access-key": SECRET}


class Ministack(Server):
    name: ClassVar[str] = "ministack"

    def __init__(self) -> None:
        super().__init__()
        (self._port,) = free_ports(1)

    @property
    def uri(self) -> str:
        return f"http://{self.host}:{self._port}"

    def options(self, warehouse: Path) -> dict[str, object]:
        """How a sink finds its Glue."""
        login = {f"catalog.prop.{name}": value for name, value in LOGIN.items()}
        return {
            "catalog.type": "glue",
            "catalog.uri": f"arn:aws:glue:{REGION}:{ACCOUNT}:catalog",
            "catalog.prop.glue.endpoint": self.uri,
            "warehouse": str(warehouse),
            **login,
        }

    def s3tables(self) -> dict[str, object]:
        """How a sink finds a table bucket, which is made when it is first asked for."""
        login = {f"catalog.prop.{name}": value for name, value in LOGIN.items()}
        storage = {"endpoint": self.uri, "access-key-id": KEY, "secret-access-key": SECRET, "region": REGION}
        return {
            "catalog.type": "s3table",
            "catalog.uri": f"{self.uri}/iceberg",
            "warehouse": self._table_bucket(),
            **login,
            **{f"storage.s3.{name}": value for name, value in storage.items()},
        }

    def _table_bucket(self) -> str:
        import boto3

        client = boto3.client(
            "s3tables",
            endpoint_url=self.uri,
            region_name=REGION,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )
        there = client.list_table_buckets()["tableBuckets"]
        return str((there or [client.create_table_bucket(name="tbl")])[0]["arn"])

    def command(self) -> list[str]:
        return [str(Path(sys.executable).parent / "ministack")]

    def environment(self) -> dict[str, str]:
        state = self.folder / "state"
        return {
            "BIND_HOST": self.host,
            "GATEWAY_PORT": str(self._port),
            "PERSIST_STATE": "1",
            "STATE_DIR": str(state),
            "S3_PERSIST": "1",
            "S3_DATA_DIR": str(state / "s3"),
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "TMPDIR": str(self.folder),
        }

    def answers(self) -> bool:
        return ask(f"{self.uri}/_ministack/health").status == 200
