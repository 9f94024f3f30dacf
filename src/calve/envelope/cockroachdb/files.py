"""Rows that the reader of a changefeed's files has decoded already, and the few that it could not.

    rows with a struct, marks, errors ─────────────▶ columns ─┐
    rows as text: another topic, new columns ─▶ wrapped JSON ─┴─▶ changes and marks

Files are read in Arrow, into the columns that were declared when the stream began (source/cockroachdb). What
has other columns since then comes as text, and is decoded like any message: nothing is lost, and it is slower
until the stream is started again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from calve.config.columns import SourceTable
from calve.decode.structs import Place
from calve.envelope.base import Sample
from calve.envelope.cockroachdb.decode import CockroachDB
from calve.envelope.cockroachdb.kinds import Kind
from calve.envelope.messages import errors, place_of, value_of
from calve.envelope.types import spark_type
from calve.model.columns import MARK, OP, PARTITION, TIME

FEED = "feed"
"""Who speaks in RESOLVED files: the feed as a whole."""
_SCHEMA = r"-([0-9a-fA-F]+)\.[^/]*$"


@dataclass(frozen=True, slots=True)
class CockroachFiles:
    """The rows of one topic in the frame of the files."""

    place: Place | None
    """Where they stand; `None` for a topic that was not declared."""
    topic: str | None = None

    meaning = "hlc"
    timed = True
    units_a_second = CockroachDB.units_a_second

    def tells(self, text: Column) -> Column:
        """Rows that come as text are those that show something new."""
        return self._wrapped.tells(text)

    def version(self, value: Column) -> Column:  # noqa: ARG002 (the file's name says it)
        """The version of the table's schema, which all rows of a file share."""
        return F.conv(F.regexp_extract(F.col("file"), _SCHEMA, 1), 16, 10).cast("long")

    def learn(self, samples: Sequence[Sample], known: SourceTable | None) -> SourceTable:
        """What rows that come as text show."""
        return known if known is not None and not samples else self._wrapped.learn(samples, known)

    def kernel(self, *_: Any, **__: Any) -> None:
        """The reader of the files has one."""

    def decode(self, raw: DataFrame, table: SourceTable) -> DataFrame:
        """The changes and marks of a topic."""
        as_text = F.col("value").isNotNull()
        rest = self._wrapped.decode(raw.where(as_text), table)
        return self._read(raw.where(~as_text), table).unionByName(rest)

    @property
    def _wrapped(self) -> CockroachDB:
        return CockroachDB(Kind.WRAPPED, topic=self.topic)

    def _read(self, raw: DataFrame, table: SourceTable) -> DataFrame:
        """What the reader has decoded."""
        return raw.select(
            *(
                value_of(one.name, self.place).cast(spark_type(one.type)).alias(one.name)
                for one in table.columns
            ),
            F.col("change").alias(OP),
            F.col("at").alias(TIME),
            F.col("mark").alias(MARK),
            F.lit(FEED).alias(PARTITION),
            *errors(F.col("error"), place_of(raw), F.col("raw")),
        )


def file_messages(frame: DataFrame) -> DataFrame:
    """The frame of the files, with the columns that every feed has: a message is a row that comes as text."""
    text = F.when(F.col("error").isNull(), F.col("raw")).cast("binary")
    return frame.withColumns(
        {
            "partition": F.lit(FEED),
            "offset": F.col("line"),
            "key": F.lit(None).cast("binary"),
            "value": text,
        }
    )
