"""Azurite 3.35: Azure's own emulator of its blob service, with accounts and keys that are checked.

It comes from npm: requirements/package-lock.json, installed into .npm/ by `make npm`.
"""

from __future__ import annotations

import base64
import email.utils
import hmac
import shutil
from pathlib import Path
from typing import ClassVar

from tests.support.servers.process import ROOT, Server, ServerError, ask, free_ports

ACCOUNT = "calvetests"
KEY = base64.b64encode(b"canary-of-azurite-2c19").decode()
CONTAINER = "bkt"
_MAIN = ROOT / ".npm" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


class Azurite(Server):
    name: ClassVar[str] = "azurite"

    def __init__(self, tls: tuple[Path, Path] | None = None) -> None:
        """With a certificate and its key it speaks HTTPS, and takes identities too."""
        super().__init__()
        self._tls = tls
        (self._port,) = free_ports(1)

    @property
    def uri(self) -> str:
        """The endpoint, the account as the first part of its path."""
        return f"{'https' if self._tls else 'http'}://{self.host}:{self._port}/{ACCOUNT}"

    def storage(self, key: str = KEY) -> dict[str, str]:
        """How the store is reached, in Iceberg's words."""
        return {
            "adls.account-name": ACCOUNT,
            "adls.account-key": key,
            "adls.blob-storage-authority": f"{self.host}:{self._port}",
            "adls.blob-storage-scheme": "http",
        }

    def command(self) -> list[str]:
        node = shutil.which("node")
        if node is None:
            raise ServerError("azurite needs Node.js 18 or newer: install it")
        if not _MAIN.exists():
            raise ServerError("azurite is not there: run `make npm`")
        place = [f"--blobHost={self.host}", f"--blobPort={self._port}", f"--location={self.folder / 'data'}"]
        if self._tls is not None:
            place += [f"--cert={self._tls[0]}", f"--key={self._tls[1]}", "--oauth=basic"]
        return [node, str(_MAIN), *place, "--disableTelemetry", "--skipApiVersionCheck"]

    def environment(self) -> dict[str, str]:
        return {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}

    def lists(self, request: str) -> bool:
        """Whether a request of its log asks for a list of objects."""
        return "comp=list" in request

    def answers(self) -> bool:
        """It answers, and has the container."""
        url = f"{self.uri}/{CONTAINER}?restype=container"
        return ask(url, headers=_signed("PUT", CONTAINER), method="PUT").status in (201, 409)


def _signed(verb: str, container: str) -> dict[str, str]:
    """The headers of a request about a container, signed with the account's key."""
    headers = {
        "x-ms-date": email.utils.formatdate(usegmt=True),
        "x-ms-version": "2021-08-06",
    }
    own = "".join(f"{name}:{value}\n" for name, value in headers.items())
    # Eleven standard headers, all of them empty; the account stands in the path as well.
    text = f"{verb}{chr(10) * 12}{own}/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), "sha256").digest()
    return {**headers, "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"}
