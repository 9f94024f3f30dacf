"""Rows that the reader of a live subscription has decoded already (source/materialize).

    at, diff, row ──▶ columns, OP, TIME, ORDER        mark ──▶ MARK        error, raw ──▶ ERROR, RAW

A relation of Materialize does not change its columns while it is subscribed to: there is nothing to learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from calve.config.columns import SourceTable
from calve.envelope.base import Sample
from calve.envelope.materialize import Materialize
from calve.envelope.messages import errors, quoted
from calve.envelope.types import spark_type
from calve.model.columns import MARK, OP, ORDER, PARTITION, TIME

PARTITION_NAME = "subscription"
"""Who speaks: there is one."""


@dataclass(frozen=True, slots=True)
class MaterializeRows:
    """The rows of one subscription."""

    declared: SourceTable

    meaning = Materialize.meaning
    timed = True
    units_a_second = Materialize.units_a_second

    def tells(self, text: Column) -> Column:
        return text.isNotNull()

    def version(self, value: Column) -> Column:  # noqa: ARG002 (a subscription has the columns it began with)
        return F.lit(0)

    def learn(self, samples: Sequence[Sample], known: SourceTable | None) -> SourceTable:  # noqa: ARG002
        return known or self.declared

    def kernel(self, *_: Any, **__: Any) -> None:
        """There are no messages."""

    def decode(self, raw: DataFrame, table: SourceTable) -> DataFrame:
        """The changes and marks of a frame."""
        columns = [
            F.col(f"row.{quoted(one.name)}").cast(spark_type(one.type)).alias(one.name)
            for one in table.columns
        ]
        is_change = F.col("error").isNull() & F.col("mark").isNull()
        return raw.select(
            *columns,
            F.when(is_change, F.col("diff")).alias(OP),
            F.col("at").alias(TIME),
            F.when(F.col("diff") > 0, 1).otherwise(0).cast("long").alias(ORDER),
            F.col("mark").alias(MARK),
            F.lit(PARTITION_NAME).alias(PARTITION),
            *errors(F.col("error"), F.format_string("time %s", F.col("at")), F.col("raw")),
        )


def subscription_messages(frame: DataFrame) -> DataFrame:
    """The frame of a subscription, with the columns that every feed has. It has no messages."""
    nothing = F.lit(None).cast("binary")
    return frame.withColumns(
        {
            "partition": F.lit(PARTITION_NAME),
            "offset": F.lit(0).cast("long"),
            "key": nothing,
            "value": nothing,
        }
    )
