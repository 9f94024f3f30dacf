"""docs/types.md, made from the lists."""

from __future__ import annotations

from calve.config.ddl.connect import CONNECT
from calve.config.ddl.names import (
    COCKROACHDB,
    CREATE_WORDS,
    LINES,
    LIST_WORDS,
    MATERIALIZE,
    POSTGRESQL,
    POSTGRESQL_WORDS,
    Line,
)
from calve.config.types.tree import PLAIN

_HEAD = """\
# Types

Made by `python -m calve.config.ddl`; a test keeps it up to date.

A column of a source has one of Iceberg's types: {plain}, `decimal(p,s)`, `list<T>`, `map<K,V>`,
`struct<a: T, b: T>`. Where a source's own schema says it (Debezium with schemas or a registry, CockroachDB's
enriched envelope), nothing need be declared. Elsewhere columns are declared, by a list or by the table's own
`CREATE TABLE`:

```python
import calve

orders = calve.SourceTable.of("id uuid primary key, total decimal(10,2) not null, tags text[]")
assert orders.column("tags").type == "list<string>"

orders = calve.SourceTable.from_create_table(
    \"\"\"
    CREATE TABLE public.orders (
        id UUID NOT NULL DEFAULT gen_random_uuid(),
        total DECIMAL NOT NULL,
        status public.order_status NULL,
        CONSTRAINT orders_pkey PRIMARY KEY (id ASC)
    )
    \"\"\",
    types={{"total": "decimal(18,4)", "status": "string"}},
)
assert orders.key == ("id",)
```

- The text is what `SHOW CREATE TABLE` (CockroachDB) or `pg_dump --schema-only` (PostgreSQL) prints; a key
  that `ALTER TABLE` adds later is found. `table="orders"` names one table of several. Whatever is neither
  a column nor the key is skipped. A text that does not say all (`LIKE`, `INHERITS`, dropped or renamed
  columns) is refused.
- Names without quotes are in small letters in a `CREATE TABLE`, as in both databases; a column list keeps
  them.
- Columns are those that changes carry: a `VIRTUAL` column is left out, a `NOT VISIBLE` one is there. The
  hidden columns that a hash-sharded or regional table has before its key are known from its text, and
  passed over in the keys of CockroachDB's messages.
- `types` says what single columns shall be. A type without a line below (an enum, a domain, an
  extension's) and a decimal without digits need it: the column of a table cannot become another one
  later. `CREATE TYPE … AS ENUM` and `CREATE DOMAIN` in the same text are understood.
- `T[]`, `T ARRAY`, `T LIST`, `array<T>` are `list<T>`; `map[text=>T]` is `map<string,T>`. An array of
  arrays needs a word of yours.
- Databases do not agree on some words:

| word | in a column list | in a `CREATE TABLE` | … with `dialect="postgresql"` |
|---|---|---|---|
{words}
## Values that do not fit

No value is rounded, cut or moved. These are errors of their row (it stops the stream, or goes to the
quarantine): a decimal with more digits than its column has, zeros at its end apart; a number that is larger
than all floats of its column (`1e400`; `"Infinity"` is one of them); a date or a timestamp that is infinite
or beyond the years 1 to 9999 (`BC`), or does not say its date (`12:34`); bytes that are no hexadecimal
digits, or an odd number of them. So inside of lists, maps and structs.

JSON that becomes a string is written without blanks; its numbers keep their digits (`1.10`, `1e400`). A
column that is declared as `json` or `jsonb` holds JSON: the text `"5"` has its quotes, and is not the number
`5`. In one that is declared as `string`, or guessed, nothing tells the two apart: both are `5`. A message
with U+FDD0 beside such numbers is an error: that character is how they are told apart on their way.

Columns whose names differ in capital letters alone are refused.

## Guessed

Where nothing is declared and messages have no schema, types are guessed from the first values, and one
warning names each guess: `true` is a boolean, `12` a long (beyond 64 bits decimal(38,0)), `1.5` a double,
text is a string whatever it looks like, a list of plain values is a list, other lists and objects are
their JSON text. A column that is null in all of them is a string, which holds whatever comes; in a Parquet
file of a changefeed it is of the type that the file has for it, but for texts and bytes.

A later message may add columns, make an int a long, a float a double, give a decimal more digits.
Anything else stops the stream and names the message.
"""
_ABOVE = "And those that the words above stand for.\n\n"


def types_page() -> str:
    """docs/types.md."""
    plain = ",\n".join(", ".join(f"`{name}`" for name in part) for part in (PLAIN[:4], PLAIN[4:]))
    words = "".join(
        f"| `{name}` | `{LIST_WORDS[name]}` | `{kind}` | `{POSTGRESQL_WORDS[name]}` |\n"
        for name, kind in CREATE_WORDS.items()
    )
    page = _HEAD.format(plain=plain, words=words)
    for database in (COCKROACHDB, MATERIALIZE):
        page += f"\n## {database}\n\n{_ABOVE}| {database} | Iceberg | in messages |\n|---|---|---|\n"
        page += "".join(
            f"| {_names(line)} | `{_iceberg(line)}` | {line.in_messages(database)} |\n"
            for line in LINES
            if database in line.of
        )
    page += f"\n## PostgreSQL\n\nIn messages they are Debezium's, below. {_ABOVE}"
    page += "| PostgreSQL | Iceberg |\n|---|---|\n"
    page += "".join(f"| {_names(line)} | `{_iceberg(line)}` |\n" for line in LINES if POSTGRESQL in line.of)
    page += "\n## Debezium\n\n| Connect's type | Iceberg | in JSON |\n|---|---|---|\n"
    return page + "".join(f"| {name} | `{iceberg}` | {spelt} |\n" for name, iceberg, spelt in CONNECT)


def _names(line: Line) -> str:
    return ", ".join(f"`{name}`" for name in line.names)


def _iceberg(line: Line) -> str:
    return "decimal(p,s)" if line.iceberg == "decimal" else line.iceberg
