"""gcp-storage-emulator: a Google Cloud Storage in Python, with the XML door of gcs_emulator.py.

It asks nobody who they are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

from tests.support.servers.process import Server, ask, free_ports

BUCKET = "bkt"
TOKEN = "canary-of-gcs-91ab"


class GoogleStorage(Server):
    name: ClassVar[str] = "gcs"

    def __init__(self) -> None:
        super().__init__()
        (self._port,) = free_ports(1)

    @property
    def uri(self) -> str:
        return f"http://{self.host}:{self._port}"

    def storage(self, token: str = TOKEN) -> dict[str, str]:
        """How the store is reached, in Iceberg's words."""
        expires = "4102444800000"  # a token that is still good in 2099
        return {
            "gcs.service.host": self.uri,
            "gcs.oauth2.token": token,
            "gcs.oauth2.token-expires-at": expires,
        }

    def command(self) -> list[str]:
        emulator = str(Path(__file__).with_name("gcs_emulator.py"))
        data = str(self.folder / "data")
        place = [f"--host={self.host}", f"--port={self._port}", f"--default-bucket={BUCKET}"]
        return [sys.executable, emulator, f"--data-dir={data}", "start", *place]

    def lists(self, request: str) -> bool:
        """Whether a request of its log asks for a list of objects."""
        return request.startswith(f"GET /{BUCKET}?")

    def answers(self) -> bool:
        return ask(f"{self.uri}/storage/v1/b/{BUCKET}").status == 200
