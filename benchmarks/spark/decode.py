"""Decoding messages: rows a second of each envelope, beside Spark's plain from_json of the same messages.

The same Parquet file of messages is read by both, in turns, into a sink that drops the rows. The peer parses
a message into the columns of the table and the fields of its envelope, and does nothing else: no times, no
keys of deletes, no errors. What is counted is CPU time of the JVM and of Python workers, because machines are
shared: a ratio of 1 means that all the rest costs nothing. Of Avro the peer reads the same messages in JSON.

Plain messages are read by kernels, and all of these are; a second figure is that of messages that are left to
Spark's functions, as if none was plain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figure import Figure, at_least
from benchmarks.place import scratch
from benchmarks.spark.meter import cpu_by_kind
from benchmarks.spark.session import spark_session

_ROWS, _QUICK_ROWS = 500_000, 2_000
_ROUNDS, _QUICK_ROUNDS = 5, 1
_TABLE = (
    "id long primary key, name string not null, email string, amount decimal(10,2), quantity int, "
    "price double, placed_at timestamptz, day date, open boolean, note string"
)
_DELETES = "id % 10 = 0"


@dataclass(frozen=True, slots=True)
class Case:
    """One envelope: how its messages are made of a frame of rows, and how the peer reads them."""

    name: str
    envelope: Callable[[], Any]
    message: Callable[[], Any]
    """The value of a message, over the columns `id` and `after`, which is null in deletes."""
    peer: Callable[[Any], Any]
    """The type that the peer parses it as, from the type of a row."""
    key: Callable[[], Any] | None = None
    encoded: Callable[[Any], Any] | None = None
    """What the envelope reads, made of the messages that the peer reads; `None`: the same."""


def run(quick: bool) -> list[Figure]:
    rows, rounds = (_QUICK_ROWS, _QUICK_ROUNDS) if quick else (_ROWS, _ROUNDS)
    with scratch() as folder, spark_session(folder) as spark:
        return [figure for case in cases() for figure in _measured(spark, folder, case, rows, rounds)]


def cases() -> list[Case]:
    """All envelopes that are decoded in Spark columns."""
    from benchmarks.spark.envelopes import CASES

    return CASES


def _measured(spark: Any, folder: Path, case: Case, rows: int, rounds: int) -> list[Figure]:
    from pyspark.sql import functions as F

    from calve.config.columns import SourceTable
    from calve.envelope.types import spark_schema

    table = SourceTable.of(_TABLE)
    path = str(folder / case.name)
    _written(spark, case, rows, path)
    messages = spark.read.parquet(path)
    own = messages
    if case.encoded is not None:
        case.encoded(messages).write.parquet(f"{path}-encoded")
        own = spark.read.parquet(f"{path}-encoded")
    schema = spark_schema(table)
    envelope = case.envelope()
    sampled = _learnt(envelope, own, table)

    def left() -> Any:
        return envelope.decode(own, sampled)

    def peer() -> Any:
        parsed = F.from_json(F.col("value").cast("string"), case.peer(schema)).alias("m")
        return messages.select("partition", parsed).select("partition", "m.*")

    kernel = envelope.kernel("orders", sampled, checks_names=True)

    def plain() -> Any:
        read_of, place = _read(own, kernel)
        columns = (F.col(place.column)[field].alias(name) for name, field in place.fields.items())
        return read_of.select("partition", *columns)

    ways = {"": left} if kernel is None else {"": plain, ", left to Spark's functions": left}
    if kernel is not None:
        _check_all_plain(own, kernel)
    took = _in_turns((peer, *ways.values()), rounds)
    theirs, *mine = (median(one) for one in took)
    return [
        Figure(
            f"decode {case.name}{what}",
            rows / one / 1000,
            "thousand rows a CPU second",
            at_least(0.9) if not what else None,
            rows / theirs / 1000,
            "from_json",
            theirs / one,
        )
        for what, one in zip(ways, mine, strict=True)
    ]


def _read(messages: Any, kernel: Any) -> tuple[Any, Any]:
    from calve.envelope.read import read

    frame, places = read(messages, {"orders": kernel})
    return frame, places["orders"]


def _check_all_plain(messages: Any, kernel: Any) -> None:
    frame, place = _read(messages, kernel)
    if left := frame.where(f"{place.column} is null").count():
        raise AssertionError(f"{left} messages are not read by kernels")


def _learnt(envelope: Any, messages: Any, table: Any) -> Any:
    """What the envelope knows before it decodes: messages that bring their schema are looked at."""
    from calve.envelope.base import Sample

    first = messages.where("offset % 10 <> 0").first()
    sample = Sample("orders", first["partition"], first["offset"], first["key"], bytes(first["value"]))
    return envelope.learn([sample], table)


def _in_turns(frames: tuple[Callable[[], Any], ...], rounds: int) -> list[list[float]]:
    took: list[list[float]] = [[] for _ in frames]
    for number in range(rounds + 1):  # the first is to warm up
        for at, frame in enumerate(frames):
            before = _cpu_s()
            frame().write.format("noop").mode("overwrite").save()
            if number:
                took[at].append(_cpu_s() - before)
    return took


def _cpu_s() -> float:
    spent = cpu_by_kind()
    return spent["JVM"] + spent["workers"]


def _written(spark: Any, case: Case, rows: int, path: str) -> None:
    from pyspark.sql import functions as F

    after = F.struct(
        F.col("id"),
        F.concat(F.lit("customer number "), F.col("id")).alias("name"),
        F.concat(F.lit("someone."), F.col("id"), F.lit("@example.org")).alias("email"),
        ((F.col("id") % 100_000) / 100).cast("decimal(10,2)").alias("amount"),
        (F.col("id") % 50).cast("int").alias("quantity"),
        (F.col("id") * 0.37).alias("price"),
        F.timestamp_seconds(1_700_000_000 + F.col("id")).alias("placed_at"),
        F.date_add(F.lit("2026-01-01").cast("date"), (F.col("id") % 365).cast("int")).alias("day"),
        (F.col("id") % 2 == 0).alias("open"),
        F.lit("a note of some length that is the same in all rows").alias("note"),
    )
    source = spark.range(rows).withColumn("after", F.when(~F.expr(_DELETES), after))
    key = F.format_string("[%d]", F.col("id")) if case.key is None else case.key()
    source.select(
        F.lit("orders").alias("topic"),
        F.lit("orders/0").alias("partition"),
        F.col("id").alias("offset"),
        key.cast("binary").alias("key"),
        case.message().cast("binary").alias("value"),
    ).repartition(4).write.parquet(path)
