"""Constants: the values of a file's partition that its columns have where the file itself lacks them.

Files that were imported from a folder of partitions have these values in their path alone; the manifest has
them. Only values that are the column's own: a bucket or a day says nothing of what the column was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    StringType,
    UUIDType,
)
from pyiceberg.utils.decimal import unscaled_to_decimal

from calve.runtime.spark.shapes import carried_column
from calve.table.live import LiveFile

Constants = tuple[tuple[int, pa.Array], ...]


def partition_constants(metadata: TableMetadata, schema: Schema) -> Callable[[LiveFile], Constants]:
    """For a file, by the id of a column, the one value that all its rows have."""
    fields = {field.field_id: field for field in schema.fields}
    known = {
        spec_id: [
            (place, fields[one.source_id])
            for place, one in enumerate(spec.fields)
            if isinstance(one.transform, IdentityTransform) and one.source_id in fields
        ]
        for spec_id, spec in metadata.specs().items()
    }

    def constants(file: LiveFile) -> Constants:
        return tuple(
            (field.field_id, _array(file.scope[1][place], field.field_type, carried_column(field).field.type))
            for place, field in known[file.spec_id]
        )

    return constants


def _array(value: Any, kind: IcebergType, arrow: pa.DataType) -> pa.Array:
    """A value of a partition as an array of one; it comes as Avro holds it."""
    if value is None:
        return pa.nulls(1, arrow)
    match kind:
        case DecimalType():
            return pa.array([unscaled_to_decimal(value, kind.scale)], arrow)
        case FloatType() | DoubleType():
            return pa.array([float(value)], arrow)
        case BooleanType() | StringType() | BinaryType() | FixedType() | UUIDType():
            return pa.array([value], arrow)
    # Numbers, and dates and times, which are numbers.
    width = pa.int32() if arrow in (pa.int32(), pa.date32()) else pa.int64()
    return pa.array([value], width).cast(arrow)
