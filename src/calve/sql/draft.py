"""Draft: a pipeline from a few answers, as a commented text of statements.

    {"source": "files", "path": "orders", …} ──▶ secrets, connections, source, sink ──▶ text

Guarantee: the text is made of trees (write.py), never of pieces of what somebody typed; and it is given back
only when it was read and understood again. A secret is not among the answers: a statement names the variable
that has it (P10).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from calve.config.layout import format_partition, parse_columns, parse_partition
from calve.model.errors import BadStatement
from calve.sql.choices import (
    COCKROACHDB_FILES,
    COCKROACHDB_KAFKA,
    DEBEZIUM,
    FILES,
    KAFKA,
    MATERIALIZE,
    SOURCES,
    Said,
)
from calve.sql.defined import Definitions
from calve.sql.read import read
from calve.sql.sink import sink_of
from calve.sql.source import source_of
from calve.sql.tree import (
    Create,
    CreateConnection,
    CreateSecret,
    CreateSink,
    CreateSource,
    Kept,
    Mode,
    Option,
    Origin,
    Secret,
    Target,
    Text,
    Value,
    Word,
)
from calve.sql.write import COLUMNS, quoted, write

LAKE, AWS, BROKER, SERVER = "lake", "aws_login", "broker", "server"
"""Names of connections."""


@dataclass(slots=True)
class _Parts:
    """What was said, and the statements that others need."""

    said: Said
    secrets: dict[str, CreateSecret] = field(default_factory=dict)
    connections: dict[str, CreateConnection] = field(default_factory=dict)

    def __call__(self, name: str) -> str:
        return self.said.get(name, "").strip()

    def secret(self, name: str, variable: str) -> Secret:
        """A secret that is kept in a variable."""
        self.secrets[name] = CreateSecret(name, Kept.ENV, variable)
        return Secret(name)

    def connect(self, name: str, target: Target, **options: Value | str | None) -> str:
        self.connections[name] = CreateConnection(name, target, _options(**options))
        return name

    def aws(self) -> Word | None:
        """The login at AWS, if there is something to say of it: otherwise it is the machine's own."""
        key_id, key = self("access-key-id-env"), self("secret-access-key-env")
        if not self("region") and not key:
            return None
        keys = {
            "access key id": self.secret("aws_key_id", key_id) if key_id else None,
            "secret access key": self.secret("aws_key", key) if key else None,
        }
        return Word(self.connect(AWS, Target.AWS, region=self("region"), **keys))


def draft(said: Said, file: str) -> str:
    """The text of a pipeline, for a file of this name."""
    parts = _Parts(said)
    source, lake = _source(parts), _catalog(parts)
    sink = _sink(parts, str(source.name))
    statements = [*parts.secrets.values(), *parts.connections.values(), lake, source, sink]
    blocks = [
        _heading(said, file, sink),
        *_block("Secrets are read when they are needed, and stand in no file.", *parts.secrets.values()),
        *(one for made in parts.connections.values() for one in _block(_LEADS_TO[made.target], made)),
        *_block("Where the tables are.", lake),
        *_block(_of_source(parts, source), source),
        _comment(_of_views(source)),
        *_block(_of_sink(parts), sink),
    ]
    text = "\n\n".join(blocks) + "\n"
    if read(text) != statements:  # columns are text of their own
        raise BadStatement("the answers cannot be written as statements", hint="Look at --columns.")
    return text


def understand(text: str, folder: Path) -> Definitions:
    """What a text defines, if all of it is understood. Secrets are not read: they may not be there yet."""
    found = Definitions.of_text(text, folder, without_secrets=True)
    for source in found.sources.values():
        source_of(source, found)
    for sink in found.sinks.values():
        sink_of(sink, found)
    return found


def name_of(said: Said) -> str:
    """What the source is called, by where it is: its folder, its topic, its relation."""
    place = said.get("topic") or said.get("object") or said.get("path") or ""
    last = re.split(r"[./\\]", place.split(",")[0].strip().rstrip("/"))[-1]
    return re.sub(r"\W+", "_", last.lower(), flags=re.ASCII).strip("_") or "rows"


# ---------------------------------------------------------------- statements


def _source(parts: _Parts) -> CreateSource:
    kind, name = parts("source"), name_of(parts.said)
    columns, key = parts("columns") or None, parse_columns(parts("key"), "--key") if parts("key") else ()
    match kind:
        case "files":
            options = _options(path=parts("path"), format=parts("format"))
            return CreateSource(name, Origin.FILES, options, columns, key)
        case "cockroachdb-files":
            aws = parts.aws() if parts("path").startswith("s3") else None
            options = _options(url=parts("path"), topic=parts("topic"), **{"aws connection": aws})
            return CreateSource(name, Origin.COCKROACHDB, options, columns, key)
        case "materialize":
            server = parts.connect(
                SERVER,
                Target.POSTGRES,
                host=parts("host"),
                port=parts("port"),
                user=parts("user"),
                password=_password(parts, "server_password"),
                database=parts("database"),
            )
            options = _options(connection=Word(server), object=parts("object"))
            return CreateSource(name, Origin.MATERIALIZE, options, columns, key)
    user = parts("user")
    login = {"sasl username": user, "sasl password": _password(parts, "broker_password")} if user else {}
    broker = parts.connect(BROKER, Target.KAFKA, broker=parts("broker"), **login)
    options = _options(connection=Word(broker), topic=parts("topic"))
    origin = {COCKROACHDB_KAFKA: Origin.COCKROACHDB, DEBEZIUM: Origin.DEBEZIUM}.get(kind, Origin.KAFKA)
    return CreateSource(name, origin, options, columns, key, "none" if kind == KAFKA else None)


def _password(parts: _Parts, name: str) -> Secret | None:
    return parts.secret(name, parts("password-env")) if parts("password-env") else None


def _catalog(parts: _Parts) -> CreateConnection:
    said: dict[str, Value | str | None] = {"warehouse": parts("warehouse")}
    match parts("catalog"):
        case "rest":
            said |= {"type": "rest", "uri": parts("catalog-uri")}
            for name in ("credential", "token"):
                if variable := parts(f"{name}-env"):
                    said[name] = parts.secret(f"lake_{name}", variable)
        case "glue":
            said |= {"type": "glue", "aws connection": parts.aws()}
        case "s3tables":
            said |= {"type": "s3tables", "aws connection": parts.aws()}
        case "hive":
            said |= {"type": "hive", "uri": parts("catalog-uri")}
        case "postgres":
            said |= {"type": "sql", "uri": parts.secret("lake_uri", parts("catalog-uri-env"))}
    first = ("type", "uri")
    ordered = {name: said[name] for name in (*first, *said) if name in said}
    return CreateConnection(LAKE, Target.ICEBERG, _options(**ordered))


def _sink(parts: _Parts, source: str) -> CreateSink:
    table, mode = parts("table") or source, parts("mode")
    fields = parse_partition(parts("partition")) if parts("partition") else ()
    return CreateSink(
        re.sub(r"\W+", "_", table.lower(), flags=re.ASCII),
        source,
        LAKE,
        namespace=parts("namespace"),
        table=table,
        mode=Mode(mode.upper()) if mode else None,
        partition=tuple(map(format_partition, fields)),
    )


def _options(**said: Value | str | None) -> tuple[Option, ...]:
    """What was said; texts as texts."""
    return tuple(
        Option(name, Text(value) if isinstance(value, str) else value)
        for name, value in said.items()
        if value
    )


# ---------------------------------------------------------------- words

_LEADS_TO = {
    Target.AWS: "The login at AWS.",
    Target.KAFKA: "Where the broker is. Kafka's own settings go here, too: 'kafka.…' = '…'.",
    Target.POSTGRES: "Where Materialize is.",
}
_TYPES = (
    "Types are: boolean, int, long, float, double, decimal(10,2), date, timestamp, timestamptz, string, "
    "binary, list<…>, map<…>, struct<…>."
)


def _heading(said: Said, file: str, sink: CreateSink) -> str:
    return "\n".join(
        [
            _comment(f"A pipeline into the Iceberg table {sink.namespace}.{sink.table}."),
            _comment(f"It reads {SOURCES[said['source']]}."),
            "--",
            f"--   calve plan {file}     shows what it would do, and changes nothing",
            f"--   calve run {file}      runs it until Ctrl-C; nothing is written twice",
            f"--   calve status {file}   shows how far it is",
        ]
    )


def _of_source(parts: _Parts, source: CreateSource) -> str:
    if source.columns is not None:
        return f"What is read. {_TYPES}"
    if parts("source") == MATERIALIZE:
        return "What is read. Materialize tells its columns."
    return (
        "What is read. Messages show its columns, once they come. To name them instead, so that a plan shows "
        f"them before: CREATE SOURCE {quoted(source.name)} (id long, …) FROM …"
    )


def _of_views(source: CreateSource) -> str:
    return (
        "Columns can be chosen and rows filtered on the way; then the sink reads FROM selected:\n"
        f"CREATE VIEW selected AS SELECT * FROM {quoted(source.name)} WHERE …;"
    )


def _of_sink(parts: _Parts) -> str:
    words = "What is written."
    if parts("source") in (FILES, KAFKA) and parts("key"):
        words += (
            " Where several changes of a key may come at once, say which column tells the last one: "
            "WITH (SEQUENCE BY = '…')."
        )
    if parts("source") in (COCKROACHDB_FILES, COCKROACHDB_KAFKA, MATERIALIZE):
        words += " WITH (COMMIT INTERVAL = '1m') makes fewer and larger snapshots."
    return f"{words} WITH (BAD ROWS = 'quarantine') puts rows aside that do not fit, instead of stopping."


def _block(comment: str, *statements: Create) -> Iterator[str]:
    """Statements below what is said of them; nothing where there is none."""
    if statements:
        yield _comment(comment) + "\n" + "\n".join(f"{write(one)};" for one in statements)


def _comment(text: str) -> str:
    lines = (part for line in text.splitlines() for part in textwrap.wrap(line, COLUMNS - len("-- ")))
    return "\n".join(f"-- {line}" for line in lines)


def _line(text: str) -> str:
    return text[:1].upper() + text[1:]
