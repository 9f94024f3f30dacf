"""Statements: what is written is read, in all its forms; what is wrong is shown with its place."""

from __future__ import annotations

import string
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.errors import BadStatement
from calve.sql.read import read
from calve.sql.tree import (
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
    Option,
    Origin,
    Secret,
    Show,
    ShowChangefeed,
    ShowCreate,
    Statement,
    Target,
    Text,
    Thing,
    Word,
)
from calve.sql.write import write


def said(**options: Any) -> tuple[Option, ...]:
    return tuple(
        Option(name.replace("__", ".").replace("_", " "), Text(value) if isinstance(value, str) else value)
        for name, value in options.items()
    )


FORMS: dict[str, Statement] = {
    "CREATE SECRET lake FROM ENV 'LAKE_LOGIN'": CreateSecret("lake", Kept.ENV, "LAKE_LOGIN"),
    "create secret if not exists Lake from file '/run/it''s'": CreateSecret(
        "lake", Kept.FILE, "/run/it's", if_absent=True
    ),
    """CREATE CONNECTION cat TO ICEBERG CATALOG (
        TYPE = 'rest', -- or another
        URI = 'https://host:8081/api/catalog',
        USER  = 'me', /* who ; else */
        PASSWORD SECRET = iceberg_pass,
        AWS CONNECTION = "...",
        CREDENTIAL = SECRET "Login",
    )""": CreateConnection(
        "cat",
        Target.ICEBERG,
        (
            *said(type="rest", uri="https://host:8081/api/catalog", user="me"),
            Option("password", Secret("iceberg_pass")),
            Option("aws connection", Text("...")),
            Option("credential", Secret("Login")),
        ),
    ),
    'CREATE CONNECTION s3 TO AWS (ACCESS KEY ID = "AK", SECRET ACCESS KEY = "…", REGION "eu-west-1",)': (
        CreateConnection(
            "s3", Target.AWS, said(access_key_id="AK", secret_access_key="…", region="eu-west-1")
        )
    ),
    "CREATE CONNECTION k TO KAFKA (BROKER 'h:9092')": CreateConnection(
        "k", Target.KAFKA, said(broker="h:9092")
    ),
    "CREATE CONNECTION p TO POSTGRES ()": CreateConnection("p", Target.POSTGRES),
    "CREATE CONNECTION k TO KAFKA (PASSWORD SECRET P, AWS CONNECTION A, 'x secret' '')": CreateConnection(
        "k",
        Target.KAFKA,
        (
            Option("password", Secret("p")),
            Option("aws connection", Word("a")),
            Option("x secret", Text("")),
        ),
    ),
    """CREATE SOURCE orders (id long, total decimal(10, 2), "a;b" string)
       FROM COCKROACHDB CHANGEFEED (URL = 's3://bucket/feed', TOPIC = 'orders')
       KEY (id) ENVELOPE wrapped""": (
        CreateSource(
            "orders",
            Origin.COCKROACHDB,
            said(url="s3://bucket/feed", topic="orders"),
            'id long, total decimal(10, 2), "a;b" string',
            ("id",),
            "wrapped",
        )
    ),
    """CREATE SOURCE key FROM KAFKA TOPIC (TABLE = 'x', N = 5)
       ENVELOPE 'debezium-avro' KEY (a, "B",)""": CreateSource(
        "key",
        Origin.KAFKA,
        (*said(table="x"), Option("n", Word("5"))),
        key=("a", "B"),
        envelope="debezium-avro",
    ),
    "CREATE SOURCE f FROM FILES (PATH = '/x')": CreateSource("f", Origin.FILES, said(path="/x")),
    "CREATE SOURCE d FROM DEBEZIUM (TOPIC = 't')": CreateSource("d", Origin.DEBEZIUM, said(topic="t")),
    "CREATE SOURCE m FROM MATERIALIZE SUBSCRIBE (OBJECT = 'v')": CreateSource(
        "m", Origin.MATERIALIZE, said(object="v")
    ),
    "CREATE VIEW paid AS SELECT id, ';' AS s -- not the end; yet\nFROM orders WHERE s = 'paid'": CreateView(
        "paid", "SELECT id, ';' AS s -- not the end; yet\nFROM orders WHERE s = 'paid'"
    ),
    """CREATE SINK sink FROM my_view TO ICEBERG CATALOG cat USING AWS CONNECTION s3
       NAMESPACE "name.space" TABLE "orders" WITH (COMMIT INTERVAL = '20m', -- of the source's time
       )""": CreateSink(
        "sink",
        "my_view",
        "cat",
        None,
        "name.space",
        "orders",
        "s3",
        options=said(commit_interval="20m"),
    ),
    """CREATE SINK IF NOT EXISTS s IN CLUSTER c FROM v INTO ICEBERG CATALOG CONNECTION cat (
         NAMESPACE = 'sales', TABLE = 'orders') USING AWS CONNECTION s3
       KEY (id) NOT ENFORCED MODE UPSERT PARTITION BY (day(ts), bucket(16, "a b"), region)
       WITH (COMMIT INTERVAL = '60s')""": CreateSink(
        "s",
        "v",
        "cat",
        None,
        "sales",
        "orders",
        "s3",
        ("id",),
        enforced=False,
        mode=Mode.UPSERT,
        partition=("day(ts)", 'bucket(16, "a b")', "region"),
        options=said(commit_interval="60s"),
        if_absent=True,
    ),
    "CREATE SINK s FROM v INTO 'iceberg://h:1/ns/t?warehouse=w' MODE changelog": CreateSink(
        "s", "v", url="iceberg://h:1/ns/t?warehouse=w", mode=Mode.CHANGELOG
    ),
    """CREATE SINK TABLE archive FROM trades WITH (connector = 'iceberg', 'catalog.type' = 'glue',
       catalog.uri = 'x', 'partition.spec' = 'DAYS(t), BUCKET(16, id)', 'schema.evolution' = true)""": (
        CreateSinkTable(
            "archive",
            "trades",
            (
                *said(connector="iceberg", catalog__type="glue", catalog__uri="x"),
                Option("partition.spec", Text("DAYS(t), BUCKET(16, id)")),
                Option("schema.evolution", Word("true")),
            ),
        )
    ),
    "SHOW SINKS": Show(Thing.SINK),
    "show connections": Show(Thing.CONNECTION),
    'SHOW CREATE SINK "S"': ShowCreate(Thing.SINK, "S"),
    "SHOW CHANGEFEED 1017": ShowChangefeed("1017"),
    "EXPLAIN SINK s": Explain("s"),
    "DESCRIBE s": Describe("s"),
    "DESC s": Describe("s"),
    "DROP SINK IF EXISTS s KEEP PROGRESS": Drop(Thing.SINK, "s", True, True),
    "DROP VIEW v": Drop(Thing.VIEW, "v"),
}


@pytest.mark.parametrize("text", FORMS)
def test_a_statement_is_read_in_every_form_and_written_so_that_it_is_read_again(text: str) -> None:
    assert read(text) == [FORMS[text]]
    assert read(write(FORMS[text])) == [FORMS[text]]


def test_statements_stand_in_a_file() -> None:
    text = "-- first;\n" + ";\n/* ; */;;\n".join(FORMS) + ";\n-- the end"
    assert read(text) == list(FORMS.values())
    assert read("") == read(" ;; -- nothing\n") == []


def test_places_are_those_of_the_file() -> None:
    text = "SHOW SINKS;\n\nCREATE SOURCE a (id long) FROM FILES (PATH = 'x');\nCREATE VIEW v AS  SELECT 1"
    _, source, view = read(text)
    assert isinstance(source, CreateSource)
    assert isinstance(view, CreateView)
    assert text[source.columns_at :].startswith("id long")
    assert text[source.options[0].at :].startswith("PATH")
    assert text[view.query_at :].startswith("SELECT 1")


WRONG = {
    "CREATE SINK a FROM b INTO 'x' PARTITON BY (i)": (
        "'PARTITON' was not expected (line 1, column 31)",
        "Did you mean PARTITION? Expected: KEY, MODE, NAMESPACE, PARTITION, USING, WITH or the end of the",
    ),
    "CREATE SNIK s": ("'SNIK' was not expected (line 1, column 8)", "Did you mean SINK?"),
    "SHOW SINKS;\nCREATE SINK a\n FORM b": (
        "'FORM' was not expected (line 3, column 2)",
        "Did you mean FROM?",
    ),
    "CREATE SINK a FROM b INTO ICEBERG CATALOG c MODE UPSRT": ("'UPSRT' was not", "Did you mean UPSERT?"),
    "SHOW SINK": ("'SINK' was not expected", "Did you mean SINKS?"),
    "CREATE SECRET a FROM ENVV 'x'": ("'ENVV' was not expected", "Did you mean ENV?"),
    "CREATE SECRET a FROM ENV X": ("'X' was not expected", "Expected: a text in single quotes."),
    "CREATE SINK a FROM b INTO ICEBERG": ("the statement ends here", "Expected: CATALOG."),
    "CREATE SINK a FROM b INTO 'x' KEY id": ("'id' was not expected", "Expected: '('."),
    "CREATE CONNECTION c TO AWS (REGION = 'x' TOKEN = 'y')": ("'TOKEN' was not expected", "')' or ','"),
    "CREATE CONNECTION c TO AWS (REGION = 'x', region = 'y')": ("the option 'region' stands twice", "Leave"),
    "CREATE CONNECTION c TO AWS (REGION, TOKEN = 'y')": ("the option REGION has no value", "NAME = "),
    "CREATE CONNECTION c TO AWS (ACCESS KEY x)": ("the option ACCESS KEY X has no value", "NAME = 'value'"),
    "CREATE SINK a FROM b INTO 'x": ("this quote is never closed (line 1, column 27)", "with another '."),
    "CREATE SECRET a FROM ENV 'A;\nCREATE SECRET b FROM ENV 'B';": (
        "this quote is never closed (line 2, column 28)",
        "On line 1 a text in quotes begins that goes on over several lines",
    ),
    "SHOW SINKS; /* x": ("this comment is never closed (line 1, column 13)", "Close it with */."),
    "CREATE SINK a FROM b INTO 'x' MODE append KEY (i) MODE upsert": ("MODE stands twice", "Leave one"),
    "CREATE SINK a FROM b INTO 'x' KEY (i, j, i)": ("the key names 'i' twice", "once"),
    "CREATE SINK a FROM b INTO ICEBERG CATALOG c (TABLE = 't')": (
        "which namespace the sink writes to",
        "INTO",
    ),
    "CREATE SINK a FROM b INTO ICEBERG CATALOG c": ("which namespace the sink writes to", "INTO ICEBERG"),
    "CREATE SINK a FROM b INTO ICEBERG CATALOG c (TABEL = 't')": ("the option 'tabel' is not known", "TABLE"),
    "CREATE SINK a FROM b INTO 'x' NAMESPACE n TABLE t": ("the table is named twice", "Name it once."),
    "CREATE SOURCE a FROM FILES () KEY (x) NOT ENFORCED": ("NOT ENFORCED is for sinks", "Leave it out."),
    "DROP VIEW v KEEP PROGRESS": ("progress is a sink's alone", "Leave KEEP PROGRESS out."),
    "DROP TABLE t": ("'TABLE' was not expected", "Expected: SINK, SOURCE"),
    "SELECT 1": ("'SELECT' was not expected", "CREATE"),
    "CREATE VIEW v AS": ("the statement ends here", "Expected: a query."),
    "€": ("'€' was not expected", "CREATE"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_shown_with_its_place_and_the_nearest_right_word(text: str) -> None:
    message, hint = WRONG[text]
    with pytest.raises(BadStatement) as error:
        read(text)
    assert message in error.value.message
    assert "\n    " in error.value.message
    assert error.value.message.endswith("^")
    assert hint in error.value.hint


# ---------------------------------------------------------------- anything

NAMES = st.text(min_size=1, max_size=12).filter(lambda name: "\0" not in name) | st.sampled_from(
    ["key", "FROM", "a;b", '"', "'", "--", "/*", "*/", "`", "$$", "\\", "\n", "é", "table"]
)
TEXTS = st.text(max_size=20) | NAMES
WORDS = st.sampled_from(["type", "commit", "interval", "key", "table", "from", "with", "id"])
OPTION_NAMES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join) | st.text(min_size=1, max_size=8)
VALUES = TEXTS.map(Text) | NAMES.map(Secret) | st.sampled_from(["true", "x1", "5", "-1.50", "Key"]).map(Word)
OPTIONS = st.lists(
    st.builds(Option, OPTION_NAMES, VALUES), max_size=4, unique_by=lambda option: option.name
).map(tuple)
KEYS = st.lists(NAMES, max_size=3, unique=True).map(tuple)
THINGS = st.sampled_from(Thing)
COLUMNS = st.none() | st.sampled_from(["id long", 'a decimal(10,2), "b)" string', "x list<map<string,long>>"])
PLAIN = st.text(string.ascii_lowercase, min_size=1, max_size=6)
STATEMENTS = (
    st.builds(CreateSecret, NAMES, st.sampled_from(Kept), TEXTS, st.booleans())
    | st.builds(CreateConnection, NAMES, st.sampled_from(Target), OPTIONS, st.booleans())
    | st.builds(
        CreateSource, NAMES, st.sampled_from(Origin), OPTIONS, COLUMNS, KEYS, st.none() | PLAIN, st.booleans()
    )
    | st.builds(
        CreateView, NAMES, st.sampled_from(["SELECT ';', \"a\"", "FROM x -- y\nSELECT 1"]), st.booleans()
    )
    | st.builds(
        CreateSink,
        NAMES,
        NAMES,
        NAMES,
        st.none(),
        TEXTS,
        TEXTS,
        st.none() | NAMES,
        KEYS,
        mode=st.none() | st.sampled_from(Mode),
        partition=st.lists(st.sampled_from(["day(ts)", "bucket(16, id)", "x"]), max_size=2).map(tuple),
        options=OPTIONS,
        if_absent=st.booleans(),
    )
    | st.builds(CreateSink, NAMES, NAMES, url=TEXTS, key=KEYS, options=OPTIONS)
    | st.builds(CreateSinkTable, NAMES, NAMES, OPTIONS, st.booleans())
    | st.builds(Show, THINGS)
    | st.builds(ShowCreate, THINGS, NAMES)
    | st.builds(ShowChangefeed, TEXTS)
    | st.builds(Explain, NAMES)
    | st.builds(Describe, NAMES)
    | st.builds(Drop, THINGS, NAMES, st.booleans())
)


@given(st.lists(STATEMENTS, max_size=4))
def test_whatever_stands_in_names_and_values_comes_back(statements: list[Statement]) -> None:
    assert read(";\n".join(map(write, statements))) == statements


@given(st.text())
def test_no_text_does_anything_but_be_read_or_refused(text: str) -> None:
    with suppress(BadStatement):
        read(text)
