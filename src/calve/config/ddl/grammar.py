"""The grammar of column lists and of SQL statements, by lark.

    text       CREATE TABLE …; ALTER TABLE …   ─▶ statements of words, marks and balanced (…), […]
    columns    id long, total decimal(10,2)    ─▶ name, type, words
    column     one of them, as in CREATE TABLE

A statement has no keywords here: databases have hundreds, and most of them may be names of columns, too. What
follows a type is words and balanced groups; create.py knows the few that matter. So what is skipped is
skipped as a whole, whatever stands in it.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from calve.config.types.notation import show_place
from calve.model.errors import BadColumns

Node: TypeAlias = Token | Tree[Token]

_GRAMMAR = r"""
text: statement? (";" statement?)*
statement: (_item | COMMA)+
_item: NAME | QUOTED | NUMBER | STRING | MARK | group | brackets
group: "(" (_item | COMMA)* ")"
brackets: "[" (_item | COMMA)* "]"

columns: column (COMMA column)* [COMMA]
column: name ":"? type (NAME _item*)?
name: NAME | QUOTED

only_type: type
?type: simple | nested | pairs
     | type "[" NUMBER? "]"            -> array
     | type ARRAY ("[" NUMBER "]")?    -> array
     | type LIST                       -> array
simple: type_name args? ZONE?
type_name: WORDS | (NAME | QUOTED) ("." (NAME | QUOTED))*
args: "(" ((NUMBER | NAME) ("," (NUMBER | NAME))*)? ")"
nested: type_name "<" _inner ("," _inner)* ">"
_inner: type | field
field: name ":" type
pairs: MAP type "=>" type "]"

WORDS.3: /(double\s+precision|(national\s+)?char(acter)?\s+varying|national\s+char(acter)?|bit\s+varying)\b/i
ZONE.3: /with(out)?\s+time\s+zone\b/i
MAP.3: /map\s*\[/i
ARRAY.3: /array\b/i
LIST.3: /list\b/i
STRING.4: /[eE]'([^'\\]|\\.|'')*'|([bBxXnN]|[uU]&)?'([^']|'')*'|\$(?P<tag>\w*)\$(.|\n)*?\$(?P=tag)\$/
QUOTED.4: /"([^"]|"")+"|`([^`]|``)+`/
NAME: /[^\W\d][\w$]*/
NUMBER.2: /-?\d+(\.\d+)?([eE][-+]?\d+)?/
COMMA: ","
MARK.-1: /[-+*\/<>=~!@#%^&|?:.\\$]/
COMMENT.5: /--[^\n]*|\/\*(.|\n)*?\*\//
%ignore COMMENT
%ignore /\s+/
"""
_STARTS = ["text", "columns", "column", "only_type"]
_EXPECTED = (
    ("WORDS", "a type was expected"),
    ("RPAR", "')' was expected"),
    ("MORETHAN", "'>' was expected"),
    ("RSQB", "']' was expected"),
    ("QUOTED", "a name was expected"),
)
"""What to say of a place by what may stand there; the first that fits."""
_PAIRS = {")": "(", "]": "["}


@cache
def _lark() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", start=_STARTS, propagate_positions=True)


def read(text: str, start: str, *, whole: str | None = None, offset: int = 0) -> Tree[Token]:
    """The tree of a text. Where it stands at an offset in a whole one, errors show the place there."""
    whole = text if whole is None else whole
    try:
        return _lark().parse(text, start=start)
    except UnexpectedInput as error:
        raise _refused(error, text, whole, offset) from None


def refused(reason: str, whole: str, start: int, hint: str) -> BadColumns:
    """An error at a place of a text."""
    return BadColumns(f"{reason}{show_place(whole, start)}", hint=hint)


def _refused(error: UnexpectedInput, text: str, whole: str, offset: int) -> BadColumns:
    ends = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    place = len(text.rstrip()) if ends else int(error.pos_in_stream or 0)  # type: ignore[redundant-expr]
    if (bracket := _unbalanced(text)) is not None:
        mark = text[bracket]
        said = "is never closed" if mark in "([" else "closes nothing"
        return refused(f"{mark!r} {said}", whole, offset + bracket, "Paste the statement as a whole.")
    if isinstance(error, UnexpectedCharacters) and text[place] in "'\"`$":
        return refused("this quote is never closed", whole, offset + place, "Close it with the same mark.")
    may = getattr(error, "accepts", None) or getattr(error, "allowed", None) or ()
    reason = next((said for name, said in _EXPECTED if name in may), "this was not expected here")
    hint = "A column is a name, a type and no more than NOT NULL, and a comma stands between two."
    return refused(reason, whole, offset + place, hint)


def _unbalanced(text: str) -> int | None:
    """Where a bracket stands that has no other half."""
    open_at: list[int] = []
    try:
        for token in _lark().lex(text):
            mark = str(token)
            if mark in _PAIRS.values():
                open_at.append(token.start_pos or 0)
            elif mark in _PAIRS:
                if not open_at or text[open_at[-1]] != _PAIRS[mark]:
                    return token.start_pos
                open_at.pop()
    except UnexpectedInput:
        return None
    return open_at[-1] if open_at else None


def name_of(token: Token, *, fold: bool) -> str:
    """A name without its quotes; one without quotes in small letters, where the database folds it so."""
    text = str(token)
    if token.type == "QUOTED":
        return text[1:-1].replace(text[0] * 2, text[0])
    return text.lower() if fold else text


def is_word(node: Node | None, *words: str) -> bool:
    """Whether a node is one of these words, without quotes."""
    return isinstance(node, Token) and node.type == "NAME" and node.upper() in words


def start_of(node: Node) -> int:
    """Where a node begins."""
    return (node.start_pos if isinstance(node, Token) else node.meta.start_pos) or 0


def end_of(node: Node) -> int:
    """Where a node ends."""
    return (node.end_pos if isinstance(node, Token) else node.meta.end_pos) or 0
