"""The envelopes that are measured: how their messages look, and what a peer would parse them as."""

from __future__ import annotations

from typing import Any

from benchmarks.spark.debezium import debezium_cases
from benchmarks.spark.decode import Case

_JSON = {"ignoreNullFields": "false"}


def _hlc() -> Any:
    from pyspark.sql import functions as F

    return F.concat((1_698_775_840_000_000_000 + F.col("id")).cast("string"), F.lit(".0000000000"))


def _json(**fields: Any) -> Any:
    from pyspark.sql import functions as F

    return F.to_json(F.struct(*(value.alias(name) for name, value in fields.items())), _JSON)


def _struct(**fields: Any) -> Any:
    from pyspark.sql import types as T

    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def _text() -> Any:
    from pyspark.sql import types as T

    return T.StringType()


def _wrapped() -> Case:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from calve.envelope.cockroachdb import CockroachDB

    return Case(
        "cockroachdb wrapped",
        CockroachDB,
        lambda: _json(after=F.col("after"), key=F.array("id"), updated=_hlc()),
        lambda row: _struct(after=row, key=T.ArrayType(_text()), updated=_text(), resolved=_text()),
    )


def _enriched() -> Case:
    from pyspark.sql import functions as F

    from calve.envelope.cockroachdb import CockroachDB, Kind

    def source() -> Any:
        return F.struct(_hlc().alias("ts_hlc"), F.lit("orders").alias("table_name"))

    return Case(
        "cockroachdb enriched",
        lambda: CockroachDB(Kind.ENRICHED),
        lambda: _json(after=F.col("after"), op=F.lit("u"), ts_ns=F.col("id"), source=source()),
        lambda row: _struct(
            after=row, op=_text(), source=_struct(ts_hlc=_text(), table_name=_text()), resolved=_text()
        ),
        lambda: _json(id=F.col("id")),
    )


def _bare() -> Case:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from calve.envelope.cockroachdb import CockroachDB, Kind

    def message() -> Any:
        about = F.struct(_hlc().alias("updated")).alias("__crdb__")
        names = ("name", "email", "amount", "quantity", "price", "placed_at", "day", "open", "note")
        return F.to_json(F.struct("id", *(F.col(f"after.{name}") for name in names), about), _JSON)

    return Case(
        "cockroachdb bare",
        lambda: CockroachDB(Kind.BARE),
        message,
        lambda row: T.StructType(
            [*row.fields, T.StructField("__crdb__", _struct(updated=_text(), resolved=_text()))]
        ),
    )


def _materialize() -> Case:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from calve.envelope.materialize import Materialize

    def message() -> Any:
        names = ("name", "email", "amount", "quantity", "price", "placed_at", "day", "open", "note")
        return F.to_json(
            F.struct(
                F.col("id").alias("mz_timestamp"),
                F.lit(False).alias("mz_progressed"),
                F.lit(1).alias("mz_diff"),
                "id",
                *(F.col(f"after.{name}") for name in names),
            ),
            _JSON,
        )

    long = T.LongType
    return Case(
        "materialize",
        Materialize,
        message,
        lambda row: T.StructType(
            [
                T.StructField("mz_timestamp", long()),
                T.StructField("mz_progressed", T.BooleanType()),
                T.StructField("mz_diff", long()),
                *row.fields,
            ]
        ),
    )


CASES = [_wrapped(), _enriched(), _bare(), _materialize(), *debezium_cases()]
