"""`calve init`: a pipeline by flags or by questions, understood before it is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from calve.cli.app import app
from calve.cli.init import answers
from calve.cli.questions import QUESTIONS
from calve.model.errors import CalveError
from calve.runtime.pipelines import addresses_of
from calve.sql.choices import CATALOGS, SOURCES
from calve.sql.defined import Definitions
from calve.sql.draft import draft
from calve.sql.sink import sink_of
from calve.sql.source import source_of
from calve.sql.tree import CreateSecret
from tests.support.terminal import CTRL_C, CTRL_D, ENTER, TAB, Terminal

CANARY = "c4n4ry!7f3a"
SOURCE_FLAGS = {
    "files": ("--path", "orders", "--columns", "id long, at timestamptz", "--key", "id"),
    "cockroachdb-files": ("--path", "s3://bucket/feed", "--topic", "orders"),
    "cockroachdb-kafka": ("--broker", "h:9092", "--topic", "orders", "--columns", "id long, at timestamptz"),
    "debezium": ("--broker", "h:9092", "--topic", "db.public.orders", "--user", "u", "--key", "id"),
    "materialize": (
        "--host",
        "h",
        "--object",
        "public.orders",
        "--key",
        "id",
        "--password-env",
        "MZ_PASSWORD",
    ),
    "kafka": ("--broker", "a:1,b:2", "--topic", "orders", "--columns", "id long, at timestamptz"),
}
CATALOG_FLAGS = {
    "embedded": (),
    "rest": ("--catalog-uri", "https://h/api/catalog", "--credential-env", "LAKE_LOGIN", "--warehouse", "w"),
    "glue": ("--region", "eu-west-1", "--warehouse", "s3://b/w"),
    "s3tables": (
        *("--warehouse", "arn:aws:s3tables:eu-west-1:111122223333:bucket/b"),
        *("--access-key-id-env", "KEY_ID", "--secret-access-key-env", "KEY"),
    ),
    "hive": ("--catalog-uri", "thrift://h:9083", "--warehouse", "s3://b/w"),
    "postgres": ("--catalog-uri-env", "LAKE_URI", "--warehouse", "s3://b/w"),
}
ORDERS = (
    *("--source", "files", "--path", "orders", "--columns", "id long, status string", "--key", "id"),
    *("--catalog", "embedded", "--namespace", "shop", "--table", "orders"),
)
PIPELINE = """\
-- A pipeline into the Iceberg table shop.orders.
-- It reads rows in files: JSON, CSV, Parquet or ORC.
--
--   calve plan pipeline.sql     shows what it would do, and changes nothing
--   calve run pipeline.sql      runs it until Ctrl-C; nothing is written twice
--   calve status pipeline.sql   shows how far it is

-- Where the tables are.
CREATE CONNECTION lake TO ICEBERG CATALOG (WAREHOUSE = 'calve-warehouse');

-- What is read. Types are: boolean, int, long, float, double, decimal(10,2),
-- date, timestamp, timestamptz, string, binary, list<…>, map<…>, struct<…>.
CREATE SOURCE orders (id long, status string)
    FROM FILES (PATH = 'orders', FORMAT = 'json')
    KEY (id);

-- Columns can be chosen and rows filtered on the way; then the sink reads FROM
-- selected:
-- CREATE VIEW selected AS SELECT * FROM orders WHERE …;

-- What is written. Where several changes of a key may come at once, say which
-- column tells the last one: WITH (SEQUENCE BY = '…'). WITH (BAD ROWS =
-- 'quarantine') puts rows aside that do not fit, instead of stopping.
CREATE SINK orders FROM orders
    INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'orders');
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, ["init", *words], input=typed, env={"CALVE_DEBUG": None, "NO_COLOR": "1"})


def test_flags_write_a_commented_pipeline_and_the_next_command_is_said(here: Path) -> None:
    done = init(*ORDERS)
    assert (done.stdout, done.stderr, done.exit_code) == (
        "pipeline.sql is written.\nNext: calve plan\n",
        "",
        0,
    )
    assert (here / "pipeline.sql").read_text("utf-8") == PIPELINE


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_with_every_catalog_is_written_so_that_it_is_understood(
    here: Path, monkeypatch: pytest.MonkeyPatch, source: str, catalog: str
) -> None:
    flags = ("--source", source, *SOURCE_FLAGS[source], "--catalog", catalog, *CATALOG_FLAGS[catalog])
    done = init(*flags, "--namespace", "shop", "--table", "Orders 1", "--partition", "bucket(4,id)", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    text = (here / told["file"]).read_text("utf-8")
    assert max(map(len, text.splitlines())) <= 90
    found = Definitions.of_text(text, here)
    assert {one.place for one in found.secrets.values()} == set(told["variables"])
    for variable in told["variables"]:
        monkeypatch.setenv(variable, "postgresql://u:p@h/d" if variable == "LAKE_URI" else "it")
    for statement in found.sources.values():
        source_of(statement, found)
    (sink,) = found.sinks.values()
    asked = sink_of(sink, found)
    assert asked.options["partition.spec"] == ("bucket(4, id)",)
    (address,) = addresses_of(found, str(sink.name))
    assert address.identifier == ("shop", "Orders 1")
    assert told["next"].startswith("calve plan")
    assert ("--packages org.apache.spark:spark-sql-kafka" in told["next"]) == ("broker" in text)


def test_a_file_that_is_there_is_never_overwritten(here: Path) -> None:
    (here / "pipeline.sql").write_text("mine")
    done = init(*ORDERS)
    assert done.stderr == (
        "error CALVE-100 (ConfigError): pipeline.sql is there already, and stays as it is\n"
        "hint: Name another file: calve init pipeline-2.sql\n"
    )
    assert (done.exit_code, (here / "pipeline.sql").read_text()) == (1, "mine")
    assert init("--force", *ORDERS).exit_code == 64
    assert init("pipeline-2.sql", *ORDERS).stdout == (
        "pipeline-2.sql is written.\nNext: calve plan pipeline-2.sql\n"
    )


def test_variables_that_are_not_set_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKE_LOGIN", raising=False)
    done = init(
        *("--source", "files", *SOURCE_FLAGS["files"]),
        *("--catalog", "rest", *CATALOG_FLAGS["rest"], "--namespace", "shop"),
    )
    assert done.stdout == ("pipeline.sql is written.\nSet LAKE_LOGIN before you run it.\nNext: calve plan\n")


def whole(source: str, catalog: str) -> dict[str, str]:
    words = ("--source", source, *SOURCE_FLAGS[source], "--catalog", catalog, *CATALOG_FLAGS[catalog])
    flags = [*words, "--namespace", "shop", "--table", "t"]
    return dict(zip((one.removeprefix("--") for one in flags[::2]), flags[1::2], strict=True))


NEEDED = [
    (source, "embedded", name)
    for source in SOURCES
    for name in ("source", "path", "broker", "topic", "host", "object", "namespace", "catalog")
    if name in whole(source, "embedded")
] + [
    ("files", "embedded", "columns"),
    ("kafka", "embedded", "columns"),
    ("materialize", "embedded", "key"),
    *(("files", catalog, "warehouse") for catalog in ("glue", "s3tables", "hive", "postgres")),
    *(("files", catalog, "catalog-uri") for catalog in ("rest", "hive")),
    ("files", "glue", "region"),
]


@pytest.mark.parametrize("source, catalog, missing", NEEDED)
def test_what_is_missing_is_named_by_its_flag_where_nobody_can_be_asked(
    here: Path, source: str, catalog: str, missing: str
) -> None:
    said = whole(source, catalog)
    del said[missing]
    done = init(*(word for name, value in said.items() for word in (f"--{name}", value)))
    assert done.exit_code == 64
    first, second = done.stderr.splitlines()
    assert first == f"error CALVE-900 (BadUsage): --{missing} is missing"
    assert second.endswith("; at a terminal it is asked.")
    assert f" Say it, such as --{missing} " in second
    assert not list(here.iterdir())


WRONG = {
    ("--source", "fils"): (
        "CALVE-100 (ConfigError): --source cannot be 'fils'",
        "Did you mean files? It is one of: files, cockroachdb-files, cockroachdb-kafka, debezium, "
        "materialize, kafka.",
    ),
    ("--catalog", "lake"): (
        "CALVE-100 (ConfigError): --catalog cannot be 'lake'",
        "It is one of: embedded, rest, glue, s3tables, hive, postgres.",
    ),
    ("--columns", "id lnog"): (
        "CALVE-104 (BadColumns): the type 'lnog' is not known (line 1, column 4)",
        "Did you mean long? Write string, or another type of docs/types.md.",
    ),
    ("--key", "di"): (
        "CALVE-105 (BadKey): the key names 'di', which is not among the columns: id, status",
        "Name columns of the table.",
    ),
    ("--partition", "dya(id)"): ("CALVE-103 (BadPartition): ", "day"),
    ("--partition", "day(idd)"): (
        "CALVE-100 (ConfigError): --partition names 'idd', which is not among the columns: id, status",
        "Did you mean id?",
    ),
    ("--namespace", "a/b"): ("CALVE-102 (BadName): part 1 of the namespace 'a/b' is refused", "Use letters"),
    ("--table", ""): ("CALVE-100 (ConfigError): --table is empty", "For example: orders."),
    ("--mode", "upsrt"): ("CALVE-100 (ConfigError): --mode cannot be 'upsrt'", "Did you mean upsert?"),
    ("--broker", "h:1"): (
        "CALVE-900 (BadUsage): --broker has no effect with --source files and --catalog embedded",
        "Leave it out.",
    ),
    ("--path", f"s3://u:{CANARY}@h/x"): (
        "CALVE-100 (ConfigError): the address has a login in it",
        "Give it without: a secret belongs into a variable, which is asked for next.",
    ),
}


@pytest.mark.parametrize("flag", WRONG, ids=" ".join)
def test_an_answer_that_cannot_be_is_told_and_nothing_is_written(here: Path, flag: tuple[str, str]) -> None:
    message, hint = WRONG[flag]
    done = init(*ORDERS, *flag)
    assert f"error {message}" in done.stderr
    assert f"hint: {hint}" in done.stderr or hint in done.stderr.partition("hint: ")[2]
    assert CANARY not in done.output
    assert (done.exit_code != 0, list(here.iterdir())) == (True, [])


@pytest.mark.parametrize("flag", ["--credential-env", "--token-env"])
def test_a_secret_that_is_given_instead_of_a_variable_is_not_shown(here: Path, flag: str) -> None:
    """P10."""
    done = init(
        *("--source", "files", *SOURCE_FLAGS["files"], "--namespace", "n"),
        *("--catalog", "rest", "--catalog-uri", "http://h", flag, CANARY),
    )
    assert done.stderr == (
        "error CALVE-100 (ConfigError): that is no name of a variable\n"
        "hint: Give the name of the variable that will have the secret, such as LAKE_TOKEN; the secret "
        "itself is asked for nowhere.\n"
    )
    assert list(here.iterdir()) == []


def test_no_question_asks_for_a_secret() -> None:
    """P10: those that come near one ask for the name of a variable, and take nothing else."""
    near = [
        one for one in QUESTIONS if any(word in one.name for word in ("password", "token", "secret", "cred"))
    ]
    assert near
    for one in near:
        assert one.name.endswith("-env")
        with pytest.raises(CalveError, match="no name of a variable"):
            one.taken(CANARY, {})


def test_columns_that_would_end_their_statement_are_refused() -> None:
    """Nothing is spliced: what was typed is a column list, or it is refused."""
    said = dict(
        answers(
            {one.removeprefix("--"): two for one, two in zip(ORDERS[::2], ORDERS[1::2], strict=True)}, None
        )
    )
    with pytest.raises(CalveError):
        draft({**said, "columns": "id long) FROM FILES (PATH = 'x'); CREATE SECRET s FROM ENV 'x'; --"}, "f")


# ---------------------------------------------------------------- at a terminal


def test_a_person_is_asked_step_by_step_and_gets_what_flags_give(here: Path) -> None:
    """What is no answer is asked again; a number, a word and Tab choose; nothing typed is the default."""
    with Terminal.calve("init", folder=here) as terminal:
        terminal.until("source [such as files]:")
        terminal.line("7")
        terminal.until("--source cannot be '7'")
        terminal.line("1")
        terminal.until("path [such as orders]:")
        terminal.line("orders")
        terminal.until("format [json]:")
        terminal.line("")
        terminal.until("columns [such as 'id long, status string']:")
        terminal.line("id lnog")
        terminal.until("Did you mean long?")
        terminal.line("id long, status string")
        terminal.until("key:")
        terminal.line("id")
        terminal.until("catalog [such as embedded]:")
        terminal.type("emb" + TAB)
        terminal.until("catalog [such as embedded]: embedded")
        terminal.type(ENTER)
        terminal.until("warehouse [calve-warehouse]:")
        terminal.line("")
        terminal.until("namespace [such as shop]:")
        terminal.line("shop")
        terminal.until("table [orders]:")
        terminal.line("")
        terminal.until("partition:")
        terminal.line("")
        terminal.until("Next: calve plan")
        assert terminal.ended() == 0
        assert "Traceback" not in terminal.shown
    assert (here / "pipeline.sql").read_text("utf-8") == PIPELINE


@pytest.mark.parametrize("key, code", [(CTRL_C, 130), (CTRL_D, 130)])
def test_who_leaves_in_the_middle_leaves_nothing_behind(here: Path, key: str, code: int) -> None:
    """What flags say is not asked; what they leave open is."""
    with Terminal.calve("init", "--source", "debezium", "--broker", "h:9092", folder=here) as terminal:
        terminal.until("topic [such as orders]:")
        terminal.line("a.b.orders")
        terminal.until("user:")
        terminal.line("me")
        terminal.until("password-env [KAFKA_PASSWORD]:")
        terminal.line(CANARY)
        terminal.until("that is no name of a variable")
        terminal.type(key)
        assert terminal.ended() == code
        # A terminal may still show the key itself.
        assert terminal.shown.splitlines()[-1].removeprefix("^C") == "calve: stopped by Ctrl-C"
    assert list(here.iterdir()) == []


def test_secrets_of_a_draft_are_variables_alone(here: Path) -> None:
    init(
        "--source",
        "debezium",
        *SOURCE_FLAGS["debezium"],
        "--catalog",
        "rest",
        *CATALOG_FLAGS["rest"],
        "--namespace",
        "n",
    )
    found = Definitions.of_text((here / "pipeline.sql").read_text("utf-8"), here)
    assert list(found.secrets.values()) == [
        CreateSecret("broker_password", found.secrets["broker_password"].kept, "KAFKA_PASSWORD"),
        CreateSecret("lake_credential", found.secrets["lake_credential"].kept, "LAKE_LOGIN"),
    ]
