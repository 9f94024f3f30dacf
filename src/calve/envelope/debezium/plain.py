"""Plain: fields whose values kernels read, and how (`decode/events.py`)."""

from __future__ import annotations

from calve.config.columns import SourceTable
from calve.config.types import Decimal, Plain, Type
from calve.decode import events
from calve.decode.events import Wire
from calve.envelope.debezium import schema
from calve.envelope.debezium.schema import Field
from calve.envelope.debezium.version import Version, type_of

_INTEGERS = ("int8", "int16", "int32", "int64")
_PLAIN = {
    "boolean": ("boolean",),
    "int": _INTEGERS,
    "long": _INTEGERS,
    "float": ("float", "double", *_INTEGERS),
    "double": ("float", "double", *_INTEGERS),
    "string": ("string",),
    "uuid": ("string",),
}
"""What kinds of fields a column may come as, by its type."""


def plain_version(version: Version, table: SourceTable, *, is_text: bool) -> events.Version | None:
    """A version as kernels take it; `None` where they do not read one of its columns."""
    wires = {}
    for name in table.names:
        if (field := version.fields.get(name)) is None:
            continue
        target = type_of(table, name)
        wire = _wire(field, target)
        if wire is None or not (is_text or _is_in_avro(wire, field, target)):
            return None
        wires[name] = wire
    return events.Version(wires, version.prefix or b"")


def _wire(field: Field, target: Type) -> Wire | None:
    match target:
        case Decimal():
            return _decimal(field)
        case Plain("date") if field.meaning in schema.DATES:
            return Wire("days")
        case Plain("time") if field.meaning in schema.TIMES:
            return Wire("units", schema.TIMES[field.meaning])
        case Plain("timestamp" | "timestamptz") if field.meaning in schema.TIMESTAMPS:
            return Wire("units", schema.TIMESTAMPS[field.meaning])
        case Plain("timestamptz") if field.meaning == schema.ZONED_TIMESTAMP:
            return Wire("plain")
        case Plain("binary") if field.kind == "bytes" and not field.meaning:
            return Wire("bytes")
        case Plain(name) if field.kind in _PLAIN.get(name, ()):
            return Wire("plain")
    return None


def _is_in_avro(wire: Wire, field: Field, target: Type) -> bool:
    """Whether a field is in Avro as it is in JSON, but for base64. Decimals that are texts are not."""
    if wire.way in ("bytes", "unscaled"):
        return field.kind == "bytes"
    return not isinstance(target, Decimal)


def _decimal(field: Field) -> Wire | None:
    if field.meaning in (schema.DECIMAL, schema.ANY_DECIMAL):
        return Wire("unscaled", field.scale)
    return Wire("plain") if field.kind in ("string", "double") and not field.meaning else None
