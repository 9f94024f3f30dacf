"""A stop in the middle of a micro-batch is no failure, whatever the JVM says of it."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from calve.cli import words
from calve.config.sink import SinkConfig
from calve.config.stream import StreamConfig
from calve.model.errors import Fenced
from calve.runtime.clock import SystemClock
from calve.runtime.spark.progress import Reporter, SinkListener
from calve.runtime.spark.stops import failure_of, keep_failures, quiet, stand_still

pytestmark = pytest.mark.spark


def test_spark_knows_a_stop_for_a_stop(spark: Any, tmp_path: Path) -> None:
    at_work = Event()

    def sleeps(frame: Any, _: int) -> None:
        at_work.set()
        frame.selectExpr("java_method('java.lang.Thread', 'sleep', 60000L)").collect()

    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = frame.writeStream.foreachBatch(quiet(sleeps))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert at_work.wait(60)
    query.stop()
    assert query.status["message"] == "Stopped"
    assert query.exception() is None


def test_a_stop_is_told_of_no_table_as_an_error(spark: Any, tmp_path: Path, caplog: Any) -> None:
    class Listener(SinkListener):
        def on_stopped(self, table: str, error: str) -> None:
            told.append((table, error))

    told: list[tuple[str, str]] = []
    at_work, ended = Event(), Event()
    config = StreamConfig(sink=SinkConfig(namespace="sales", table="orders"), checkpoint="/c")
    reporters = [Reporter(config, [Listener()], SystemClock()) for _ in range(2)]

    def sleeps(frame: Any, number: int) -> None:
        try:
            with reporters[0].micro_batch(number), reporters[1].micro_batch(number):
                at_work.set()
                frame.selectExpr("java_method('java.lang.Thread', 'sleep', 60000L)").collect()
        finally:
            ended.set()

    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = frame.writeStream.foreachBatch(quiet(sleeps))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert at_work.wait(60)
    query.stop()
    assert ended.wait(60)
    assert not told
    assert not [record for record in caplog.records if record.name == "calve.progress"]


@pytest.mark.parametrize("swallowed", [False, True])
def test_a_query_that_stands_still_is_stopped_also_where_the_interrupt_was_swallowed(
    spark: Any, tmp_path: Path, swallowed: bool
) -> None:
    at_work = Event()

    def stands(frame: Any, _: int) -> None:
        session = frame.sparkSession
        at_work.set()
        if swallowed:
            with pytest.raises(Py4JJavaError):
                frame.selectExpr("java_method('java.lang.Thread', 'sleep', 60000L)").collect()
        stand_still(session, session.sparkContext.getLocalProperty("sql.streaming.queryId"))

    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = frame.writeStream.foreachBatch(quiet(stands))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    keep_failures(query, [])
    assert at_work.wait(60)
    query.stop()
    assert query.exception() is None
    assert list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")) == [], "the next run gets it again"


def test_what_fails_fails_in_its_own_words(spark: Any) -> None:
    def fails(frame: Any, _: int) -> None:
        frame.sparkSession._jvm.java.lang.Long.parseLong("x")

    with pytest.raises(Exception, match='For input string: "x"'):
        quiet(fails)(spark.range(1), 0)


def test_a_query_that_fails_of_an_error_of_ours_is_told_in_its_words(spark: Any, tmp_path: Path) -> None:
    def fails(_: Any, __: int) -> None:
        raise Fenced("ns.t was claimed by another run", hint="Stop it.")

    failures: list[Exception] = []
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = frame.writeStream.foreachBatch(quiet(fails, failures.append))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    keep_failures(query, failures)
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    told = failure_of(raised.value)
    assert isinstance(told, Fenced)
    assert (told.message, told.hint) == ("ns.t was claimed by another run", "Stop it.")
    assert told.__traceback__ is None, "it would hold all that the pipeline holds"


def test_a_query_that_fails_of_something_else_is_told_in_its_words_too(spark: Any, tmp_path: Path) -> None:
    def fails(_: Any, __: int) -> None:
        raise ValueError("of a listener")

    failures: list[Exception] = []
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = frame.writeStream.foreachBatch(quiet(fails, failures.append))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    assert failure_of(raised.value) is None
    assert failure_of(ValueError("none of Spark's")) is None
    keep_failures(query, failures)
    failure = failure_of(raised.value)
    assert isinstance(failure, ValueError)
    assert words.told(raised.value).message == "ValueError: of a listener"
