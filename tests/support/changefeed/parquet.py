"""Parquet as CockroachDB writes it: dates, timestamps and decimals as text, decimals under a false flag.

pyarrow writes no column of byte arrays that says decimal: the columns are written as bytes, and their
elements in the footer's schema get the two fields that say so, by hand.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from tests.support.changefeed.feed import Emission
    from tests.support.changefeed.history import Table

_UNBOUNDED = 2**31 - 1
_TYPES = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.string(), "time": pa.time64("us"), "timestamp": pa.string(), "timestamptz": pa.string(),
    "string": pa.string(), "uuid": pa.binary(16), "binary": pa.binary(),
}  # fmt: skip


def as_parquet(table: Table, emissions: Sequence[Emission]) -> bytes:
    """Rows with their metadata."""
    from tests.support.changefeed.feed import hlc

    columns: dict[str, pa.Array] = {}
    for name, kind in table.columns:
        rows = [
            one.change.version.row or dict(zip(table.key, one.change.key, strict=True)) for one in emissions
        ]
        columns[name] = pa.array([_value(row.get(name)) for row in rows], _type(kind))
    columns["__crdb__event_type"] = pa.array([_event(one) for one in emissions])
    columns["__crdb__updated"] = pa.array([hlc(one.updated) for one in emissions])
    decimals = [name for name, kind in table.columns if kind.startswith("decimal")]
    return _written(columns, decimals)


def resolved_parquet(text: str) -> bytes:
    return _written({"__crdb__resolved": pa.array([text.encode()])}, ["__crdb__resolved"])


def _written(columns: dict[str, pa.Array], decimals: Sequence[str]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, store_schema=False, compression="zstd")
    content = sink.getvalue()
    size = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - size : -8]
    for name in decimals:
        # Field 4 (the name), then 6 (converted type: 5, decimal), 7 (scale) and 8 (precision), then the end.
        element = b"\x18" + bytes([len(name)]) + name.encode() + b"\0"
        assert footer.count(element) == 1, name
        many = _varint(2 * _UNBOUNDED)
        footer = footer.replace(element, element[:-1] + b"\x25\x0a\x15" + many + b"\x15" + many + b"\0")
    return content[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _type(kind: str) -> pa.DataType:
    if kind.startswith("list<"):
        return pa.list_(pa.string() if kind == "list<uuid>" else _type(kind[5:-1]))
    return pa.binary() if kind.startswith("decimal") else _TYPES[kind]


def _event(emission: Emission) -> str:
    version = emission.change.version
    return "d" if version.row is None else "c" if version.before is None else "u"


def _value(value: Any) -> Any:
    match value:
        case Decimal():
            return str(value).encode()
        case UUID():
            return value.bytes
        case dt.datetime(tzinfo=None):
            return value.isoformat(" ")
        case dt.datetime():
            return value.isoformat(" ")
        case dt.date():
            return value.isoformat()
        case list():
            return [str(one) if isinstance(one, UUID) else _value(one) for one in value]
        case _:
            return value
