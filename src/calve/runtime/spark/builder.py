"""Builder: what a stream and a bounded frame can both be told before they are written.

Every method says one setting, under the name that it has in docs/options.md, and gives the builder back. A
method that does not exist is answered with the nearest one, and a word of Spark's with ours. A builder shows
nothing of what it was told (P10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyspark.sql import DataFrame

from calve.config.stream import StreamConfig
from calve.config.units import nearest
from calve.model.errors import OtherWord
from calve.runtime.spark.checks import check_columns, check_reach, check_target
from calve.runtime.spark.columns import arrow_schema
from calve.runtime.spark.said import Said
from calve.runtime.spark.ship import ship
from calve.writer.changes import Arrival

_SPARK_WORDS = {
    "append": ".mode('append').to_table('lake.sales.orders')",
    "bucketBy": ".partitioned_by('bucket(16, id)')",
    "clusterBy": ".sorted_by('ts')",
    "create": ".to_table('lake.sales.orders'): a table that is not there is created",
    "createOrReplace": ".to_table('lake.sales.orders'): a table is created once, and never replaced",
    "foreach": ".to_table('lake.sales.orders')",
    "foreachBatch": ".to_table('lake.sales.orders')",
    "format": ".to_table('lake.sales.orders'): tables are Iceberg's",
    "insertInto": ".to_table('lake.sales.orders')",
    "merge": ".mode('upsert').key('id')",
    "mergeInto": ".mode('upsert').key('id')",
    "mergeSchema": ".schema_evolution()",
    "outputMode": ".mode('append'), .mode('changelog') or .mode('upsert')",
    "overwrite": ".mode('upsert').key('id')",
    "overwritePartitions": ".mode('upsert').key('id')",
    "partitionBy": ".partitioned_by('day(ts)')",
    "partitionedBy": ".partitioned_by('day(ts)')",
    "queryName": ".query_name('orders')",
    "replace": ".to_table('lake.sales.orders'): a table is created once, and never replaced",
    "save": ".to_table('lake.sales.orders')",
    "saveAsTable": ".to_table('lake.sales.orders')",
    "sortBy": ".sorted_by('ts')",
    "start": ".to_table('lake.sales.orders')",
    "tableProperty": ".option('table.prop.<name>', …)",
    "toTable": ".to_table('lake.sales.orders')",
    "using": ".to_table('lake.sales.orders'): tables are Iceberg's",
    "writeTo": ".to_table('lake.sales.orders')",
}
"""How Spark's writers say what a method of ours does."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a builder asks for in the end."""

    config: StreamConfig
    incoming: pa.Schema
    """The columns of the frame, all of them."""
    arrival: Arrival
    """No rows, with the columns that the table gets."""


class Builder:
    """What both kinds of frames can be told."""

    _NAME: ClassVar[str]
    _ELSEWHERE: ClassVar[Mapping[str, str]] = {}

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self._said = Said()

    def mode(self, mode: str) -> Self:
        """`append`: rows as they are. `changelog`: every change is a row. `upsert`: one row a key."""
        return self._say("write.mode", mode)

    def key(self, *columns: str) -> Self:
        """The columns that identify a row."""
        return self._say("equality.delete.columns", _several(columns))

    def op(self, column: str) -> Self:
        """The column that says what happened to a row; without one, every row is an upsert."""
        return self._say("op.column", column)

    def sequence_by(self, *columns: str) -> Self:
        """The columns that order the changes of a key. Where there is a frontier, the first is their time."""
        return self._say("sequence.by", _several(columns))

    def partitioned_by(self, *fields: str) -> Self:
        """How rows are cut into partitions: `day(ts)`, `bucket(16, id)`, `region`."""
        return self._say("partition.spec", _several(fields))

    def sorted_by(self, *fields: str) -> Self:
        """How rows are sorted inside files: `ts desc`, `id`."""
        return self._say("sort.order", _several(fields))

    def schema_evolution(self, on: bool = True) -> Self:
        """Let new columns and wider types change the table."""
        return self._say("schema.evolution", on)

    def catalog(
        self,
        name: str,
        *,
        type: str | None = None,
        uri: str | None = None,
        warehouse: str | None = None,
        **properties: str,
    ) -> Self:
        """The catalog of the table, where it is not configured for PyIceberg or for the session."""
        said = {"name": name, "type": type, "uri": uri, "warehouse": warehouse}
        self._said.catalog = {key: value for key, value in said.items() if value is not None}
        if properties:
            self._said.catalog["properties"] = properties
        return self

    def option(self, name: str, value: object) -> Self:
        """A setting by its name in docs/options.md; for a stream, Spark's `checkpointLocation` too."""
        self._said.option(name, value)
        return self

    def options(self, **options: object) -> Self:
        """Several at once."""
        for name, value in options.items():
            self.option(name, value)
        return self

    def tasks(self, tasks: int) -> Self:
        """How many tasks the changes are shuffled to by key; the session's shuffle partitions otherwise."""
        self._said.tasks = tasks
        return self

    def __getattr__(self, name: str) -> Any:
        told = self._ELSEWHERE.get(name) or (f"Write {_SPARK_WORDS[name]}." if name in _SPARK_WORDS else None)
        if told is not None:
            raise OtherWord(f"calve.{self._NAME} has no {name}", hint=told)
        near = nearest(name, [word for word in dir(type(self)) if not word.startswith("_")])
        raise AttributeError(
            f"calve.{self._NAME}(…) has no {name!r}" + (f". Did you mean {near!r}?" if near else ""),
            name=name,
            obj=self,
        )

    def __repr__(self) -> str:
        return f"<calve.{self._NAME}, not started>"

    def _say(self, option: str, value: object) -> Self:
        self._said.by_method[option] = value
        return self

    def _checkpoint(self, session: Mapping[str, str]) -> str | None:
        """Where the checkpoint is, in a session that is configured so."""
        raise NotImplementedError

    def _asked(self, table: str) -> Asked:
        """What was asked for, checked as far as it can be without the catalog."""
        session = dict(self._frame.sparkSession.conf.getAll)
        self._said.take_url(table)
        lake = self._said.lake(table, session)
        incoming = arrow_schema(self._frame.schema)
        config = self._said.config(lake, self._checkpoint(session), incoming)
        return Asked(config, incoming, check_columns(config, self._frame.schema, incoming))

    def _prepare(self, asked: Asked, catalog: Catalog) -> None:
        """The last looks, at the table and at the executors, and our code for these."""
        session = self._frame.sparkSession
        check_reach(check_target(asked.config.sink, asked.arrival, catalog), session.sparkContext.master)
        ship(session)


def _several(names: tuple[Any, ...]) -> object:
    """`.key("a", "b")` and `.key(["a", "b"])` mean the same. A name is taken as it is, commas and all."""
    return tuple(names[0]) if len(names) == 1 and isinstance(names[0], list | tuple) else names
