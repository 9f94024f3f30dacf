"""Column lists: `"id long, total decimal(10,2) not null"`, a mapping of names to types, or a list of pairs.

Types by their names in Iceberg, Spark, PostgreSQL, CockroachDB or Materialize; where they do not agree
(`int`, `float`, `timestamp`), Iceberg's meaning holds. Names keep their case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lark import Tree

from calve.config.columns import SourceColumn
from calve.config.ddl.column import column_of
from calve.config.ddl.grammar import read
from calve.config.ddl.names import LIST_WORDS
from calve.config.ddl.types import Reading
from calve.model.errors import BadColumns

_FORMS = "Give a text 'id long, name string', a mapping {'id': 'long'}, or pairs [('id', 'long')]."


def read_columns(columns: object) -> tuple[list[SourceColumn], tuple[str, ...]]:
    """The columns of a list in any of its forms, and those that are marked as the key."""
    if isinstance(columns, str):
        reading = Reading(columns, LIST_WORDS, fold=False)
        trees = [tree for tree in read(columns, "columns").children if isinstance(tree, Tree)]
        found = [column_of(tree, reading, {}, created=False) for tree in trees]
        key = tuple(one.name for one in found if one.is_key)
        return [SourceColumn(one.name, one.type, one.required, one.is_json) for one in found], key
    entries: Iterable[object]
    if isinstance(columns, Mapping):
        entries = columns.items()
    elif isinstance(columns, Iterable):
        entries = columns
    else:
        raise BadColumns(f"columns are a {type(columns).__name__}", hint=_FORMS)
    pairs = [_entry(entry) for entry in entries]
    return [column for column, _ in pairs], tuple(column.name for column, is_key in pairs if is_key)


def _entry(entry: object) -> tuple[SourceColumn, bool]:
    if isinstance(entry, SourceColumn):
        return entry, False
    match entry:
        case (str(name), str(kind)):
            required = False
        case (str(name), str(kind), bool(required)):
            pass
        case _:
            raise BadColumns(f"{entry!r:.80} is no column", hint=_FORMS)
    if not name:
        raise BadColumns("a column has no name", hint=_FORMS)
    # A name stands before a type in the grammar; the column's own may be any text.
    reading = Reading(kind, LIST_WORDS, offset=-2, fold=False)
    try:
        tree = read(f"_ {kind}", "column", whole=kind, offset=-2)
        found = column_of(tree, reading, {}, created=False)
    except BadColumns as error:
        raise BadColumns(f"column {name!r}: {error.message}", hint=error.hint) from None
    return SourceColumn(name, found.type, required or found.required, found.is_json), found.is_key
