"""Write: a tree as text, which is read as the same tree, and by people too.

Names stand in quotes only where they must. Options stand on a line each where one line has no room for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from calve.config.secret import MASK, hide_uri, is_secret_name
from calve.sql.grammar import WORDS
from calve.sql.tree import (
    SECRET,
    Create,
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

COLUMNS = 80
"""Of a terminal, and of a line that is written."""
_PLAIN_OPTION = re.compile(r"[a-z_][a-z0-9_]*(?: [a-z_][a-z0-9_]*)*")
_INDENT = "    "
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")


def write(statement: Statement) -> str:
    """A statement as text, without a semicolon."""
    match statement:
        case CreateSecret(name, kept, place):
            return f"CREATE SECRET {_new(statement)}{quoted(name)} FROM {kept} {_text(place)}"
        case CreateConnection(name, target, options):
            return _with_options(f"CREATE CONNECTION {_new(statement)}{quoted(name)} TO {target}", options)
        case CreateSource():
            return _source(statement)
        case CreateView(name, query):
            return f"CREATE VIEW {_new(statement)}{quoted(name)} AS\n{query}"
        case CreateSink():
            return _sink(statement)
        case CreateSinkTable(name, source, options):
            said = f"CREATE SINK TABLE {_new(statement)}{quoted(name)} FROM {quoted(source)}"
            return f"{said}\n{_with_options('WITH', options)}"
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


def shown(statement: Create) -> str:
    """A statement as text, for people: what may be a secret is stars (P10)."""
    if isinstance(statement, CreateConnection | CreateSource | CreateSink | CreateSinkTable):
        statement = replace(statement, options=tuple(map(_hidden, statement.options)))
    if isinstance(statement, CreateSink) and statement.url is not None:
        statement = replace(statement, url=str(hide_uri(statement.url)))
    return write(statement)


def _hidden(option: Option) -> Option:
    if isinstance(option.value, Secret):
        return option
    if is_secret_name(option.name.replace(" ", "-")):
        return replace(option, value=Text(MASK))
    return (
        replace(option, value=Text(str(hide_uri(option.value.value))))
        if "://" in option.value.value
        else option
    )


def _source(one: CreateSource) -> str:
    columns = "" if one.columns is None else f" ({one.columns})"
    name, origin = f"CREATE SOURCE {_new(one)}{quoted(one.name)}{columns}", f"FROM {one.origin}"
    whole = f"{name} {origin} ({', '.join(_said(one.options))})"
    lines = [whole] if _fits(whole) else [name, _with_options(_INDENT + origin, one.options)]
    lines += [f"{_INDENT}KEY ({_names(one.key)})"] if one.key else []
    lines += [] if one.envelope is None else [f"{_INDENT}ENVELOPE {_text(one.envelope)}"]
    return "\n".join(lines)


def _sink(one: CreateSink) -> str:
    place = (Option("namespace", Text(one.namespace or "")), Option("table", Text(one.table or "")))
    enforced = "" if one.enforced else " NOT ENFORCED"
    clauses = [
        f"INTO {_text(one.url or '')}"
        if one.catalog is None
        else f"INTO ICEBERG CATALOG CONNECTION {quoted(one.catalog)} ({', '.join(_said(place))})",
        *([] if one.aws is None else [f"USING AWS CONNECTION {quoted(one.aws)}"]),
        *([f"KEY ({_names(one.key)}){enforced}"] if one.key else []),
        *([] if one.mode is None else [f"MODE {one.mode}"]),
        *([f"PARTITION BY ({', '.join(one.partition)})"] if one.partition else []),
    ]
    lines = [f"CREATE SINK {_new(one)}{quoted(one.name)} FROM {quoted(one.source)}"]
    lines += (_INDENT + clause for clause in clauses)
    lines += [_with_options(f"{_INDENT}WITH", one.options)] if one.options else []
    return "\n".join(lines)


def _new(
    one: CreateSecret | CreateConnection | CreateSource | CreateView | CreateSink | CreateSinkTable,
) -> str:
    return "IF NOT EXISTS " if one.if_absent else ""


def _with_options(head: str, options: Iterable[Option]) -> str:
    """Options behind a word: in its line, or in lines of their own. Values stay as they are."""
    said = _said(options)
    line = f"{head} ({', '.join(said)})"
    if _fits(line):
        return line
    margin = " " * (len(head) - len(head.lstrip()))
    return f"{head} (\n" + ",\n".join(margin + _INDENT + one for one in said) + f"\n{margin})"


def _fits(line: str) -> bool:
    return len(line) <= COLUMNS and "\n" not in line


def _said(options: Iterable[Option]) -> list[str]:
    return [f"{_option_name(one.name)} = {_value(one.value)}" for one in options]


def _option_name(name: str) -> str:
    return name.upper() if _PLAIN_OPTION.fullmatch(name) and not name.endswith(SECRET) else _text(name)


def _value(value: Value) -> str:
    if isinstance(value, Secret):
        return f"SECRET {quoted(value.name)}"
    return _text(value.value) if isinstance(value, Text) else value.value


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def quoted(name: str) -> str:
    """A name as it is read; in quotes, where it could be taken for a keyword or for another name."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
