"""A column of a text: its name, its type, and the few words after it that matter.

    id INT8 NOT NULL DEFAULT unique_rowid() PRIMARY KEY
    │  │    └─ NOT NULL, PRIMARY KEY: taken. VIRTUAL: the column is in no message. Any other word: skipped
    │  └─ type_of
    └─ name

Guarantee: no column is lost in what is skipped. A word that no database puts there, such as the name of a
column after a comma that was forgotten, is refused at its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from lark import Token, Tree

from calve.config.ddl import names
from calve.config.ddl.grammar import Node, is_word, name_of
from calve.config.ddl.types import Reading, type_of
from calve.config.types.notation import canonical

# fmt: off
_LIST_WORDS = frozenset({"NOT", "NULL", "PRIMARY", "KEY", "COMMENT"})
_CREATE_WORDS = _LIST_WORDS | frozenset((
    # constraints
    "UNIQUE", "NULLS", "DISTINCT", "CHECK", "CONSTRAINT", "REFERENCES", "MATCH", "FULL", "PARTIAL", "SIMPLE",
    "ON", "UPDATE", "DELETE", "CASCADE", "RESTRICT", "SET", "NO", "ACTION", "INHERIT", "DEFERRABLE",
    "INITIALLY", "DEFERRED", "IMMEDIATE", "VALID", "ENFORCED", "USING", "HASH", "ASC", "DESC", "WITHOUT",
    "INDEX", "TABLESPACE", "INCLUDE", "BUCKET_COUNT",
    # values
    "DEFAULT", "GENERATED", "ALWAYS", "BY", "AS", "IDENTITY", "STORED", "VIRTUAL", "COLLATE", "STORAGE",
    "COMPRESSION", "VISIBLE", "CREATE", "IF", "EXISTS", "FAMILY", "WITH",
    # expressions and casts
    "AND", "OR", "IS", "IN", "LIKE", "ILIKE", "BETWEEN", "AT", "TIME", "ZONE", "VARYING", "PRECISION",
    "TRUE", "FALSE", "CASE", "WHEN", "THEN", "ELSE", "END", "FROM",
    # fields of an interval
    "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO",
))
_NAME_FOLLOWS = frozenset({
    "CONSTRAINT", "REFERENCES", "COLLATE", "FAMILY", "STORAGE", "COMPRESSION", "TABLESPACE", "DEFAULT",
    "UPDATE", "CASE", "WHEN", "THEN", "ELSE", "AND", "OR", "LIKE", "ILIKE", "BETWEEN", "NOT", "IN", "AS",
})
# fmt: on


@dataclass(frozen=True, slots=True)
class Found:
    """A column as a text has it."""

    name: str
    type: str
    required: bool
    is_key: bool
    """PRIMARY KEY stands at the column."""
    is_virtual: bool
    """Computed when it is read: a change does not carry it."""
    is_json: bool
    """Declared as JSON, and text in the table."""


def column_of(tree: Tree[Token], reading: Reading, types: Mapping[str, str], *, created: bool) -> Found:
    """The column of a tree: in a CREATE TABLE, or in a column list."""
    first, kind, *rest = tree.children
    assert isinstance(first, Tree)
    assert isinstance(kind, Tree)
    token = first.children[0]
    assert isinstance(token, Token)
    name = name_of(token, fold=reading.fold)
    reading = replace(reading, column=name)
    type_text = canonical(types[name]) if name in types else str(type_of(kind, reading))
    _check_words(rest, reading, _CREATE_WORDS if created else _LIST_WORDS)
    pairs = list(pairwise(rest))
    is_key = any(is_word(one, "PRIMARY") and is_word(two, "KEY") for one, two in pairs)
    is_required = is_key or any(is_word(one, "NOT") and is_word(two, "NULL") for one, two in pairs)
    return Found(
        name,
        type_text,
        is_required or _type_word(kind) in names.REQUIRED,
        is_key,
        any(is_word(node, "VIRTUAL") for node in rest),
        type_text == "string" and _last_word(kind) in names.JSON,
    )


def _check_words(nodes: list[Node], reading: Reading, known: frozenset[str]) -> None:
    """Refuse a word where none of its kind can stand."""
    name_may_follow = False
    for node in nodes:
        if isinstance(node, Token) and node.type in ("NAME", "QUOTED"):
            if not is_word(node, *known) and not name_may_follow:
                raise reading.refuse(
                    f"{str(node)[:60]!r} was not expected after the type of {reading.column!r}",
                    node,
                    "Put a comma before the next column."
                    if known is not _LIST_WORDS
                    else "Put a comma before the next column; after a type stand NOT NULL, PRIMARY KEY or "
                    "COMMENT '…'.",
                )
            name_may_follow = is_word(node, *_NAME_FOLLOWS)
        elif isinstance(node, Token):
            name_may_follow = node.type == "MARK"


def _last_word(tree: Tree[Token]) -> str:
    """Of `pg_catalog.jsonb` the type's own name."""
    words = [str(token) for token in tree.scan_values(lambda token: isinstance(token, Token))]
    return words[-1].lower() if words else ""


def _type_word(tree: Tree[Token]) -> str:
    return str(next(tree.scan_values(lambda token: isinstance(token, Token)), "")).lower()
