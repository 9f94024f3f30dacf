"""Messages: what every envelope reads, and how it says that it can make nothing of one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from calve.model.columns import ERROR, PLACE, RAW

_RAW_CHARACTERS = 100_000
"""Of a bad message; what is longer is cut."""


def place_of(raw: DataFrame) -> Column:
    """Where a message stands: as its source says, or by its topic, partition and offset."""
    if "place" in raw.columns:
        return F.col("place")
    return F.format_string(
        "topic %s, partition %s, offset %s", F.col("topic"), F.col("partition"), F.col("offset")
    )


def errors(error: Column, place: Column, raw: Column) -> tuple[Column, Column, Column]:
    """The columns that tell of a bad message; they cost nothing where there is none."""
    bad = error.isNotNull()
    return (
        error.alias(ERROR),
        F.when(bad, place).alias(PLACE),
        F.when(bad, F.left(raw, F.lit(_RAW_CHARACTERS))).alias(RAW),
    )


def quoted(name: str) -> str:
    """A column's whole name, which may hold a dot."""
    return "`" + name.replace("`", "``") + "`"
