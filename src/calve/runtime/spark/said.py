"""Said: what the calls of a builder asked for, gathered until the table is named; then it is a StreamConfig.

    .mode(…) .key(…) … ─┐
    .option(name, …) ───┼─▶ Said ──table's name, session, columns──▶ StreamConfig
    .catalog(…) ────────┤
    iceberg://…?… ──────┘

Methods and options are two ways to say the same settings. A method that is called twice means its last call.
A method and an option that say different things are a contradiction, and are refused: nobody can know which
one was meant. Nothing that was said shows in a `repr` (P10).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from calve.config.layout import parse_columns
from calve.config.options.read import read_options
from calve.config.sink import SinkConfig
from calve.config.stream import BadRows, FrontierKind, StreamConfig
from calve.config.units import nearest
from calve.config.url import is_sink_url, url_options
from calve.model.errors import ConfigError, UnknownOption, about
from calve.runtime.spark.intervals import units_of
from calve.runtime.spark.lakes import Lake, find_lake

CHECKPOINT = "checkpointLocation"

_TABLE = {"namespace": "n", "table.name": "t"}
"""Stands for the table until it is named."""

_SPARK_OPTIONS = {
    "asyncprogresstrackingenabled": "Leave it out: Spark cannot combine it with a sink of micro-batches, and "
    "without the commit log in step nothing would be exactly once.",
    "compression-codec": "Say 'parquet.compression'.",
    "compression-level": "Say 'parquet.compression.level'.",
    "fanout-enabled": "Leave it out: a task has one file open at a time, whatever the partitions.",
    "merge-schema": "Say .schema_evolution().",
    "mergeschema": "Say .schema_evolution().",
    "outputmode": "Say .mode('append'), .mode('changelog') or .mode('upsert').",
    "path": "Name the table: .to_table('lake.sales.orders').",
    "queryname": "Say .query_name('orders').",
    "table": "Name the table: .to_table('lake.sales.orders').",
    "target-file-size-bytes": "Say 'target.file.size'.",
    "txnappid": "A sink is known by its id: 'writer.id'.",
    "txnversion": "Say calve.write(…).version(…).",
    "write-format": "Leave it out: files are Parquet.",
}
"""Options of Spark's and Iceberg's own writers, in small letters, and what they are here."""


@dataclass(frozen=True, slots=True)
class FrontierSaid:
    """How far the stream has come, as it was said."""

    kind: FrontierKind
    delay: object = 0
    mark: str | None = None
    partition: str | None = None
    partitions: int | None = None


@dataclass(slots=True)
class Said:
    """All that was said so far."""

    by_method: dict[str, object] = field(default_factory=dict, repr=False)
    """Under the names of options."""
    by_option: dict[str, object] = field(default_factory=dict, repr=False)
    catalog: dict[str, Any] = field(default_factory=dict, repr=False)
    checkpoint: str | None = None
    frontier: FrontierSaid | None = None
    commit_interval: object = None
    until: str | None = None
    on_bad_row: dict[str, Any] = field(default_factory=dict)
    replaces_checkpoint: str | None = None
    tasks: int | None = None

    def option(self, name: object, value: object) -> None:
        """An option by its name; one that does not exist, or a value that it does not take, is refused."""
        word = name.lower() if isinstance(name, str) else ""
        if word == CHECKPOINT.lower():  # Spark's own options are known in any case of letters
            if not isinstance(value, str) or not value.strip():
                raise ConfigError(f"{CHECKPOINT} is no text", hint="Give the folder as text.")
            self.checkpoint = value
            return
        if (told := _SPARK_OPTIONS.get(word)) is not None:
            raise UnknownOption(f"there is no option {name!r} here", hint=told, about=word)
        if nearest(re.sub(r"[^a-z]", "", word), (CHECKPOINT.lower(),)) is not None:
            raise UnknownOption(f"there is no option {name!r}", hint=f"Did you mean {CHECKPOINT!r}?")
        asked: dict[Any, object] = {**_TABLE, name: value}
        read_options(asked)
        self.by_option[str(name)] = value

    def take_url(self, table: str) -> None:
        """What an iceberg:// URL says of the sink, as if it were said by options. What it says of the catalog
        goes with the table's name."""
        if not is_sink_url(table):
            return
        for name, value in url_options(table).items():
            if name in _TABLE or name == "warehouse" or name.startswith(("catalog.", "storage.")):
                continue
            if _plain(self.by_option.get(name, value)) != _plain(value):
                raise _contradiction(f"the URL and the option {name!r} say different things", name)
            self.by_option[name] = value

    def lake(self, table: str, session: Mapping[str, str]) -> Lake:
        """Where the table is."""
        said = dict(read_options({**_TABLE, **self.all()}).get("catalog", {}))
        for name, value in self.catalog.items():
            known = said.get(name)
            if isinstance(value, dict):
                before: dict[str, Any] = known or {}
                different = [one for one in value.keys() & before.keys() if str(value[one]) != before[one]]
                said[name] = {**before, **value}
            else:
                different = [name] if known is not None and known != value else []
                said[name] = value
            if different:
                raise _contradiction(
                    f".catalog() and .option() say different things of {different[0]!r}", different[0]
                )
        return find_lake(table, said, session)

    def config(self, lake: Lake, checkpoint: str | None, incoming: pa.Schema) -> StreamConfig:
        """What was asked for. Intervals are in the units of the column of times from here on."""
        arguments = self._sink_arguments(lake)
        stream: dict[str, Any] = {"checkpoint": checkpoint, **self.on_bad_row}
        if self.replaces_checkpoint is not None:
            stream["replaces_checkpoint"] = self.replaces_checkpoint
        if self.tasks is not None:
            stream["tasks"] = self.tasks
        if self.until is not None:
            stream["until"] = self.until
        sink = SinkConfig(**self._without_time(arguments))
        if self.frontier is not None:
            stream |= self._time_arguments(arguments, incoming)
        elif self.commit_interval is not None:
            # Refused with its reason; the value matters to nobody any more.
            stream["commit_interval"] = 1
        return StreamConfig(sink=sink, **stream)

    def _sink_arguments(self, lake: Lake) -> dict[str, Any]:
        said = self.all()
        wanted = {"namespace": ".".join(lake.namespace), "table.name": lake.table}
        for name, value in wanted.items():
            if said.get(name, value) != value:
                raise _contradiction(
                    f"the option {name!r} is {said[name]!r}, but .to_table() says {value!r}", name
                )
        arguments = read_options({**said, **_TABLE})
        arguments |= {"namespace": lake.namespace, "table": lake.table, "catalog": lake.catalog}
        properties = {
            **lake.table_defaults,
            **arguments.get("table_properties", {}),
            **lake.table_overrides,
        }
        return {**arguments, "table_properties": properties} if properties else arguments

    def _without_time(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Where there is no key whose changes have an order, the column of times is the stream's alone."""
        if self.frontier is None or "key" in arguments or "sequence_by" not in arguments:
            return arguments
        sequence = _columns(arguments)
        if len(sequence) > 1:
            raise ConfigError(
                f"sequence_by names {sequence[1]!r} after the time, which has no effect without a key",
                hint="Name the column of times alone.",
                about="sequence_by",
            )
        return {name: value for name, value in arguments.items() if name != "sequence_by"}

    def _time_arguments(self, arguments: dict[str, Any], incoming: pa.Schema) -> dict[str, Any]:
        said = self.frontier
        assert said is not None
        time = next(iter(_columns(arguments)), None)
        # A column that is not there is refused later, with the nearest one.
        kind = incoming.field(time).type if incoming.names.count(time) == 1 else pa.timestamp("us")
        stream: dict[str, Any] = {"frontier": said.kind, "time_column": time}
        if said.kind is FrontierKind.MAXIMUM:
            with about("frontier_delay"):
                stream["frontier_delay"] = units_of(said.delay, str(time), kind, "the frontier's delay")
        stream |= {
            "mark_column": said.mark,
            "partition_column": said.partition,
            "partitions": said.partitions,
        }
        if self.commit_interval is not None:
            with about("commit_interval"):
                stream["commit_interval"] = units_of(self.commit_interval, str(time), kind, "commit_interval")
        return stream

    def copy(self) -> Said:
        """The same, to say more of one table."""
        return replace(self, by_method=dict(self.by_method), by_option=dict(self.by_option))

    def all(self) -> dict[str, object]:
        for name in self.by_method.keys() & self.by_option.keys():
            if _plain(self.by_method[name]) != _plain(self.by_option[name]):
                raise _contradiction(
                    f"a method and the option {name!r} say different things: {self.by_method[name]!r} and "
                    f"{self.by_option[name]!r}",
                    name,
                )
        return {**self.by_option, **self.by_method}


def _columns(arguments: dict[str, Any]) -> tuple[str, ...]:
    return parse_columns(arguments.get("sequence_by", ()), "sequence_by")


def _plain(value: object) -> str:
    """A value in the form in which two ways to say it are compared."""
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    text = str(value).strip()
    return text.lower() if text.lower() in ("true", "false") else re.sub(r"\s*,\s*", ", ", text)


def _contradiction(reason: str, name: str) -> ConfigError:
    return ConfigError(reason, hint="Say it once.", about=name)


def bad_rows(word: object, rows_max: int | None) -> dict[str, Any]:
    """What becomes of rows that do not fit, as the arguments of a StreamConfig."""
    said: dict[str, Any] = {"on_bad_row": word}
    choices = [str(choice) for choice in BadRows]
    if not isinstance(word, str) or word.strip().lower() not in choices:
        near = nearest(str(word), choices)
        raise ConfigError(
            f"on_bad_row cannot be {word!r}",
            hint=(f"Did you mean {near!r}? " if near else "") + "It is 'fail' or 'quarantine'.",
            about="on_bad_row",
        )
    return said if rows_max is None else said | {"bad_rows_max": rows_max}
