"""The Hive metastore 2.3.10 of PySpark's jars, over Derby in a folder.

It asks nobody who they are, and knows no object store: its tables stand on the local disk. Locks are dropped
when their owner was silent for `lock_timeout_s`; the product's default is 300.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import ClassVar

from tests.support.servers.process import Server, free_ports

_LAUNCHER = Path(__file__).with_name("Metastore.java")


class Hive(Server):
    name: ClassVar[str] = "hive"

    def __init__(self, lock_timeout_s: int = 300) -> None:
        super().__init__()
        (self._port,) = free_ports(1)
        self._lock_timeout_s = lock_timeout_s

    @property
    def uri(self) -> str:
        return f"thrift://{self.host}:{self._port}"

    def options(self, warehouse: Path) -> dict[str, object]:
        """How a sink finds it."""
        return {
            "catalog.type": "hive",
            "catalog.uri": self.uri,
            "warehouse": str(warehouse),
            "catalog.prop.hive.hive2-compatible": "true",
        }

    def command(self) -> list[str]:
        import pyspark

        database = self.folder / "metastore"
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:{database};create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "hive.metastore.uris": "",
            "hive.metastore.warehouse.dir": (self.folder / "warehouse").as_uri(),
            "hive.metastore.schema.verification": "false",
            "hive.async.log.enabled": "false",
            "hive.support.concurrency": "true",
            "hive.txn.timeout": f"{self._lock_timeout_s}s",
            "datanucleus.connectionPoolingType": "NONE",
            "datanucleus.schema.autoCreateAll": "true",
            "calve.new": str(not database.exists()).lower(),
        }
        java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
        jars = Path(pyspark.__file__).parent / "jars" / "*"
        quick = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
        arguments = (f"{name}={value}" for name, value in settings.items())
        return [str(java), *quick, "-cp", str(jars), str(_LAUNCHER), str(self._port), *arguments]

    def answers(self) -> bool:
        from pyiceberg.catalog.hive import _HiveClient

        try:
            socket.create_connection((self.host, self._port), timeout=5).close()
        except OSError:
            return False
        with _HiveClient(self.uri) as client:
            return bool(client.get_all_databases())
