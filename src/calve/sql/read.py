"""Read: statements of a text, as trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lark import Token, Tree

from calve.sql.grammar import parse, refused
from calve.sql.split import Piece, split
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
    Kept,
    Mode,
    Name,
    Option,
    Options,
    Origin,
    Secret,
    Show,
    ShowChangefeed,
    ShowCreate,
    Statement,
    Target,
    Text,
    Thing,
    Value,
    Word,
    named,
)

_REST = "iceberg_rest"
_TARGETS = {one.name.lower(): one for one in Target} | {_REST: Target.ICEBERG}
_ORIGINS = {one.name.lower(): one for one in Origin}


def read(text: str) -> list[Statement]:
    """All statements of a text."""
    return [_Reader(text, piece).read() for piece in split(text)]


class _Reader:
    """One statement."""

    def __init__(self, whole: str, piece: Piece) -> None:
        self._whole, self._piece = whole, piece
        self._tree = parse(piece.text, whole, piece.at)

    def read(self) -> Statement:
        """What it says, and where."""
        return replace(self._statement(), text=self._whole, at=self._piece.at)

    def _statement(self) -> Statement:
        if self._tree.data in ("secret", "connection", "source", "view", "sink", "sink_table"):
            return self._create()
        names = [self._name(one) for one in self._all("name")]
        match self._tree.data:
            case "show":
                return Show(Thing(self._token("THINGS").upper().removesuffix("S")))
            case "show_create":
                return ShowCreate(self._thing(), names[0])
            case "show_changefeed":
                (token,) = self._tokens(self._tree)
                return ShowChangefeed(_unquoted(token))
            case "explain":
                return Explain(names[0])
            case "describe":
                return Describe(names[0])
        keeps = self._one("keeps")
        if keeps is not None and self._thing() is not Thing.SINK:
            raise self._refused("progress is a sink's alone", keeps, "Leave KEEP PROGRESS out.")
        return Drop(self._thing(), names[0], self._says("there"), keeps is not None)

    def _create(self) -> Create:
        name, *more = [self._name(one) for one in self._all("name")]
        is_absent = self._says("absent")
        match self._tree.data:
            case "secret":
                kept = Kept(self._token("KEPT").upper())
                return CreateSecret(name, kept, _unquoted(self._token("STRING")), is_absent)
            case "connection":
                target = next(_TARGETS[one.data] for one in self._trees() if one.data in _TARGETS)
                return CreateConnection(name, target, self._options_of_connection(), is_absent)
            case "source":
                return self._source(name, is_absent)
            case "view":
                query = self._token("QUERY")
                at = self._at(query) + len(query) - len(query.lstrip())
                return CreateView(name, str(query).strip(), is_absent, at)
            case "sink":
                return self._sink(name, more[0], is_absent)
        return CreateSinkTable(name, more[0], self._options(self._tree), is_absent)

    def _source(self, name: str, is_absent: bool) -> CreateSource:
        self._check_once("key", "envelope")
        origin = next(_ORIGINS[one.data] for one in self._trees() if one.data in _ORIGINS)
        columns, envelope = self._one("columns"), self._one("envelope")
        key, is_enforced = self._key()
        if not is_enforced:
            raise self._refused("NOT ENFORCED is for sinks", self._one("not_enforced"), "Leave it out.")
        words = [] if envelope is None else self._tokens(envelope)
        return CreateSource(
            name,
            origin,
            self._options(self._tree),
            None if columns is None else self._text_of(columns)[1:-1].strip(),
            key,
            Name.of(_unquoted(words[0]).lower(), self._at(words[0])) if words else None,
            is_absent,
            0 if columns is None else self._at(columns) + 1,
        )

    def _sink(self, name: str, source: str, is_absent: bool) -> CreateSink:
        self._check_once("key", "mode", "partition", "with", "aws_of", "namespace")
        catalog, aws, mode = self._one("catalog"), self._one("aws_of"), self._one("mode")
        namespace, table = self._where(catalog)
        key, is_enforced = self._key()
        partition, said = self._one("partition"), self._one("with")
        url = next(map(self._text, self._tokens(self._tree)), None)
        if catalog is not None and (namespace is None or table is None):
            missing = "namespace" if namespace is None else "table"
            hint = "Write INTO ICEBERG CATALOG CONNECTION … (NAMESPACE = 'sales', TABLE = 'orders')."
            raise self._refused(f"nothing says which {missing} the sink writes to", catalog, hint)
        return CreateSink(
            name,
            source,
            None if catalog is None else self._name(_children(catalog, "name")[0]),
            url,
            namespace,
            table,
            None if aws is None else self._name(_children(aws, "name")[0]),
            key,
            is_enforced,
            None if mode is None else Mode(self._tokens(mode)[0].upper()),
            () if partition is None else self._partition(partition),
            () if said is None else self._options(said),
            is_absent,
            0 if mode is None else self._at(mode),
        )

    def _where(self, catalog: Tree[Token] | None) -> tuple[str | None, str | None]:
        """Namespace and table: as options of the catalog, or by words of their own."""
        found: dict[str, str] = {}
        for option in () if catalog is None else self._options(catalog):
            if option.name not in ("namespace", "table"):
                hint = "Of a catalog a sink names NAMESPACE and TABLE; other options follow WITH."
                raise refused(f"the option {option.name!r} is not known here", self._whole, option.at, hint)
            if isinstance(option.value, Secret):
                raise refused("the name of a table is no secret", self._whole, option.at, "Write a text.")
            found[option.name] = Name.of(option.value.value, option.at)
        if (words := self._one("namespace")) is not None:
            if catalog is None or found:
                raise self._refused("the table is named twice", words, "Name it once.")
            found["namespace"], found["table"] = map(self._text, self._tokens(words))
        return found.get("namespace"), found.get("table")

    # ---------------------------------------------------------------- parts

    def _key(self) -> tuple[tuple[str, ...], bool]:
        key = self._one("key")
        if key is None:
            return (), True
        names = [self._name(one) for one in _children(key, "name")]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise self._refused(f"the key names {min(repeated)!r} twice", key, "Name each column once.")
        return tuple(names), not _children(key, "not_enforced")

    def _partition(self, tree: Tree[Token]) -> tuple[Name, ...]:
        return tuple(Name.of(self._text_of(one), self._at(one)) for one in _children(tree, "transform"))

    def _name(self, tree: Tree[Token]) -> Name:
        return Name.of(_name(tree), self._at(tree))

    def _text(self, token: Token) -> Name:
        return Name.of(_unquoted(token), self._at(token))

    def _at(self, part: Tree[Token] | Token) -> int:
        """Where a part begins in the whole text."""
        return self._piece.at + ((part if isinstance(part, Token) else part.meta).start_pos or 0)

    def _options(self, of: Tree[Token]) -> Options:
        found: dict[str, Option] = {}
        for tree in of.find_data("option"):
            option = self._option(tree)
            if option.name in found:
                hint = "Leave one of the two out."
                raise refused(f"the option {option.name!r} stands twice", self._whole, option.at, hint)
            found[option.name] = option
        return tuple(found.values())

    def _options_of_connection(self) -> Options:
        """ICEBERG REST CATALOG says by its words what TYPE = 'rest' says."""
        options, rest = self._options(self._tree), self._one(_REST)
        if rest is None:
            return options
        if (said := next((one for one in options if one.name == "type"), None)) is not None:
            raise refused("REST says the type already", self._whole, said.at, "Leave one of the two out.")
        return (Option("type", Text("rest"), self._at(rest)), *options)

    def _option(self, tree: Tree[Token]) -> Option:
        """`NAME = value` or `NAME 'value'`; as Materialize has it, also `PASSWORD SECRET p`."""
        at = self._at(tree)
        name, *value = (one for one in tree.children if isinstance(one, Tree))
        if value:
            return _secret_by_name(
                _option_name(name), _value(value[0]), at, isinstance(name.children[0], Token)
            )
        words = _words(name)
        if len(words) < 3 or words[-2] not in ("secret", "connection"):
            shown = " ".join(words).upper() or str(name.children[0])
            raise refused(f"the option {shown} has no value", self._whole, at, "Write NAME = 'value'.")
        return _secret_by_name(" ".join(words[:-1]), Word(words[-1]), at, is_quoted=False)

    def _check_once(self, *names: str) -> None:
        for name in names:
            both = self._all(name)
            if len(both) > 1:
                word = self._text_of(both[1]).split()[0].upper()
                raise self._refused(f"{word} stands twice", both[1], "Leave one of the two out.")

    def _thing(self) -> Thing:
        (tree,) = self._all("thing")
        return Thing(self._tokens(tree)[0].upper())

    def _says(self, name: str) -> bool:
        """Whether IF [NOT] EXISTS was written: the tree is there in any case, and empty without the words."""
        tree = self._one(name)
        return tree is not None and tree.meta.empty is False

    def _trees(self) -> Iterator[Tree[Token]]:
        return (one for one in self._tree.children if isinstance(one, Tree))

    def _all(self, name: str) -> list[Tree[Token]]:
        return _children(self._tree, name)

    def _one(self, name: str) -> Tree[Token] | None:
        return next(iter(self._all(name)), None) or next(self._tree.find_data(name), None)

    def _token(self, kind: str) -> Token:
        return next(one for one in self._tree.children if isinstance(one, Token) and one.type == kind)

    def _tokens(self, tree: Tree[Token]) -> list[Token]:
        return [one for one in tree.children if isinstance(one, Token)]

    def _text_of(self, tree: Tree[Token]) -> str:
        return self._piece.text[tree.meta.start_pos : tree.meta.end_pos]

    def _refused(self, reason: str, tree: Tree[Token] | None, hint: str) -> Exception:
        return refused(reason, self._whole, self._piece.at if tree is None else self._at(tree), hint)


def _children(tree: Tree[Token], name: str) -> list[Tree[Token]]:
    return [one for one in tree.children if isinstance(one, Tree) and one.data == name]


def _name(tree: Tree[Token]) -> str:
    (token,) = tree.children
    assert isinstance(token, Token)
    return _unquoted(token) if token.type == "QUOTED" else token.lower()


def _option_name(tree: Tree[Token]) -> str:
    first = tree.children[0]
    return _unquoted(first) if isinstance(first, Token) else " ".join(_words(tree))


def _words(tree: Tree[Token]) -> list[str]:
    return [".".join(map(str, one.children)).lower() for one in tree.children if isinstance(one, Tree)]


def _secret_by_name(name: str, value: Value, at: int, is_quoted: bool) -> Option:
    """`PASSWORD SECRET = p` says what `PASSWORD = SECRET p` says."""
    if is_quoted or not name.endswith(SECRET) or isinstance(value, Secret):
        return Option(name, value, at)
    return Option(name.removesuffix(SECRET), Secret(named(value)), at)


def _value(tree: Tree[Token]) -> Value:
    if tree.data == "secret_of":
        return Secret(_name(_children(tree, "name")[0]))
    (token,) = tree.children
    assert isinstance(token, Token)
    return Text(_unquoted(token)) if token.type in ("STRING", "QUOTED") else Word(str(token))


def _unquoted(token: Token) -> str:
    text = str(token)
    is_quoted = token.type in ("STRING", "QUOTED")
    return text[1:-1].replace(text[0] * 2, text[0]) if is_quoted else text
