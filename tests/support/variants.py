"""The kinds of tables that every reader is asked about, each with its columns, options and known limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from tests.support.workload import Column, Variant

PREFIX = "sixteen-letters-"  # as long as Iceberg's bounds of a text
GREATEST = "\U0010ffff"

NAMES = (
    "",
    "a",
    "Zürich",
    "naïve café",
    "東京",
    "🧊🧊",
    "quote ' and \" and \\",
    "a/b=c%2F d",
    "new\nline",
    f"{PREFIX}a",
    f"{PREFIX}b",
    f"{PREFIX}{GREATEST}",
    GREATEST * 20,
    "z" * 15 + GREATEST + "z",
    "é" * 40,
)
REGIONS = ("eu", "us", "a/b c%", "Österreich", "")
AMOUNTS = tuple(
    map(Decimal, ("0.00", "0.01", "-0.01", "-1234567.89", "9999999999.99", "-9999999999.99", "12.30"))
)
DAYS = (
    date(1, 1, 1),
    date(1582, 10, 15),
    date(1969, 12, 31),
    date(1970, 1, 1),
    date(2024, 2, 29),
    date(9999, 12, 31),
)
INSTANTS = (
    datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 0, tzinfo=UTC),
    datetime(2024, 2, 29, 12, 30, 15, 123_456, tzinfo=UTC),
    datetime(2262, 4, 12, tzinfo=UTC),
)
MOMENTS = tuple(instant.replace(tzinfo=None) for instant in INSTANTS)
SCORES = (0.0, -0.0, 1.5, -1e300, 5e-324, float("inf"), float("-inf"), float("nan"))
SMALL_SCORES = (0.0, 0.5, -1.25, 1024.0, float("inf"), float("nan"))

ID = Column("id", pa.int64(), tuple(range(-5, 30)), nullable=False)
REGION = Column("region", pa.string(), REGIONS)
NAME = Column("name", pa.string(), NAMES)
AMOUNT = Column("amount", pa.decimal128(12, 2), AMOUNTS)
DAY = Column("day", pa.date32(), DAYS)
MOMENT = Column("moment", pa.timestamp("us"), MOMENTS)
INSTANT = Column("instant", pa.timestamp("us", tz="UTC"), INSTANTS)
SCORE = Column("score", pa.float64(), SCORES)
FLAG = Column("flag", pa.bool_(), (True, False))
COUNT = Column("count", pa.int32(), (-(2**31), -7, 0, 7, 2**31 - 1))

LEDGER = (ID, REGION, NAME, AMOUNT, DAY, MOMENT, INSTANT, SCORE, FLAG, COUNT)

# The least decimal(12, 2) has no truncated value of twelve digits.
TRUNCATED = replace(AMOUNT, pool=tuple(amount for amount in AMOUNTS if amount != min(AMOUNTS)))

NULL_KEYS = {"duckdb": "DuckDB 1.5 loses rows where an equality column holds a null"}
NULL_PARTITIONS = {"duckdb": "DuckDB 1.5 fails on equality deletes of a partition with a null in it"}


def required(column: Column) -> Column:
    return replace(column, nullable=False)


def _columns(*changed: Column) -> tuple[Column, ...]:
    """The ledger's columns, with some of them changed or added."""
    by_name = {column.name: column for column in (*LEDGER, *changed)}
    return tuple(by_name.values())


def _upsert(name: str, key: tuple[str, ...], columns: tuple[Column, ...] = LEDGER, **more: Any) -> Variant:
    return Variant(name, (columns,), key=key, **more)


def _by(partition: str, **options: str) -> dict[str, object]:
    return {"partition.spec": partition, **{name.replace("_", "."): text for name, text in options.items()}}


UNPARTITIONED = _upsert("unpartitioned", ("id",))
SCOPED = _upsert("scoped", ("region", "id"), _columns(required(REGION)), options=_by("region"))
GLOBAL = _upsert("global", ("id",), options=_by("region"), epochs=6)
ON_MAIN = _upsert("fence on main", ("id",), options={"fence": "main"}, epochs=6)

_STRUCT = pa.struct(
    [
        pa.field("a", pa.int32()),
        pa.field("b", pa.struct([pa.field("c", pa.string()), pa.field("d", pa.decimal128(9, 3))])),
    ]
)
_ITEM = pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.timestamp("us"))])
_UUIDS = tuple(UUID(int=number) for number in (0, 1, 2**127, 2**128 - 1))

TYPES = (
    ID,
    FLAG,
    Column("i8", pa.int8(), (-128, 0, 127), stored=pa.int32()),
    Column("i16", pa.int16(), (-(2**15), 2**15 - 1), stored=pa.int32()),
    Column("u8", pa.uint8(), (0, 255), stored=pa.int32()),
    Column("u16", pa.uint16(), (0, 2**16 - 1), stored=pa.int32()),
    Column("u32", pa.uint32(), (0, 2**32 - 1), stored=pa.int64()),
    Column("u64", pa.uint64(), (0, 2**64 - 1), stored=pa.decimal128(20, 0)),
    Column("f32", pa.float32(), SMALL_SCORES),
    SCORE,
    Column("d9", pa.decimal128(9, 2), (Decimal("-9999999.99"), Decimal("0.10"), Decimal("9999999.99"))),
    Column("d18", pa.decimal128(18, 4), (Decimal("-99999999999999.9999"), Decimal("0.0001"))),
    Column(
        "d38", pa.decimal128(38, 10), (Decimal("-9999999999999999999999999999.0000000001"), Decimal("1E-10"))
    ),
    NAME,
    Column("large", pa.large_string(), NAMES, stored=pa.string()),
    Column("word", pa.dictionary(pa.int32(), pa.string()), ("red", "green"), stored=pa.string()),
    Column("blob", pa.binary(), (b"", b"\x00\xff", b"\xff" * 20, b"\xfe" + b"\xff" * 19)),
    Column("fixed", pa.binary(4), (b"\x00" * 4, b"\xff" * 4)),
    DAY,
    MOMENT,
    INSTANT,
    Column("millis", pa.timestamp("ms"), MOMENTS[2:4], stored=pa.timestamp("us")),
    Column("uid", pa.uuid(), _UUIDS),
    Column(
        "nested",
        _STRUCT,
        (
            {"a": 1, "b": {"c": "x", "d": Decimal("-1.500")}},
            {"a": None, "b": None},
            {"a": 2, "b": {"c": None, "d": None}},
        ),
    ),
    Column("texts", pa.list_(pa.string()), ([], ["x", None, f"{PREFIX}y"], [None])),
    Column("items", pa.list_(_ITEM), ([], [{"x": 1, "y": MOMENTS[1]}, None, {"x": None, "y": None}])),
    Column("pairs", pa.map_(pa.string(), pa.int64()), ([], [("k", 1), ("é", None)])),
    Column("deep", pa.map_(pa.string(), pa.list_(pa.int32())), ([], [("k", [1, None]), ("l", None)])),
)
NULL_STRUCTS = dict.fromkeys(
    ("spark", "sail"), "toArrow of PySpark 4.1 fails on a null struct with a required field"
)
_POINT = pa.struct([pa.field("x", pa.int32(), False), pa.field("name", pa.string(), False)])
STRICT = (
    ID,
    Column("point", _POINT, ({"x": 1, "name": "a"}, {"x": -1, "name": ""})),
    Column("points", pa.list_(_POINT), ([], [{"x": 1, "name": "a"}, None], [None])),
    Column("named", pa.map_(pa.string(), _POINT), ([], [("k", {"x": 1, "name": "a"}), ("l", None)])),
)
TIME = Column("clock", pa.time64("us"), (time(0), time(23, 59, 59, 999_999), time(12, 30, 0, 1)))

WIDER_KEY = {"duckdb": "DuckDB 1.5 fails on equality deletes of an int column that became a long"}

_EVOLVING_NOW = (
    ID,
    COUNT,
    Column("ratio", pa.float32(), SMALL_SCORES),
    Column("price", pa.decimal128(9, 2), (Decimal("-9999999.99"), Decimal("0.10"))),
    required(replace(NAME, name="note")),
)


def _evolving() -> tuple[tuple[Column, ...], ...]:
    """Stage by stage: a column is added, numbers get wider, a decimal gets wider and a column optional."""
    first = {column.name: column for column in _EVOLVING_NOW}
    added = {**first, "added": replace(NAME, name="added")}
    wider = {
        **added,
        "count": Column("count", pa.int64(), (*COUNT.pool, 2**62, -(2**62))),
        "ratio": Column("ratio", pa.float64(), SCORES),
    }
    relaxed = {
        **wider,
        "price": Column("price", pa.decimal128(18, 2), (Decimal("-9999999999999999.99"), Decimal("0.10"))),
        "note": replace(NAME, name="note"),
        "tags": Column("tags", pa.list_(pa.string()), ([], ["a", None])),
    }
    return tuple(tuple(stage.values()) for stage in (first, added, wider, relaxed))


def _evolved(name: str, **options: object) -> Variant:
    return Variant(name, _evolving(), {"schema.evolution": "true", **options}, ("id",), epochs=6)


def _wider_key(variant: Variant) -> Variant:
    """The variant under a key that is an int in its first two epochs, and a long after."""
    narrow = Column("id", pa.int32(), ID.pool, nullable=False)
    stages = tuple((narrow if number < 2 else ID, *stage[1:]) for number, stage in enumerate(variant.stages))
    return replace(variant, stages=stages, blind=WIDER_KEY)


VARIANTS: tuple[Variant, ...] = (
    UNPARTITIONED,
    SCOPED,
    GLOBAL,
    _upsert("scoped by bucket", ("id",), options=_by("bucket(4, id)")),
    _upsert("scoped by truncated key", ("name",), _columns(required(NAME)), options=_by("truncate(3, name)")),
    _upsert("scoped by text", ("name",), _columns(required(NAME)), options=_by("name")),
    _upsert(
        "scoped by the whole key",
        ("count", "flag", "amount", "moment", "instant", "day"),
        _columns(*map(required, (COUNT, FLAG, AMOUNT, MOMENT, INSTANT, DAY))),
        options=_by("count, flag, amount, moment, instant, day"),
    ),
    _upsert("sorted", ("id",), options=_by("bucket(2, id)", sort_order="instant DESC NULLS LAST, name")),
    _upsert("inserts are new", ("id",), options=_by("region", inserts_are_new="true"), epochs=6),
    _upsert(
        "composite key",
        ("name", "amount", "day", "count"),
        _columns(required(NAME), required(AMOUNT), required(DAY), required(COUNT)),
    ),
    _upsert("key of instants", ("instant", "flag"), _columns(required(INSTANT), required(FLAG))),
    _upsert("nullable key", ("region", "count"), options={"null.keys": "allow"}, blind=NULL_KEYS),
    _upsert(
        "nullable key, scoped", ("region", "count"), options=_by("region", null_keys="allow"), blind=NULL_KEYS
    ),
    _upsert(
        "nullable key, global",
        ("region", "count"),
        options=_by("day(instant)", null_keys="allow"),
        blind=NULL_KEYS,
    ),
    _evolved("evolved"),
    _evolved("evolved, scoped", **_by("bucket(3, id)")),
    _evolved("evolved, global", **_by("truncate(2, note)")),
    _wider_key(_evolved("evolved key")),
    _wider_key(_evolved("evolved key, scoped", **_by("bucket(3, id)"))),
    _upsert(
        "year, bucket, truncate", ("id",), options=_by("year(moment), bucket(4, name), truncate(2, region)")
    ),
    _upsert("month, identity", ("id",), options=_by("month(day), flag")),
    _upsert("day, truncate", ("id",), _columns(TRUNCATED), options=_by("day(instant), truncate(10, amount)")),
    _upsert("hour, bucket", ("id",), options=_by("hour(moment), bucket(3, amount)")),
    _upsert("void, year", ("id",), options=_by("void(region), year(day)")),
    _upsert("void of the key", ("id",), options=_by("void(id)")),
    _upsert(
        "void of the key, scoped", ("id",), options=_by("void(id), bucket(2, id)"), blind=NULL_PARTITIONS
    ),
    _upsert(
        "names beyond ASCII, scoped",
        ("id", "日本"),
        (ID, required(replace(REGION, name="日本")), replace(COUNT, name="ü")),
        options=_by("日本"),
    ),
    _upsert(
        "names beyond ASCII, global",
        ("id",),
        (ID, replace(REGION, name="日本"), replace(COUNT, name="ü")),
        options=_by("bucket(2, ü), 日本"),
    ),
    Variant("append", (LEDGER,), mode="append", epochs=3),
    Variant("append, partitioned", (LEDGER,), options=_by("day(instant), region"), mode="append", epochs=3),
    Variant("changelog", (LEDGER,), mode="changelog", epochs=3),
    _upsert("all types", ("id",), TYPES),
    _upsert("required below optional", ("id",), STRICT, blind=NULL_STRUCTS),
    Variant("all types, append", (TYPES,), mode="append", epochs=2),
    _upsert(
        "times of day", ("id",), (ID, TIME), blind={"spark": "Iceberg's Spark runtime has no time of day"}
    ),
)

__all__ = [
    "GLOBAL",
    "LEDGER",
    "ON_MAIN",
    "PREFIX",
    "SCOPED",
    "TRUNCATED",
    "UNPARTITIONED",
    "VARIANTS",
    "required",
]
