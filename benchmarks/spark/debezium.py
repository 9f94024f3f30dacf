"""Debezium's messages of the table that is decoded: in JSON without schemas and with them, and in Avro."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from benchmarks.spark.decode import Case

_TIME = "io.debezium.time."
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_ROW: tuple[tuple[str, str, str], ...] = (
    ("id", "int64", ""),
    ("name", "string", ""),
    ("email", "string", ""),
    ("amount", "bytes", _DECIMAL),
    ("quantity", "int32", ""),
    ("price", "double", ""),
    ("placed_at", "string", _TIME + "ZonedTimestamp"),
    ("day", "int32", _TIME + "Date"),
    ("open", "boolean", ""),
    ("note", "string", ""),
)
_SOURCE: tuple[tuple[str, str, str], ...] = (
    ("version", "string", ""),
    ("connector", "string", ""),
    ("name", "string", ""),
    ("ts_ms", "int64", ""),
    ("snapshot", "string", ""),
    ("db", "string", ""),
    ("sequence", "string", ""),
    ("schema", "string", ""),
    ("table", "string", ""),
    ("txId", "int64", ""),
    ("lsn", "int64", ""),
)
_TRANSACTION = (("id", "string", ""), ("total_order", "int64", ""), ("data_collection_order", "int64", ""))
_AVRO = {"int32": "int", "int64": "long"}


def debezium_cases() -> list[Case]:
    from calve.envelope.debezium import Debezium, RegisteredDebezium, Registry

    registry = Registry("http://127.0.0.1:9")
    registry._known.update({1: _avro_schema(), 2: _record("Key", _ROW[:1])})
    return [
        Case("debezium", Debezium, _message, _peer, _key),
        Case(
            "debezium schemas", lambda: Debezium(schemas=True), _with_schema, _peer_payload, _key_with_schema
        ),
        Case(
            "debezium avro",
            lambda: RegisteredDebezium(registry=registry),
            _message,
            _peer,
            _key,
            lambda messages: messages.mapInArrow(_encode, messages.schema),
        ),
    ]


# ---------------------------------------------------------------- JSON


def _key() -> Any:
    from pyspark.sql import functions as F

    return F.format_string('{"id":%d}', F.col("id"))


def _key_with_schema() -> Any:
    from pyspark.sql import functions as F

    schema = json.dumps(_connect("Key", _ROW[:1]), separators=(",", ":"))
    return F.concat(F.lit('{"schema":' + schema + ',"payload":'), _key(), F.lit("}"))


def _message() -> Any:
    from pyspark.sql import functions as F

    hundreds = (F.col("after.amount") * 100).cast("long")
    amount = F.base64(F.unhex(F.lpad(F.hex(hundreds), 8, "0")))
    at = F.date_format("after.placed_at", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")
    changed = {"amount": amount, "placed_at": at, "day": F.unix_date("after.day")}
    row = [changed.get(name, F.col(f"after.{name}")).alias(name) for name, _, _ in _ROW]
    nothing = [F.lit(None).cast("string").alias(name) for name, _, _ in _ROW[1:]]
    gone = F.col("after").isNull()
    source = [
        *(
            F.lit(text).alias(name)
            for name, text in (("version", "3.6.1.Final"), ("connector", "postgresql"))
        ),
        F.lit("shop").alias("name"),
        (1_700_000_000_000 + F.col("id")).alias("ts_ms"),
        *(F.lit(text).alias(name) for name, text in (("snapshot", "false"), ("db", "postgres"))),
        F.format_string('["%d","%d"]', 22_000_000 + F.col("id"), 22_000_100 + F.col("id")).alias("sequence"),
        F.lit("public").alias("schema"),
        F.lit("orders").alias("table"),
        (700 + F.col("id")).alias("txId"),
        (22_000_100 + F.col("id")).alias("lsn"),
    ]
    transaction = [
        F.format_string("%d:%d", 700 + F.col("id"), 22_000_100 + F.col("id")).alias("id"),
        F.lit(1).alias("total_order"),
        F.lit(1).alias("data_collection_order"),
    ]
    body = F.struct(
        F.when(gone, F.struct("id", *nothing)).alias("before"),
        F.when(~gone, F.struct(*row)).alias("after"),
        F.struct(*source).alias("source"),
        F.struct(*transaction).alias("transaction"),
        F.when(gone, "d").otherwise("u").alias("op"),
        (1_700_000_000_000 + F.col("id")).alias("ts_ms"),
    )
    return F.to_json(body, {"ignoreNullFields": "false"})


def _with_schema() -> Any:
    from pyspark.sql import functions as F

    schema = {
        "type": "struct",
        "fields": [
            _connect("Value", _ROW, "before"),
            _connect("Value", _ROW, "after"),
            _connect("Source", _SOURCE, "source"),
            _connect("block", _TRANSACTION, "transaction"),
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
        "optional": False,
        "name": "shop.public.orders.Envelope",
    }
    text = json.dumps(schema, separators=(",", ":"))
    return F.concat(F.lit('{"schema":' + text + ',"payload":'), _message(), F.lit("}"))


def _connect(name: str, fields: Any, field: str | None = None) -> dict[str, Any]:
    inside = []
    for one, kind, meaning in fields:
        made = {"type": kind, "optional": one not in ("id", "name"), "field": one}
        if meaning:
            made |= {"name": meaning, "version": 1}
        if meaning == _DECIMAL:
            made["parameters"] = {"scale": "2", "connect.decimal.precision": "10"}
        inside.append(made)
    named = {"type": "struct", "fields": inside, "optional": True, "name": f"shop.public.orders.{name}"}
    return {**named, "field": field} if field else named


def _peer(_: Any) -> Any:
    """All of a message, as its schema says it, and the timestamp as one: the peer leaves nothing out."""
    from pyspark.sql import types as T

    kinds = {
        "int32": T.IntegerType(),
        "int64": T.LongType(),
        "double": T.DoubleType(),
        "boolean": T.BooleanType(),
        "string": T.StringType(),
        "bytes": T.StringType(),
    }

    def struct(fields: Any) -> Any:
        times = {_TIME + "ZonedTimestamp": T.TimestampType()}
        return T.StructType(
            [T.StructField(name, times.get(meaning, kinds[kind])) for name, kind, meaning in fields]
        )

    return T.StructType(
        [
            T.StructField("before", struct(_ROW)),
            T.StructField("after", struct(_ROW)),
            T.StructField("source", struct(_SOURCE)),
            T.StructField("transaction", struct(_TRANSACTION)),
            T.StructField("op", T.StringType()),
            T.StructField("ts_ms", T.LongType()),
        ]
    )


def _peer_payload(row: Any) -> Any:
    from pyspark.sql import types as T

    return T.StructType([T.StructField("payload", _peer(row))])


# ---------------------------------------------------------------- Avro


def _record(name: str, fields: Any) -> dict[str, Any]:
    inside = []
    for one, kind, meaning in fields:
        plain = _AVRO.get(kind, kind)
        made: Any = {"type": plain, "connect.name": meaning} if meaning else plain
        if meaning == _DECIMAL:
            made["connect.parameters"] = {"scale": "2", "connect.decimal.precision": "10"}
        inside.append({"name": one, "type": made if one in ("id", "name") else ["null", made]})
    return {"type": "record", "name": name, "fields": inside}


def _avro_schema() -> dict[str, Any]:
    value = _record("Value", [(name, kind, meaning) for name, kind, meaning in _ROW])
    value["fields"][1]["type"] = ["null", "string"]  # a delete has its key alone
    fields = [
        {"name": "before", "type": ["null", value]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": _record("Source", _SOURCE)},
        {"name": "transaction", "type": ["null", _record("block", _TRANSACTION)]},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ]
    return {"type": "record", "name": "Envelope", "namespace": "shop.public.orders", "fields": fields}


def _encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The messages in Avro: done once, before anything is measured."""
    import base64

    import fastavro

    schema = fastavro.parse_schema(_avro_schema())
    key = fastavro.parse_schema(_record("Key", _ROW[:1]))

    def written(number: int, kind: Any, record: Any) -> bytes:
        out = io.BytesIO(b"\x00" + number.to_bytes(4, "big"))
        out.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(out, kind, record)
        return out.getvalue()

    for batch in batches:
        values = []
        for text in batch.column("value").to_pylist():
            message = json.loads(text)
            for row in (message["before"], message["after"]):
                if row is not None and row["amount"] is not None:
                    row["amount"] = base64.b64decode(row["amount"])
            values.append(written(1, schema, message))
        keys = [written(2, key, json.loads(text)) for text in batch.column("key").to_pylist()]
        places = [batch.schema.get_field_index(name) for name in ("key", "value")]
        for place, made in zip(places, (keys, values), strict=True):
            batch = batch.set_column(place, batch.schema.field(place), pa.array(made, pa.binary()))
        yield batch
