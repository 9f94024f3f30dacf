"""Debezium in Avro: messages that name their schema by an id, which a registry knows.

0 · id, 4 bytes · Avro ──▶ ids of a micro-batch ──registry, on the driver──▶ schemas
          └──────────mapInArrow: all rows of an id at once (avro.py)──────────┴──▶ m0, m1, … as JSON gives
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from calve.config.columns import SourceTable
from calve.decode.avro import HEADER_BYTES
from calve.decode.messages import Kernel
from calve.decode.records import Records
from calve.envelope.base import Sample
from calve.envelope.debezium import learn
from calve.envelope.debezium.envelope import Debezium
from calve.envelope.debezium.observe import END, TAIL, ends, events
from calve.envelope.debezium.registry import Registry
from calve.envelope.debezium.schema import Field, from_avro
from calve.envelope.debezium.version import Version, place
from calve.envelope.read import table_plan
from calve.envelope.values import CORRUPT
from calve.model.errors import BadMessage

_PASSED = ("topic", "partition", "offset", "value")


@dataclass(frozen=True, slots=True)
class RegisteredDebezium(Debezium):
    """The messages of one table, in Avro."""

    registry: Registry = field(default_factory=lambda: Registry("http://127.0.0.1:8081"))

    @property
    def is_text(self) -> bool:
        return False

    def tells(self, text: Column) -> Column:
        return text.isNotNull()

    def version(self, value: Column) -> Column:
        return schema_id(value)

    def shown(self, value: Column) -> Column:
        return F.hex(value)

    # ---------------------------------------------------------------- columns

    def learn(self, samples: Sequence[Sample], known: SourceTable | None) -> SourceTable:
        """Columns that messages show, on top of what was declared."""
        return learn.by_schema(samples, known, self._told)

    def _told(self, sample: Sample) -> tuple[Field, list[str]]:
        number = _id_of(sample.value, sample.place)
        row = self._row(number, sample.place)
        self.seen.setdefault(sample.topic, {})[_header(number)] = {one.name: one for one in row.inside}
        names: list[str] = []
        if sample.key is not None:
            schema = self.registry.schema(_id_of(sample.key, sample.place), sample.place)
            names = [one.name for one in from_avro(schema, {}).inside]
        return row, names

    def _row(self, number: int, at: str) -> Field:
        row = from_avro(self.registry.schema(number, at), {}).field("after")
        if row is None:
            raise BadMessage(
                f"{at}: schema {number} has no `after`: this is no message of Debezium",
                hint="Messages that a transform has unwrapped are not read: leave ExtractNewRecordState out.",
            )
        return row

    def kernel(self, topic: str, table: SourceTable, *, checks_names: bool) -> Kernel | None:  # noqa: ARG002
        """What reads plain messages in Arrow, of schemas that were seen."""
        found = self._plain(topic, table)
        schemas = {one.prefix: self.registry.schema(_number(one.prefix), topic) for one in found}
        return Records(table_plan(table), found, self.placeholder, False, schemas) if found else None

    # ---------------------------------------------------------------- transactions

    def events(self, messages: DataFrame) -> DataFrame:
        """The events in messages of tables, as `observe.py` counts them."""
        return events(self._of_one_type(messages, TAIL))

    def ends(self, messages: DataFrame) -> DataFrame:
        """The ENDs in messages of the transaction topic."""
        return ends(self._of_one_type(messages, END))

    def _of_one_type(self, messages: DataFrame, kind: T.StructType) -> DataFrame:
        told = messages.where(F.col("value").isNotNull())
        numbers = self._ids(told)
        parts = [T.StructField(f"m{number}", kind) for number in range(max(1, len(numbers)))]
        parsed = self._parsed(told, numbers, parts)
        return parsed.select("partition", F.coalesce(*(part.name for part in parts)).alias("m"))

    # ---------------------------------------------------------------- changes

    def decode(self, raw: DataFrame, table: SourceTable, *, floor: int = 0) -> DataFrame:
        """The changes in a frame of messages. `floor`: the mark that was reached before them."""
        messages = raw.where(F.col("value").isNotNull())
        numbers = self._ids(messages)
        versions = [
            Version({one.name: one for one in self._row(number, at).inside}, number.to_bytes(4, "big"))
            for number, at in numbers.items()
        ]
        rows = self._rows(table, versions or [Version({})], messages)
        before = table.names if self.toast == "keep" or not table.key else table.key
        types = [
            T.StructType(
                [*one.message_type(table, rows.values, before).fields, T.StructField(CORRUPT, T.StringType())]
            )
            for one in rows.versions
        ]
        parts = [T.StructField(name, kind) for name, kind in zip(rows.names, types, strict=True)]
        return self.changes(self._parsed(messages, numbers, parts), rows, floor)

    def _parsed(
        self, messages: DataFrame, numbers: Mapping[int, str], parts: Sequence[T.StructField]
    ) -> DataFrame:
        """Messages, each in the column of its schema."""
        passed = messages.select(*_PASSED)
        schemas = {number: self.registry.schema(number, at) for number, at in numbers.items()}
        return passed.mapInArrow(_read(schemas, parts), T.StructType([*passed.schema.fields, *parts]))

    def _ids(self, messages: DataFrame) -> dict[int, str]:
        """The ids of schemas, and where each was met."""
        found = (
            messages.groupBy(schema_id(F.col("value")).alias("id"))
            .agg(F.any_value(F.struct("topic", "partition", "offset")).alias("one"))
            .where(F.col("id").isNotNull())
            .collect()
        )
        return {row["id"]: place(row["one"]) for row in sorted(found, key=lambda row: row["id"])}


def schema_id(value: Column) -> Column:
    """The id of a message's schema; null where it has none."""
    header = F.hex(F.substring(value, 1, HEADER_BYTES))
    has = (F.octet_length(value) >= HEADER_BYTES) & header.startswith("00")
    return F.when(has, F.conv(F.substring(header, 3, 8), 16, 10).try_cast("int"))


def _header(number: int) -> bytes:
    """What messages of a schema begin with."""
    return b"\0" + number.to_bytes(HEADER_BYTES - 1, "big")


def _number(header: bytes) -> int:
    return int.from_bytes(header[1:HEADER_BYTES], "big")


def _id_of(value: bytes | None, at: str) -> int:
    if value is None or len(value) < HEADER_BYTES or value[0] != 0:
        raise BadMessage(
            f"{at}: the message does not begin with a zero and the id of a schema",
            hint="JSON has envelopes of its own: 'debezium' and 'debezium-schemas'. Apicurio's converter "
            "needs as-confluent=true and headers.enabled=false.",
        )
    return _number(value)


Read = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _read(schemas: dict[int, Any], parts: Sequence[T.StructField]) -> Read:
    """What runs in a task: parsed messages beside what they came in."""
    kinds = [to_arrow_schema(T.StructType([part])).field(0) for part in parts]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from calve.decode.avro import parsed
        from calve.decode.reuse import settle

        pa.set_cpu_count(1)  # the engine runs a task a core
        for batch in batches:
            columns = parsed(batch.column("value"), schemas, [kind.type for kind in kinds], CORRUPT)
            fields = [*batch.schema, *kinds]
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=pa.schema(fields))
        settle()

    return read
