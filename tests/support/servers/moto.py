"""moto 5: an S3 in Python. It takes any secret, and forgets everything when it ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

from tests.support.servers.process import Server, ask, free_ports

BUCKET = "bkt"
REGION = "us-east-1"
KEY = "calve-of-the-tests"
SECRET = "canary-of-moto-77d1"


class Moto(Server):
    name: ClassVar[str] = "moto"

    def __init__(self) -> None:
        super().__init__()
        (self._port,) = free_ports(1)

    @property
    def s3_uri(self) -> str:
        return f"http://{self.host}:{self._port}"

    def storage(self, secret: str = SECRET) -> dict[str, str]:
        """How the store is reached, in Iceberg's words."""
        return {
            "s3.endpoint": self.s3_uri,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": secret,
            "s3.region": REGION,
        }

    def command(self) -> list[str]:
        return [str(Path(sys.executable).parent / "moto_server"), "-H", self.host, "-p", str(self._port)]

    def lists(self, request: str) -> bool:
        """Whether a request of its log asks for a list of objects."""
        return request.startswith((f"GET /{BUCKET}?", f"GET /{BUCKET}/?"))

    def answers(self) -> bool:
        """It answers, and has the bucket."""
        return ask(f"{self.s3_uri}/{BUCKET}", method="PUT").status == 200
