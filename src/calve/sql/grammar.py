"""Grammar: how statements are written, by lark.

Keywords are none where a name or an option stands: `CREATE SOURCE key …` and `(TABLE = 'orders')` are what
they look like. A comma may stand behind the last option, and a value in double quotes is a value.

Errors show the line and a caret, and the nearest word that may stand there.
"""

from __future__ import annotations

import re
from functools import cache

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from calve.config.types.notation import show_place
from calve.config.units import nearest
from calve.model.errors import BadStatement
from calve.sql.mask import masked

_GRAMMAR = r"""
?start: secret | connection | source | view | sink | sink_table
      | show | show_create | show_changefeed | explain | describe | drop

secret: "CREATE"i "SECRET"i absent name "FROM"i KEPT STRING
connection: "CREATE"i "CONNECTION"i absent name "TO"i (target options | iceberg_rest options?)
iceberg_rest: "ICEBERG"i "REST"i "CATALOG"i
target: "ICEBERG"i "CATALOG"i -> iceberg
      | "AWS"i -> aws
      | "KAFKA"i -> kafka
      | "POSTGRES"i -> postgres

source: "CREATE"i "SOURCE"i absent name columns? "FROM"i origin options source_clause*
origin: "COCKROACHDB"i "CHANGEFEED"i -> cockroachdb
      | "KAFKA"i "TOPIC"i -> kafka
      | "FILES"i -> files
      | "DEBEZIUM"i -> debezium
      | "MATERIALIZE"i "SUBSCRIBE"i -> materialize
?source_clause: key | envelope
envelope: "ENVELOPE"i (WORD | STRING)
columns: "(" _inside* ")"

view: "CREATE"i "VIEW"i absent name "AS"i QUERY

sink: "CREATE"i "SINK"i absent name cluster? "FROM"i name _into (catalog | STRING) sink_clause*
sink_table: "CREATE"i "SINK"i "TABLE"i absent name "FROM"i name "WITH"i options
_into: "INTO"i | "TO"i
catalog: "ICEBERG"i "CATALOG"i "CONNECTION"i? name options?
cluster: "IN"i "CLUSTER"i name
?sink_clause: key | mode | partition | with | aws_of | namespace
aws_of: "USING"i "AWS"i "CONNECTION"i name
namespace: "NAMESPACE"i _place "TABLE"i _place
_place: STRING | QUOTED | WORD
mode: "MODE"i WAY
partition: "PARTITION"i "BY"i "(" transform ("," transform)* ","? ")"
transform: (WORD | QUOTED) group?
with: "WITH"i options
key: "KEY"i "(" name ("," name)* ","? ")" not_enforced?
not_enforced: "NOT"i "ENFORCED"i

show: "SHOW"i THINGS
show_create: "SHOW"i "CREATE"i thing name
show_changefeed: "SHOW"i "CHANGEFEED"i (NUMBER | STRING | WORD)
explain: "EXPLAIN"i "SINK"i name
describe: ("DESCRIBE"i | "DESC"i) name
drop: "DROP"i thing there name keeps?
keeps: "KEEP"i "PROGRESS"i
thing: THING
absent: ("IF"i "NOT"i "EXISTS"i)?
there: ("IF"i "EXISTS"i)?

options: "(" (option ("," option)* ","?)? ")"
option: option_name "=" value | option_name literal | option_name
option_name: STRING | dotted+
dotted: WORD ("." WORD)*
?value: literal | word | secret_of
literal: STRING | QUOTED | NUMBER
word: WORD
secret_of: "SECRET"i name
name: WORD | QUOTED

group: "(" _inside* ")"
_inside: WORD | QUOTED | STRING | NUMBER | MARK | "," | "." | "=" | group

KEPT.2: /(ENV|FILE)\b/i
WAY.2: /(UPSERT|APPEND|CHANGELOG)\b/i
THINGS.2: /(SINKS|SOURCES|CONNECTIONS|SECRETS|VIEWS)\b/i
THING.2: /(SINK|SOURCE|CONNECTION|SECRET|VIEW)\b/i
QUERY.9: /(.|\n)+/
STRING: /'([^']|'')*'/
QUOTED: /"([^"]|"")+"|`([^`]|``)+`/
WORD: /[^\W\d][\w$]*/i
NUMBER: /-?\d+(\.\d+)?/
MARK.-1: /[-+*\/<>~!@#%^&|?:\[\]$]/
COMMENT.5: /--[^\n]*|\/\*(.|\n)*?\*\//
%ignore COMMENT
%ignore /\s+/
"""
_SAID = {
    "WORD": "a name",
    "QUOTED": "a name",
    "STRING": "a text in single quotes",
    "NUMBER": "a number",
    "KEPT": "ENV or FILE",
    "WAY": "UPSERT, APPEND or CHANGELOG",
    "THINGS": "SINKS, SOURCES, CONNECTIONS, SECRETS or VIEWS",
    "THING": "SINK, SOURCE, CONNECTION, SECRET or VIEW",
    "QUERY": "a query",
    "$END": "the end of the statement",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "EQUAL": "'='",
    "DOT": "'.'",
}
_CURLY = tuple("‘’“”„«»")
"""What editors for letters make of a quote."""
_WORDS = ("KEPT", "WAY", "THINGS", "THING")


WORDS = tuple(
    sorted(set(re.findall(r"\b[A-Z]{2,}\b(?=\"i|\||\)\\b)", _GRAMMAR)) - {"STRING", "QUOTED", "WORD"})
)
"""The words of the language."""


@cache
def _lark() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse(statement: str, whole: str, offset: int) -> Tree[Token]:
    """The tree of a statement, which stands at an offset of a text."""
    try:
        return _lark().parse(statement)
    except UnexpectedInput as error:
        raise _refused(error, statement, whole, offset) from None


def refused(reason: str, whole: str, at: int, hint: str) -> BadStatement:
    """An error at a place of a text."""
    return BadStatement(reason, hint=hint, place=show_place(masked(whole), at))


def _refused(error: UnexpectedInput, statement: str, whole: str, offset: int) -> BadStatement:
    ends = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    at = len(statement) if ends else int(error.pos_in_stream or 0)  # type: ignore[redundant-expr]
    may = error.accepts if isinstance(error, UnexpectedToken) else getattr(error, "allowed", None)
    names = sorted(may or ())
    word = "" if ends else _word_at(statement, at)
    what = "the statement ends here" if ends else f"{word!r} was not expected"
    if not ends and masked(statement)[at : at + len(word)] != word:
        word, what = "", "this was not expected"  # it may be a secret, or stands beside one
    near = nearest(word.upper(), _keywords(names)) if word else None
    hint = f"Did you mean {near}? " if near else ""
    if statement[at : at + 1] in _CURLY:
        hint = "That is a quote of print: write '. "
    return refused(what, whole, offset + at, f"{hint}Expected: {_listed(names)}.")


def _word_at(text: str, at: int) -> str:
    end = at
    while end < len(text) and (text[end].isalnum() or text[end] in "_$"):
        end += 1
    return text[at:end] or text[at : at + 1]


def _keywords(names: list[str]) -> list[str]:
    """The words that may stand there."""
    found: list[str] = []
    for name in names:
        if name in _WORDS:
            found += [word for word in _SAID[name].replace(",", "").split() if word != "or"]
        elif name not in _SAID:
            found.append(name)
    return found


def _listed(names: list[str]) -> str:
    said = dict.fromkeys(_SAID.get(name, name) for name in names)
    *first, last = sorted(said, key=lambda one: (not one.isupper(), one))
    return f"{', '.join(first)} or {last}" if first else last
