"""The tree of a type as a Type: `timestamp(3) with time zone`, `STRING[]`, `array<struct<a: bigint>>`.

A type that has no line in names.py is refused with the nearest that has one, and with the way to say what the
column shall be: `types={"status": "string"}`. So is a decimal without digits: what it holds has no bound, and
the column of a table cannot become another one later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from lark import Token, Tree

from calve.config.ddl import names
from calve.config.ddl.grammar import Node, name_of, refused, start_of
from calve.config.types.notation import DEPTH_MAX, parse_type
from calve.config.types.tree import Decimal, List, Map, Plain, Struct, Type
from calve.model.errors import BadColumns

_FLOAT_DIGITS = 24
"""FLOAT(n) has 32 bits up to here (SQL's rule)."""


_OTHERS = "string, or another type of docs/types.md"


@dataclass(frozen=True, slots=True)
class Reading:
    """How types of one text are read."""

    text: str
    words: Mapping[str, str]
    """What words mean that databases do not agree on."""
    offset: int = 0
    """Where in the text the tree begins."""
    column: str = "…"
    """Whose type it is, for hints."""
    fold: bool = True
    """A CREATE TABLE, where names without quotes are in small letters; else a column list."""
    named: Mapping[str, Type] = field(default_factory=dict)
    """Types that the text itself makes: enums and domains."""

    def refuse(self, reason: str, node: Node, hint: str) -> BadColumns:
        return refused(reason, self.text, self.offset + start_of(node), hint)

    def say(self, examples: str) -> str:
        """How a user says what a column shall be."""
        if not self.fold:
            return f"Write {examples}."
        return f"Say what the column shall be by types={{{self.column!r}: '…'}}: {examples}."


def type_of(tree: Tree[Token], reading: Reading, depth: int = 0) -> Type:
    """The type of a tree."""
    if depth > DEPTH_MAX:
        raise reading.refuse(f"types stand {DEPTH_MAX} deep in each other", tree, "Declare it as string.")
    trees = [child for child in tree.children if isinstance(child, Tree)]
    match tree.data:
        case "only_type":
            return type_of(trees[0], reading, depth)
        case "array":
            return _array(trees[0], tree, reading, depth)
        case "pairs":
            return Map(type_of(trees[0], reading, depth + 1), type_of(trees[1], reading, depth + 1))
        case "nested":
            return _nested(trees, reading, depth)
        case _:
            return _simple(tree, reading)


def _array(element: Tree[Token], tree: Tree[Token], reading: Reading, depth: int) -> Type:
    by_word = any(isinstance(child, Token) and child.type == "LIST" for child in tree.children)
    if element.data == "array" and not by_word:
        # PostgreSQL keeps no number of dimensions: [][] says nothing of the values.
        raise reading.refuse(
            "an array of arrays has no fixed depth",
            tree,
            reading.say("list<list<int>>, or string"),
        )
    return List(type_of(element, reading, depth + 1))


def _nested(trees: list[Tree[Token]], reading: Reading, depth: int) -> Type:
    name = _name(trees[0], reading)
    inside = trees[1:]
    fields = [child for child in inside if child.data == "field"]
    if name == "struct" and len(fields) == len(inside):
        return Struct(
            tuple(
                (_field_name(one.children[0]), type_of(one.children[1], reading, depth + 1))  # type: ignore[arg-type]
                for one in fields
            )
        )
    if not fields and name in ("list", "array") and len(inside) == 1:
        return List(type_of(inside[0], reading, depth + 1))
    if not fields and name == "map" and len(inside) == 2:
        return Map(type_of(inside[0], reading, depth + 1), type_of(inside[1], reading, depth + 1))
    raise reading.refuse(
        f"{name}<…> is no type", trees[0], "With < > there are: list<T>, map<K,V>, struct<a: T, b: T>."
    )


def _field_name(node: Node) -> str:
    token = node.children[0] if isinstance(node, Tree) else node
    assert isinstance(token, Token)
    return name_of(token, fold=False)


def _simple(tree: Tree[Token], reading: Reading) -> Type:
    first = tree.children[0]
    assert isinstance(first, Tree)
    name = _name(first, reading)
    args = [
        str(arg)
        for child in tree.children
        if isinstance(child, Tree) and child.data == "args"
        for arg in child.children
    ]
    zone = next((str(c) for c in tree.children if isinstance(c, Token) and c.type == "ZONE"), None)
    if zone is not None:
        name = f"{name} {' '.join(zone.lower().split())}"
    if name in reading.named:
        return reading.named[name]
    known = reading.words.get(name) or names.BY_NAME.get(name)
    if known is None:
        raise _unknown(name, first, reading)
    if known == "decimal":
        return _decimal(args, first, reading)
    if name == "float" and args and args[0].isdecimal():
        return Plain("float" if int(args[0]) <= _FLOAT_DIGITS else "double")
    return parse_type(known)


def _name(tree: Tree[Token], reading: Reading) -> str:
    """A type's name: words in small letters; of `public.status` and `pg_catalog.int4` the last part."""
    token = tree.children[-1]
    assert isinstance(token, Token)
    return " ".join(name_of(token, fold=True).split()) if token.type != "QUOTED" else _quoted(token, reading)


def _quoted(token: Token, reading: Reading) -> str:
    name = name_of(token, fold=False)
    return name if name in reading.named else name.lower()


def _decimal(args: list[str], node: Node, reading: Reading) -> Type:
    if not args:
        raise reading.refuse(
            "a decimal without digits holds any number, and Iceberg's has 38 digits at most",
            node,
            reading.say("decimal(38,9) if that holds them, or string"),
        )
    try:
        precision, scale = int(args[0]), int(args[1]) if len(args) > 1 else 0
        return Decimal(precision, scale)
    except (ValueError, BadColumns):
        pass
    raise reading.refuse(
        f"decimal({','.join(args)}) has no place in Iceberg: 1 to 38 digits, none to all behind the point",
        node,
        reading.say("string"),
    )


def _unknown(name: str, node: Node, reading: Reading) -> BadColumns:
    if name in names.NESTED:
        hint = f"Write {'map<K,V>' if name == 'map' else 'struct<a: T>' if name == 'struct' else 'list<T>'}."
        return reading.refuse(f"a {name} of what?", node, hint)
    near = get_close_matches(name, [*names.BY_NAME, *reading.words, *reading.named], n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return reading.refuse(
        f"the type {name!r} is not known",
        node,
        meant
        + ("An enum, a domain, a type of an extension? " if reading.fold else "")
        + reading.say(_OTHERS),
    )
