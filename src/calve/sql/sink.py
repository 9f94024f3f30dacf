"""Sink: what `CREATE SINK` and `CREATE SINK TABLE` ask for, in the words of docs/options.md.

    CREATE SINK … INTO ICEBERG CATALOG … ─┐
    CREATE SINK … INTO 'iceberg://…' ─────┼─▶ SinkAsked: options of a sink, and settings of its stream
    CREATE SINK TABLE … WITH (…) ─────────┘

The three forms come to the same. A name of several words is the option with dots between: TARGET FILE SIZE is
`target.file.size`. Nothing that was said shows in a `repr` (P10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from calve.config.catalog import CatalogType
from calve.config.names import check_catalog, check_namespace, check_table
from calve.config.options.listing import NOT_YET, OPTIONS
from calve.config.url import show_name
from calve.model.errors import ConfigError
from calve.sql.asked import Asked, place
from calve.sql.connect import catalog_options, store_options
from calve.sql.defined import Definitions, Sink
from calve.sql.options import SINK_WORDS, STREAM, dotted, names
from calve.sql.pointed import of_statement
from calve.sql.tree import CreateSink, CreateSinkTable, Secret, Target, place_of

CHECKPOINTS = "calve-checkpoints"
"""The folder of checkpoints, where nothing is said."""

_OF_STREAM = names(STREAM)
_NAMES = {option.name: option.name for option in OPTIONS if option.prefix is None}
_NAMES |= {name.replace(".", " ").replace("-", " "): name for name in _NAMES}
_NAMES |= {name: name for name in NOT_YET} | SINK_WORDS
_NAMES |= _OF_STREAM | dotted(_OF_STREAM)
_TABLE_NAMES = ("catalog.name", "namespace", "table.name")
_OF_CONNECTION = ("namespace", "table.name", "warehouse", "connector")


@dataclass(frozen=True, slots=True)
class SinkAsked:
    """A sink, as it was asked for."""

    name: str
    source: str
    table: str
    """`lake`.`sales`.`orders`, or an iceberg:// URL."""
    checkpoint: str
    options: Mapping[str, object] = field(repr=False)
    """By their names in docs/options.md."""
    commit_interval: str | None = None
    bad_rows: str | None = None
    bad_rows_max: int | None = None
    trigger: str | None = None
    frontier: str | None = None
    frontier_delay: str | None = None
    tasks: int | None = None
    replaces_checkpoint: str | None = None
    notes: tuple[str, ...] = ()
    """What a person should know of how it was understood."""

    @property
    def key(self) -> tuple[str, ...] | None:
        """The key that was named by KEY (…)."""
        said = self.options.get("equality.delete.columns")
        return said if isinstance(said, tuple) else None

    @property
    def mode(self) -> str | None:
        said = self.options.get("write.mode")
        return None if said is None else str(said)


def sink_of(one: Sink, definitions: Definitions) -> SinkAsked:
    """What a statement asks for."""
    with of_statement(one):
        return _sink_table(one, definitions) if isinstance(one, CreateSinkTable) else _sink(one, definitions)


def table_said(one: Sink) -> str:
    """The table that a statement names, for people. Nothing is looked up for it, no secret either."""
    if isinstance(one, CreateSink):
        if one.url is not None:
            return show_name(one.url)
        return f"{one.catalog}.{one.namespace}.{one.table}"
    said = {option.name: option.value for option in one.options}
    parts = (said.get(name, said.get(name.replace(".", " "))) for name in _TABLE_NAMES)
    return ".".join(part.value for part in parts if part is not None and not isinstance(part, Secret))


def _sink(one: CreateSink, definitions: Definitions) -> SinkAsked:
    asked = Asked(one, definitions, _NAMES, dotted=("table.prop.", "storage."), meaning="a sink")
    for name in _OF_CONNECTION:
        asked.refuse(name, f"{name!r} is said by INTO, not by WITH", "Leave it out.")
    options: dict[str, object] = {}
    if one.url is None:
        assert one.catalog is not None
        assert one.namespace is not None
        assert one.table is not None
        connection = definitions.connection(one.catalog, Target.ICEBERG, one, place_of(one.catalog))
        options |= catalog_options(connection, definitions)
        if "catalog.uri" not in options:
            options.setdefault("catalog.type", "sql")
        options["catalog.name"] = check_catalog(str(one.catalog))
        namespace = check_namespace(tuple(one.namespace.split(".")))
        table = ".".join(map(_ticked, (one.catalog, *namespace, check_table(one.table))))
    else:
        table = str(one.url)
    if one.aws is not None:
        aws = definitions.connection(one.aws, Target.AWS, one, place_of(one.aws))
        options |= store_options(aws, definitions)
    options |= {"equality.delete.columns": tuple(map(str, one.key))} if one.key else {}
    options |= {"write.mode": one.mode.lower()} if one.mode is not None else {}
    options |= {"partition.spec": tuple(map(str, one.partition))} if one.partition else {}
    return _stream(one, asked, table, options, definitions)


def _sink_table(one: CreateSinkTable, definitions: Definitions) -> SinkAsked:
    prefixes = ("table.prop.", "storage.", "catalog.prop.")
    asked = Asked(one, definitions, _NAMES, dotted=prefixes, meaning="a sink")
    if (connector := asked.text("connector")) is not None and connector.lower() != "iceberg":
        raise ConfigError(
            f"its connector is {connector!r}", hint="There is one: connector = 'iceberg'.", about="connector"
        )
    namespace = asked.needed("namespace", "'namespace' = 'sales'")
    table = asked.needed("table.name", "'table.name' = 'orders'")
    name = asked.text("catalog.name") or "calve"
    options: dict[str, object] = {"catalog.name": name}
    warehouse = asked.text("warehouse")
    kind = asked.text("catalog.type")
    if kind is not None:
        options["catalog.type"] = kind
    if (uri := asked.text("catalog.uri")) is not None:
        options["catalog.uri"] = uri
    if kind is None and uri is None:
        options["catalog.type"] = "sql"
    if warehouse is not None:
        options["warehouse"] = place(warehouse, definitions.folder) if "/" in warehouse else warehouse
    parts = check_namespace(tuple(namespace.split(".")))
    full = ".".join(map(_ticked, (check_catalog(name), *parts, check_table(table))))
    return _stream(one, asked, full, options, definitions)


def _stream(
    one: Sink, asked: Asked, table: str, options: dict[str, object], definitions: Definitions
) -> SinkAsked:
    """What both forms say of the stream, and what is left of their options."""
    notes = []
    default = f"{CHECKPOINTS}/{quote(one.name, safe='')}"
    said = {name: asked.text(name) for name in dict.fromkeys(_OF_STREAM.values())}
    for name, value in asked.rest().items():
        if name == "delivery.guarantee" and value.lower() == "at-least-once":
            notes.append("'at-least-once' was asked for: a stream is written exactly once, which is more.")
        elif name in NOT_YET and value.lower() == "false":
            notes.append(f"{name!r} is off, as it is in this release in any case.")
        elif name.startswith("max.buffer."):
            notes.append(f"{name!r} has no effect here: Spark itself holds rows until they are written.")
            options[name] = value
        elif name in options and options[name] != value:
            raise ConfigError(
                f"{name!r} stands in WITH, and is said before it", hint="Say it once.", about=name
            )
        else:
            options[name] = value
    if str(options.get("catalog.type", "")).strip().lower() == CatalogType.MEMORY:
        notes.append("The catalog is in memory: it ends with the run. One of type sql keeps the table.")
    return SinkAsked(
        str(one.name),
        str(one.source),
        table,
        place(said["checkpoint"] or default, definitions.folder),
        options,
        said["commit interval"],
        said["bad rows"],
        _number(said["bad rows max"], "BAD ROWS MAX"),
        said["trigger interval"],
        said["frontier"],
        said["frontier delay"],
        _number(said["tasks"], "TASKS"),
        said["replaces checkpoint"],
        tuple(notes),
    )


def _number(text: str | None, what: str) -> int | None:
    if text is None:
        return None
    if not text.isdecimal():
        raise ConfigError(f"{what} is {text[:40]!r}", hint="Give a number.", about=what)
    return int(text)


def _ticked(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"
