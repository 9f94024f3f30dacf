"""The columns of a frame as Arrow has them, before any row is there."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from calve.model.errors import SchemaMismatch

# Spark 4.2 asks for the zone of timestamps; before, it was UTC when nothing was said.
_UTC = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}

_NO_ARROW = {
    # Arrow would take them as a struct of bytes: a table of that would be a lie.
    "VariantType": "Make it text with to_json, or take the values out into columns of their own.",
    "GeometryType": "Make it well-known binary with st_asbinary.",
    "GeographyType": "Make it well-known binary with st_asbinary.",
}


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """The Arrow schema of a frame, all columns, timestamps in UTC."""
    fields = []
    for field in schema.fields:
        for path, kind in _types(field.dataType, field.name):
            if (hint := _NO_ARROW.get(type(kind).__name__)) is not None:
                raise SchemaMismatch(
                    f"column {path!r} is {kind.simpleString()}, which is not written", hint=hint
                )
        try:
            fields.append(to_arrow_schema(T.StructType([field]), **_UTC).field(0))
        except PySparkException:
            raise SchemaMismatch(
                f"column {field.name!r} is {field.dataType.simpleString()}, which has no place in Arrow or "
                "Iceberg",
                hint="Cast it to a type that both have, or leave it out.",
            ) from None
    return pa.schema(fields)


def _types(kind: T.DataType, path: str) -> Iterator[tuple[str, T.DataType]]:
    yield path, kind
    match kind:
        case T.StructType():
            for field in kind.fields:
                yield from _types(field.dataType, f"{path}.{field.name}")
        case T.ArrayType():
            yield from _types(kind.elementType, f"{path}.element")
        case T.MapType():
            yield from _types(kind.keyType, f"{path}.key")
            yield from _types(kind.valueType, f"{path}.value")
