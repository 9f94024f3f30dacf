"""Tree: what statements say. Nothing here knows whether it can be done.

Names without quotes are in small letters. The name of an option is words with a blank between, in small
letters (`commit interval`), or what stood in quotes (`catalog.type`). `text` and `at` are the text that was
read and where something begins in it: they are for errors, and say nothing of what is meant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Name(str):
    """A name or another text, and where it stands. It is equal to the same text elsewhere."""

    at: int = 0

    @classmethod
    def of(cls, name: str, at: int) -> Name:
        one = cls(name)
        one.at = at
        return one


def place_of(name: str) -> int:
    """Where a name stands; at the beginning, where nobody knows."""
    return name.at if isinstance(name, Name) else 0


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


SECRET = " secret"
"""How the name of an option ends whose value is the name of a secret."""


def named(value: Text | Word) -> str:
    """A name as the value of an option: in small letters where it has no quotes, like every name."""
    return value.value.lower() if isinstance(value, Word) else value.value


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    value: Value
    at: int = field(default=0, compare=False)


Options = tuple[Option, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A statement, and the text that it stands in."""

    text: str = field(default="", compare=False, repr=False)
    """All of it: several statements, where a file has several."""
    at: int = field(default=0, compare=False, repr=False)


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
class CreateSecret(Placed):
    name: str
    kept: Kept
    place: str
    """The name of the variable, or the path."""
    if_absent: bool = False


@dataclass(frozen=True, slots=True)
class CreateConnection(Placed):
    name: str
    target: Target
    options: Options = ()
    if_absent: bool = False


@dataclass(frozen=True, slots=True)
class CreateSource(Placed):
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
class CreateView(Placed):
    name: str
    query: str
    """In Spark's SQL."""
    if_absent: bool = False
    query_at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CreateSink(Placed):
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
    mode_at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CreateSinkTable(Placed):
    """`CREATE SINK TABLE … WITH (connector = 'iceberg', …)`: all is said by options."""

    name: str
    source: str
    options: Options = ()
    if_absent: bool = False


@dataclass(frozen=True, slots=True)
class Show(Placed):
    """`SHOW SINKS`."""

    things: Thing


@dataclass(frozen=True, slots=True)
class ShowCreate(Placed):
    thing: Thing
    name: str


@dataclass(frozen=True, slots=True)
class ShowChangefeed(Placed):
    job: str


@dataclass(frozen=True, slots=True)
class Explain(Placed):
    """`EXPLAIN SINK name`."""

    name: str


@dataclass(frozen=True, slots=True)
class Describe(Placed):
    name: str


@dataclass(frozen=True, slots=True)
class Drop(Placed):
    thing: Thing
    name: str
    if_there: bool = False
    keeps_progress: bool = False


Create = CreateSecret | CreateConnection | CreateSource | CreateView | CreateSink | CreateSinkTable
Statement = Create | Show | ShowCreate | ShowChangefeed | Explain | Describe | Drop
