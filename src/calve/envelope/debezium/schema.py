"""Fields: what a value of a message is, as its schema says it. One form for all ways that schemas come in.

    {"schema": {"type": "struct", "fields": […]}}   Kafka Connect's JSON ─┐
    {"type": "record", "fields": […]}               Avro ─────────────────┼─▶ Field ─▶ type in Iceberg
    declared or guessed columns                     ──────────────────────┘       └──▶ how it is decoded

A field has a kind, which says how the value is encoded, and a meaning: the name by which Debezium says what
it stands for. Meanings that are not known are of no consequence: the value is what its kind says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calve.config.types import Decimal, List, Map, Plain, Struct, Type
from calve.config.types.tree import DIGITS_MAX
from calve.model.errors import SchemaMismatch

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
ANY_DECIMAL = "calve.Decimal"
"""Of declared columns: either of the two, as each message has it."""
GEOMETRY = "io.debezium.data.geometry."

MICROSECONDS = 1_000_000
DATES = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
TIMES = {
    "io.debezium.time.Time": 1_000,
    "org.apache.kafka.connect.data.Time": 1_000,
    "io.debezium.time.MicroTime": MICROSECONDS,
    "io.debezium.time.NanoTime": 1_000 * MICROSECONDS,
}
"""Times of the day, and how many of their units make a second."""
TIMESTAMPS = {
    "io.debezium.time.Timestamp": 1_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": MICROSECONDS,
    "io.debezium.time.NanoTimestamp": 1_000 * MICROSECONDS,
}
ISO_DATE, ISO_TIME = "io.debezium.time.IsoDate", "io.debezium.time.IsoTime"
ISO_TIMESTAMP, ZONED_TIMESTAMP = "io.debezium.time.IsoTimestamp", "io.debezium.time.ZonedTimestamp"
UUID = "io.debezium.data.Uuid"

_PLAIN = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
}
_MEANINGS = {
    **dict.fromkeys((*DATES, ISO_DATE), "date"),
    **dict.fromkeys((*TIMES, ISO_TIME), "time"),
    **dict.fromkeys((*TIMESTAMPS, ISO_TIMESTAMP), "timestamp"),
    ZONED_TIMESTAMP: "timestamptz",
    UUID: "uuid",
    VARIABLE_DECIMAL: "string",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a message, and what is inside of it."""

    name: str
    kind: str
    """`int32`, `bytes`, `struct` …: Kafka Connect's words."""
    meaning: str = ""
    scale: int = 0
    precision: int | None = None
    required: bool = False
    inside: tuple[Field, ...] = ()
    """The fields of a struct, the element of an array, key and value of a map."""

    def type(self) -> Type:
        """What it is in Iceberg."""
        if self.meaning == DECIMAL:
            return self._decimal()
        if self.meaning in _MEANINGS:
            return Plain(_MEANINGS[self.meaning])
        match self.kind:
            case "array":
                return List(self.inside[0].type())
            case "map":
                return Map(self.inside[0].type(), self.inside[1].type())
            case "struct" if self.inside and not self.meaning.startswith(GEOMETRY):
                return Struct(tuple((one.name, one.type()) for one in self.inside))
            case "struct":
                return Plain("string")
        if self.kind not in _PLAIN:
            raise SchemaMismatch(
                f"column {self.name!r} is of the kind {self.kind!r}, which is not known",
                hint="Leave the column out at the source (column.exclude.list), or declare it.",
            )
        return Plain(_PLAIN[self.kind])

    def _decimal(self) -> Type:
        precision = DIGITS_MAX if self.precision is None else self.precision
        if not 0 <= self.scale <= DIGITS_MAX or precision > DIGITS_MAX:
            raise SchemaMismatch(
                f"column {self.name!r} has {precision} digits, {self.scale} of them behind the point: more "
                f"than the {DIGITS_MAX} of a decimal in Iceberg",
                hint="Let the connector send it as text (decimal.handling.mode=string).",
            )
        return Decimal(max(precision, self.scale), self.scale)

    def field(self, name: str) -> Field | None:
        """A field of a struct by its name."""
        return next((one for one in self.inside if one.name == name), None)


def from_connect(schema: Mapping[str, Any], name: str = "") -> Field:
    """A field from Kafka Connect's JSON form of a schema."""
    kind = str(schema["type"])
    parameters = schema.get("parameters") or {}
    inside: tuple[Field, ...] = ()
    match kind:
        case "struct":
            inside = tuple(from_connect(one, one["field"]) for one in schema["fields"])
        case "array":
            inside = (from_connect(schema["items"], "element"),)
        case "map":
            inside = (from_connect(schema["keys"], "key"), from_connect(schema["values"], "value"))
    return _field(name, kind, schema.get("name"), parameters, not schema.get("optional", False), inside)


def from_avro(schema: Any, known: dict[str, Any], name: str = "") -> Field:
    """A field from an Avro schema, as Kafka Connect's converters write them; `known` are the records that
    were named before."""
    options = [one for one in schema if one != "null"] if isinstance(schema, list) else [schema]
    if len(options) != 1:
        raise SchemaMismatch(
            f"field {name!r} is one of several types: {', '.join(map(_avro_name, options))}",
            hint="A column has one type. Split it at the source.",
        )
    required, one = len(options) == 1 and not isinstance(schema, list), options[0]
    if isinstance(one, str) and one in known:
        one = known[one]
    if isinstance(one, str):
        one = {"type": one}
    if isinstance(one["type"], (dict, list)):
        return from_avro(one["type"], known, name)
    kind = _AVRO.get(one["type"], one["type"])
    inside: tuple[Field, ...] = ()
    match one["type"]:
        case "record":
            known[one["name"]] = known[f"{one.get('namespace', '')}.{one['name']}"] = one
            inside = tuple(from_avro(field["type"], known, field["name"]) for field in one["fields"])
        case "array":
            inside = (from_avro(one["items"], known, "element"),)
        case "map":
            inside = (Field("key", "string", required=True), from_avro(one["values"], known, "value"))
    parameters = one.get("connect.parameters") or {}
    if one.get("logicalType") == "decimal":
        digits = {"scale": one.get("scale", 0), "connect.decimal.precision": one["precision"]}
        parameters = {**digits, **parameters}
    meaning = one.get("connect.name") or (DECIMAL if one.get("logicalType") == "decimal" else None)
    return _field(name, kind, meaning, parameters, required, inside)


_AVRO = {"int": "int32", "long": "int64", "record": "struct", "enum": "string", "fixed": "bytes"}


def _avro_name(schema: Any) -> str:
    return str(schema.get("name") or schema["type"]) if isinstance(schema, dict) else str(schema)


def _field(
    name: str,
    kind: str,
    meaning: str | None,
    parameters: Mapping[str, Any],
    required: bool,
    inside: tuple[Field, ...],
) -> Field:
    kind = {"float32": "float", "float64": "double"}.get(kind, kind)
    precision = parameters.get("connect.decimal.precision")
    return Field(
        name,
        kind,
        meaning or "",
        int(parameters.get("scale", 0)),
        None if precision is None else int(precision),
        required,
        inside,
    )
