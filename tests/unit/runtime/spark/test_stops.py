"""A stop in the middle of a micro-batch is no failure, whatever the JVM says of it."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from calve.runtime.spark.stops import quiet

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


def test_what_fails_fails_in_its_own_words(spark: Any) -> None:
    def fails(frame: Any, _: int) -> None:
        frame.sparkSession._jvm.java.lang.Long.parseLong("x")

    with pytest.raises(Exception, match='For input string: "x"'):
        quiet(fails)(spark.range(1), 0)
