"""P10 from the command line: a pipeline full of secrets goes through every command, and comes out nowhere.

    variables, a FILE, URIs, values as they are ──▶ plan · run · status · history · verify · doctor · sql
                                                      └──▶ outputs, history of the shell, checkpoints, tables

The commands run in this process, with the session of the suite, as `--debug` shows them. What Spark itself
says and keeps is looked at in test_secrets.py.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import obstore
import pytest
from typer.testing import CliRunner

from calve.cli.app import app
from calve.cli.logs import tell_logs
from calve.runtime.spark import launch
from tests.nemesis.lakes import RestLake
from tests.support.servers.seaweedfs import KEY, REGION, SECRET, TABLE_BUCKET, SeaweedFS
from tests.support.silence import silent
from tests.support.terminal import CTRL_D, Terminal

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = "kept/pipeline.sql"
PIPELINE = """
CREATE SECRET login FROM ENV 'CALVE_CANARY_LOGIN';
CREATE SECRET key FROM FILE 'key';
CREATE SECRET sasl FROM ENV 'CALVE_CANARY_SASL';
CREATE CONNECTION keys TO AWS (REGION = '{region}', ACCESS KEY ID = '{id}', SECRET ACCESS KEY = SECRET key,
    ENDPOINT = '{s3}');
CREATE CONNECTION lake TO ICEBERG CATALOG (TYPE = 'rest', URI = '{rest}', WAREHOUSE = '{warehouse}',
    CREDENTIAL = SECRET login, AWS CONNECTION = keys);
CREATE CONNECTION wrong TO ICEBERG CATALOG (TYPE = 'rest', URI = '{rest}', WAREHOUSE = '{warehouse}',
    CREDENTIAL = '{id}:canary-of-a-wrong-credential');
CREATE CONNECTION keyed TO ICEBERG CATALOG (TYPE = 'rest', URI = '{rest}', WAREHOUSE = '{warehouse}',
    CREDENTIAL = SECRET login, ACCESS KEY ID = '{id}', SECRET ACCESS KEY = 'canary-of-a-wrong-key',
    REGION = '{region}', ENDPOINT = '{s3}');
CREATE CONNECTION database TO ICEBERG CATALOG (TYPE = 'sql', WAREHOUSE = 'w',
    URI = 'postgresql://u:canary-of-a-uri@127.0.0.1:{port}/d');
CREATE CONNECTION broker TO KAFKA (BROKER '127.0.0.1:{port}', SASL USERNAME 'u',
    SASL PASSWORD = SECRET sasl, 'kafka.default.api.timeout.ms' = '300',
    'kafka.request.timeout.ms' = '250');
CREATE CONNECTION live TO POSTGRES (URI 'postgresql://u:canary-of-postgres@127.0.0.1:{port}/d');
CREATE SOURCE orders (id long, status string) FROM FILES (PATH = '../orders') KEY (id);
CREATE SOURCE topic (id long) FROM DEBEZIUM (CONNECTION = broker, TOPIC = 'orders') KEY (id);
CREATE SOURCE view (id long) FROM MATERIALIZE SUBSCRIBE (OBJECT = 'o',
    URI = 'postgresql://u:canary-of-materialize@127.0.0.1:{port}/d') KEY (id);
CREATE VIEW paid AS SELECT id FROM orders WHERE status = 'paid';
CREATE SINK good FROM orders INTO ICEBERG CATALOG lake (NAMESPACE = '{namespace}', TABLE = 'good');
CREATE SINK of_wrong FROM orders INTO ICEBERG CATALOG wrong (NAMESPACE = 'n', TABLE = 'w');
CREATE SINK of_key FROM orders INTO ICEBERG CATALOG keyed (NAMESPACE = '{namespace}', TABLE = 'keyed');
CREATE SINK of_database FROM orders INTO ICEBERG CATALOG database (NAMESPACE = 'n', TABLE = 't');
CREATE SINK of_topic FROM topic INTO ICEBERG CATALOG lake (NAMESPACE = '{namespace}', TABLE = 'topic');
CREATE SINK of_view FROM view INTO ICEBERG CATALOG lake (NAMESPACE = '{namespace}', TABLE = 'view');
CREATE SINK of_url FROM orders
    INTO 'iceberg://{host}/n/t?warehouse={warehouse}&catalog.prop.token=env:CALVE_CANARY_TOKEN';
CREATE SINK of_bare_url FROM orders
    INTO 'iceberg://{host}/n/t?warehouse={warehouse}&catalog.prop.token=canary-of-a-url';
"""
FAILING = {
    "of_wrong": "error CALVE-501 (AccessDenied): the sink 'of_wrong' (line 26): the catalog at ",
    "of_key": "error CALVE-501 (AccessDenied): the store denies to write s3://",
    "of_database": "error CALVE-500 (CatalogError): the sink 'of_database' (line 28): the catalog at postgresql://***@",
    "of_topic": "error CALVE-700 (BrokerError): the sink 'of_topic' (line 29): the broker at ",
    "of_view": "error CALVE-600 (StoreError): the sink 'of_view' (line 30): Materialize at ",
    "of_url": "error CALVE-501 (AccessDenied): the sink 'of_url' (line 31): ",
    "of_bare_url": "hint: Name where it is: catalog.prop.token=env:NAME or catalog.prop.token=file:/path.",
}
"""Sinks that cannot run, and what is said of each."""
CONNECTIONS = ("keys", "lake", "wrong", "keyed", "database", "broker", "live")
ASKED = [
    "SHOW SECRETS; SHOW CONNECTIONS; SHOW SOURCES; SHOW VIEWS; SHOW SINKS",
    *(f"SHOW CREATE SECRET {name}" for name in ("login", "key", "sasl")),
    *(f"SHOW CREATE CONNECTION {name}" for name in CONNECTIONS),
    *(f"SHOW CREATE SOURCE {name}; DESCRIBE {name}" for name in ("orders", "topic", '"view"')),
    *(f"SHOW CREATE SINK {name}; EXPLAIN SINK {name}" for name in ("good", *FAILING)),
    "DESCRIBE paid; DESCRIBE good; DESCRIBE of_key",
]


@dataclass
class Ran:
    """What the commands said, and where they left something."""

    folder: Path
    lake: RestLake
    said: dict[str, str] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)

    def calve(self, *words: str) -> None:
        done = CliRunner().invoke(app, list(words), env={"CALVE_DEBUG": None})
        self.said[" ".join(words)], self.codes[" ".join(words)] = done.output, done.exit_code


@pytest.fixture(scope="module")
def ran(seaweedfs: SeaweedFS, spark: object, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("pipeline")
    lake = RestLake(seaweedfs, "canary_sql")
    for name in ("orders", "kept"):
        (folder / name).mkdir()
    (folder / "kept" / "key").write_text(f"{SECRET}\n")
    (folder / "orders" / "1.json").write_text(json.dumps({"id": 1, "status": "paid"}) + "\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    uris = {
        "rest": seaweedfs.rest_uri,
        "host": seaweedfs.rest_uri.removeprefix("http://"),
        "s3": seaweedfs.s3_uri,
    }
    place = {"warehouse": seaweedfs.warehouse, "namespace": lake.namespace, "port": port}
    text = PIPELINE.format(**uris, **place, region=REGION, id=KEY)
    (folder / "kept" / "pipeline.sql").write_text(text, "utf-8")
    found = Ran(folder, lake)
    with _as_a_person(spark, folder):
        _run_all(found)
    return found


@contextmanager
def _as_a_person(spark: object, folder: Path) -> Iterator[None]:
    """In a folder, with secrets in variables, warnings as lines, and this session of Spark's."""

    @contextmanager
    def ours(*_: object, **__: object) -> Iterator[object]:
        yield spark

    before = list(logging.getLogger().handlers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "session", ours)
        patch.chdir(folder)
        patch.setenv("CALVE_CANARY_LOGIN", f"{KEY}:{SECRET}")
        patch.setenv("CALVE_CANARY_SASL", "canary-of-kafka")
        patch.setenv("CALVE_CANARY_TOKEN", "canary-of-a-token")
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        tell_logs()
        try:
            yield
        finally:
            logging.getLogger().handlers[:] = before


def _run_all(ran: Ran) -> None:
    for manner in ("--debug", "--json"):
        ran.calve("plan", FILE, manner)
    ran.calve("run", FILE, "--once", "--debug", "--sink", "good")
    for sink in FAILING:
        ran.calve("run", FILE, "--once", "--debug", "--sink", sink)
        ran.calve("status", FILE, "--debug", "--sink", sink)
    for command in ("status", "history", "verify"):
        for more in ((), ("--json",)):
            ran.calve(command, FILE, "--debug", "--sink", "good", *more)
    for more in ((), ("--json",)):
        ran.calve("doctor", FILE, "--no-spark", "--debug", *more)
    for statement in ASKED:
        ran.calve("sql", FILE, "--debug", "-c", statement)
    with Terminal.calve("sql", FILE, folder=ran.folder, env=os.environ) as terminal:
        terminal.ready("calve>")
        terminal.line("CREATE CONNECTION c TO AWS (SECRET ACCESS KEY = 'canary-of-what-was-typed');")
        terminal.until("The connection c is defined.")
        terminal.ready("calve>")
        terminal.line("SHOW CREATE CONNECTION c;")
        terminal.until("'***'")
        terminal.ready("calve>")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    ran.said["what the shell answered"] = terminal.shown.partition("is defined.")[2]


def test_the_commands_did_what_they_should(ran: Ran) -> None:
    """Otherwise nothing of the rest would tell anything."""
    for sink, error in FAILING.items():
        words = f"run {FILE} --once --debug --sink {sink}"
        assert "Traceback (most recent call last):" in ran.said[words]
        assert error in ran.said[words]
        assert ran.codes[words] == 1
    assert ran.said[f"run {FILE} --once --debug --sink good"].startswith("good: 1 row · 1 snapshot")
    for command in ("status", "history", "verify"):
        assert ran.codes[f"{command} {FILE} --debug --sink good --json"] == 0, command
    assert f"+ {ran.lake.namespace}.good is created" in ran.said[f"plan {FILE} --debug"]
    assert {code for words, code in ran.codes.items() if words.startswith("sql")} == {0}
    assert ran.codes[f"doctor {FILE} --no-spark --debug"] == 1


def test_no_secret_is_in_what_a_command_says(ran: Ran) -> None:
    for words, said in ran.said.items():
        silent(said.encode(), words)


def test_no_secret_is_in_a_file_that_was_made(ran: Ran) -> None:
    """Checkpoints, the history of the shell, folders of the embedded catalog: all but what holds secrets."""
    made = [path for path in ran.folder.rglob("*") if path.is_file() and path.parent.name != "kept"]
    assert any("calve-checkpoints" in path.parts for path in made)
    assert b"CREATE CONNECTION c TO AWS" in (ran.folder / "state" / "calve" / "history").read_bytes()
    for path in made:
        silent(path.read_bytes(), path)


def test_no_secret_is_in_the_table(ran: Ran) -> None:
    silent(json.dumps(ran.lake.metadata("good")).encode(), "good")
    store = ran.lake.object_store(TABLE_BUCKET)
    objects = [one["path"] for listed in obstore.list(store, f"{ran.lake.namespace}/") for one in listed]
    assert {path.rpartition(".")[2] for path in objects} >= {"parquet", "avro", "json"}
    for path in objects:
        silent(obstore.get(store, path).bytes().to_bytes(), path)
