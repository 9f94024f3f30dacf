"""PostgreSQL: the rows of a live table, at an LSN, for who compares.

    driver: one transaction ──pg_export_snapshot──▶ the same snapshot in an executor ──COPY──▶ Arrow, as text

All rows are of one snapshot of the server, taken when the comparison begins; its LSN is told. The driver
reads no row. Values come as text, and are cast to the types of the table that they are compared with. Those
of an array come as texts in JSON, and each is cast as a value of its own would be.

Not here: maps and structs. PostgreSQL has no map; what it prints of a composite type, or of an extension's,
has rules of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.model.errors import CatalogError, ConfigError, SchemaMismatch
from calve.runtime.spark.ship import ship
from calve.source.postgres.copy import PADDED_TEXTS, TEXT, TEXTS, Copy

_EXTRA = "pip install 'calve[postgres]', also where executors run."
_ARRAYS = "A"
"""The category of arrays among PostgreSQL's types; a domain has that of what it is of."""


@dataclass(frozen=True, slots=True)
class LiveColumn:
    """A column of a server's table."""

    name: str
    type: str
    """As the server calls it."""
    category: str
    """As the server sorts its types."""


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table of a server, held at one moment."""

    name: str
    columns: tuple[LiveColumn, ...]
    lsn: str
    snapshot: str
    uri: str

    def __repr__(self) -> str:
        return f"<{self.name} at {self.lsn}>"

    def rows(self, spark: SparkSession, like: T.StructType) -> DataFrame:
        """Its rows, in the columns and types of another table."""
        known = {one.name: one for one in self.columns}
        for one in like:
            if (refused := self.refused(one)) is not None:
                raise refused
        copy = Copy(
            self.uri,
            self.name,
            tuple((one.name, _asked(one.dataType, known[one.name])) for one in like),
            self.snapshot,
        )
        schema = T.StructType([T.StructField(name, T.StringType()) for name in copy.names])
        ship(spark)
        texts = spark.range(0, 1, 1, 1).mapInArrow(copy, schema)
        told = [
            _told(F.col(name), one.dataType, known[one.name]).alias(one.name)
            for name, one in zip(copy.names, like, strict=True)
        ]
        return texts.select(*told)

    def refused(self, field: T.StructField) -> SchemaMismatch | None:
        """Why a column of another table has nothing here to be compared with."""
        server = next((one for one in self.columns if one.name == field.name), None)
        if server is None:
            return SchemaMismatch(
                f"PostgreSQL's table has no column {field.name!r}, which the table has",
                hint="Is it the right table? A column that was dropped there since cannot be compared.",
            )
        if _is_plain(field.dataType) or (_is_list(field.dataType) and server.category == _ARRAYS):
            return None
        return SchemaMismatch(
            f"column {field.name!r} is {field.dataType.simpleString()} in the table and {server.type} in "
            "PostgreSQL, which cannot be compared",
            hint="Arrays are compared with lists, nothing with maps and structs. Compare without it: a view "
            "that leaves it out, in a sink of its own.",
        )


@contextmanager
def live_table(uri: str, table: str) -> Iterator[LiveTable]:
    """A table, held at this moment while the block runs."""
    try:
        import psycopg
    except ModuleNotFoundError:
        raise ConfigError("PostgreSQL is read by psycopg, which is not installed", hint=_EXTRA) from None
    try:
        connection = psycopg.connect(uri, connect_timeout=10)
    except psycopg.OperationalError as error:
        raise CatalogError(
            f"PostgreSQL does not answer: {str(error).strip().splitlines()[0]}",
            hint="Is it the right host and port, and does it let this user in?",
        ) from None
    with connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        try:
            found = _held(connection, uri, table)
        except psycopg.Error as error:
            raise ConfigError(
                f"the table {table} cannot be read: {str(error).strip().splitlines()[0]}",
                hint="Name it with its schema, as the server does: public.orders.",
            ) from None
        yield found
        connection.rollback()


def _held(connection: Any, uri: str, table: str) -> LiveTable:
    with connection.cursor() as cursor:
        name, columns = cursor.execute(
            "SELECT $1::regclass::text, array_agg(ARRAY[attname::text, format_type(atttypid, atttypmod), "
            "typcategory::text] ORDER BY attnum) FROM pg_attribute JOIN pg_type t ON t.oid = atttypid "
            "WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped".replace("$1", "%(table)s"),
            {"table": table},
        ).fetchone()
        (snapshot,) = cursor.execute("SELECT pg_export_snapshot()").fetchone()
        (lsn,) = cursor.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    return LiveTable(name, tuple(LiveColumn(*one) for one in columns), lsn, snapshot, uri)


def _asked(kind: T.DataType, server: LiveColumn) -> str:
    """How a column is asked for, to be told in a type of Spark's."""
    if not _is_list(kind):
        return TEXT
    return PADDED_TEXTS if server.type.startswith("character(") else TEXTS


def _told(text: Column, kind: T.DataType, server: LiveColumn) -> Column:
    """What the server tells of a column, in a type of Spark's."""
    if isinstance(kind, T.ArrayType):
        # What is no list of this depth stops the query, instead of being a null.
        return _list(F.from_json(text, _texts(kind), {"mode": "FAILFAST"}), kind, server)
    return _value(text, kind, server)


def _list(texts: Column, kind: T.ArrayType, server: LiveColumn) -> Column:
    inner = kind.elementType
    if isinstance(inner, T.ArrayType):
        return F.transform(texts, lambda one: _list(one, inner, server))
    return F.transform(texts, lambda one: _value(one, inner, server))


def _value(text: Column, kind: T.DataType, server: LiveColumn) -> Column:
    match kind:
        case T.BinaryType():
            return F.unhex(F.substring(text, 3, 2**31 - 1))
        case T.LongType() if server.type.startswith("time"):
            return F.unix_micros(F.concat(F.lit("1970-01-01 "), text, F.lit("Z")).cast("timestamp"))
    return text.cast(kind)


def _texts(kind: T.DataType) -> T.DataType:
    """A list as it comes: of texts."""
    return T.ArrayType(_texts(kind.elementType)) if isinstance(kind, T.ArrayType) else T.StringType()


def _is_plain(kind: T.DataType) -> bool:
    return not isinstance(kind, T.ArrayType | T.MapType | T.StructType)


def _is_list(kind: T.DataType) -> bool:
    """Whether it is a list of plain values, or of such lists."""
    if not isinstance(kind, T.ArrayType):
        return False
    return _is_plain(kind.elementType) or _is_list(kind.elementType)
