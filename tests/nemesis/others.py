"""Others at work: Spark with Iceberg's own runtime compacts, rewrites manifests and expires snapshots."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.nemesis.lakes import sink_id
from tests.nemesis.rounds import Round


class Others:
    """Another engine on the tables of rounds."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._known: set[str] = set()

    def act(self, round: Round) -> str:
        """Do one of the things that others do; what it was, and how it ended."""
        name, arguments = round.random.choice(
            [
                ("rewrite_data_files", "options => map('rewrite-all', 'true')"),
                (
                    "rewrite_data_files",
                    "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')",
                ),
                ("rewrite_manifests", ""),
                ("expire_snapshots", self._expiry(round)),
            ]
        )
        words = ", ".join(filter(None, [f"table => '{sink_id(round.lake)}'", arguments]))
        try:
            self._spark.sql(f"CALL {self._catalog(round)}.system.{name}({words})").collect()
        except Exception as error:  # noqa: BLE001 - somebody else's failure is no fault of ours
            return f"{name} of another engine failed: {str(error).splitlines()[0][:120]}"
        return f"{name} by another engine"

    def read(self, round: Round, snapshot_id: int) -> list[tuple[Any, ...]]:
        """A snapshot as this engine sees it."""
        columns = ", ".join(f"`{name}`" for name in round.kind.columns)
        table = f"{self._catalog(round)}.{sink_id(round.lake)}"
        rows = self._spark.sql(f"SELECT {columns} FROM {table} VERSION AS OF {snapshot_id}").collect()
        return [tuple(row) for row in rows]

    def _expiry(self, round: Round) -> str:
        """All that was seen by the checker is old enough."""
        moment = datetime.fromtimestamp(round.checker.newest_ms / 1000, UTC)
        return f"older_than => TIMESTAMP '{moment:%F %T}.{moment.microsecond:06d}', retain_last => 1"

    def _catalog(self, round: Round) -> str:
        """The name of a round's catalog, once this engine knows it."""
        if round.catalog not in self._known:
            name = f"spark.sql.catalog.{round.catalog}"
            self._spark.conf.set(name, "org.apache.iceberg.spark.SparkCatalog")
            for key, value in {**round.lake.spark_settings, "cache-enabled": "false"}.items():
                self._spark.conf.set(f"{name}.{key}", value)
            self._known.add(round.catalog)
        return round.catalog
