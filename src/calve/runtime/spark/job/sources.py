"""Sources: what `CREATE SOURCE` asks for, as a stream of Spark's.

    FeedFiles · Messages · Lines · Subscribed ──▶ Feed, which knows its changes
    Rows ──▶ a frame of rows as they are

A line or a message that is no row stops the stream: Spark would make nulls of it in silence (P8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from calve.config.columns import SourceTable
from calve.config.types.arrow import arrow_type
from calve.model.errors import About, BadColumns, ConfigError
from calve.runtime.machine import kafka_packages
from calve.runtime.spark.feed import Feed
from calve.runtime.spark.query import quiet_logs
from calve.runtime.spark.reader import StreamReader
from calve.sql.source import Declared, FeedFiles, Lines, Messages, Rows, Source, Subscribed
from calve.store import local_path

_CORRUPT = "__calve_corrupt"


def open_source(spark: SparkSession, source: Source) -> Feed | DataFrame:
    """The stream of a source. Nothing is read before it is started."""
    reader = StreamReader(spark)
    match source:
        case FeedFiles():
            _check_folder(source.url)
            return reader.cockroachdb(
                source.url,
                source.topics,
                tables=_tables(source.declared, source.topics),
                storage=source.storage or None,
                options=source.options,
                **_settings(source.settings, source.declared, source.topics),
            )
        case Messages():
            servers = source.options["kafka.bootstrap.servers"]
            _check_kafka(spark)
            return reader.kafka(
                servers,
                source.topics,
                envelope=source.envelope,
                tables=_tables(source.declared, source.topics),
                options={name: one for name, one in source.options.items() if one != servers},
                **_settings(source.settings, source.declared, source.topics),
            )
        case Lines():
            with _folder(source.path):
                stream = _lines(reader, source, spark.readStream.options(**source.options))
                whole = _lines(reader, source, spark.read)
            return replace(stream, bounded=lambda: whole.frame)
        case Subscribed():
            return reader.materialize(
                source.uri,
                source.relation,
                query=source.query,
                key=source.key,
                types=source.types,
                topic=source.name,
            )
    return rows_of(spark, source)


def _lines(reader: StreamReader, source: Lines, files: Any) -> Feed:
    return reader.messages(
        files.text(_uri(source.path)),
        envelope=source.envelope,
        topic=source.topic,
        tables=_tables(source.declared, (source.topic,)),
        **_settings(source.settings, source.declared, (source.topic,)),
    )


def rows_of(spark: SparkSession, source: Rows, *, bounded: bool = False) -> DataFrame:
    """Rows as they are; all that are there, where they are to be bounded."""
    assert source.declared.columns is not None
    schema = spark_schema(source.declared.columns)
    reader: Any = spark.read if bounded else spark.readStream
    if source.format == "kafka":
        _check_kafka(spark)
        said = {
            "subscribe": source.place,
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
            **source.options,
        }
        return _parsed(reader.format("kafka").options(**said).load(), schema)
    strict = {"mode": "FAILFAST"} if source.format in ("json", "csv") else {}
    options = {name: one for name, one in source.options.items() if not (bounded and name.startswith("max"))}
    files = reader.schema(schema).format(source.format).options(**strict, **options)
    with _folder(source.place):
        return files.load(_uri(source.place))


def spark_schema(table: SourceTable) -> T.StructType:
    """Declared columns as Spark's. What Spark has no type for cannot come in plain rows."""
    fields = []
    for column in table.columns:
        if re.search(r"\b(uuid|time)\b", column.type):
            raise BadColumns(
                f"column {column.name!r} is {column.type}, and plain rows have no such type in Spark",
                hint="Declare it string, as it comes.",
                about=About("columns", column.name),
            )
        kind = from_arrow_type(arrow_type(column.type), prefer_timestamp_ntz=True)
        fields.append(T.StructField(column.name, kind))
    return T.StructType(fields)


def _parsed(messages: DataFrame, schema: T.StructType) -> DataFrame:
    """The rows in messages of JSON. One that is no row of these columns stops the query, with its place."""
    text = F.col("value").cast("string")
    with_corrupt = T.StructType([*schema.fields, T.StructField(_CORRUPT, T.StringType())])
    row = F.from_json(text, with_corrupt, {"columnNameOfCorruptRecord": _CORRUPT})
    place = F.concat(
        F.lit("topic "),
        F.col("topic"),
        F.lit(", partition "),
        F.col("partition").cast("string"),
        F.lit(", offset "),
        F.col("offset").cast("string"),
        F.lit(": the message is no JSON object with the declared columns"),
    )
    bad = row.isNull() | row[_CORRUPT].isNotNull()
    checked = messages.select(F.when(bad, F.raise_error(place)).otherwise(row).alias("row"))
    return checked.select(*(F.col("row").getField(field.name).alias(field.name) for field in schema.fields))


def _tables(declared: Declared, topics: tuple[str, ...] | None) -> Mapping[str, SourceTable] | None:
    if declared.columns is None:
        return None
    if topics is None or len(topics) != 1:
        raise ConfigError(
            "columns are declared for one table, and the source may have several topics",
            hint="Name one: TOPIC = 'orders'. Give each topic a source of its own.",
            about="topic",
        )
    return {topics[0]: declared.columns}


def _settings(
    settings: Mapping[str, str], declared: Declared, topics: tuple[str, ...] | None
) -> dict[str, Any]:
    if declared.columns is not None or not declared.key:
        return dict(settings)
    if topics is None or len(topics) != 1:
        raise ConfigError(
            "KEY is of one table, and the source may have several topics",
            hint="Name one: TOPIC = 'orders'. Give each topic a source of its own.",
            about="key",
        )
    return {**settings, "key": declared.key}


def _check_kafka(spark: SparkSession) -> None:
    """Say at once what is missing, where Spark has no connector."""
    try:
        with quiet_logs():
            spark.read.format("kafka").option("kafka.bootstrap.servers", "x:1").option(
                "subscribe", "x"
            ).load()
    except AnalysisException as error:
        raise ConfigError(
            "Spark has no connector for Kafka in this session",
            hint=f"Add it, to calve or to spark-submit: --packages {kafka_packages(spark.version)}",
        ) from error


def _check_folder(url: str) -> None:
    """A local folder must be there: a name that is misspelt would be waited for without end."""
    scheme = urlsplit(url).scheme
    if scheme in ("", "file") and not Path(local_path(url)).is_dir():
        raise _no_folder(str(local_path(url)))


@contextmanager
def _folder(path: str) -> Iterator[None]:
    """Say in our words that a folder is not there."""
    try:
        with quiet_logs():
            yield
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise _no_folder(path) from None


def _no_folder(path: str) -> ConfigError:
    return ConfigError(f"there is no folder {path}", hint="Create it; files may come later.", about="path")


def _uri(path: str) -> str:
    return path if "://" in path or path.startswith("file:") else f"file://{path}"
