"""`calve init`: a pipeline file to begin with, asked step by step or said by flags.

    flags ─┐
           ├─▶ answers ──draft──▶ text ──understood──▶ a new file, and the next command
    a person at a terminal ─┘

Guarantee: what is written was read and understood before. No file is ever overwritten, and who leaves in the
middle leaves none behind. No secret is asked for (P10).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from calve.cli.console import AsJson, manner, show, show_json
from calve.cli.pipeline import FILE
from calve.cli.words import BadUsage
from calve.model.errors import ConfigError
from calve.sql import choices
from calve.sql.choices import Said

if TYPE_CHECKING:
    from calve.cli.questions import Question

Ask = Callable[["Question", str, Said], str]
Text = str | None


def _flag(words: str, *names: str) -> object:
    return typer.Option(*names, help=words, show_default=False)


def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write. It must not be there yet.")
    ] = Path(FILE),
    as_json: AsJson = False,
    source: Annotated[Text, _flag(f"What is read: {', '.join(choices.SOURCES)}.")] = None,
    path: Annotated[Text, _flag("Files: their folder, or a URL such as s3://bucket/feed.")] = None,
    format_: Annotated[Text, _flag("Files of rows: json, csv, parquet, orc.", "--format")] = None,
    broker: Annotated[Text, _flag("Kafka: host:9092; several with commas between.")] = None,
    topic: Annotated[Text, _flag("Kafka and changefeeds: the topic.")] = None,
    host: Annotated[Text, _flag("Materialize: its host.")] = None,
    port: Annotated[Text, _flag("Materialize: its port, 6875 as a rule.")] = None,
    database: Annotated[Text, _flag("Materialize: the database.")] = None,
    object_: Annotated[Text, _flag("Materialize: the view, table or source.", "--object")] = None,
    user: Annotated[Text, _flag("Kafka, Materialize: who logs in.")] = None,
    password_env: Annotated[Text, _flag("The variable that has the password.")] = None,
    columns: Annotated[Text, _flag("The columns: 'id long, status string'.")] = None,
    key: Annotated[Text, _flag("The columns of the key, with commas between.")] = None,
    catalog: Annotated[Text, _flag(f"Where tables are: {', '.join(choices.CATALOGS)}.")] = None,
    catalog_uri: Annotated[Text, _flag("The address of a REST catalog or a Hive metastore.")] = None,
    catalog_uri_env: Annotated[Text, _flag("The variable that has the address of PostgreSQL.")] = None,
    warehouse: Annotated[
        Text, _flag("Where the tables' files go; a name, where the catalog knows it.")
    ] = None,
    credential_env: Annotated[Text, _flag("REST: the variable that has client id and secret.")] = None,
    token_env: Annotated[Text, _flag("REST: the variable that has a bearer token.")] = None,
    region: Annotated[Text, _flag("AWS: the region.")] = None,
    access_key_id_env: Annotated[Text, _flag("AWS: the variable that has the access key id.")] = None,
    secret_access_key_env: Annotated[Text, _flag("AWS: the variable that has the secret key.")] = None,
    namespace: Annotated[Text, _flag("The namespace of the table.")] = None,
    table: Annotated[Text, _flag("The table.")] = None,
    partition: Annotated[Text, _flag("Its partitions: 'day(at), bucket(16, id)'.")] = None,
    mode: Annotated[Text, _flag("upsert, append or changelog; it follows from the key.")] = None,
) -> None:
    """Write a pipeline file to begin with: asked step by step, or said by flags."""
    given = {
        name.rstrip("_").replace("_", "-"): value
        for name, value in locals().items()
        if isinstance(value, str)
    }
    from calve.sql import draft

    _refuse_there(file)
    said = answers(given, _asks())
    text = draft.draft(said, quote(str(file)))
    _understand(text, file, said)
    _write(file, text)
    after = _next(file, said)
    variables = sorted({value for name, value in said.items() if name.endswith("-env") and value})
    if as_json:
        show_json({"file": str(file), "next": after, "variables": variables})
        return
    show(f"{file} is written.")
    for variable in variables:
        if variable not in os.environ:
            show(f"Set {variable} before you run it.")
    show(f"Next: {after}")


def answers(given: Said, ask: Ask | None) -> Said:
    """All answers. Flags that suffice are not asked about; what they leave open is asked, or is an error."""
    try:
        return _answered(given, None)
    except BadUsage:
        if ask is None:
            raise
    return _answered(given, ask)


def _answered(given: Said, ask: Ask | None) -> Said:
    from calve.cli.questions import QUESTIONS

    said: dict[str, str] = {}
    for one in QUESTIONS:
        known = {**given, **said}
        if one.name in said or not one.applies(known):
            continue
        default = one.default(known)
        if one.name in given:
            said[one.name] = one.taken(given[one.name], known)
        elif ask is not None:
            said[one.name] = ask(one, default, known)
        elif one.needed and not default:
            words = one.words if one.words.endswith("?") else f"{one.words}."
            raise BadUsage(
                f"{one.flag} is missing",
                hint=f"{words} Say it, such as {one.flag} {one.example}; at a terminal it is asked.",
            )
        else:
            said[one.name] = default
    for name in given:
        if name not in said:
            raise BadUsage(
                f"--{name} has no effect with --source {said['source']} and --catalog {said['catalog']}",
                hint="Leave it out.",
            )
    return said


def _asks() -> Ask | None:
    """Somebody to ask, where somebody is there."""
    if manner().json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    from calve.cli.asking import Asking

    return Asking()


def _understand(text: str, file: Path, said: Said) -> None:
    """Read what would be written, and find its table: what is wrong is told before there is a file."""
    from calve.runtime.pipelines import addresses_of
    from calve.sql import draft

    found = draft.understand(text, file.absolute().parent)
    if said["catalog"] != choices.POSTGRES:  # there the address itself is a secret, which is not read
        for sink in found.sinks:
            list(addresses_of(found, sink))


def _refuse_there(file: Path) -> None:
    if file.exists():
        raise ConfigError(
            f"{file} is there already, and stays as it is",
            hint=f"Name another file: calve init {file.with_stem(f'{file.stem}-2')}",
        )


def _write(file: Path, text: str) -> None:
    """A new file, whole or not at all."""
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        _refuse_there(file)


def _next(file: Path, said: Said) -> str:
    """The command that goes on from here."""
    words = ["calve plan"]
    words += [quote(str(file))] if str(file) != FILE else []
    if said["source"] in choices.ON_KAFKA:
        from importlib.metadata import PackageNotFoundError, version

        from calve.runtime.machine import kafka_packages

        with suppress(PackageNotFoundError):  # `calve plan` says what is missing
            words.append(f"--packages {kafka_packages(version('pyspark'))}")
    return " ".join(words)
