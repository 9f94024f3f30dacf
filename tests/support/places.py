"""Places: every store that the conformance suite runs over, each with a folder that no other test has."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from calve.store import Access, Store, store_for
from tests.support.backends import unique
from tests.support.servers import azurite, gcs, moto, seaweedfs
from tests.support.servers.process import Server

WRONG = base64.b64encode(b"canary-of-a-wrong-secret").decode()
_HOST = f"{azurite.ACCOUNT}.dfs.core.windows.net"
_ROOTS = {
    "seaweedfs": f"s3://{seaweedfs.BUCKET}",
    "moto": f"s3://{moto.BUCKET}",
    "azurite": f"abfss://{azurite.CONTAINER}@{_HOST}",
    "gcs": f"gs://{gcs.BUCKET}",
}
_BUCKET = "bkt"

OBJECT_STORES = tuple(pytest.param(name, marks=pytest.mark.servers) for name in _ROOTS)
LOGGED = tuple(param for param in OBJECT_STORES if param.values != ("seaweedfs",))
"""Those whose server tells which requests it was sent."""
ALL = ("local", *OBJECT_STORES)


@dataclass(frozen=True)
class Place:
    """A folder in a store."""

    name: str
    folder: str
    settings: Mapping[str, str]
    server: Any = None

    @property
    def store(self) -> Store:
        return self.store_at(self.folder)

    def store_at(self, location: str, settings: Mapping[str, str] | None = None) -> Store:
        return store_for(location, Access.of({"store.retries": "2", **(settings or self.settings)}))

    def at(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def elsewhere(self, bucket: str) -> str:
        """A location in another bucket of the same server."""
        return self.at("x").replace(f"//{_BUCKET}", f"//{bucket}", 1)

    def wrong_settings(self) -> dict[str, str]:
        """The settings with a secret that is not right."""
        return self.server.storage(WRONG)

    def options(self) -> dict[str, object]:
        """How a sink finds its warehouse here."""
        storage = {f"storage.{name}": value for name, value in self.settings.items()}
        return {"warehouse": f"{self.folder}/warehouse", **storage}


def make_place(name: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    if name == "local":
        return Place(name, folder.as_uri(), {})
    server: Server = request.getfixturevalue(name)
    return Place(name, f"{_ROOTS[name]}/{unique('folder')}", server.storage(), server)  # type: ignore[attr-defined]
