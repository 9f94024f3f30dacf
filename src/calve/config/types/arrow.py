"""A type as Arrow holds it: in the table's files, or on its way through a Spark frame.

    text      files                carried
    uuid      pa.uuid()            binary: 16 bytes        inside of lists, maps and structs: text
    time      time64[us]           int64: µs of the day    inside of lists, maps and structs: text
    others    the same in both

Spark has no uuid, and a time only since 4.1: so frames carry them in plain types, and the writer turns them
into the table's.
"""

from __future__ import annotations

import pyarrow as pa

from calve.config.types.notation import parse_type
from calve.config.types.tree import Decimal, List, Map, Plain, Struct, Type

_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "uuid": pa.uuid(),
    "binary": pa.binary(),
}
_CARRIED = {"uuid": pa.binary(), "time": pa.int64()}


def arrow_type(text: str, *, carried: bool = False) -> pa.DataType:
    """The Arrow type of a text: as files hold it, or as Spark frames carry it."""
    kind = parse_type(text)
    if carried and isinstance(kind, Plain) and kind.name in _CARRIED:
        return _CARRIED[kind.name]
    return _arrow(kind, carried)


def _arrow(kind: Type, carried: bool) -> pa.DataType:
    match kind:
        case Plain(name):
            return pa.string() if carried and name in _CARRIED else _PLAIN[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case List(element):
            return pa.list_(pa.field("element", _arrow(element, carried)))
        case Map(key, value):
            return pa.map_(_arrow(key, carried), _arrow(value, carried))
        case Struct(fields):
            return pa.struct([pa.field(name, _arrow(inner, carried)) for name, inner in fields])
