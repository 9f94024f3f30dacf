"""Questions: what `calve init` needs to know, in the order in which a person is asked.

Each is a flag, too, by the same name. A question is asked where it applies to the answers before it; what has
a default may stay without an answer. An answer is checked when it is given, and not at the end.

No question asks for a secret: it asks for the name of the variable that has it (P10).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from calve.config.columns import SourceTable
from calve.config.layout import parse_columns, parse_partition
from calve.config.names import check_namespace, check_table
from calve.config.units import nearest
from calve.model.errors import ConfigError
from calve.sql import choices, draft
from calve.sql.choices import Said
from calve.sql.source import FORMATS

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _always(_: Said) -> bool:
    return True


def _nothing(_: Said) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Question:
    """Something to know."""

    name: str
    words: str
    example: str = ""
    needed: bool = False
    """Whether an answer cannot be left out. It may have a default all the same."""
    applies: Callable[[Said], bool] = _always
    default: Callable[[Said], str] = _nothing
    choices: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[str, Said], object] = lambda *_: None

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    def taken(self, answer: str, said: Said) -> str:
        """An answer, if it is one."""
        word = answer.strip()
        if not word and self.needed:
            raise ConfigError(f"{self.flag} is empty", hint=f"For example: {self.example}.")
        if self.choices and word:
            word = self._chosen(word)
        if word:
            self.check(word, said)
        return word

    def _chosen(self, word: str) -> str:
        names = list(self.choices)
        if word.isdecimal() and 1 <= int(word) <= len(names):
            return names[int(word) - 1]
        if word.lower() in names:
            return word.lower()
        near = nearest(word.lower(), names)
        raise ConfigError(
            f"{self.flag} cannot be {word[:40]!r}",
            hint=(f"Did you mean {near}? " if near else "") + f"It is one of: {', '.join(names)}.",
        )


# ---------------------------------------------------------------- when a question applies


def _source(*kinds: str) -> Callable[[Said], bool]:
    return lambda said: said["source"] in kinds


def _catalog(*kinds: str) -> Callable[[Said], bool]:
    return lambda said: said["catalog"] in kinds


def _said(name: str, *words: str) -> Callable[[Said], bool]:
    return lambda said: said.get(name) in words if words else bool(said.get(name))


def _on_aws(said: Said) -> bool:
    return said["catalog"] in (choices.GLUE, choices.S3TABLES) or said.get("path", "").startswith("s3")


# ---------------------------------------------------------------- what an answer must be


def _variable(answer: str, _: Said) -> None:
    if not _VARIABLE.fullmatch(answer):  # what it is instead may be a secret: it is not shown
        raise ConfigError(
            "that is no name of a variable",
            hint="Give the name of the variable that will have the secret, such as LAKE_TOKEN; the secret "
            "itself is asked for nowhere.",
        )


def _columns(answer: str, _: Said) -> None:
    SourceTable.of(answer)


def _key(answer: str, said: Said) -> None:
    key = parse_columns(answer, "--key")
    if said.get("columns"):
        SourceTable.of(said["columns"], key)


def _partition(answer: str, said: Said) -> None:
    fields = parse_partition(answer)
    known = [one.name for one in SourceTable.of(said["columns"]).columns] if said.get("columns") else []
    for one in fields:
        if known and one.column not in known:
            near = nearest(one.column, known)
            raise ConfigError(
                f"--partition names {one.column!r}, which is not among the columns: {', '.join(known)}",
                hint=f"Did you mean {near}?" if near else "Name columns of the table.",
            )


def _server(answer: str, _: Said) -> None:
    if "@" in answer:  # a login: it is not shown
        raise ConfigError(
            "the address has a login in it",
            hint="Give it without: a secret belongs into a variable, which is asked for next.",
        )


def _starts(*starts: str) -> Callable[[str, Said], None]:
    def check(answer: str, said: Said) -> None:
        _server(answer, said)
        if not answer.startswith(starts):
            raise ConfigError(f"{answer[:80]!r} is no such address", hint=f"It begins with {starts[0]}….")

    return check


QUESTIONS: tuple[Question, ...] = (
    Question("source", "What is the source?", "files", needed=True, choices=choices.SOURCES),
    Question(
        "path",
        "In which folder are they? Or a URL, such as s3://bucket/feed",
        "orders",
        needed=True,
        applies=_source(choices.FILES, choices.COCKROACHDB_FILES),
        check=_server,
    ),
    Question(
        "format",
        "What are the files?",
        needed=True,
        applies=_source(choices.FILES),
        default=lambda _: "json",
        choices={"json": "a JSON object a line", "csv": "", "parquet": "", "orc": ""},
    ),
    Question(
        "broker",
        "Where is the broker? Several with commas between",
        "localhost:9092",
        needed=True,
        applies=_source(*choices.ON_KAFKA),
        check=_server,
    ),
    Question(
        "topic",
        "Which topic? Of a changefeed it is the name of its table",
        "orders",
        needed=True,
        applies=_source(choices.COCKROACHDB_FILES, *choices.ON_KAFKA),
    ),
    Question(
        "host",
        "On which host is Materialize?",
        "localhost",
        needed=True,
        applies=_source(choices.MATERIALIZE),
        check=_server,
    ),
    Question("port", "Port", applies=_source(choices.MATERIALIZE), default=lambda _: "6875"),
    Question("database", "Database", applies=_source(choices.MATERIALIZE), default=lambda _: "materialize"),
    Question(
        "object",
        "Which view, table or source?",
        "public.orders",
        needed=True,
        applies=_source(choices.MATERIALIZE),
    ),
    Question(
        "user",
        "Who logs in there? Nothing: nobody",
        applies=_source(*choices.ON_KAFKA, choices.MATERIALIZE),
        default=lambda said: "materialize" if said["source"] == choices.MATERIALIZE else "",
    ),
    Question(
        "password-env",
        "In which variable will the password be?",
        "KAFKA_PASSWORD",
        applies=_said("user"),
        default=lambda said: "" if said["source"] == choices.MATERIALIZE else "KAFKA_PASSWORD",
        check=_variable,
    ),
    Question(
        "columns",
        "Which columns does it have?",
        "'id long, status string'",
        needed=True,
        applies=_source(choices.FILES, choices.KAFKA),
        check=_columns,
    ),
    Question(
        "columns",
        "Which columns does it have? Nothing: its messages show them",
        applies=_source(choices.COCKROACHDB_FILES, choices.COCKROACHDB_KAFKA, choices.DEBEZIUM),
        check=_columns,
    ),
    Question(
        "key",
        "Which columns are its key? Nothing: rows are only added",
        applies=_source(choices.FILES, choices.KAFKA),
        check=_key,
    ),
    Question(
        "key",
        "Which columns are its key?",
        "id",
        needed=True,
        applies=_source(choices.MATERIALIZE),
        check=_key,
    ),
    Question(
        "key",
        "Which columns are its key? Nothing: its messages show it",
        applies=_source(choices.COCKROACHDB_FILES, choices.COCKROACHDB_KAFKA, choices.DEBEZIUM),
        check=_key,
    ),
    Question("catalog", "Which catalog has the tables?", "embedded", needed=True, choices=choices.CATALOGS),
    Question(
        "catalog-uri",
        "Where is it?",
        "https://host/api/catalog",
        needed=True,
        applies=_catalog(choices.REST),
        check=_starts("http://", "https://"),
    ),
    Question(
        "catalog-uri",
        "Where is it?",
        "thrift://host:9083",
        needed=True,
        applies=_catalog(choices.HIVE),
        check=_starts("thrift://"),
    ),
    Question(
        "catalog-uri-env",
        "In which variable will its postgresql:// address be, with the login?",
        "LAKE_URI",
        needed=True,
        applies=_catalog(choices.POSTGRES),
        default=lambda _: "LAKE_URI",
        check=_variable,
    ),
    Question(
        "warehouse",
        "In which folder?",
        applies=_catalog(choices.EMBEDDED),
        default=lambda _: "calve-warehouse",
    ),
    Question("warehouse", "Its warehouse? Nothing: the server's own", applies=_catalog(choices.REST)),
    Question(
        "warehouse",
        "Where do the tables go?",
        "s3://bucket/warehouse",
        needed=True,
        applies=_catalog(choices.GLUE, choices.HIVE, choices.POSTGRES),
    ),
    Question(
        "warehouse",
        "What is the ARN of the table bucket?",
        "arn:aws:s3tables:eu-west-1:111122223333:bucket/name",
        needed=True,
        applies=_catalog(choices.S3TABLES),
        check=_starts("arn:"),
    ),
    Question(
        "login",
        "How does it know you?",
        applies=_catalog(choices.REST),
        default=lambda said: next((one for one in ("credential", "token") if said.get(f"{one}-env")), "none"),
        choices={
            "none": "it asks nobody",
            "credential": "client id and secret, for OAuth2: id:secret",
            "token": "a bearer token",
        },
    ),
    Question(
        "credential-env",
        "In which variable will id:secret be?",
        "LAKE_CREDENTIAL",
        needed=True,
        applies=_said("login", "credential"),
        default=lambda _: "LAKE_CREDENTIAL",
        check=_variable,
    ),
    Question(
        "token-env",
        "In which variable will the token be?",
        "LAKE_TOKEN",
        needed=True,
        applies=_said("login", "token"),
        default=lambda _: "LAKE_TOKEN",
        check=_variable,
    ),
    Question("region", "In which region of AWS?", "eu-west-1", needed=True, applies=_catalog(choices.GLUE)),
    Question(
        "region",
        "In which region of AWS? Nothing: as this machine is set up",
        applies=lambda said: _on_aws(said) and said["catalog"] != choices.GLUE,
    ),
    Question(
        "access-key-id-env",
        "In which variable will the access key id be? Nothing: the login of the machine",
        applies=_on_aws,
        check=_variable,
    ),
    Question(
        "secret-access-key-env",
        "In which variable will the secret access key be?",
        "AWS_SECRET_ACCESS_KEY",
        needed=True,
        applies=_said("access-key-id-env"),
        default=lambda _: "AWS_SECRET_ACCESS_KEY",
        check=_variable,
    ),
    Question(
        "namespace",
        "Into which namespace of the catalog?",
        "shop",
        needed=True,
        check=lambda answer, _: check_namespace(tuple(answer.split("."))),
    ),
    Question(
        "table",
        "And into which table?",
        "orders",
        needed=True,
        default=draft.name_of,
        check=lambda answer, _: check_table(answer),
    ),
    Question(
        "partition",
        "Partitioned by? Such as day(at) or bucket(16, id); nothing: not at all",
        check=_partition,
    ),
    Question(
        "mode",
        "How are rows written? Nothing: as the source has it",
        applies=_said("mode"),  # nobody is asked: it follows from the key
        choices={"upsert": "", "append": "", "changelog": ""},
    ),
)
assert set(FORMATS) == set(next(one for one in QUESTIONS if one.name == "format").choices)
