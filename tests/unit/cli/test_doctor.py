"""`calve doctor`, as a person types it, and what is printed: exact texts of what a person can cause."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from calve.cli.app import app
from calve.runtime import machine
from calve.runtime.probe import Probed

JAVA_HINT = (
    "Install Java 17 or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless), or set JAVA_HOME to it."
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """A folder of its own, and no session: those take long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "probe", lambda: Probed("4.1.4", "local[2]"))
    return tmp_path


def doctor(*words: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *words], env={"CALVE_DEBUG": None})


def line(shown: str, name: str) -> list[str]:
    """What is said of a check: outcome and words, and the hint."""
    lines = shown.splitlines()
    at = next(n for n, one in enumerate(lines) if re.match(rf"  \w+ +{re.escape(name)} ", one))
    outcome, _, words = lines[at].strip().split(maxsplit=2)
    hint = lines[at + 1].strip() if at + 1 < len(lines) and "→" in lines[at + 1] else ""
    return [outcome, words, hint.removeprefix("→ ")]


def test_a_machine_and_an_embedded_catalog_that_are_well(here):
    ended = doctor()
    assert ended.exit_code == 0, ended.output
    assert ended.stdout.startswith("this machine: all is well\n  ok       python            Python 3.")
    assert "\n\nsql catalog sqlite:///calve-warehouse/catalog.db: all is well\n" in ended.stdout
    assert line(ended.stdout, "compare-and-swap") == [
        "ok",
        "of two commits on one base, one was taken and one refused",
        "",
    ]
    assert line(ended.stdout, "kafka")[0] == "note"
    assert ended.stderr == ""
    assert list(here.iterdir()) == []


def test_the_same_for_a_program():
    ended = doctor("--json", "--no-spark")
    told = json.loads(ended.stdout)
    assert (told["ok"], told["machine"]["ok"], told["catalog"]["ok"]) == (True, True, True)
    assert [check["name"] for check in told["machine"]["checks"]] == ["python", "packages", "disk"]
    assert set(told["catalog"]["checks"][0]) == {"name", "outcome", "words", "hint", "milliseconds"}
    assert ended.exit_code == 0


def test_a_catalog_that_is_down_is_told_with_its_address():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ended = doctor("--no-spark", "--catalog-uri", f"http://127.0.0.1:{port}")
    assert ended.exit_code == 1
    assert f"rest catalog http://127.0.0.1:{port}: a sink cannot run here yet\n" in ended.stdout
    assert line(ended.stdout, "connect") == [
        "failed",
        f"no server listens at 127.0.0.1:{port}, or it hung up",
        "Is the server up? Look at the port in the catalog's URI, and whether it is http or https.",
    ]
    assert line(ended.stdout, "store") == ["skipped", "not tried", ""]
    assert ended.stderr == ""


def test_a_table_names_its_catalog(here):
    folder = here / "lake"
    ended = doctor("lake.sales.orders", "--no-spark", "--warehouse", str(folder))
    assert f"sql catalog sqlite:///{folder}/catalog.db: all is well" in ended.stdout
    url = f"iceberg:///sales/orders?warehouse={folder}"
    assert f"sql catalog sqlite:///{folder}/catalog.db: all is well" in doctor(url, "--no-spark").stdout


def test_a_namespace_that_is_not_there_is_told():
    ended = doctor("--no-spark", "--namespace", "nowhere")
    assert line(ended.stdout, "namespace") == [
        "failed",
        "there is no namespace nowhere",
        "Name one that is there.",
    ]
    assert ended.exit_code == 1


@pytest.mark.parametrize(
    "target, error, hint",
    [
        (
            "iceberg://h/a/b?warehous=x",
            "error CALVE-101 (UnknownOption): there is no parameter 'warehous'",
            "hint: Did you mean 'warehouse'?",
        ),
        (
            "orders",
            "error CALVE-102 (BadName): the table 'orders' has no namespace",
            "hint: Write catalog.namespace.table, such as 'lake.sales.orders'.",
        ),
    ],
)
def test_a_target_that_cannot_be_read_is_an_error(target, error, hint):
    ended = doctor(target, "--no-spark")
    assert ended.stderr.splitlines() == [error, hint]
    assert (ended.exit_code, ended.stdout) == (1, "")


def process(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "calve.cli.main", *words],
        env={name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_machine_without_java_is_told_what_to_install_by_doctor_and_demo_alike(tmp_path):
    ended = process("doctor", PATH=str(tmp_path))
    assert line(ended.stdout, "java") == ["failed", "Spark runs on Java, and there is none", JAVA_HINT]
    assert line(ended.stdout, "spark") == ["skipped", "not tried", ""]
    assert (ended.returncode, ended.stderr) == (1, "")
    demo = process("demo", PATH=str(tmp_path))
    assert demo.stderr == (
        f"error CALVE-100 (ConfigError): Spark runs on Java, and there is none\nhint: {JAVA_HINT}\n"
    )
    assert demo.returncode == 1


def test_a_java_that_is_too_old_is_told_by_doctor_and_demo_alike(tmp_path):
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n", "utf-8")
    java.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    words = f"Spark needs Java 17 or newer, and {java} is Java 11"
    assert line(process("doctor", PATH=path).stdout, "java") == ["failed", words, JAVA_HINT]
    assert process("demo", PATH=path).stderr == (
        f"error CALVE-100 (ConfigError): {words}\nhint: {JAVA_HINT}\n"
    )


def test_a_python_without_pyspark_is_told_by_doctor_and_demo_alike():
    """In processes of their own: a module that was found once is not looked for again."""
    code = (
        "import sys, importlib.abc\n"
        "class Without(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in ('pyspark', 'py4j'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'pyspark' else found(name, *more)\n"
        "sys.meta_path.insert(0, Without())\n"
        "sys.argv = ['calve', *sys.argv[1:]]\n"
        "from calve.cli.main import main; main()"
    )

    def run(command: str) -> subprocess.CompletedProcess[str]:
        call = [sys.executable, "-c", code, command]
        return subprocess.run(call, capture_output=True, text=True, check=False)

    words, hint = "Spark is needed, and there is no pyspark for this Python", "pip install 'calve[spark]'."
    assert line(run("doctor").stdout, "pyspark") == ["failed", words, hint]
    assert run("demo").stderr == f"error CALVE-100 (ConfigError): {words}\nhint: {hint}\n"


def test_lines_are_wrapped_on_a_terminal_and_whole_elsewhere():
    narrow = CliRunner().invoke(
        app,
        ["doctor", "--no-spark"],
        env={"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"},
    )
    lines = narrow.stdout.splitlines()
    # A path that is wider has a line of its own, and is whole: somebody may copy it.
    assert all(len(one) <= 80 or len(one.split()) == 1 for one in lines)
    packages = next(n for n, one in enumerate(lines) if " packages " in one)
    assert lines[packages + 1].startswith(" " * 29)
    assert max(map(len, doctor("--no-spark").stdout.splitlines())) > 100


# ---------------------------------------------------------------- of a pipeline

PIPELINE = """CREATE SECRET login FROM ENV 'CALVE_DOCTOR_LOGIN';
CREATE CONNECTION lake TO ICEBERG CATALOG (WAREHOUSE = 'lake');
CREATE CONNECTION far TO ICEBERG CATALOG (URI = 'http://127.0.0.1:{port}', TOKEN = SECRET login);
CREATE SOURCE orders (id long) FROM FILES (PATH = 'orders') KEY (id);
CREATE SOURCE feed FROM COCKROACHDB CHANGEFEED (URL = 'feed', TOPIC = 'orders');
CREATE SOURCE topic FROM DEBEZIUM (BROKER = '127.0.0.1:{port},127.0.0.1:{open}', TOPIC = 'orders');
CREATE SOURCE quiet FROM DEBEZIUM (BROKER = '127.0.0.1:{port}', TOPIC = 'orders');
CREATE SOURCE live FROM MATERIALIZE SUBSCRIBE
    (URI = 'postgresql://u:{canary}@127.0.0.1:{port}/d', OBJECT = 'o')
    KEY (id);
CREATE SINK a FROM orders INTO ICEBERG CATALOG lake (NAMESPACE = 'shop', TABLE = 'orders');
CREATE SINK b FROM feed INTO ICEBERG CATALOG lake (NAMESPACE = 'shop', TABLE = 'feed');
CREATE SINK c FROM topic INTO ICEBERG CATALOG far (NAMESPACE = 'shop', TABLE = 'topic');
"""


def test_a_pipeline_is_looked_at_from_its_secrets_to_its_catalogs(here, monkeypatch):
    """Each line with what to do; no secret in any of them (P10); nothing is made."""
    monkeypatch.setenv("CALVE_DOCTOR_LOGIN", "c4n4ry-4d0c")
    (here / "orders").mkdir()
    (here / "orders" / "1.json").write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as closed, socket.create_server(("127.0.0.1", 0)) as broker:
        port, there = closed.getsockname()[1], broker.getsockname()[1]
        closed.close()
        text = PIPELINE.replace("{port}", str(port)).replace("{open}", str(there))
        (here / "p.sql").write_text(text.replace("{canary}", "c4n4ry-8e11"))
        ended = doctor("p.sql")
    assert ended.exit_code == 1
    assert "c4n4ry" not in ended.output
    assert "\np.sql: a sink cannot run here yet\n" in ended.stdout

    def said(what: str) -> list[str]:
        kind, _, name = what.partition(" ")
        found = re.search(rf"  (\w+) +{kind} {name} +(.*)\n(?: +→ (.*)\n)?", ended.stdout)
        assert found is not None, what
        return [found[1], found[2], found[3] or ""]

    assert said("secret login") == ["ok", "the variable CALVE_DOCTOR_LOGIN has it", ""]
    assert said("source orders") == ["ok", f"{here}/orders has 1 file", ""]
    assert said("source feed") == [
        "failed",
        f"there is no folder {here}/feed",
        "Create it; files may come later.",
    ]
    assert said("source topic") == [
        "note",
        f"a broker answers at 127.0.0.1:{there}; the session of Spark has no connector for Kafka",
        "Give it to plan and run: --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
    ]
    assert said("source quiet") == [
        "failed",
        f"no broker answers at 127.0.0.1:{port}",
        "Is it up, and does it listen there? The port of a broker is 9092 as a rule.",
    ]
    assert said("source live") == [
        "failed",
        f"no server answers at 127.0.0.1:{port}",
        "Is Materialize up, and is the port right? It is 6875 as a rule.",
    ]
    assert said("sink a") == ["ok", "writes lake.shop.orders", ""]
    assert said("sink c") == ["ok", "writes far.shop.topic", ""]
    assert ended.stdout.count("compare-and-swap") == 2
    assert f"sql catalog sqlite:///{here}/lake/catalog.db: all is well" in ended.stdout
    assert f"rest catalog http://127.0.0.1:{port}: a sink cannot run here yet" in ended.stdout
    assert sorted(path.name for path in here.iterdir()) == ["orders", "p.sql"]


def test_a_secret_of_a_pipeline_that_is_not_there_is_told(here, monkeypatch):
    monkeypatch.delenv("CALVE_DOCTOR_LOGIN", raising=False)
    (here / "p.sql").write_text(
        """CREATE SECRET login FROM ENV 'CALVE_DOCTOR_LOGIN';
        CREATE SECRET key FROM FILE 'nowhere';
        CREATE CONNECTION far TO ICEBERG CATALOG (URI = 'http://127.0.0.1:1', TOKEN = SECRET login);
        CREATE SOURCE orders (id long) FROM FILES (PATH = '.');
        CREATE SINK c FROM orders INTO ICEBERG CATALOG far (NAMESPACE = 'shop', TABLE = 'topic');"""
    )
    told = json.loads(doctor("p.sql", "--no-spark", "--json").stdout)
    assert (told["ok"], told["machine"]["ok"], told["catalogs"]) == (False, True, [])
    checks = {
        check["name"]: (check["outcome"], check["words"], check["hint"])
        for check in told["pipeline"]["checks"]
    }
    words = "the secret 'login' is kept in the variable CALVE_DOCTOR_LOGIN, which is not set"
    hint = "Set CALVE_DOCTOR_LOGIN, and export it, in the shell that starts calve."
    assert checks["secret login"] == ("failed", words, hint)
    assert checks["secret key"][0] == "failed"
    assert checks["sink c"] == (
        "failed",
        f"the connection 'far': {words} (line 3, column 79)\n"
        "    TION far TO ICEBERG CATALOG (URI = 'http://127.0.0.1:1', TOKEN = SECRET\n"
        "                                                             ^",
        hint,
    )
    assert checks["source orders"][0] == "ok"


def test_a_pipeline_has_its_own_catalogs(here):
    (here / "p.sql").write_text("CREATE SOURCE o (id long) FROM FILES (PATH = '.');")
    both = doctor("p.sql", "--warehouse", "x").stderr
    assert both == (
        "error CALVE-100 (ConfigError): p.sql says where its catalogs are, and so does the command line\n"
        "hint: Leave it out here.\n"
    )
    assert "p.sql defines no sink" in doctor("p.sql").stderr
