"""SeaweedFS 4.48: an S3 store and an Iceberg REST catalog in one process, with real authentication.

The catalog takes OAuth2 (`credential=key:secret`) and SigV4 (signing name `s3tables`); the store SigV4. Wrong
secrets are refused by both. Tables go into a table bucket, other objects into a bucket.
"""

from __future__ import annotations

import json
import sys
import urllib.parse
from pathlib import Path
from typing import ClassVar

from tests.support.servers.process import Server, ask, free_ports

BUCKET = "bkt"
TABLE_BUCKET = "tbl"
REGION = "us-east-1"
KEY = "calve-of-the-tests"
SECRET = "canary-of-seaweedfs-5e0c"
_DAEMONS = ("master", "filer", "volume", "admin")


class SeaweedFS(Server):
    name: ClassVar[str] = "seaweedfs"

    def __init__(self, **flags: str) -> None:
        """`flags` are more of `weed mini`'s own, `_` for `.`: `s3_iceberg_credentialRole="…"`."""
        super().__init__()
        self._flags = {name.replace("_", "."): value for name, value in flags.items()}
        names = [f"{daemon}.port{kind}" for daemon in (*_DAEMONS, "s3") for kind in ("", ".grpc")]
        self._ports = dict(zip((*names, "s3.port.iceberg"), free_ports(len(names) + 1), strict=True))

    @property
    def s3_uri(self) -> str:
        return f"http://{self.host}:{self._ports['s3.port']}"

    @property
    def rest_uri(self) -> str:
        return f"http://{self.host}:{self._ports['s3.port.iceberg']}"

    @property
    def warehouse(self) -> str:
        return f"s3://{TABLE_BUCKET}"

    def oauth2(self, secret: str = SECRET) -> dict[str, object]:
        """How a sink finds the catalog and the store, with a token of OAuth2."""
        return {**self._options(), "catalog.prop.credential": f"{KEY}:{secret}"}

    def sigv4(self, secret: str = SECRET) -> dict[str, object]:
        """The same, with requests that are signed as AWS wants it."""
        signed = {
            "rest.sigv4-enabled": "true",
            "rest.signing-name": "s3tables",
            "rest.signing-region": REGION,
            "client.access-key-id": KEY,
            "client.secret-access-key": secret,
        }
        return {**self._options(), **{f"catalog.prop.{name}": value for name, value in signed.items()}}

    def storage(self, secret: str = SECRET) -> dict[str, str]:
        """How a store is reached, in Iceberg's words."""
        return {
            "s3.endpoint": self.s3_uri,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": secret,
            "s3.region": REGION,
        }

    def _options(self) -> dict[str, object]:
        storage = {f"storage.{name}": value for name, value in self.storage().items()}
        return {"catalog.type": "rest", "catalog.uri": self.rest_uri, "warehouse": self.warehouse, **storage}

    def command(self) -> list[str]:
        weed = Path(sys.executable).parent / "weed"
        flags = {
            "dir": str(self.folder / "data"),
            "ip": self.host,
            "ip.bind": self.host,
            "bucket": BUCKET,
            "tableBucket": TABLE_BUCKET,
            "admin.ui": "false",
            "webdav": "false",
            "s3.autoCreateBucket": "false",
            "s3.port.lance": "0",
            "master.telemetry": "false",
            **{name: str(port) for name, port in self._ports.items()},
            **self._flags,
        }
        (self.folder / "data").mkdir(exist_ok=True)
        return [str(weed), "mini", *(f"-{name}={value}" for name, value in flags.items())]

    def environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}

    def answers(self) -> bool:
        """A token opens the table bucket, and the store knows its user and its bucket."""
        form = {"grant_type": "client_credentials", "client_id": KEY, "client_secret": SECRET}
        token = ask(f"{self.rest_uri}/v1/oauth/tokens", data=urllib.parse.urlencode(form).encode())
        if token.status != 200:
            return False
        bearer = {"Authorization": f"Bearer {json.loads(token.body)['access_token']}"}
        tables = ask(f"{self.rest_uri}/v1/{TABLE_BUCKET}/namespaces", headers=bearer)
        return tables.status == 200 and ask(f"{self.s3_uri}/{BUCKET}").status == 403
