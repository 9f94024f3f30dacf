"""Version: messages of one schema, and what is read of them.

    {"schema": {…},"payload":{"before": …, "after": …, "source": …, "op": "u", "transaction": …}}
    └── prefix, the same in all messages of a version ──┘

What the table has and the version has not is null. What the version has and the table has not is left out:
`learn` saw it, and whoever asked decided.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceTable
from calve.config.types import Type, parse_type
from calve.envelope.debezium.declared import Declared
from calve.envelope.debezium.position import SOURCE, TRANSACTION
from calve.envelope.debezium.schema import Field, from_connect
from calve.envelope.debezium.values import Values
from calve.model.errors import BadMessage

_SCHEMA, _PAYLOAD = '{"schema":', ',"payload":'
"""As Kafka Connect writes them. Whoever else writes JSON may have blanks in between."""
_SPACED_SCHEMA = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_SPACED_PAYLOAD = re.compile(r'\s*,\s*"payload"\s*:\s*')


@dataclass(frozen=True, slots=True)
class Version:
    """Messages of one schema."""

    fields: Mapping[str, Field]
    """The columns of a row."""
    prefix: bytes | None = None
    """What messages begin with, where they bring their schema; or the id of it (`avro.py`)."""

    def row_type(self, table: SourceTable, values: Values, names: tuple[str, ...]) -> T.StructType:
        """What a row is parsed as: these columns of the table, where messages have them."""
        return T.StructType(
            [
                T.StructField(name, values.wire_type(self.fields[name], type_of(table, name)))
                for name in names
                if name in self.fields
            ]
        )

    def message_type(self, table: SourceTable, values: Values, before: tuple[str, ...]) -> T.StructType:
        """What a message is parsed as."""
        return T.StructType(
            [
                T.StructField("before", self.row_type(table, values, before)),
                T.StructField("after", self.row_type(table, values, table.names)),
                T.StructField("op", T.StringType()),
                T.StructField("source", SOURCE),
                T.StructField("transaction", TRANSACTION),
            ]
        )

    def is_of(self, value: Column) -> Column:
        """Whether a message is of this version."""
        return F.lit(True) if self.prefix is None else F.startswith(value, F.lit(bytearray(self.prefix)))

    def body(self, value: Column) -> Column:
        """The text of a message without its schema."""
        if self.prefix is None:
            return value.cast("string")
        start = len(self.prefix)
        return F.substring(value, F.lit(start + 1), F.octet_length(value) - start - 1).cast("string")


def type_of(table: SourceTable, name: str) -> Type:
    return parse_type(table.column(name).type)


def undeclared(table: SourceTable, declared: Declared) -> Version:
    """The version of messages without schemas."""
    return Version({column.name: declared.field(column.name, column.type) for column in table.columns})


def schema_key(value: Column) -> Column:
    """A number that tells the schemas of messages apart."""
    text = value.cast("string")
    spaced = F.regexp_replace(text, rf"(?s){_SPACED_PAYLOAD.pattern}.*", "")
    schema = F.when(text.contains(_PAYLOAD), F.substring_index(text, _PAYLOAD, 1)).otherwise(spaced)
    return F.xxhash64(schema)


def has_schema(value: bytes) -> bool:
    """Whether a message begins as one with its schema does."""
    return _SPACED_SCHEMA.match(value.decode("utf-8", "replace")) is not None


def with_schema(value: bytes, at: str) -> Version:
    """The version of a message that brings its schema along."""
    prefix, schema = split(value, at)
    row = from_connect(schema).field("after")
    if row is None:
        raise _strange(at, "its schema has no `after`")
    return Version({one.name: one for one in row.inside}, prefix)


def split(value: bytes, at: str) -> tuple[bytes, dict[str, object]]:
    """What stands before the payload of a message, and the schema in it."""
    try:
        text = value.decode()
        if (begin := _SPACED_SCHEMA.match(text)) is None:
            raise _strange(at, "it does not begin with its schema")
        schema, end = json.JSONDecoder().raw_decode(text, begin.end())
    except ValueError as error:
        raise _strange(at, "it is no JSON") from error
    if (follows := _SPACED_PAYLOAD.match(text, end)) is None or not isinstance(schema, dict):
        raise _strange(at, "no payload follows its schema")
    return text[: follows.end()].encode(), schema


def place(row: Any) -> str:
    """Where a message stands, of a row with topic, partition and offset."""
    numbered = "" if row["offset"] is None else f", offset {row['offset']}"
    return f"topic {row['topic']}, partition {row['partition']}{numbered}"


def _strange(at: str, what: str) -> BadMessage:
    return BadMessage(
        f"{at}: this is no message of Debezium with a schema: {what}",
        hint='Kafka Connect\'s JsonConverter writes {"schema": …, "payload": …} with schemas.enable=true; '
        "without schemas name the envelope 'debezium'.",
    )
