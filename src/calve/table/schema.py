"""Schemas: the Arrow columns of a sink as an Iceberg schema and back, with names and keys checked.

    pa.Schema, key ──to_iceberg──▶ Schema ──create──▶ table ──to_arrow──▶ pa.Schema with field ids
                                                                             │
                                                                    what workers write by

Guarantee: what `to_iceberg` returns can be created in any catalog, read by engines that fold case, and
its key can identify rows. `to_arrow` gives every nested field its id, since readers find columns by id
and never by name, and says `nullable` exactly as the table does.

Why ids are numbered as they are: a catalog numbers the fields of a new table afresh. We number them in
the same order, but what counts is what the created table says: read it back.

Not here: single types (types.py), what changes later (evolve.py).
"""

from __future__ import annotations

import difflib
import itertools
import unicodedata
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import DoubleType, FloatType, NestedField

from calve.model.errors import BadKey, BadName, about
from calve.table.types import arrow_field, fields_from_arrow, join, place

NAME_BYTES_MAX = 255

RESERVED_NAMES = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
"""Iceberg's metadata columns. Engines show them beside a table's own and refuse a table that has one."""


def to_iceberg(schema: pa.Schema, key: tuple[str, ...] = (), *, null_keys: bool = False) -> Schema:
    """The schema of a new table. Key columns become required, and are the identifier fields.

    With `null_keys` they stay as they are and identify nothing in the table's eyes: Iceberg's identifier
    fields are never null, although its equality deletes match null with null.
    """
    check_names(schema)
    columns = fields_from_arrow(list(schema), "", itertools.count(1))
    check_key(Schema(*columns), key)
    if not null_keys:
        columns = [_required(column) if column.name in key else column for column in columns]
    identifiers = [column.field_id for column in columns if column.name in key and not null_keys]
    return assign_fresh_schema_ids(Schema(*columns, identifier_field_ids=identifiers))


def to_arrow(schema: Schema) -> pa.Schema:
    """The Arrow schema that files of a table are written with."""
    return pa.schema([arrow_field(column, "") for column in schema.fields])


def key_of(schema: Schema) -> frozenset[str]:
    """The names of the identifier fields."""
    return frozenset(schema.identifier_field_names())


def check_key(schema: Schema, key: tuple[str, ...]) -> None:
    """Refuse a key that cannot identify rows: by name, with the reason."""
    columns = {column.name: column for column in schema.fields}
    for name in key:
        with about("key", name):
            if key.count(name) > 1:
                raise BadKey(
                    f"the key names {name!r} {key.count(name)} times", hint="Name each key column once."
                )
            _check_key_column(name, columns)


def _check_key_column(name: str, columns: dict[str, NestedField]) -> None:
    if (column := columns.get(name)) is None:
        raise _no_such_key(name, columns)
    if not column.field_type.is_primitive:
        raise BadKey(
            f"the key column {name!r} is a {column.field_type}: nested values are not compared",
            hint="Take the value that identifies the row out into a column of its own.",
        )
    if isinstance(column.field_type, FloatType | DoubleType):
        raise BadKey(
            f"the key column {name!r} is a {column.field_type}: equality means little there",
            hint="Use an integer, a decimal or a string as the key.",
        )


def _no_such_key(name: str, columns: dict[str, NestedField]) -> BadKey:
    outer, dot, _ = name.partition(".")
    if dot and outer in columns:
        return BadKey(
            f"the key column {name!r} lies inside the column {outer!r}, a {columns[outer].field_type}",
            hint="Keys are columns of the table itself: take the value out into a column of its own.",
        )
    return BadKey(f"the key column {name!r} is not among the columns", hint=nearest(name, columns))


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint for a name that is not there: the nearest that is, or all of them."""
    known = list(names)
    folded = {known_name.casefold(): known_name for known_name in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    if close:
        return f"Did you mean {folded[close[0]]!r}?"
    shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return f"The columns are: {shown}."


def check_names(schema: pa.Schema) -> None:
    """Refuse names that a table cannot have, on every level, and full names that two fields share."""
    for name in schema.names:
        if name.casefold() in RESERVED_NAMES:
            raise BadName(
                f"the column name {name!r} is Iceberg's own", hint="Rename the column.", about="source"
            )
    check_full_names(_paths(list(schema), ""))


def check_full_names(paths: Iterable[str]) -> None:
    """Refuse full names that two fields share. A column `a.b` and a field `b` of a struct `a` have one: no
    engine could tell them apart."""
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            raise BadName(
                f"two fields have the full name {path!r}", hint="Rename one of them.", about="source"
            )
        seen.add(path)


def check_siblings(names: list[str], path: str) -> None:
    """Refuse names that cannot stand side by side in a schema or struct."""
    folded: dict[str, str] = {}
    for name in names:
        if reason := _flaw(name):
            message = f"{place(path)} has a field named {_shown(name)}: {reason}"
            raise BadName(message, hint="Rename the column.", about="source")
        if (other := folded.get(name.casefold())) is not None:
            raise BadName(
                f"{place(path)} has the fields {other!r} and {name!r}: engines that fold case see one name",
                hint="Rename one of the two, or leave it out.",
                about="source",
            )
        folded[name.casefold()] = name


def _flaw(name: str) -> str | None:
    if not name.strip():
        return "a name is not empty"
    if len(name.encode()) > NAME_BYTES_MAX:
        return f"a name has at most {NAME_BYTES_MAX} bytes, this one has {len(name.encode())}"
    if any(unicodedata.category(character) == "Cc" for character in name):
        return "a name has no control characters"
    return None


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else f"{name[:60]}…")


def _paths(fields: list[pa.Field], path: str) -> Iterator[str]:
    check_siblings([field.name for field in fields], path)
    for field in fields:
        yield join(path, field.name)
        yield from _inner_paths(field.type, join(path, field.name))


def _inner_paths(arrow: pa.DataType, path: str) -> Iterator[str]:
    if pa.types.is_struct(arrow):
        yield from _paths(list(arrow), path)
    elif pa.types.is_map(arrow):
        for name, inner in (("key", arrow.key_type), ("value", arrow.item_type)):
            yield join(path, name)
            yield from _inner_paths(inner, join(path, name))
    elif pa.types.is_dictionary(arrow):
        yield from _inner_paths(arrow.value_type, path)
    elif pa.types.is_nested(arrow) and hasattr(arrow, "value_type"):
        yield join(path, "element")
        yield from _inner_paths(arrow.value_type, join(path, "element"))


def _required(column: NestedField) -> NestedField:
    return NestedField(column.field_id, column.name, column.field_type, required=True)
