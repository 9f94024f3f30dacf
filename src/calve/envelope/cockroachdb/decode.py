"""CockroachDB's changefeeds as messages: wrapped, enriched and bare.

    wrapped    {"after": {…} | null, "key": […], "updated": "<HLC>"}            {"resolved": "<HLC>"}
    enriched   {"after": {…} | null, "op": "c", "source": {"ts_hlc": "<HLC>"}}  the same
               with schemas: all of it below "payload"
    bare       {…, "__crdb__": {"updated": "<HLC>"}}                            {"__crdb__": {"resolved": …}}

A time is an HLC as an integer of 29 digits: wall nanoseconds, then ten digits of the logical part. A resolved
time is inclusive at the source: no change at or before it is to come. Here bounds are exclusive, so the mark
is one more.

The key of a delete stands in the value or in the message's key: positional in wrapped and bare, by name in
enriched. A bare delete is its key and nulls: it is told from an upsert by a column that cannot be null, and
without such a column bare is refused. So are `row` and `key_only`, which do not say enough for an upsert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.config.columns import SourceTable
from calve.decode.changefeed import Changefeed
from calve.decode.messages import Kernel
from calve.envelope.base import Sample
from calve.envelope.cockroachdb.kinds import Kind
from calve.envelope.cockroachdb.learn import learn
from calve.envelope.cockroachdb.said import CRDB, VALUES, Said, required
from calve.envelope.messages import errors, names_in, once, place_of, placed_by, shape
from calve.envelope.read import table_plan
from calve.envelope.values import parse
from calve.model.columns import ERROR, MARK, OP, PARTITION, TIME
from calve.model.errors import SchemaMismatch

_HLC = T.DecimalType(38, 0)
_HLC_TEXT = r"^[0-9]{1,28}\.[0-9]{10}\z"
_TEXT = T.StringType()


def hlc(text: Column) -> Column:
    """An HLC as an integer; null where the text is none."""
    return F.when(text.rlike(_HLC_TEXT), F.replace(text, F.lit("."), F.lit("")).try_cast(_HLC))


@dataclass(frozen=True, slots=True)
class CockroachDB:
    """The messages of one table of a changefeed."""

    kind: Kind = Kind.WRAPPED
    payload: bool = False
    """Enriched with schemas: everything is below `payload`."""
    topic: str | None = None
    """What messages call their table, where they say it: wrapped and bare ones with `topic_in_value`,
    enriched ones by `source.table_name`, which a topic's name ends with."""

    meaning = "hlc"
    timed = True
    units_a_second = 10**19

    def tells(self, text: Column) -> Column:
        """Whether the text of a message may show columns."""
        if self.kind is Kind.BARE:
            return F.get_json_object(text, f"$.{CRDB}.resolved").isNull()
        return names_in(text, *self._path).isNotNull()

    def version(self, value: Column) -> Column:
        """A number that tells apart messages with other columns."""
        return shape(value, *self._path)

    @property
    def _path(self) -> tuple[str, ...]:
        """Where a row is in a message."""
        if self.kind is Kind.BARE:
            return ()
        return ("payload", "after") if self.payload else ("after",)

    def learn(self, samples: Sequence[Sample], known: SourceTable | None) -> SourceTable:
        """Columns that messages show, on top of what is known."""
        return learn(samples, known, self._path, CRDB if self.kind is Kind.BARE else None)

    def kernel(self, topic: str, table: SourceTable, *, checks_names: bool) -> Kernel | None:  # noqa: ARG002
        """What reads plain messages in Arrow."""
        plan = table_plan(table)
        if not table.key or plan.json is None:
            return None
        needed = required(table) if self.kind is Kind.BARE else None
        return Changefeed(plan, self.kind.value, self.payload, self.topic, needed, checks_names)

    def decode(self, raw: DataFrame, table: SourceTable) -> DataFrame:
        """The changes and marks in a frame of messages."""
        if not table.key:
            where = "the feed" if self.topic is None else f"topic {self.topic!r}"
            raise SchemaMismatch(
                f"the table of {where} has no key: nothing says which row a delete means",
                hint="Name its primary key, or paste its CREATE TABLE, which has it.",
            )
        if self.kind is Kind.BARE:
            required(table)
        told = raw.select(
            *placed_by(raw),
            F.col("key").cast("string").alias("key"),
            F.col("value").cast("string").alias("value"),
            parse(once(F.col("value").cast("string")), self._schema(table)).alias("m"),
        )
        said = Said(self.kind, table, payload=self.payload, topic=self.topic)
        told = said.exact.read_again(told, said.needs_care(), self._schema(said.read_again), said.text)
        # In steps: what is used twice is computed once, and what is wrong is asked last, of what was made.
        # Until then columns have our names: a table may have a column called `value` or `updated`, too.
        read = told.select(
            *(said.value(one).alias(said.name(one)) for one in table.columns),
            *said.told(),
            said.op().alias(OP),
            hlc(said.updated).alias(TIME),
            (hlc(said.resolved) + 1).cast(_HLC).alias(MARK),
            F.col("partition").alias(PARTITION),
            *placed_by(raw),
            "value",
        ).withColumn(ERROR, said.error())
        good = F.col(ERROR).isNull()
        return read.select(
            *(F.col(said.name(one)).alias(one.name) for one in table.columns),
            F.when(good & F.col(MARK).isNull(), F.col(OP)).alias(OP),
            TIME,
            F.when(good, F.col(MARK)).alias(MARK),
            PARTITION,
            *errors(F.col(ERROR), place_of(read), F.col("value")),
        )

    def _schema(self, table: SourceTable) -> T.StructType:
        row = VALUES.schema(table.columns)
        meta = [T.StructField(name, _TEXT) for name in ("updated", "resolved", "topic")]
        keys = T.StructField("key", T.ArrayType(_TEXT))
        match self.kind:
            case Kind.WRAPPED:
                return T.StructType([T.StructField("after", row), *meta, keys])
            case Kind.BARE:
                return T.StructType([*row.fields, T.StructField(CRDB, T.StructType([*meta, keys]))])
        source = T.StructType([T.StructField("ts_hlc", _TEXT), T.StructField("table_name", _TEXT)])
        named = T.StructType([T.StructField(name, _TEXT) for name in table.key])
        body = [
            T.StructField("after", row),
            T.StructField("op", _TEXT),
            T.StructField("source", source),
            T.StructField("resolved", _TEXT),
            T.StructField("key", named),
        ]
        if not self.payload:
            return T.StructType(body)
        return T.StructType([T.StructField("payload", T.StructType(body)), T.StructField("resolved", _TEXT)])
