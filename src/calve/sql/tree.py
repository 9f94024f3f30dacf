"""Tree: what statements say. Nothing here knows whether it can be done.

Names without quotes are in small letters. The name of an option is words with a blank between, in small
letters (`commit interval`), or what stood in quotes (`catalog.type`). `at` is where something begins in the
text: it is for errors, and says nothing of what is meant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Text:
    """A value in quotes."""

    value: str


@dataclass(frozen=True, slots=True)
class Word:
    """A value without: a number, true, a name."""

    value: str


@dataclass(frozen=True, slots=True)
class Secret:
    """`SECRET name`: what is meant is what the secret holds."""

    name: str


Value = Text | Word | Secret


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    value: Value
    at: int = field(default=0, compare=False)


Options = tuple[Option, ...]


class Kept(StrEnum):
    """Where a secret is."""

    ENV = "ENV"
    FILE = "FILE"


class Target(StrEnum):
    """What a connection leads to."""

    ICEBERG = "ICEBERG CATALOG"
    AWS = "AWS"
    KAFKA = "KAFKA"
    POSTGRES = "POSTGRES"


class Origin(StrEnum):
    """What a source reads."""

    COCKROACHDB = "COCKROACHDB CHANGEFEED"
    KAFKA = "KAFKA TOPIC"
    FILES = "FILES"
    DEBEZIUM = "DEBEZIUM"
    MATERIALIZE = "MATERIALIZE SUBSCRIBE"


class Thing(StrEnum):
    """What a statement may create."""

    SECRET = "SECRET"
    CONNECTION = "CONNECTION"
    SOURCE = "SOURCE"
    VIEW = "VIEW"
    SINK = "SINK"


class Mode(StrEnum):
    UPSERT = "UPSERT"
    APPEND = "APPEND"
    CHANGELOG = "CHANGELOG"


@dataclass(frozen=True, slots=True)
class CreateSecret:
    name: str
    kept: Kept
    place: str
    """The name of the variable, or the path."""
    if_absent: bool = False


@dataclass(frozen=True, slots=True)
class CreateConnection:
    name: str
    target: Target
    options: Options = ()
    if_absent: bool = False


@dataclass(frozen=True, slots=True)
class CreateSource:
    name: str
    origin: Origin
    options: Options = ()
    columns: str | None = None
    """The text of a column list, as `config/ddl` reads it."""
    key: tuple[str, ...] = ()
    envelope: str | None = None
    if_absent: bool = False
    columns_at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CreateView:
    name: str
    query: str
    """In Spark's SQL."""
    if_absent: bool = False
    query_at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CreateSink:
    """`INTO ICEBERG CATALOG …`, or `INTO 'iceberg://…'`."""

    name: str
    source: str
    catalog: str | None = None
    """The connection; `None` where there is a URL."""
    url: str | None = None
    namespace: str | None = None
    table: str | None = None
    aws: str | None = None
    """The connection of the storage."""
    key: tuple[str, ...] = ()
    enforced: bool = True
    mode: Mode | None = None
    partition: tuple[str, ...] = ()
    """Texts of transforms, as `config/layout` reads them."""
    options: Options = ()
    """Of WITH."""
    if_absent: bool = False


@dataclass(frozen=True, slots=True)
class CreateSinkTable:
    """`CREATE SINK TABLE … WITH (connector = 'iceberg', …)`: all is said by options."""

    name: str
    source: str
    options: Options = ()
    if_absent: bool = False


@dataclass(frozen=True, slots=True)
class Show:
    """`SHOW SINKS`."""

    things: Thing


@dataclass(frozen=True, slots=True)
class ShowCreate:
    thing: Thing
    name: str


@dataclass(frozen=True, slots=True)
class ShowChangefeed:
    job: str


@dataclass(frozen=True, slots=True)
class Explain:
    """`EXPLAIN SINK name`."""

    name: str


@dataclass(frozen=True, slots=True)
class Describe:
    name: str


@dataclass(frozen=True, slots=True)
class Drop:
    thing: Thing
    name: str
    if_there: bool = False
    keeps_progress: bool = False


Create = CreateSecret | CreateConnection | CreateSource | CreateView | CreateSink | CreateSinkTable
Statement = Create | Show | ShowCreate | ShowChangefeed | Explain | Describe | Drop
