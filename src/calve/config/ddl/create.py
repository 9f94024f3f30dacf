"""CREATE TABLE of CockroachDB or PostgreSQL, as SHOW CREATE TABLE and pg_dump print it.

    CREATE TYPE, CREATE DOMAIN   names of types
    CREATE TABLE                 columns, the key, what stands before it in CockroachDB's index
    ALTER TABLE … ADD            a key that stands apart (pg_dump's way), columns added later
    all others                   skipped

Names without quotes are in small letters, as both databases have them. The columns are those that changes
carry: virtual ones are left out, hidden ones are there. Where columns stand elsewhere (LIKE, INHERITS, OF,
AS SELECT), or are dropped, renamed or changed later, the text is refused: what it says is not all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import pairwise

from lark import Token, Tree

from calve.config.ddl.column import Found, column_of
from calve.config.ddl.grammar import Node, end_of, is_word, name_of, read, refused, start_of
from calve.config.ddl.names import CREATE_WORDS, POSTGRESQL_WORDS
from calve.config.ddl.types import Reading, type_of
from calve.config.types.tree import Plain, Type
from calve.model.errors import BadColumns

_CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN")
"""First words of an element of a table that is no column: reserved in both databases."""
_MAYBE = ("FAMILY", "INDEX", "INVERTED", "VECTOR", "EXCLUDE")
"""… or names of columns, in PostgreSQL."""
_ELSEWHERE = ("LIKE", "INHERITS", "OF", "AS")
_WHOLE = "Paste what SHOW CREATE TABLE or pg_dump --schema-only prints now."


@dataclass(slots=True)
class Created:
    """A table of a text."""

    name: tuple[str, ...]
    columns: list[Found] = field(default_factory=list)
    key: tuple[str, ...] = ()
    sharded: bool = False
    region: str | None = None
    """The column that says where a row lives."""

    @property
    def before_key(self) -> int:
        """The hidden columns of the primary index, which come first."""
        return self.sharded + (self.region is not None and self.region not in self.key)


def read_create_table(text: str, table: str | None, dialect: str | None, types: Mapping[str, str]) -> Created:
    """The one table that a text creates, or the one that is named."""
    words = POSTGRESQL_WORDS if dialect == "postgresql" else CREATE_WORDS
    named: dict[str, Type] = {}
    reading = Reading(text, words, named=named)
    tables: list[Created] = []
    statements = [s.children for s in read(text, "text").children if isinstance(s, Tree)]
    for nodes in statements:
        _take_type(nodes, named, reading)
    chosen = [_name_after(nodes, at)[0] for nodes in statements if (at := _after_table(nodes)) is not None]
    wanted = _choose(chosen, table, text, statements)
    for nodes in statements:
        if (at := _after_table(nodes)) is not None:
            name, rest = _name_after(nodes, at)
            if name == wanted:
                tables.append(_create(name, nodes, rest, reading, types))
        elif is_word(nodes[0], "ALTER") and len(nodes) > 2 and is_word(nodes[1], "TABLE"):
            _alter(nodes, tables, reading, types)
    created = tables[0]
    _check_types_used(types, created)
    return created


def _after_table(nodes: list[Node]) -> int | None:
    """Where the name of the table stands in a CREATE TABLE."""
    if not is_word(nodes[0], "CREATE"):
        return None
    for at, node in enumerate(nodes[1:6], 1):
        if is_word(node, "TABLE"):
            return at + (4 if len(nodes) > at + 1 and is_word(nodes[at + 1], "IF") else 1)
        if not is_word(node, "TEMP", "TEMPORARY", "UNLOGGED", "GLOBAL", "LOCAL", "FOREIGN"):
            return None
    return None


def _name_after(nodes: list[Node], at: int) -> tuple[tuple[str, ...], int]:
    """A name with its schema, and what comes after it."""
    parts: list[str] = []
    while at < len(nodes):
        node = nodes[at]
        if isinstance(node, Token) and node.type in ("NAME", "QUOTED"):
            parts.append(name_of(node, fold=True))
        at += 1
        if at >= len(nodes) or str(nodes[at]) != ".":
            break
        at += 1
    return tuple(parts), at


def _choose(
    found: list[tuple[str, ...]], table: str | None, text: str, statements: list[list[Node]]
) -> tuple[str, ...]:
    names = [".".join(name) for name in found]
    if not found:
        first = statements[0][0] if statements else None
        near = isinstance(first, Token) and get_close_matches(first.upper(), ["CREATE", "TABLE"], n=1)
        hint = "Did you mean CREATE TABLE? " if near else ""
        raise refused("there is no CREATE TABLE", text, start_of(first) if first else 0, hint + _WHOLE)
    if table is None:
        if len(set(found)) > 1:
            raise BadColumns(
                f"the text creates {len(names)} tables: {', '.join(names)}",
                hint="Say which one is meant: table='…'.",
            )
        return found[0]
    for name in found:
        if table in (".".join(name), name[-1]):
            return name
    near_names = get_close_matches(table, names, n=1)
    meant = f" Did you mean {near_names[0]!r}?" if near_names else ""
    raise BadColumns(
        f"the text creates no table {table!r}: {', '.join(names)}", hint=f"Name one of them.{meant}"
    )


def _create(
    name: tuple[str, ...], nodes: list[Node], at: int, reading: Reading, types: Mapping[str, str]
) -> Created:
    body = nodes[at] if at < len(nodes) else nodes[-1]
    locality = next(
        (place for place in range(at, len(nodes)) if is_word(nodes[place], "LOCALITY")), len(nodes)
    )
    elsewhere = next((node for node in nodes[at:locality] if is_word(node, *_ELSEWHERE)), None)
    if not isinstance(body, Tree) or body.data != "group" or elsewhere is not None:
        raise reading.refuse("the columns stand elsewhere", elsewhere or body, _WHOLE)
    created = Created(name, region=_region_in(nodes[locality:]))
    for element in _elements(body):
        _add(element, created, reading, types)
    if not created.columns:
        raise reading.refuse("a table without columns", body, _WHOLE)
    return created


def _add(element: list[Node], created: Created, reading: Reading, types: Mapping[str, str]) -> None:
    first = element[0]
    if is_word(first, "LIKE"):
        raise reading.refuse("the columns stand in another table", first, _WHOLE)
    if _is_constraint(element):
        _take_key(element, created)
        return
    start, end = start_of(first), end_of(element[-1])
    tree = read(reading.text[start:end], "column", whole=reading.text, offset=start)
    found = column_of(tree, replace(reading, offset=start), types, created=True)
    if any(column.name == found.name for column in created.columns):
        raise reading.refuse(f"the column {found.name!r} stands twice", first, _WHOLE)
    created.columns.append(found)
    if found.is_key:
        created.key = (found.name,)


def _is_constraint(element: list[Node]) -> bool:
    first, second, third = (*element, None, None)[:3]
    if is_word(first, *_CONSTRAINTS) or (is_word(second, "INDEX") and is_word(first, *_MAYBE)):
        return True
    # `INDEX orders_by_day (day)`, but not a column `index varchar(20)`.
    of = second if isinstance(second, Tree) else third
    return is_word(first, *_MAYBE) and isinstance(of, Tree) and not _is_arguments(of)


def _is_arguments(group: Tree[Token]) -> bool:
    return bool(group.children) and all(
        isinstance(c, Token) and c.type in ("NUMBER", "COMMA") for c in group.children
    )


def _take_key(nodes: list[Node], created: Created) -> None:
    if key := _key_in(nodes):
        created.key = key
        created.sharded = any(is_word(node, "HASH") for node in nodes)


def _region_in(nodes: list[Node]) -> str | None:
    """The column of LOCALITY REGIONAL BY ROW AS column, which has a name of its own where none is given."""
    for at, (one, two) in enumerate(pairwise(nodes)):
        if is_word(one, "BY") and is_word(two, "ROW"):
            rest = nodes[at + 2 :]
            named = rest[1] if len(rest) > 1 and is_word(rest[0], "AS") else None
            return name_of(named, fold=True) if isinstance(named, Token) else "crdb_region"
    return None


def _key_in(nodes: list[Node]) -> tuple[str, ...]:
    """The columns of PRIMARY KEY (a ASC, b), if a constraint is one."""
    for at, (one, two) in enumerate(pairwise(nodes)):
        if is_word(one, "PRIMARY") and is_word(two, "KEY"):
            group = next((n for n in nodes[at:] if isinstance(n, Tree) and n.data == "group"), None)
            if group is not None:
                return tuple(_names_in(group))
    return ()


def _names_in(group: Tree[Token]) -> Iterator[str]:
    for element in _elements(group):
        token = element[0]
        if isinstance(token, Token):
            yield name_of(token, fold=True)


def _elements(group: Tree[Token]) -> Iterator[list[Node]]:
    """What stands between commas."""
    element: list[Node] = []
    for node in group.children:
        if isinstance(node, Token) and node.type == "COMMA":
            if element:
                yield element
            element = []
        else:
            element.append(node)
    if element:
        yield element


def _alter(nodes: list[Node], tables: list[Created], reading: Reading, types: Mapping[str, str]) -> None:
    at = 2
    while is_word(nodes[at], "ONLY", "IF", "EXISTS"):
        at += 1
    name, at = _name_after(nodes, at)
    created = next((one for one in tables if _same(one.name, name)), None)
    if created is None:
        return
    for action in _elements(Tree("group", nodes[at:])):
        _act(action, created, reading, types)


def _same(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    """Whether two names are one table's: what the shorter leaves out is not compared."""
    parts = min(len(one), len(two))
    return parts > 0 and one[-parts:] == two[-parts:]


def _act(action: list[Node], created: Created, reading: Reading, types: Mapping[str, str]) -> None:
    first, second = (*action, None, None)[:2]
    if is_word(first, "ADD"):
        rest = action[1:]
        if is_word(second, "COLUMN"):
            rest = rest[1:]
        if rest and is_word(rest[0], "IF"):
            rest = rest[3:]
        if rest:
            _add(rest, created, reading, types)
    elif is_word(first, "ALTER") and is_word(second, "PRIMARY"):
        _take_key(action, created)
    elif is_word(first, "SET") and is_word(second, "LOCALITY"):
        created.region = _region_in(action)
    elif is_word(first, "DROP", "RENAME") and not is_word(second, "CONSTRAINT", "TO"):
        raise reading.refuse("columns are dropped or renamed later in the text", action[0], _WHOLE)
    elif is_word(first, "ALTER") and any(is_word(node, "TYPE") for node in action):
        raise reading.refuse("the type of a column changes later in the text", action[0], _WHOLE)


def _take_type(nodes: list[Node], named: dict[str, Type], reading: Reading) -> None:
    """CREATE TYPE … AS ENUM (…) is text; CREATE DOMAIN … AS type is the type."""
    if len(nodes) < 4 or not is_word(nodes[0], "CREATE") or not is_word(nodes[1], "TYPE", "DOMAIN"):
        return
    name, at = _name_after(nodes, 5 if is_word(nodes[2], "IF") else 2)
    rest = nodes[at:]
    if rest and is_word(rest[0], "AS"):
        rest = rest[1:]
    if is_word(nodes[1], "TYPE"):
        if rest and is_word(rest[0], "ENUM"):
            named[name[-1]] = Plain("string")
        return
    if rest:
        start, end = start_of(rest[0]), end_of(rest[-1])
        # A name stands before a type in the grammar of columns; a domain's constraints are a column's.
        tree = read("_ " + reading.text[start:end], "column", whole=reading.text, offset=start - 2)
        kind = tree.children[1]
        assert isinstance(kind, Tree)
        named[name[-1]] = type_of(kind, replace(reading, offset=start - 2, column=name[-1]))


def _check_types_used(types: Mapping[str, str], created: Created) -> None:
    names = [column.name for column in created.columns]
    for name in types:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise BadColumns(
                f"types names {name!r}, which is not among the columns: {', '.join(names)}",
                hint=f"Name columns of the table.{meant}",
            )
