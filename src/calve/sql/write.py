"""Write: a tree as text, which is read as the same tree."""

from __future__ import annotations

import re
from collections.abc import Iterable

from calve.sql.tree import (
    CreateConnection,
    CreateSecret,
    CreateSink,
    CreateSinkTable,
    CreateSource,
    CreateView,
    Describe,
    Drop,
    Explain,
    Option,
    Secret,
    Show,
    ShowChangefeed,
    ShowCreate,
    Statement,
    Text,
    Value,
)

_PLAIN_OPTION = re.compile(r"[a-z_][a-z0-9_]*(?: [a-z_][a-z0-9_]*)*")


def write(statement: Statement) -> str:
    """A statement as text, without a semicolon."""
    match statement:
        case CreateSecret(name, kept, place):
            return f"CREATE SECRET {_new(statement)}{quoted(name)} FROM {kept} {_text(place)}"
        case CreateConnection(name, target, options):
            return f"CREATE CONNECTION {_new(statement)}{quoted(name)} TO {target} {_options(options)}"
        case CreateSource():
            return _source(statement)
        case CreateView(name, query):
            return f"CREATE VIEW {_new(statement)}{quoted(name)} AS\n{query}"
        case CreateSink():
            return _sink(statement)
        case CreateSinkTable(name, source, options):
            said = f"CREATE SINK TABLE {_new(statement)}{quoted(name)} FROM {quoted(source)}"
            return f"{said}\nWITH {_options(options)}"
        case Show(things):
            return f"SHOW {things}S"
        case ShowCreate(thing, name):
            return f"SHOW CREATE {thing} {quoted(name)}"
        case ShowChangefeed(job):
            return f"SHOW CHANGEFEED {_text(job)}"
        case Explain(name):
            return f"EXPLAIN SINK {quoted(name)}"
        case Describe(name):
            return f"DESCRIBE {quoted(name)}"
        case Drop(thing, name):
            there = "IF EXISTS " if statement.if_there else ""
            keeps = " KEEP PROGRESS" if statement.keeps_progress else ""
            return f"DROP {thing} {there}{quoted(name)}{keeps}"


def _source(one: CreateSource) -> str:
    columns = "" if one.columns is None else f" ({one.columns})"
    lines = [
        f"CREATE SOURCE {_new(one)}{quoted(one.name)}{columns} FROM {one.origin} {_options(one.options)}"
    ]
    lines += [f"KEY ({_names(one.key)})"] if one.key else []
    lines += [] if one.envelope is None else [f"ENVELOPE {_text(one.envelope)}"]
    return "\n".join(lines)


def _sink(one: CreateSink) -> str:
    lines = [f"CREATE SINK {_new(one)}{quoted(one.name)} FROM {quoted(one.source)}"]
    if one.catalog is None:
        lines.append(f"INTO {_text(one.url or '')}")
    else:
        place = f"NAMESPACE = {_text(one.namespace or '')}, TABLE = {_text(one.table or '')}"
        lines.append(f"INTO ICEBERG CATALOG CONNECTION {quoted(one.catalog)} ({place})")
    lines += [] if one.aws is None else [f"USING AWS CONNECTION {quoted(one.aws)}"]
    lines += [f"KEY ({_names(one.key)}){'' if one.enforced else ' NOT ENFORCED'}"] if one.key else []
    lines += [] if one.mode is None else [f"MODE {one.mode}"]
    lines += [f"PARTITION BY ({', '.join(one.partition)})"] if one.partition else []
    lines += [f"WITH {_options(one.options)}"] if one.options else []
    return "\n".join(lines)


def _new(
    one: CreateSecret | CreateConnection | CreateSource | CreateView | CreateSink | CreateSinkTable,
) -> str:
    return "IF NOT EXISTS " if one.if_absent else ""


def _options(options: Iterable[Option]) -> str:
    said = [f"{_option_name(one.name)} = {_value(one.value)}" for one in options]
    return "(" + ", ".join(said) + ")"


def _option_name(name: str) -> str:
    return name.upper() if _PLAIN_OPTION.fullmatch(name) else _text(name)


def _value(value: Value) -> str:
    if isinstance(value, Secret):
        return f"SECRET {quoted(value.name)}"
    return _text(value.value) if isinstance(value, Text) else value.value


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def quoted(name: str) -> str:
    """A name that is no keyword, wherever it stands."""
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
