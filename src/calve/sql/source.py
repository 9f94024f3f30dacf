"""Source: what `CREATE SOURCE` asks to be read, as plain values for whoever reads it.

| statement | becomes |
|---|---|
| `COCKROACHDB CHANGEFEED (URL …)` | `FeedFiles`: the files of a changefeed |
| `COCKROACHDB CHANGEFEED (CONNECTION …)`, `KAFKA TOPIC`, `DEBEZIUM (CONNECTION …)` | `Messages` on Kafka |
| `DEBEZIUM (PATH …)`, `FILES (PATH …) ENVELOPE …` | `Lines`: messages in files, one a line |
| `FILES (PATH …)` | `Rows` of files, in any format of Spark's |
| `KAFKA TOPIC … ENVELOPE NONE` | `Rows` of JSON on Kafka |
| `MATERIALIZE SUBSCRIBE` | `Subscribed` |

Logins do not show in a `repr` (P10).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from calve.config.columns import SourceTable
from calve.config.types.notation import show_place
from calve.config.units import nearest
from calve.model.errors import BadColumns, BadStatement, ConfigError
from calve.sql.asked import Asked
from calve.sql.connect import aws_properties, kafka_options, postgres_uri
from calve.sql.defined import Definitions
from calve.sql.grammar import refused
from calve.sql.mask import masked
from calve.sql.options import (
    COCKROACHDB,
    FILES_MAX,
    FORMAT,
    HEADER,
    IN_FILES,
    JOB_ID,
    MATERIALIZE,
    OF_DEBEZIUM,
    ON_KAFKA,
    OTHER_COLUMNS,
    names,
)
from calve.sql.pointed import of_statement
from calve.sql.tree import CreateSource, Origin, Target

_PLACE = re.compile(r" \(line (\d+), column (\d+)\)\n")
FORMATS = ("csv", "json", "orc", "parquet")
_NONE = ("none", "json", "rows")
"""Envelopes that are none: a message is a row."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What is said of a table of a source."""

    columns: SourceTable | None = None
    key: tuple[str, ...] = ()

    @property
    def tables(self) -> SourceTable | None:
        return self.columns


@dataclass(frozen=True, slots=True)
class FeedFiles:
    """The files of a CockroachDB changefeed."""

    name: str
    url: str
    topics: tuple[str, ...] | None
    declared: Declared
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Messages:
    """Topics of Kafka."""

    name: str
    topics: tuple[str, ...]
    envelope: str
    declared: Declared
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Lines:
    """Files of messages, one a line."""

    name: str
    path: str
    topic: str
    envelope: str
    declared: Declared
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rows:
    """Plain rows: files of them, or JSON objects on Kafka."""

    name: str
    format: str
    """One of FORMATS, or `kafka`."""
    place: str
    """A folder, or topics with commas between."""
    declared: Declared
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A relation of Materialize, or a query."""

    name: str
    uri: str = field(repr=False)
    relation: str | None
    query: str | None
    types: Mapping[str, str]
    key: tuple[str, ...]


Source = FeedFiles | Messages | Lines | Rows | Subscribed

_ELSEWHERE = {"aws connection": "aws connection", "path": "path", "url": "path", "folder": "path"}
"""Of files, not of topics: refused with that reason."""
_TOPICS = names(ON_KAFKA, (OTHER_COLUMNS,)) | _ELSEWHERE
_LINES = names(IN_FILES, (FORMAT, OTHER_COLUMNS))
_CHANGEFEED = names(COCKROACHDB) | {"format": "format"}
_SETTINGS = ("other_columns", "job_id", *(one.taken for one in OF_DEBEZIUM))


def source_of(one: CreateSource, definitions: Definitions) -> Source:
    """What a statement asks to be read."""
    with of_statement(one):
        match one.origin:
            case Origin.COCKROACHDB:
                return _cockroachdb(one, definitions)
            case Origin.KAFKA:
                return _kafka(one, definitions)
            case Origin.DEBEZIUM:
                return _debezium(one, definitions)
            case Origin.FILES:
                return _files(one, definitions)
        return _materialize(one, definitions)


def declared(one: CreateSource) -> Declared:
    """The column list and the key of a source."""
    if one.columns is None:
        return Declared(None, tuple(map(str, one.key)))
    try:
        table = SourceTable.of(one.columns)
    except BadColumns as error:
        raise _placed(error, one) from None
    if one.key and table.key and table.key != one.key:
        raise ConfigError(
            f"its columns say that the key is {', '.join(table.key)}, and KEY says {', '.join(one.key)}",
            hint="Say it once.",
            about="key",
        )
    table = SourceTable.of(one.columns, tuple(map(str, one.key)))
    return Declared(table, table.key)


def _placed(error: BadColumns, one: CreateSource) -> BadColumns:
    """An error of a column list, with its place in the whole text."""
    place = _PLACE.search(error.message)
    if place is None or one.columns is None:
        return BadColumns(f"its columns: {error.message}", hint=error.hint, about="columns")
    before = one.columns.split("\n")[: int(place[1]) - 1]
    inside = sum(len(line) + 1 for line in before) + int(place[2]) - 1
    at = one.text.find(one.columns, one.columns_at) + inside
    return BadColumns(error.message[: place.start()], hint=error.hint, place=show_place(masked(one.text), at))


def _cockroachdb(one: CreateSource, definitions: Definitions) -> Source:
    asked = Asked(one, definitions, _CHANGEFEED, dotted=("storage.", "kafka."), meaning="a changefeed")
    url = asked.path("path")
    if url is None:
        return _messages(one, definitions, asked, f"cockroachdb-{one.envelope or 'wrapped'}")
    if one.envelope not in (None, "wrapped", "cockroachdb"):
        raise ConfigError(
            f"the files of a changefeed are wrapped, and ENVELOPE is {one.envelope}",
            hint="Leave ENVELOPE out: in files CockroachDB writes no other.",
            about="envelope",
        )
    for name in ("connection", "broker", "format"):
        asked.refuse(name, "the changefeed has a URL: it is read from files", "Leave it out.")
    aws = asked.connection("aws connection", Target.AWS)
    topics, most = asked.names("topic"), asked.text("files_max")
    left = asked.rest()
    storage = {
        key.removeprefix("storage."): left.pop(key) for key in list(left) if key.startswith("storage.")
    }
    if aws is not None:
        storage |= {f"s3.{key}": value for key, value in aws_properties(aws, definitions).items()}
    return FeedFiles(
        str(one.name),
        url,
        topics,
        declared(one),
        left,
        {} if most is None else {"files_max": most},
        storage,
    )


def _kafka(one: CreateSource, definitions: Definitions) -> Source:
    known = _TOPICS | names(OF_DEBEZIUM, (JOB_ID,))
    asked = Asked(one, definitions, known, dotted=("kafka.",), meaning="a Kafka source")
    envelope = one.envelope
    if envelope is None:
        raise refused(
            f"nothing says what the messages of {one.name!r} are",
            one.text,
            one.at,
            "Write ENVELOPE debezium, cockroachdb or materialize behind the options; ENVELOPE none for "
            "messages that are plain rows in JSON.",
        )
    if envelope not in _NONE:
        return _messages(one, definitions, asked, envelope)
    options = _broker(one, definitions, asked)
    topics = asked.needed("topic", "TOPIC = 'orders'")
    said = declared(one)
    if said.columns is None:
        raise _needs_columns(one, "messages that are plain rows")
    return Rows(str(one.name), "kafka", topics, said, {**options, **_plain(asked.rest(), "kafka.")})


def _debezium(one: CreateSource, definitions: Definitions) -> Source:
    known = names(ON_KAFKA) | _LINES | names(OF_DEBEZIUM)
    asked = Asked(one, definitions, known, dotted=("kafka.",), meaning="a Debezium source")
    envelope = one.envelope or "debezium"
    envelope = envelope if envelope.startswith("debezium") else f"debezium-{envelope}"
    path = asked.path("path")
    return (
        _messages(one, definitions, asked, envelope) if path is None else _lines(one, asked, path, envelope)
    )


def _files(one: CreateSource, definitions: Definitions) -> Source:
    known = _LINES | names(OF_DEBEZIUM, (FILES_MAX, HEADER))
    asked = Asked(one, definitions, known, meaning="a source of files")
    path = asked.path("path")
    if path is None:
        raise refused(
            f"nothing says where the files of {one.name!r} are", one.text, one.at, "Write PATH = '…'."
        )
    if one.envelope is not None and one.envelope not in _NONE:
        return _lines(one, asked, path, one.envelope)
    form = (asked.text("format") or "json").lower()
    if form not in FORMATS:
        near = nearest(form, FORMATS)
        raise ConfigError(
            f"its FORMAT is {form!r}",
            hint=(f"Did you mean {near}? " if near else "") + f"There are: {', '.join(FORMATS)}.",
            about="format",
        )
    said = declared(one)
    if said.columns is None:
        raise _needs_columns(one, "a stream of files")
    most, header = asked.text("files_max"), asked.text("header")
    options = {"maxFilesPerTrigger": most, "header": header}
    _plain(asked.rest(), "no option")
    return Rows(str(one.name), form, path, said, {name: value for name, value in options.items() if value})


def _materialize(one: CreateSource, definitions: Definitions) -> Subscribed:
    asked = Asked(one, definitions, names(MATERIALIZE), meaning="a subscription")
    if one.envelope is not None:
        raise ConfigError("a subscription has no ENVELOPE", hint="Leave it out.", about="envelope")
    connection = asked.connection("connection", Target.POSTGRES)
    uri = asked.text("uri")
    if (connection is None) == (uri is None):
        raise ConfigError(
            "nothing says where Materialize is" if uri is None else "it has a CONNECTION and a URI",
            hint="Write CONNECTION = name, of a CREATE CONNECTION name TO POSTGRES (…), and no URI.",
            about="uri",
        )
    relation, query = asked.text("object"), asked.text("query")
    if (relation is None) == (query is None):
        raise ConfigError(
            "a subscription is to one OBJECT, or to one QUERY",
            hint="Write OBJECT = 'public.orders', or QUERY = 'SELECT …'.",
            about="query",
        )
    # The list says what single columns shall be: the key may be another one.
    said = declared(replace(one, key=()))
    types = {} if said.columns is None else {column.name: column.type for column in said.columns.columns}
    server = uri if connection is None else postgres_uri(connection, definitions)
    assert server is not None
    key = tuple(map(str, one.key)) or said.key
    return Subscribed(str(one.name), server, relation, query, types, key)


def _messages(one: CreateSource, definitions: Definitions, asked: Asked, envelope: str) -> Messages:
    """Topics of Kafka, in an envelope."""
    options = _broker(one, definitions, asked)
    topics = asked.names("topic")
    if not topics:
        raise refused(
            f"nothing says which topic {one.name!r} reads", one.text, one.at, "Write TOPIC = 'orders'."
        )
    left = asked.rest()
    settings = {name: left.pop(name) for name in _SETTINGS if name in left}
    return Messages(
        str(one.name), topics, _full(envelope), declared(one), settings, {**options, **_plain(left, "kafka.")}
    )


def _lines(one: CreateSource, asked: Asked, path: str, envelope: str) -> Lines:
    topics = asked.names("topic") or (str(one.name),)
    if len(topics) != 1:
        raise ConfigError(
            "files of messages are of one TOPIC", hint="Give each topic a source of its own.", about="topic"
        )
    left = asked.rest()
    if left.pop("format", "json").lower() not in ("json", "text"):
        raise ConfigError("messages in files are JSON, one a line", hint="Leave FORMAT out.", about="format")
    settings = {name: left.pop(name) for name in _SETTINGS if name in left}
    most = left.pop("files_max", None)
    _plain(left, "no option")
    options = {} if most is None else {"maxFilesPerTrigger": most}
    return Lines(str(one.name), path, topics[0], _full(envelope), declared(one), settings, options)


def _broker(one: CreateSource, definitions: Definitions, asked: Asked) -> dict[str, str]:
    asked.refuse("aws connection", "topics are read from a broker, not from S3", "Leave it out.")
    asked.refuse("path", "topics are read from a broker, not from files", "Leave it out.")
    connection, servers = asked.connection("connection", Target.KAFKA), asked.text("broker")
    if connection is not None and servers is not None:
        raise BadStatement("the broker is named twice", hint="Leave one of the two out.", about="broker")
    if connection is None and servers is None:
        raise refused(
            f"nothing says where the broker of {one.name!r} is",
            one.text,
            one.at,
            "Write CONNECTION = name, of a CREATE CONNECTION name TO KAFKA (BROKER 'host:9092'); or BROKER = "
            "'host:9092' where there is no login.",
        )
    if connection is not None:
        return kafka_options(connection, definitions)
    return {"kafka.bootstrap.servers": servers or ""}


def _full(envelope: str) -> str:
    """`cockroachdb-wrapped` is what `cockroachdb` means."""
    word = envelope.strip().lower().replace("_", "-")
    twice = "cockroachdb-cockroachdb"
    return word.removeprefix("cockroachdb-") if word.startswith(twice) else word


def _plain(left: Mapping[str, str], allowed: str) -> dict[str, str]:
    """What is left of the options, if it is such as may be."""
    for name in left:
        if not name.startswith(allowed):
            raise ConfigError(
                f"{name.replace('_', ' ').upper()} has no effect on a source of this kind",
                hint="Leave it out.",
                about=name,
            )
    return dict(left)


def _needs_columns(one: CreateSource, what: str) -> BadStatement:
    return refused(
        f"the source {one.name!r} declares no columns, and {what} does not show its own",
        one.text,
        one.at,
        f"Name them: CREATE SOURCE {one.name} (id long, status string) FROM …",
    )
