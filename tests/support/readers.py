"""Readers that we did not write, behind one door: Spark with Iceberg's own runtime, Sail, DuckDB.

    read_snapshot(reader, table, snapshot id, like=schema) ──▶ rows as plain Python values, sorted

Each reader answers with an Arrow table in types of its own: a uuid is text in Spark and bytes in Sail, a time
with a zone has the session's zone. `rows_of` brings both, the answer and the truth, into one form by the
truth's schema, so that equal rows are equal lists. It converts representations only; a number that is wrong,
a column that is missing or has another name stays wrong.

Spark and Sail share pyspark. Its builder refuses a remote session beside a regular one; the remote class
itself does not, so that both may run in one process.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.resources import files
from typing import Any, Protocol

import pyarrow as pa

from tests.support.lake import Lake, TableAt

Row = tuple[Any, ...]


class Reader(Protocol):
    """One engine."""

    name: str

    def read(self, table: TableAt, snapshot_id: int, where: str | None = None) -> pa.Table:
        """The rows of a snapshot, those that an SQL predicate is true for."""
        ...


def read_snapshot(
    reader: Reader, table: TableAt, snapshot_id: int, *, like: pa.Schema, where: str | None = None
) -> list[Row]:
    """What a reader sees of a snapshot, comparable with `rows_of` the truth of schema `like`."""
    answer = reader.read(table, snapshot_id, where)
    # Sail puts partition columns last: the order of columns is the reader's own.
    if sorted(answer.column_names) != sorted(like.names):
        raise AssertionError(f"{reader.name} sees the columns {answer.column_names}, not {like.names}")
    return rows_of(answer.select(like.names), like)


def rows_of(table: pa.Table, like: pa.Schema) -> list[Row]:
    """Rows in the form in which they are compared: plain values, in an order that follows from them."""
    columns = [
        [plain(value, field.type) for value in _values(column)]
        for column, field in zip(table.columns, like, strict=True)
    ]
    return sorted(zip(*columns, strict=True), key=repr)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    return column.to_pylist(maps_as_pydicts=None)


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value in its one form. `kind` is the type that it stands for, whatever the reader made of it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return tuple((field.name, plain(value[field.name], field.type)) for field in kind)
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return tuple(
            sorted(((plain(k, kind.key_type), plain(v, kind.item_type)) for k, v in pairs), key=repr)
        )
    if pa.types.is_list(kind):
        return tuple(plain(item, kind.value_type) for item in value)
    return _plain_leaf(value, kind)


def _plain_leaf(value: Any, kind: pa.DataType) -> Any:
    if isinstance(kind, pa.UuidType):
        if isinstance(value, uuid.UUID):
            return value
        return uuid.UUID(value) if isinstance(value, str) else uuid.UUID(bytes=bytes(value))
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_floating(kind):
        # Minus zero equals zero in SQL, and NaN equals nothing in Python.
        return "NaN" if math.isnan(value) else value + 0.0
    if pa.types.is_timestamp(kind):
        return _plain_timestamp(value, kind)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return bytes(value)
    if pa.types.is_time(kind) and isinstance(value, int):
        return (datetime(1, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)).time()
    return value


def _plain_timestamp(value: datetime, kind: pa.DataType) -> datetime:
    if (kind.tz is None) != (value.tzinfo is None):
        raise AssertionError(f"{value!r} where {kind} was expected")
    return value if kind.tz is None else value.astimezone(UTC)


class SparkReader:
    """Spark with Iceberg's own runtime: by the catalog, or by the metadata file alone."""

    def __init__(self, spark: Any, *, by_metadata: bool = False) -> None:
        self.spark = spark
        self.by_metadata = by_metadata
        self.name = "spark by metadata" if by_metadata else "spark"

    def read(self, table: TableAt, snapshot_id: int, where: str | None = None) -> pa.Table:
        if self.by_metadata:
            source = self.spark.read.format("iceberg").option("versionAsOf", str(snapshot_id))
            frame = source.load(table.metadata_location)
        else:
            frame = self.spark.sql(f"SELECT * FROM {table.name} VERSION AS OF {snapshot_id}")
        return (frame if where is None else frame.where(where)).toArrow()


def know_lake(spark: Any, lake: Lake) -> None:
    """Let a Spark session see a lake: Iceberg's JDBC catalog on PyIceberg's SQLite file."""
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{lake.catalog_file}",
        ".jdbc.schema-version": "V1",
        ".warehouse": lake.warehouse,
        # The sink commits behind Spark's back: what Spark read before must not answer for what is there now.
        ".cache-enabled": "false",
    }
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{lake.name}{name}", value)


class SailReader:
    """Sail: Spark's language over DataFusion, with its own Iceberg code in Rust."""

    name = "sail"

    def __init__(self, session: Any) -> None:
        self.session = session

    def read(self, table: TableAt, snapshot_id: int, where: str | None = None) -> pa.Table:
        frame = (
            self.session.read.format("iceberg").option("snapshotId", str(snapshot_id)).load(table.location)
        )
        return (frame if where is None else frame.where(where)).toArrow()


@contextmanager
def sail_reader() -> Iterator[SailReader]:
    """A Sail server in this process, and a client of it."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql.connect.session import SparkSession

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    host, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://{host}:{port}").create()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        yield SailReader(session)
    finally:
        session.stop()  # before the server: a session that is still open keeps it from stopping
        server.stop()


class DuckReader:
    """DuckDB, with its Iceberg extension as pip installs it."""

    name = "duckdb"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def read(self, table: TableAt, snapshot_id: int, where: str | None = None) -> pa.Table:
        scan = f"iceberg_scan('{table.metadata_location}', snapshot_from_id = {snapshot_id}::UBIGINT)"
        query = f"SELECT * FROM {scan}" + ("" if where is None else f" WHERE {where}")
        return self.connection.execute(query).to_arrow_table()


@contextmanager
def duck_reader() -> Iterator[DuckReader]:
    """DuckDB in memory. Extensions are loaded as files: nothing is fetched."""
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    version = connection.execute("SELECT version()").fetchone()[0]
    for extension in ("avro", "iceberg"):
        file = (
            files(f"duckdb_extension_{extension}") / "extensions" / version / f"{extension}.duckdb_extension"
        )
        connection.execute(f"LOAD '{file}'")
    connection.execute("SET TimeZone = 'UTC'")
    try:
        yield DuckReader(connection)
    finally:
        connection.close()


def differences(seen: Sequence[Row], truth: Sequence[Row]) -> str:
    """What is lost and what is too much, for the message of a failing test."""
    lost = [row for row in truth if row not in seen]
    extra = [row for row in seen if row not in truth]
    return f"{len(seen)} rows, {len(truth)} expected; lost {lost[:5]}; too much {extra[:5]}"
