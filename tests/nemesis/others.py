"""Others at work: Spark with Iceberg's own runtime compacts, rewrites manifests and expires snapshots."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.nemesis.checker import Checker, Seen
from tests.nemesis.rounds import Round


class Others:
    """Another engine on the tables of rounds."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._known: set[str] = set()

    def act(self, round: Round) -> str:
        """Do one of the things that others do to a table; what it was, and how it ended."""
        checker = round.random.choice(round.checkers)
        name, arguments = round.random.choice(
            [
                ("rewrite_data_files", "options => map('rewrite-all', 'true')"),
                (
                    "rewrite_data_files",
                    "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')",
                ),
                ("rewrite_manifests", ""),
                ("expire_snapshots", self._expiry(checker)),
            ]
        )
        words = ", ".join(filter(None, [f"table => '{_quoted(checker)}'", arguments]))
        try:
            self._spark.sql(f"CALL {self._catalog(round)}.system.{name}({words})").collect()
        except Exception as error:  # noqa: BLE001 - somebody else's failure is no fault of ours
            return f"{name} of another engine failed: {str(error).splitlines()[0][:120]}"
        return f"{name} by another engine"

    def read(self, round: Round, checker: Checker, seen: Seen) -> list[tuple[Any, ...]]:
        """A snapshot as this engine sees it."""
        columns = ", ".join(f"`{name}`" if there else "NULL" for name, there in seen.columns.items())
        table = f"{self._catalog(round)}.{_quoted(checker)}"
        rows = self._spark.sql(f"SELECT {columns} FROM {table} VERSION AS OF {seen.snapshot_id}").collect()
        return [tuple(row) for row in rows]

    def _expiry(self, checker: Checker) -> str:
        """All that was seen by the checker is old enough."""
        moment = datetime.fromtimestamp(checker.newest_ms / 1000, UTC)
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


def _quoted(checker: Checker) -> str:
    """A table's name in SQL."""
    namespace, _, table = checker.sink_id.rpartition(".")
    return f"{namespace}.`{table}`"
