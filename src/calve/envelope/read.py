"""Read: messages that kernels have read already (`decode`), beside those that they have left.

messages ──kernels──▶ a struct: the change ──────────────────▶ its columns ─┐
                 └──▶ no struct: marks, errors, what is rare ──▶ decode ────┴─▶ changes and marks
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from calve.config.columns import SourceTable
from calve.decode.carriers import JSON
from calve.decode.messages import Decoding, Kernel
from calve.decode.structs import Place
from calve.decode.tables import TopicPlan, make_tables
from calve.envelope.base import Envelope
from calve.envelope.messages import value_of
from calve.model.columns import PARTITION, RESERVED


def table_plan(table: SourceTable) -> TopicPlan:
    """A table as kernels take it."""
    return make_tables({"": (columns_of(table), table.key)}, {"": table.before_key})[0]


def columns_of(table: SourceTable) -> list[tuple[str, str]]:
    """Names and types."""
    return [(one.name, JSON if one.is_json else one.type) for one in table.columns]


def read(messages: DataFrame, kernels: Mapping[str, Kernel]) -> tuple[DataFrame, Mapping[str, Place]]:
    """Messages with what kernels have read of them; and where that of each topic stands."""
    if not kernels:
        return messages, {}
    decoding = Decoding(kernels, f"{RESERVED}read")
    plain = messages.select(
        "topic", "partition", F.col("offset").cast("long").alias("offset"), "key", "value"
    )
    # What has no zone stays as it is, whatever the session's is.
    schema = from_arrow_schema(decoding.schema(to_arrow_schema(plain.schema)), prefer_timestamp_ntz=True)
    return plain.mapInArrow(decoding, schema), decoding.structs.places


def decode(messages: DataFrame, envelope: Envelope, table: SourceTable, place: Place | None) -> DataFrame:
    """The changes and marks in messages of a topic, some of which stand in a struct already."""
    if place is None:
        return envelope.decode(messages, table)
    is_read = F.col(place.column).isNotNull()
    rest = envelope.decode(messages.where(~is_read), table)
    columns = []
    for field in rest.schema:
        value = F.col("partition") if field.name == PARTITION else value_of(field.name, place)
        columns.append(value.cast(field.dataType).alias(field.name))
    return messages.where(is_read).select(*columns).unionByName(rest)
