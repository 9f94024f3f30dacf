"""Types of Spark frames: the same that Arrow carries. No session is needed to say so."""

from __future__ import annotations

from hypothesis import given

from calve.config.columns import SourceColumn, SourceTable
from calve.config.types import arrow_type
from tests.support.types import types


@given(types())
def test_spark_and_arrow_carry_a_type_alike(kind):
    from pyspark.sql.pandas.types import from_arrow_type

    from calve.envelope.types import spark_type

    carried = arrow_type(str(kind), carried=True)
    assert from_arrow_type(carried, prefer_timestamp_ntz=True) == spark_type(str(kind))


def test_a_frame_has_the_columns_of_the_source_and_requires_none():
    import pyspark.sql.types as sql

    from calve.envelope.types import spark_schema

    table = SourceTable((SourceColumn("id", "uuid", True), SourceColumn("at", "list<time>")), ("id",))
    expected = sql.StructType().add("id", sql.BinaryType()).add("at", sql.ArrayType(sql.StringType()))
    assert spark_schema(table) == expected
