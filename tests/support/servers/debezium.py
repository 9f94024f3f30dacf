"""Kafka Connect 4.3 with Debezium's PostgreSQL connector 3.6, in one process.

    PostgreSQL (wal_level=logical) ──slot──▶ connectors ──▶ topics <prefix>.<schema>.<table>
                                                          <prefix>.transaction

Connectors remember how far they are in a file that is written now and then: one that was killed emits events
again.
"""

from __future__ import annotations

import json
import urllib.parse
from typing import ClassVar

from tests.support.servers.java import JARS, jars_of, java
from tests.support.servers.process import Server, ask, free_ports
from tests.support.servers.registry import converter_plugin

_WORKER = """\
bootstrap.servers={bootstrap}
listeners=http://{host}:{port}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=1000
plugin.path={folder}/plugins
plugin.discovery=service_load
topic.creation.enable=true
"""


class Debezium(Server):
    name: ClassVar[str] = "debezium"

    def __init__(self, bootstrap: str, *, avro: bool = False) -> None:
        """`avro`: with the converter of registry.py."""
        super().__init__()
        (self._port,) = free_ports(1)
        plugins = self.folder / "plugins"
        plugins.mkdir()
        plugins.joinpath("debezium").symlink_to(JARS / "debezium")
        if avro:
            converter_plugin(plugins / "converter")
        self._settings = self.folder / "worker.properties"
        self._settings.write_text(
            _WORKER.format(bootstrap=bootstrap, host=self.host, port=self._port, folder=self.folder),
            encoding="utf-8",
        )
        self._connectors: dict[str, dict[str, str]] = {}

    def connect(self, prefix: str, postgres: str, **settings: str) -> None:
        """A connector from now on, also after `start`: topics are named `<prefix>.<schema>.<table>`. In the
        names of its settings `_` stands for `.`."""
        uri = urllib.parse.urlsplit(postgres)
        self._connectors[prefix] = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "topic.prefix": prefix,
            "slot.name": f"slot_{prefix}",
            "publication.name": f"publication_{prefix}",
            "database.hostname": str(uri.hostname),
            "database.port": str(uri.port),
            "database.user": str(uri.username),
            "database.password": str(uri.password),
            "database.dbname": uri.path.lstrip("/"),
            "provide.transaction.metadata": "true",
            "poll.interval.ms": "20",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        if self.process is not None:
            self._put(prefix)
            self._wait()

    def disconnect(self, prefix: str) -> None:
        """End a connector; its slot and publication stay at the database."""
        del self._connectors[prefix]
        answer = ask(f"{self._uri}/{prefix}", method="DELETE")
        assert answer.status == 204, answer

    @property
    def _uri(self) -> str:
        return f"http://{self.host}:{self._port}/connectors"

    def command(self) -> list[str]:
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        files = []
        for prefix, settings in self._connectors.items():
            file = self.folder / f"{prefix}.json"
            file.write_text(json.dumps({"name": prefix, "config": settings}), encoding="utf-8")
            file.chmod(0o600)
            files.append(file)
        return java(main, self._settings, *files, path=jars_of("connect", "kafka"))

    def answers(self) -> bool:
        """Whether every connector runs."""
        if ask(self._uri).status != 200:
            return False
        return all(self._runs(prefix) for prefix in self._connectors)

    def _runs(self, prefix: str) -> bool:
        answer = ask(f"{self._uri}/{prefix}/status")
        if answer.status != 200:
            return False
        tasks = json.loads(answer.body)["tasks"]
        assert all(task["state"] != "FAILED" for task in tasks), tasks
        return bool(tasks) and all(task["state"] == "RUNNING" for task in tasks)

    def _put(self, prefix: str) -> None:
        body = json.dumps(self._connectors[prefix]).encode()
        headers = {"Content-Type": "application/json"}
        answer = ask(f"{self._uri}/{prefix}/config", headers, body, "PUT")
        assert answer.status in (200, 201), answer
