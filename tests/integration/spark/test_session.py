"""Settings of the transfer: a query's own session gets them, a user's own is given back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import types as T

from calve.runtime.spark.session import tune, tuned

pytestmark = pytest.mark.spark

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"

NUMBERS = (
    T.StructType()
    .add("id", T.LongType())
    .add("code", T.IntegerType())
    .add("value", T.DoubleType())
    .add("at", T.TimestampType())
    .add("price", T.DecimalType(9, 2))
)
WORDS = T.StructType().add("id", T.LongType()).add("word", T.StringType())
NESTED = T.StructType().add("id", T.LongType()).add("list", T.ArrayType(T.IntegerType()))


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    session = spark.newSession()
    yield session
    for name in (ROWS, BYTES):
        session.conf.unset(name)


def limits(session: Any) -> tuple[str, str]:
    return session.conf.get(ROWS), session.conf.get(BYTES)


def test_rows_of_equal_width_are_counted_and_others_are_weighed(session: Any) -> None:
    tune(session, NUMBERS)
    assert limits(session) == (str(4 * 2**20 // (8 + 4 + 8 + 8 + 16)), str(2**31 - 1))


@pytest.mark.parametrize("schema", [WORDS, NESTED], ids=["words", "nested"])
def test_rows_that_may_be_of_any_width_are_weighed(schema: T.StructType, session: Any) -> None:
    tune(session, schema)
    rows, size = limits(session)
    assert int(rows) == 2**31 - 1, "and not 0: a streaming data source in Python refuses that"
    assert int(size.rstrip("b")) == 4 * 2**20


def test_a_limit_of_the_user_s_own_stays(session: Any) -> None:
    session.conf.set(ROWS, "123")
    before = limits(session)
    tune(session, NUMBERS)
    assert limits(session) == before


def test_a_user_s_session_is_given_back_as_it_was(session: Any) -> None:
    before = limits(session)
    with tuned(session, NUMBERS):
        assert limits(session) != before
    assert limits(session) == before
    with pytest.raises(ZeroDivisionError), tuned(session, WORDS):
        raise ZeroDivisionError
    assert limits(session) == before
