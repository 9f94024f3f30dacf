"""Carry: values that Spark has no type for come in a carrier, and are unpacked here.

uuid          binary of 16 bytes
time of day   long, microseconds
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

Carried = Sequence[tuple[str, str]]
"""Columns and what they carry: `uuid` or `time`."""


def unpacked(table: pa.Table, carried: Carried) -> pa.Table:
    """The same rows with what carriers carry. Values that are none of it are a defect of the decoder, which
    knows the message: an Arrow error."""
    for name, kind in carried:
        place = table.schema.get_field_index(name)
        if place < 0:
            continue
        values = table[name].cast(pa.time64("us") if kind == "time" else pa.binary(16))
        if kind == "uuid":
            chunks = [pa.ExtensionArray.from_storage(pa.uuid(), chunk) for chunk in values.chunks]
            values = pa.chunked_array(chunks, pa.uuid())
        table = table.set_column(place, table.schema.field(place).with_type(values.type), values)
    return table
