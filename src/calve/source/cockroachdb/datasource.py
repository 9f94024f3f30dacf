"""`spark.readStream.format("calve-cockroachdb")`: a changefeed's files as a stream of rows and marks.

    latestOffset ──listing──▶ Offset ──▶ Spark's checkpoint ──partitions(start, end)──▶ tasks ──▶ Arrow

Guarantee: each file once, over any restart: what a micro-batch holds follows from the two offsets in Spark's
checkpoint alone. Offsets of this source stand on the last one that Spark planned, or said that it had seen,
never on one that Spark may have dropped.

Logins go with the registration, not with the options: `register(spark, storage=…)` puts them into the data
source itself, which Spark holds and sends, and shows in no plan and no checkpoint (P10). Options called
`storage.…` work too; whether Spark shows them is up to `spark.sql.redaction.options.regex`.

| option | meaning |
|---|---|
| `url` (or the path of `load`) | the folder of the changefeed |
| `topics` | names with commas between: files of other topics are passed over |
| `tables` | JSON, per topic: `{"orders": {"columns": [["id", "long"], …], "key": ["id"]}}` |
| `together` | `true`: the rows of all topics stand in one struct (`decode/structs.py`), as feeds read them |
| `files_max` | data files of a micro-batch, cut at RESOLVED files where they are; 0 for no limit |
| `tasks_max` | tasks of a micro-batch |
| `start_after` | the path of a RESOLVED file: a new stream begins behind it |
| `storage.…` | how the store is reached |

The columns are those of `plan`; Spark 4.0 to 4.3. With `trigger(availableNow=True)` Spark asks once what
there is, so that `files_max` bounds all of such a run: give 0 there.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from calve.decode.reuse import settle
from calve.decode.tables import TopicPlan, make_tables
from calve.model.errors import ConfigError, UnknownOption
from calve.source.cockroachdb.listing import FILES_MAX, Offset, files_between, next_offset, start_after
from calve.source.cockroachdb.plan import ReadPlan
from calve.source.cockroachdb.reader import read_file
from calve.store.access import NO_ACCESS, Access, may_show
from calve.store.listing import list_after

FORMAT = "calve-cockroachdb"
TASKS_MAX = 32
_STORAGE = "storage."
_OPTIONS = ("url", "path", "topics", "tables", "together", "files_max", "tasks_max", "start_after")

_REDACTED = re.compile("secret|password|token", re.IGNORECASE)
"""Of what Spark hides by default (spark.sql.redaction.options.regex), what names of ours may have."""

_registered = itertools.count(1)


def register(spark: Any, storage: Mapping[str, str] | Access | None = None) -> str:
    """Make the source known to a session; its format's name is returned. With a login of its own, a source
    has a name of its own: two logins in a session do not get into each other's way."""
    if storage is None:
        spark.dataSource.register(CockroachDB)
        return FORMAT
    access = storage if isinstance(storage, Access) else Access.of(storage)
    name = f"{FORMAT}-{next(_registered)}"
    # Made here, so that it is sent by value, and the login with it.
    source = type("CockroachDB", (CockroachDB,), {"access": access, "format": name, "__module__": "__main__"})
    spark.dataSource.register(source)
    return name


class CockroachDB(DataSource):  # type: ignore[misc]
    """The data source."""

    access: ClassVar[Access] = NO_ACCESS
    format: ClassVar[str] = FORMAT

    @classmethod
    def name(cls) -> str:
        return cls.format

    def schema(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        _Limits(self.options)
        # What has no zone stays as it is, whatever the session's is.
        return from_arrow_schema(self._plan().schema, prefer_timestamp_ntz=True)

    def streamReader(self, schema: Any) -> StreamReader:  # noqa: ARG002 (it is the one above)
        return StreamReader(self._plan(), _Limits(self.options))

    def reader(self, schema: Any) -> BoundedReader:  # noqa: ARG002
        return BoundedReader(self._plan(), _Limits(self.options))

    def _plan(self) -> ReadPlan:
        """What the options say."""
        options = {name.lower(): value for name, value in self.options.items()}
        _check(options)
        said = {name.removeprefix(_STORAGE): options[name] for name in options if name.startswith(_STORAGE)}
        url = options.get("url") or options.get("path")
        if not url:
            raise ConfigError("the changefeed has no url", hint="Give the option url: s3://bucket/folder, ….")
        topics = [topic.strip() for topic in options.get("topics", "").split(",") if topic.strip()]
        access = Access.of(said) if said else self.access
        return ReadPlan(
            url,
            parse_tables(options.get("tables", "{}")),
            frozenset(topics) or None,
            access,
            together=_flag(options, "together"),
        )


class _Limits:
    def __init__(self, options: Mapping[str, str]) -> None:
        self.files_max = _number(options, "files_max", FILES_MAX, 0)
        self.tasks_max = _number(options, "tasks_max", TASKS_MAX, 1)
        self.start = start_after(options.get("start_after", ""))


class Files(InputPartition):  # type: ignore[misc]
    """The files of a task."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(None)
        self.paths = tuple(paths)


class _Reader:
    def __init__(self, plan: ReadPlan, limits: _Limits) -> None:
        self.plan = plan
        self._limits = limits

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In an executor."""
        pa.set_cpu_count(1)  # the engine runs a task a core
        if isinstance(partition, Files):
            for path in partition.paths:
                yield from read_file(path, self.plan)
        settle()

    def _list(self, after: str) -> Iterator[str]:
        return list_after(self.plan.url, after, self.plan.access)

    def _tasks(self, paths: list[str]) -> list[Files]:
        size = -(-len(paths) // self._limits.tasks_max) or 1
        return [Files(paths[at : at + size]) for at in range(0, len(paths), size)]


class StreamReader(_Reader, DataSourceStreamReader):  # type: ignore[misc]
    """The files as a stream. Offsets are asked for in one process, which lives as long as the query."""

    def __init__(self, plan: ReadPlan, limits: _Limits) -> None:
        super().__init__(plan, limits)
        self._at: Offset | None = None

    def initialOffset(self) -> dict[str, Any]:
        return self._limits.start.as_json()

    def latestOffset(self) -> dict[str, Any]:
        return next_offset(self._at or self._limits.start, (), self._list, self._limits.files_max).as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Files]:
        """Spark calls this with two equal offsets when it starts again: so the stream knows where it was."""
        self._at = Offset.of_json(end)
        return self._tasks(files_between(Offset.of_json(start), self._at))


class BoundedReader(_Reader, DataSourceReader):  # type: ignore[misc]
    """All that is resolved now."""

    def partitions(self) -> list[Files]:
        end = next_offset(self._limits.start, (), self._list, 0)
        return self._tasks(files_between(self._limits.start, end))


def parse_tables(text: str) -> tuple[TopicPlan, ...]:
    """The option `tables`."""
    try:
        said = json.loads(text)
        return make_tables(
            {
                topic: ([(str(name), str(kind)) for name, kind in table["columns"]], table.get("key", []))
                for topic, table in said.items()
            },
            {topic: int(table.get("before_key", 0)) for topic, table in said.items()},
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"the option tables is not as it should be: {error}",
            hint='Write {"orders": {"columns": [["id", "long"], ["note", "string"]], "key": ["id"]}}.',
        ) from error


def _check(options: Mapping[str, str]) -> None:
    for name in options:
        if name.startswith(_STORAGE):
            _check_storage(name)
        elif name not in _OPTIONS:
            raise UnknownOption(
                f"the source {FORMAT} has no option {name!r}",
                hint=f"There are {', '.join(_OPTIONS)}, storage.….",
            )


def _check_storage(name: str) -> None:
    """Spark shows options in plans, but for those whose names say that they are secrets."""
    if not (may_show(name) or _REDACTED.search(name)):
        raise ConfigError(
            f"the option {name} would show in Spark's plans: such a login goes with the registration",
            hint="Call register(spark, storage={…}) of this module, and load by the name that it returns.",
        )


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false")
    if text not in ("true", "false"):
        raise ConfigError(f"the option {name} is {text!r}", hint="Give true or false.")
    return text == "true"


def _number(options: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = options.get(name, str(default))
    if not text.isdecimal() or int(text) < least:
        raise ConfigError(
            f"the option {name} is {text!r}", hint=f"Give a whole number, {least} or more.", about=name
        )
    return int(text)
