"""Pointed: an error of a statement, at the word that it is about.

    ConfigError + About(part, word) ──where it stands──▶ the sink 's': … (line 3, column 20)
                                                             WITH (TRIGGER INTERVAL = '1 fortnight')
                                                                   ^

Guarantee: every error of what a person wrote shows its place: that of the part which the error names, or of
the part that errors of its kind are about, or of the statement's name. It keeps its kind and its code. An
error that shows its place already stays as it is, and no text of an error is searched for one. What is no
fault of the text, such as a catalog that is down, names the statement and its line alone. The text that is
shown is masked (P10).

A part has several names: the field that holds it, the option that says it, and how SQL spells that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from calve.config.layout import parse_partition
from calve.config.options.listing import OPTION_OF_FIELD
from calve.config.types.notation import show_place
from calve.model.errors import About, BadKey, BadName, BadPartition, CalveError, ConfigError
from calve.sql.defined import kind_of
from calve.sql.mask import masked
from calve.sql.options import plain, spellings
from calve.sql.tree import (
    Create,
    CreateSecret,
    CreateSink,
    CreateSinkTable,
    CreateSource,
    CreateView,
    place_of,
)

_OF_KIND: dict[type[ConfigError], str] = {BadPartition: "partition", BadKey: "key", BadName: "table"}
"""What errors are about that do not say it."""
_IN_COLUMNS = re.compile(r"""("[^"]*"|`[^`]*`|\w+|[^\s\w])""")
_PREFIXES = ("catalog.prop.", "catalog.")
"""How a sink's options begin that a connection says without."""


@contextmanager
def of_statement(statement: Create, *read: Create) -> Iterator[None]:
    """The same errors, each with the statement that it is about, and its place. `read`: other statements
    that take part, where the place may be as well: views, a source, a connection."""
    try:
        with at_statement(statement, *read):
            yield
    except CalveError as error:
        told = _told(statement)
        if error.place or isinstance(error, ConfigError) or told in error.message:
            raise
        line = statement.text.count("\n", 0, statement.at) + 1
        raise type(error)(f"{told} (line {line}): {error.message}", hint=error.hint) from error.__cause__


@contextmanager
def at_statement(statement: Create, *read: Create, about: str = "") -> Iterator[None]:
    """The same for faults of the text alone. `about`: what they are about where they do not say it."""
    try:
        yield
    except ConfigError as error:
        if error.place:
            raise
        found = _found(statement, read, _about(error, about))
        told = _told(found.statement)
        raise type(error)(
            error.message if told in error.message else f"{told}: {error.message}",
            hint=error.hint,
            about=error.about,
            place=show_place(masked(found.statement.text), found.at),
        ) from error.__cause__


@dataclass(frozen=True, slots=True)
class _Found:
    """A place, and the statement that it is in."""

    statement: Create
    at: int


def _told(statement: Create) -> str:
    return f"the {kind_of(statement)} {statement.name!r}"


def _about(error: ConfigError, default: str) -> About:
    return error.about or About(default or _OF_KIND.get(type(error), ""))


def _found(statement: Create, read: tuple[Create, ...], about: About) -> _Found:
    for one in (statement, *read):
        if (at := _place(one, about)) is not None:
            return _Found(one, at)
    return _Found(statement, _instead(statement, about))


def _place(one: Create, about: About) -> int | None:
    """Where a part stands in a statement, if it does."""
    if isinstance(one, CreateView):
        if (about.part, about.word) != ("query", one.name):
            return None
        return place_of(one.name) if about.at is None else one.query_at + about.at
    if isinstance(one, CreateSecret):
        return None
    at = _of_option(one, about)
    if at is None and isinstance(one, CreateSource):
        at = _of_source(one, about)
    elif at is None and isinstance(one, CreateSink):
        at = _of_sink(one, about)
    return at


def _of_option(one: Create, about: About) -> int | None:
    """Options by all the names that they have: a field's, an option's, and those of SQL."""
    assert not isinstance(one, CreateSecret | CreateView)
    name = OPTION_OF_FIELD.get(about.part, about.part)
    wanted = spellings(name)
    if not isinstance(one, CreateSink | CreateSinkTable | CreateSource):
        wanted |= {word for prefix in _PREFIXES for word in spellings(name.removeprefix(prefix))}
    return next((option.at for option in one.options if plain(option.name) in wanted), None)


def _of_source(one: CreateSource, about: About) -> int | None:
    match about.part:
        case "key" if one.key:
            return _of_key(one.key, about.word)
        case "envelope" if one.envelope is not None:
            return place_of(one.envelope)
        case "columns" | "table" if one.columns is not None:
            return one.text.find(one.columns, one.columns_at) + _of_column(one.columns, about.word)
    return None


def _of_column(columns: str, word: str) -> int:
    """Where the last column of that name begins in a list of columns: where there are two, it is one too
    many."""
    depth, begins, found = 0, True, 0
    for token in _IN_COLUMNS.finditer(columns):
        if begins and token[0].strip('"`') == word:
            found = token.start()
        depth += (token[0] in "(<") - (token[0] in ")>")
        begins = token[0] == "," and depth == 0
    return found


def _of_sink(one: CreateSink, about: About) -> int | None:
    part = OPTION_OF_FIELD.get(about.part, about.part)
    match part:
        case "equality.delete.columns" if one.key:
            return _of_key(one.key, about.word)
        case "write.mode" if one.mode is not None:
            return one.mode_at
        case "partition.spec" if one.partition:
            return _of_partition(one.partition, about)
        case "namespace" if one.namespace is not None:
            return place_of(one.namespace)
        case "table.name" if one.table is not None:
            return place_of(one.table)
        case "catalog.name" if one.catalog is not None:
            return place_of(one.catalog)
        case "source":
            return place_of(one.source)
        case "url" | "namespace" | "table.name" if one.url is not None:
            return place_of(one.url)
    return None


def _of_key(key: tuple[str, ...], word: str) -> int:
    return place_of(next((name for name in key if name == word), key[0]))


def _of_partition(texts: tuple[str, ...], about: About) -> int:
    for text in texts:
        if text == about.word:
            return place_of(text) + (about.at or 0)
        try:
            fields = parse_partition([str(text)])
        except ConfigError:
            continue  # it is not the one that was understood
        if about.word in map(str, fields):
            return place_of(text)
    return place_of(texts[0])


def _instead(one: Create, about: About) -> int:
    """Where nobody wrote the part: what would have said it, else the statement's name."""
    if about.part in ("key", "source") and isinstance(one, CreateSink | CreateSinkTable):
        return place_of(one.source)
    if about.part and isinstance(one, CreateSink) and one.url is not None:
        return place_of(one.url)  # options stand there, too
    return place_of(one.name)
