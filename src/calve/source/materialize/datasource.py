"""`spark.readStream.format("calve-materialize")`: a subscription as a stream of rows and marks.

    latestOffset ──now──▶ {"upto": t + 1} ──▶ checkpoint ──partitions(start, end)──▶ one task ──▶ Arrow

Guarantee: every change once, over any restart: a micro-batch is all that happened in [start, end), which the
two offsets in Spark's checkpoint say alone. The first one is all that was there at its end.

A login goes with the registration, not with the options: `register(spark, "postgresql://…")` puts it into
the data source itself, which Spark holds and sends, and shows in no plan and no checkpoint (P10). A password
in the option `uri` is refused; `password_env` names a variable of the environment, which executors need,
too.

| option | meaning |
|---|---|
| `object`, or `query` | what is subscribed to: a relation, or a query |
| `columns` | JSON: `[["id", "long"], ["note", "string"]]`, in the order of the relation |
| `topic` | what the rows are called in a feed; the object's name otherwise |
| `uri` | postgresql://user@host:6875/materialize, without a password; `?silence_seconds_max=300` |
| `password_env` | the variable that has the password |
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from calve.model.errors import ConfigError, UnknownOption
from calve.source.materialize.client import Login, Subscription
from calve.source.materialize.rows import Shape

FORMAT = "calve-materialize"
_OPTIONS = ("object", "query", "columns", "topic", "uri", "password_env")
_registered = itertools.count(1)


def register(spark: Any, login: Login | str | None = None) -> str:
    """Make the source known to a session; its format's name is returned. With a login of its own, a source
    has a name of its own."""
    if login is None:
        spark.dataSource.register(Materialize)
        return FORMAT
    made = Login(login) if isinstance(login, str) else login
    name = f"{FORMAT}-{next(_registered)}"
    # Made here, so that it is sent by value, and the login with it.
    source = type("Materialize", (Materialize,), {"login": made, "format": name, "__module__": "__main__"})
    spark.dataSource.register(source)
    return name


class Materialize(DataSource):  # type: ignore[misc]
    """The data source."""

    login: ClassVar[Login | None] = None
    format: ClassVar[str] = FORMAT

    @classmethod
    def name(cls) -> str:
        return cls.format

    def schema(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        if self.login is None:
            _login(_said(self.options))  # before Spark has a plan that shows them
        # What has no zone stays as it is, whatever the session's is.
        return from_arrow_schema(self._shape().schema, prefer_timestamp_ntz=True)

    def streamReader(self, schema: Any) -> StreamReader:  # noqa: ARG002 (it is the one above)
        said = _said(self.options)
        what = Subscription.of(said.get("object"), said.get("query"))
        return StreamReader(what, self._shape(), self.login or _login(said))

    def _shape(self) -> Shape:
        said = _said(self.options)
        try:
            columns = tuple((str(name), str(kind)) for name, kind in json.loads(said["columns"]))
        except (KeyError, ValueError, TypeError):
            raise ConfigError(
                "the option columns is not as it should be",
                hint='Write [["id", "long"], ["note", "string"]], in the order of the relation.',
            ) from None
        return Shape(said.get("topic") or said.get("object") or "subscription", columns)


class Range(InputPartition):  # type: ignore[misc]
    """The times of a micro-batch."""

    def __init__(self, lower: int | None, upper: int) -> None:
        super().__init__(None)
        self.lower = lower
        self.upper = upper


class StreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """The subscription as a stream."""

    def __init__(self, what: Subscription, shape: Shape, login: Login) -> None:
        self._what = what
        self._shape = shape
        self._login = login

    def initialOffset(self) -> dict[str, Any]:
        return {"upto": None}

    def latestOffset(self) -> dict[str, Any]:
        return {"upto": self._what.now(self._login) + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Range]:
        """One task: a subscription is one stream. Spark asks with two equal offsets when it starts again, and
        a server that was restored may be behind: then there is nothing."""
        lower, upper = start["upto"], end["upto"]
        return [] if upper is None or (lower is not None and lower >= upper) else [Range(lower, upper)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In an executor."""
        assert isinstance(partition, Range)
        for rows in self._what.between(self._login, partition.lower, partition.upper):
            changes = self._shape.changes(rows)
            if changes.num_rows:
                yield changes
        yield self._shape.mark(partition.upper)


def _said(options: Mapping[str, str]) -> dict[str, str]:
    said = {name.lower(): value for name, value in options.items()}
    for name in said:
        if name not in _OPTIONS:
            raise UnknownOption(
                f"the source {FORMAT} has no option {name!r}", hint=f"There are {', '.join(_OPTIONS)}."
            )
    return said


def _login(said: Mapping[str, str]) -> Login:
    uri = said.get("uri")
    if not uri:
        raise ConfigError(
            "nothing says where Materialize is", hint="register(spark, 'postgresql://…'), or the option uri."
        )
    bare = Login(uri)
    if bare.redact(uri) != uri or "password=" in uri:
        raise ConfigError(
            "the option uri has a password, and Spark shows options in its plans",
            hint="Give it to register(spark, 'postgresql://…'), or name it by the option password_env.",
        )
    variable = said.get("password_env")
    if variable is None:
        return bare
    if variable not in os.environ:
        raise ConfigError(
            "the option password_env names a variable that the environment does not have",
            hint="Set it where the driver and the executors are started.",
        )
    return Login(uri, os.environ[variable])
