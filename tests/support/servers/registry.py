"""Apicurio's schema registry 2.6, which answers Confluent's clients at /apis/ccompat/v7.

    Debezium ──Apicurio's converter──▶ topics: 0 · id · Avro
        └──────────registers──────────▶ registry ◀──GET /schemas/ids/{id}── calve

It keeps schemas in memory: what was killed has forgotten them. One that hangs (`pause`) has not.
"""

from __future__ import annotations

import os
import signal
import tarfile
import zipfile
from pathlib import Path
from typing import ClassVar

from tests.support.servers.java import JARS, quick_java
from tests.support.servers.process import Server, ServerError, ask, free_ports

_APP = "apicurio-registry-app-*-all.tar.gz"
_CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"


class Registry(Server):
    name: ClassVar[str] = "registry"

    def __init__(self) -> None:
        super().__init__()
        (self._port,) = free_ports(1)
        packed = list(JARS.glob(f"registry/{_APP}"))
        if not packed:
            raise ServerError("Apicurio is not in .jars/registry/: run `make jars-nightly`")
        with tarfile.open(packed[0]) as archive:
            archive.extractall(self.folder / "app", filter="data")

    @property
    def url(self) -> str:
        """Where Confluent's clients find it."""
        return f"http://{self.host}:{self._port}/apis/ccompat/v7"

    def command(self) -> list[str]:
        (runner,) = (self.folder / "app").glob("*-runner.jar")
        settings = (f"-Dquarkus.http.host={self.host}", f"-Dquarkus.http.port={self._port}")
        return quick_java(*settings, "-jar", runner)

    def answers(self) -> bool:
        return ask(f"{self.url}/subjects").status == 200

    def pause(self) -> None:
        """Let it hang: connections are taken, and nothing answers."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def converters(self) -> dict[str, str]:
        """Settings of a connector whose keys and values are in Avro, as Confluent's converter writes it."""
        said = {
            "": _CONVERTER,
            ".apicurio.registry.url": f"http://{self.host}:{self._port}/apis/registry/v2",
            ".apicurio.registry.auto-register": "true",
            ".apicurio.registry.as-confluent": "true",
            ".apicurio.registry.headers.enabled": "false",
            ".apicurio.registry.use-id": "contentId",
        }
        both = {f"{part}.converter{name}": said[name] for part in ("key", "value") for name in said}
        return {**both, "schema.name.adjustment.mode": "avro"}


def converter_plugin(folder: Path) -> None:
    """Apicurio's converter as a plugin of Kafka Connect. Its jar does not say what it offers, so that a jar
    beside it does."""
    folder.mkdir()
    for jar in JARS.glob("converter/*.jar"):
        folder.joinpath(jar.name).symlink_to(jar)
    with zipfile.ZipFile(folder / "services.jar", "w") as services:
        services.writestr("META-INF/services/org.apache.kafka.connect.storage.Converter", _CONVERTER)
