"""Records: Debezium's messages in Avro, as `envelope/debezium/registered.py` describes them, by kernels.

    0 · id · Avro ──`avro.py`, by the schema of the id──▶ before, after, op, source ──`events.py`──▶ changes

A message of a schema that was not seen before is left: the envelope asks the registry for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.avro import Decoder
from calve.decode.carriers import Carrier
from calve.decode.events import Events, Version, Wire
from calve.decode.messages import Messages


@dataclass(frozen=True)
class Records(Events):
    """The messages of one table."""

    schemas: Mapping[bytes, Any] = field(default_factory=dict)
    """By what messages begin with."""

    is_text = False

    def read_as(self, wire: Wire, one: Carrier) -> pa.DataType:
        """What a column is read as: numbers in full width, so that what does not fit is seen later."""
        if wire.way in ("bytes", "unscaled"):
            return pa.binary()
        kind = wire.type(one.json)
        if pa.types.is_integer(kind):
            return pa.int64()
        return pa.float64() if pa.types.is_floating(kind) else kind

    def parsed(self, messages: Messages, version: Version) -> Mapping[str, pa.Array]:
        """What messages of a version say. Without an op one says nothing."""
        wanted = pa.struct(list(self.schema(version)))
        rows, right = Decoder(self.schemas[version.prefix]).read(messages.values, wanted)
        found = {one.name: rows.field(number) for number, one in enumerate(wanted)}
        if not pc.all(right).as_py():
            found["op"] = pc.if_else(right, found["op"], pa.scalar(None, pa.string()))
        return found

    def doubtful(self, columns: Mapping[str, pa.Array], messages: Messages) -> None:
        """Of bytes no decimal is made that is another."""
