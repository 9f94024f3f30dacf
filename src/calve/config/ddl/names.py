"""The types of databases, and what they are in Iceberg. One list: the reader's, and the page's.

A type has a line here or is refused: nothing is guessed from a name. Where Iceberg has no such type, the text
that the database shows is kept (`string`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

COCKROACHDB = "CockroachDB"
POSTGRESQL = "PostgreSQL"
MATERIALIZE = "Materialize"
SPARK = "Spark"
_SQL = (COCKROACHDB, POSTGRESQL, MATERIALIZE)
_TWO = (COCKROACHDB, POSTGRESQL)


@dataclass(frozen=True, slots=True)
class Line:
    """Spellings of one type."""

    names: tuple[str, ...]
    iceberg: str
    """`decimal` where its digits are the database's to say."""
    of: tuple[str, ...]
    messages: str = ""
    """How its values are spelt in JSON."""
    spelt: dict[str, str] = field(default_factory=dict)
    """… where a database has a way of its own."""

    def in_messages(self, database: str) -> str:
        return self.spelt.get(database, self.messages)


_NUMBER = "a number"
_TEXT = "text"
_BYTES = {MATERIALIZE: "numbers: `[104, 105]`"}
_QUOTED_FRACTION = {MATERIALIZE: 'text: `"1.50"`'}
_SHAPES = ("point", "line", "lseg", "box", "path", "polygon", "circle")
_RANGES = ("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange")
_MULTIRANGES = tuple(name.replace("range", "multirange") for name in _RANGES)
_REGISTRY = ("regclass", "regproc", "regprocedure", "regtype", "regrole", "regnamespace")

LINES: tuple[Line, ...] = (
    Line(("boolean", "bool"), "boolean", (*_SQL, SPARK), "`true`, `false`"),
    Line(("smallint", "int2"), "int", _SQL, _NUMBER),
    Line(("smallserial", "serial2"), "int", _TWO, _NUMBER),
    Line(("int4", "serial4"), "int", _SQL, _NUMBER),
    Line(("uint2",), "int", (MATERIALIZE,), _NUMBER),
    Line(("tinyint", "byte", "short"), "int", (SPARK,), _NUMBER),
    Line(("bigint", "int8", "int64"), "long", (*_SQL, SPARK), _NUMBER),
    Line(("bigserial", "serial8"), "long", _TWO, _NUMBER),
    Line(("oid",), "long", _SQL, _NUMBER),
    Line(("uint4",), "long", (MATERIALIZE,), _NUMBER),
    Line(("mz_timestamp",), "decimal(20,0)", (MATERIALIZE,), "text"),
    Line(("uint8",), "decimal(20,0)", (MATERIALIZE,), _NUMBER),
    Line(("real", "float4"), "float", _SQL, 'a number; `"NaN"`, `"Infinity"`'),
    Line(("double precision", "float8"), "double", _SQL, 'a number; `"NaN"`, `"Infinity"`'),
    Line(("decimal", "numeric", "dec"), "decimal", (*_SQL, SPARK), "a number, also `4E+2`", _QUOTED_FRACTION),
    Line(("text", "string"), "string", (*_SQL, SPARK), _TEXT),
    Line(("varchar", "character varying", "char varying"), "string", (*_SQL, SPARK), _TEXT),
    Line(("char", "character", "bpchar"), "string", (*_SQL, SPARK), "text, with the spaces at its end"),
    Line(("national character varying", "national char varying"), "string", _TWO, _TEXT),
    Line(("national character", "national char"), "string", _TWO, _TEXT),
    Line(("name", "citext"), "string", _TWO, _TEXT),
    Line(("json", "jsonb"), "string", _SQL, "any JSON value, kept as JSON: numbers digit by digit"),
    Line(("uuid",), "uuid", _SQL, 'text: `"63616665-6630-…"`'),
    Line(("bytea", "bytes", "blob"), "binary", _SQL, r'text: `"\\x6869"`', _BYTES),
    Line(("date",), "date", (*_SQL, SPARK), 'text: `"2026-11-16"`'),
    Line(("time", "time without time zone"), "time", _SQL, 'text: `"12:34:56.789"`'),
    Line(("timetz", "time with time zone"), "string", _TWO, _TEXT),
    Line(
        ("timestamp without time zone", "timestamp_ntz"),
        "timestamp",
        (*_SQL, SPARK),
        'text: `"2026-11-16T12:34:56.789"`',
        {MATERIALIZE: 'text, or milliseconds since 1970 as text: `"1794832496789"`'},
    ),
    Line(
        ("timestamptz", "timestamp with time zone", "timestamp_ltz"),
        "timestamptz",
        (*_SQL, SPARK),
        'text: `"2026-11-16T12:34:56.789Z"`',
        {MATERIALIZE: 'text, or milliseconds since 1970 as text: `"1794832496789"`'},
    ),
    Line(("interval",), "string", _SQL, _TEXT),
    Line(("inet",), "string", _TWO, _TEXT),
    Line(("cidr", "macaddr", "macaddr8"), "string", (POSTGRESQL,), _TEXT),
    Line(("bit", "varbit", "bit varying"), "string", _TWO, "text of `0` and `1`"),
    Line(("money",), "string", (POSTGRESQL,), "text, as the server's locale has it"),
    Line(("xml", "pg_lsn", "hstore", "ltree", "jsonpath", "refcursor"), "string", (POSTGRESQL,), _TEXT),
    Line(("tsvector", "tsquery"), "string", _TWO, _TEXT),
    Line(("vector",), "string", _TWO, 'text: `"[1,2,3]"`'),
    Line(("geometry", "geography"), "string", _TWO, "GeoJSON, kept as its text"),
    Line(("box2d", "crdb_internal_region"), "string", (COCKROACHDB,), _TEXT),
    Line(_SHAPES, "string", (POSTGRESQL,), _TEXT),
    Line(_RANGES, "string", (POSTGRESQL, MATERIALIZE), _TEXT),
    Line(_MULTIRANGES, "string", (POSTGRESQL,), _TEXT),
    Line(_REGISTRY, "string", _TWO, _TEXT),
    Line(("mz_aclitem",), "string", (MATERIALIZE,), _TEXT),
)

LIST_WORDS = {
    "int": "int",
    "integer": "int",
    "serial": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "timestamp": "timestamp",
    "binary": "binary",
}
"""Words that mean in a column list what they mean in Iceberg."""
CREATE_WORDS = {
    "int": "long",
    "integer": "long",
    "serial": "long",
    "float": "double",
    "double": "double",
    "timestamp": "timestamp",
}
"""… and in a CREATE TABLE. An INT has 64 bits in CockroachDB and 32 in PostgreSQL: the wider holds both."""
POSTGRESQL_WORDS = {**CREATE_WORDS, "int": "int", "integer": "int", "serial": "int"}

BY_NAME = {name: line.iceberg for line in LINES for name in line.names}
JSON = frozenset({"json", "jsonb"})
"""Names that say that a text is JSON: any value of it, a text with its quotes."""
REQUIRED = frozenset({"serial", "serial2", "serial4", "serial8", "smallserial", "bigserial"})
"""Names that say NOT NULL, too."""
NESTED = frozenset({"list", "array", "map", "struct"})
