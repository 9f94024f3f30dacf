"""gcp-storage-emulator: a Google Cloud Storage in Python, with the XML door of gcs_emulator.py.

It asks nobody who they are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

from tests.support.servers.process import Server, ask, free_ports

BUCKET = "bkt"


class GoogleStorage(Server):
    name: ClassVar[str] = "gcs"

    def __init__(self) -> None:
        super().__init__()
        (self._port,) = free_ports(1)

    @property
    def uri(self) -> str:
        return f"http://{self.host}:{self._port}"

    def command(self) -> list[str]:
        emulator = str(Path(__file__).with_name("gcs_emulator.py"))
        data = str(self.folder / "data")
        place = [f"--host={self.host}", f"--port={self._port}", f"--default-bucket={BUCKET}", "--quiet"]
        return [sys.executable, emulator, f"--data-dir={data}", "start", *place]

    def answers(self) -> bool:
        return ask(f"{self.uri}/storage/v1/b/{BUCKET}").status == 200
