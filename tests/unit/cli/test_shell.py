"""`calve sql`: a person at a terminal, and programs. What needs no Spark answers without."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from typer.testing import CliRunner, Result

from calve.cli.app import app
from calve.cli.typed import Words, history_file, is_done
from calve.sql.defined import Definitions
from tests.support.terminal import CTRL_C, CTRL_D, ENTER, TAB, UP, Terminal

CANARY = "c4n4ry-51e8"
LAKE = f"CREATE CONNECTION lake TO ICEBERG CATALOG (URI = 'http://127.0.0.1:1', TOKEN = '{CANARY}');"
ORDERS = "CREATE SOURCE orders (id long, status string) FROM FILES (PATH = 'orders') KEY (id);"
SINK = "CREATE SINK paid FROM orders INTO ICEBERG CATALOG lake (NAMESPACE = 'shop', TABLE = 'paid');"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def sql(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, ["sql", *words], input=typed, env={"CALVE_DEBUG": None, "NO_COLOR": "1"})


def told(terminal: Terminal, typed: str, answer: str) -> None:
    """Type something, and read the answer and the next prompt."""
    terminal.line(typed)
    terminal.until(answer)
    terminal.ready("calve>")


# ---------------------------------------------------------------- at a terminal


def test_a_person_defines_looks_errs_and_saves(here: Path) -> None:
    """One conversation: lines that go on, errors that do not end it, completion, Ctrl-C and Ctrl-D."""
    with Terminal.calve("sql", folder=here) as terminal:
        say = partial(told, terminal)
        terminal.ready("calve>")
        assert "Statements end with a semicolon; \\help tells more." in terminal.shown
        terminal.line("CREATE CONNECTION lake TO ICEBERG CATALOG (")
        terminal.ready("    ->")
        terminal.line("URI = 'http://127.0.0.1:1',")
        terminal.ready("    ->")
        say(f"TOKEN = '{CANARY}');", "The connection lake is defined.")
        say("CREATE SNIK s;", "Did you mean SINK?")
        say(ORDERS, "The source orders is defined.")

        terminal.type("DESCR" + TAB)
        terminal.until("calve> DESCRIBE")
        terminal.type(" ord" + TAB)
        terminal.until("calve> DESCRIBE orders")
        say(";", "status  string")

        terminal.type("DROP SOURCE orders")
        terminal.until("calve> DROP SOURCE orders")
        terminal.type(CTRL_C)
        terminal.ready("calve>")
        say("SHOW SOURCES;", "orders  FILES  id")
        say("SHOW CREATE CONNECTION lake;", "TOKEN = '***'")
        say("\\plan", "no sink is defined")
        say("\\sing", "the shell has no command \\sing")
        say("\\help", "Ctrl-D the shell")
        say("\\save saved.sql", "saved.sql defines what is defined here.")
        say("\\save saved.sql", "saved.sql is there already")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
        assert "Traceback" not in terminal.shown
    saved = here / "saved.sql"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert set(Definitions.of_text(saved.read_text("utf-8"), here).connections) == {"lake"}
    history = here / "state" / "calve" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    kept = history.read_text("utf-8")
    assert CANARY not in kept
    assert f"+TOKEN = '{'*' * len(CANARY)}');" in kept
    assert "+SHOW SOURCES;" in kept
    assert "DROP SOURCE" not in kept  # it was left


def test_what_was_typed_is_there_again_the_next_time(here: Path) -> None:
    history_file().write_text("\n# 2026-11-17\n+SHOW VIEWS;\n")
    with Terminal.calve("sql", folder=here) as terminal:
        terminal.ready("calve>")
        terminal.type(UP)
        terminal.until("calve> SHOW VIEWS;")
        terminal.type(ENTER)
        terminal.until("No view is defined.")
        terminal.line("\\quit")
        assert terminal.ended() == 0


@pytest.mark.parametrize(
    "text, done",
    [
        ("", True),
        ("SHOW SINKS", False),
        ("SHOW SINKS;", True),
        ("SHOW SINKS; -- all", True),
        ("SHOW CREATE SINK 'a;", False),
        ("CREATE SINK a /* ;", False),
        ("\\plan", True),
        ("  \\run", True),
    ],
)
def test_enter_ends_a_statement_behind_its_semicolon(text: str, done: bool) -> None:
    assert is_done(text) is done


@pytest.mark.parametrize(
    "text, offered",
    [
        ("CREATE SI", ["SINK", "SINKS"]),
        ("create so", ["SOURCE", "SOURCES"]),
        ("DROP SINK pa", ["paid", "PARTITION"]),
        ("DESCRIBE od", ['"Odd one"']),
        ("\\s", ["\\save"]),
        ("\\save pi", []),
    ],
)
def test_tab_offers_keywords_names_and_commands(text: str, offered: list[str]) -> None:
    words = Words(lambda: ["paid", "Odd one"])
    found = words.get_completions(Document(text), CompleteEvent())
    assert [one.text for one in found] == offered


# ---------------------------------------------------------------- by a program


def test_statements_are_answered_in_turn(here: Path) -> None:
    done = sql(
        "-c", f"{LAKE}{ORDERS} CREATE VIEW v AS SELECT 1;{SINK} SHOW SINKS; SHOW VIEWS; SHOW CREATE SINK paid"
    )
    assert done.stdout == (
        "The connection lake is defined.\n"
        "The source orders is defined.\n"
        "The view v is defined.\n"
        "The sink paid is defined.\n"
        "sink  from    table\n"
        "paid  orders  lake.shop.paid\n"
        "view  query\n"
        "v     SELECT 1\n"
        "CREATE SINK paid FROM orders\n"
        "    INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'paid');\n"
    )
    assert (done.exit_code, done.stderr) == (0, "")


def test_the_same_for_a_program(here: Path) -> None:
    done = sql("--json", typed=f"{ORDERS} SHOW SOURCES; SHOW SECRETS; DESCRIBE orders")
    assert json.loads(done.stdout) == {
        "answers": [
            {"done": "The source orders is defined."},
            [{"source": "orders", "reads": "FILES", "key": "id"}],
            [],
            [
                {"column": "id", "type": "long", "key": "key"},
                {"column": "status", "type": "string", "key": ""},
            ],
        ]
    }


def test_a_key_in_the_columns_of_a_source_is_its_key(here: Path) -> None:
    done = sql(
        "--json", typed="CREATE SOURCE a (id long PRIMARY KEY, v int) FROM FILES (PATH = 'a'); SHOW SOURCES"
    )
    assert json.loads(done.stdout)["answers"][1][0]["key"] == "id"


def test_columns_that_a_subscription_declares_are_told_though_its_key_is_another_one(here: Path) -> None:
    options = "(URI = 'postgresql://h', OBJECT = 'o')"
    source = f"CREATE SOURCE m (v varchar) FROM MATERIALIZE SUBSCRIBE {options} KEY (id)"
    done = sql("--json", typed=f"{source}; DESCRIBE m")
    assert json.loads(done.stdout)["answers"][1] == [{"column": "v", "type": "string", "key": ""}]


def test_a_login_in_a_setting_of_kafka_s_own_is_shown_nowhere(here: Path) -> None:
    jaas = f"'kafka.sasl.jaas.config' = 'x required password=\"{CANARY}\";'"
    broker = f"BROKER 'h:1', {jaas}, 'kafka.ssl.keystore.key' = '{CANARY}'"
    made = f"CREATE CONNECTION k TO KAFKA ({broker}); SHOW CREATE CONNECTION k"
    topic = f"CREATE SOURCE s (id long) FROM KAFKA TOPIC ({broker}, TOPIC 't') ENVELOPE none"
    for statements in (made, f"{topic}; SHOW CREATE SOURCE s"):
        done = sql("-c", statements)
        assert "'kafka.sasl.jaas.config' = '***'" in done.output
        assert CANARY not in done.output
    wrong = sql("-c", f"CREATE CONNECTION k TO KAFKA ({broker}, NOPE = 1)")
    assert "has no option NOPE" in wrong.output
    assert CANARY not in wrong.output


def test_a_program_is_told_of_an_error_in_json_and_by_the_exit_code(here: Path) -> None:
    done = sql("--json", "-c", "SHOW SINK")
    assert json.loads(done.stdout)["error"]["code"] == "CALVE-200"
    assert done.exit_code == 1


def test_what_is_not_understood_is_not_defined(here: Path) -> None:
    assert sql("-c", "CREATE CONNECTION c TO AWS (REGIO = 'x')").exit_code == 1
    with Terminal.calve("sql", folder=here) as terminal:
        terminal.ready("calve>")
        told(terminal, "CREATE CONNECTION c TO AWS (REGIO = 'x');", "Did you mean REGION?")
        told(terminal, "SHOW CONNECTIONS;", "No connection is defined.")


def test_statements_that_need_no_spark_answer_where_there_is_no_java(here: Path) -> None:
    """Also those about a sink whose catalog is down, and whose secret is not set."""
    (here / "pipeline.sql").write_text(
        f"""CREATE SECRET s FROM ENV 'CALVE_NOT_SET';
        CREATE CONNECTION lake TO ICEBERG CATALOG (URI = 'http://127.0.0.1:1', TOKEN = SECRET s);
        CREATE CONNECTION b TO KAFKA (BROKER 'h:1', SASL USERNAME 'u', SASL PASSWORD SECRET s);
        CREATE SOURCE k (id long) FROM COCKROACHDB CHANGEFEED (CONNECTION = b, TOPIC = 't');{ORDERS}{SINK}"""
    )
    statements = "SHOW SINKS; SHOW SECRETS; SHOW CREATE SINK paid; DESCRIBE orders; DESCRIBE k; DROP SOURCE k"
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}

    def run(statements: str) -> subprocess.CompletedProcess[str]:
        call = [sys.executable, "-m", "calve.cli.main", "sql", "pipeline.sql", "-c", statements]
        env["PATH"] = str(here)
        return subprocess.run(call, env=env, capture_output=True, text=True, check=False)

    done = run(statements)
    assert (done.stderr, done.returncode) == ("", 0)
    assert "paid  orders  lake.shop.paid\n" in done.stdout
    assert "s       ENV CALVE_NOT_SET\n" in done.stdout
    assert done.stdout.endswith("The source k is dropped.\n")
    refused = run("EXPLAIN SINK paid")
    assert refused.stderr.startswith("error CALVE-100 (ConfigError): Spark runs on Java, and there is none\n")


def test_a_sink_stays_defined_where_its_catalog_does_not_answer(here: Path) -> None:
    """Nobody can say whether the table has forgotten it."""
    with Terminal.calve("sql", folder=here) as terminal:
        terminal.ready("calve>")
        told(terminal, LAKE, "connection lake is defined.")
        told(terminal, ORDERS, "source orders is defined.")
        told(terminal, SINK, "sink paid is defined.")
        told(terminal, "DROP SINK paid;", "no server listens at 127.0.0.1:1")
        told(terminal, "SHOW SINKS;", "paid  orders  lake.shop.paid")
        told(terminal, "DROP SINK paid KEEP PROGRESS;", "Its table still knows how far it is.")


def test_a_sink_that_never_ran_is_dropped(here: Path) -> None:
    embedded = "CREATE CONNECTION lake TO ICEBERG CATALOG ();"
    done = sql("-c", f"{embedded}{ORDERS}{SINK} DROP SINK paid; SHOW SINKS")
    assert done.stdout.endswith(
        "The sink paid is dropped.\nlake.shop.paid knows nothing of it.\nNo sink is defined.\n"
    )
    assert list(here.iterdir()) == []


def test_a_person_gets_no_json(here: Path) -> None:
    with Terminal.calve("sql", "--json", folder=here) as terminal:
        assert terminal.ended() == 1
        assert '"message": "a person at a terminal reads no JSON"' in terminal.shown
