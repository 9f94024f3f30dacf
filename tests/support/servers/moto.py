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

    def command(self) -> list[str]:
        return [str(Path(sys.executable).parent / "moto_server"), "-H", self.host, "-p", str(self._port)]

    def answers(self) -> bool:
        """It answers, and has the bucket."""
        return ask(f"{self.s3_uri}/{BUCKET}", method="PUT").status == 200
