"""Types of Kafka Connect, which Debezium's schemas name, and what they are in Iceberg: for docs/types.md."""

from __future__ import annotations

CONNECT: tuple[tuple[str, str, str], ...] = (
    ("`boolean`", "boolean", "`true`, `false`"),
    ("`int8`, `int16`, `int32`", "int", "a number"),
    ("`int64`", "long", "a number"),
    ("`float`, `float32`", "float", 'a number; `"NaN"`'),
    ("`double`, `float64`", "double", 'a number; `"NaN"`'),
    ("`string`", "string", "text"),
    ("`bytes`", "binary", "base64"),
    ("`array`", "list<T>", "a list"),
    ("`map`", "map<K,V>", "an object, or a list of pairs"),
    ("`struct`", "struct<…>", "an object"),
    (
        "`org.apache.kafka.connect.data.Decimal`",
        "decimal(p,s)",
        "base64 of the unscaled number, big-endian; `scale` and `connect.decimal.precision` in the schema",
    ),
    ("`io.debezium.data.VariableScaleDecimal`", "string", "`{scale, value}`: digits without bound"),
    ("`io.debezium.time.Date`, `org.apache.kafka.connect.data.Date`", "date", "days since 1970"),
    ("`io.debezium.time.Time`, `org.apache.kafka.connect.data.Time`", "time", "milliseconds of the day"),
    ("`io.debezium.time.MicroTime`", "time", "microseconds of the day"),
    ("`io.debezium.time.NanoTime`", "time", "nanoseconds of the day, cut to micro"),
    (
        "`io.debezium.time.Timestamp`, `org.apache.kafka.connect.data.Timestamp`",
        "timestamp",
        "milliseconds since 1970",
    ),
    ("`io.debezium.time.MicroTimestamp`", "timestamp", "microseconds since 1970"),
    ("`io.debezium.time.NanoTimestamp`", "timestamp", "nanoseconds since 1970, cut to micro"),
    ("`io.debezium.time.ZonedTimestamp`", "timestamptz", "text with its zone"),
    ("`io.debezium.time.ZonedTime`", "string", "text with its zone"),
    ("`io.debezium.time.IsoDate`", "date", "text"),
    ("`io.debezium.time.IsoTime`", "time", "text"),
    ("`io.debezium.time.IsoTimestamp`", "timestamp", "text"),
    ("`io.debezium.time.Year`", "int", "a number"),
    ("`io.debezium.time.Interval`", "string", "text: `P1Y2M3DT4H5M6S`"),
    ("`io.debezium.time.MicroDuration`", "long", "microseconds"),
    ("`io.debezium.data.Uuid`", "uuid", "text"),
    ("`io.debezium.data.Json`, `io.debezium.data.Xml`", "string", "text"),
    ("`io.debezium.data.Enum`, `io.debezium.data.EnumSet`", "string", "text"),
    ("`io.debezium.data.Bits`", "binary", "base64, little-endian"),
    ("`io.debezium.data.geometry.*`", "string", "`{wkb, srid}`, kept as its JSON text"),
)
"""Name, type in Iceberg, how values are spelt in JSON."""
