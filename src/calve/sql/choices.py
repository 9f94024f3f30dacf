"""Choices: the sources and catalogs that a pipeline may begin with. Plain words: the help shows them."""

from __future__ import annotations

from collections.abc import Mapping

FILES, COCKROACHDB_FILES, COCKROACHDB_KAFKA = "files", "cockroachdb-files", "cockroachdb-kafka"
DEBEZIUM, MATERIALIZE, KAFKA = "debezium", "materialize", "kafka"
SOURCES = {
    FILES: "rows in files: JSON, CSV, Parquet or ORC",
    COCKROACHDB_FILES: "a changefeed of CockroachDB, in a bucket or a folder",
    COCKROACHDB_KAFKA: "a changefeed of CockroachDB, on Kafka",
    DEBEZIUM: "changes of PostgreSQL, MySQL or MariaDB, by Debezium, on Kafka",
    MATERIALIZE: "a view, table or source of Materialize",
    KAFKA: "rows in JSON, on Kafka",
}
ON_KAFKA = (COCKROACHDB_KAFKA, DEBEZIUM, KAFKA)

EMBEDDED, REST, GLUE, S3TABLES, HIVE, POSTGRES = "embedded", "rest", "glue", "s3tables", "hive", "postgres"
CATALOGS = {
    EMBEDDED: "SQLite in a folder: no server is needed",
    REST: "an Iceberg REST catalog, such as Polaris, Lakekeeper or Nessie",
    GLUE: "AWS Glue",
    S3TABLES: "AWS S3 Tables",
    HIVE: "a Hive metastore",
    POSTGRES: "tables of a PostgreSQL database",
}

Said = Mapping[str, str]
"""Answers, by the names of their questions. What is empty was not said."""
