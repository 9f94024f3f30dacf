"""Errors of a pipeline that only Spark or a table can tell, as a person reads them: the whole text.

The commands run in this process, with the session of the suite. Those that need no Spark are in
tests/unit/cli/test_pipeline_errors.py.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from calve.cli.app import app
from calve.runtime.spark import launch

pytestmark = pytest.mark.spark

LAKE = "CREATE CONNECTION lake TO ICEBERG CATALOG (WAREHOUSE = 'lake');\n"
ORDERS = "CREATE SOURCE orders (id long, status string) FROM FILES (PATH = 'orders') KEY (id);\n"
INTO = "INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'orders')"
SINK = f"CREATE SINK s FROM orders {INTO};\n"
OF_VIEW = f"CREATE SINK s FROM v {INTO};\n"


@dataclass(frozen=True)
class Case:
    """A pipeline, and what `run` says of it."""

    pipeline: str
    error: str
    words: tuple[str, ...] = ("run", "--once")
    code: int = 1


CASES = {
    "no key": Case(
        LAKE + ORDERS.replace(" KEY (id)", "") + SINK.replace(";", " MODE UPSERT;"),
        """\
error CALVE-105 (BadKey): the sink 's' (line 3): it is to replace rows (MODE UPSERT), and nothing says which \
columns tell them apart
hint: Write KEY (id) behind the source orders, or MODE APPEND to add rows alone.
""",
    ),
    "a partition by no column": Case(
        LAKE + ORDERS + SINK.replace(";", " PARTITION BY (day(created));"),
        """\
error CALVE-103 (BadPartition): the sink 's' (line 3): day(created): there is no column 'created'
hint: The columns are: id, status.
""",
    ),
    "a partition by no transform": Case(
        LAKE + ORDERS + SINK.replace(";", " PARTITION BY (dya(id));"),
        """\
error CALVE-103 (BadPartition): the sink 's' (line 3): partition 'dya(id)', position 1: there is no \
transform 'dya'
hint: Did you mean day? The transforms are identity, bucket, truncate, year, month, day, hour or void.
""",
    ),
    "a key that is no column": Case(
        LAKE + ORDERS + SINK.replace(";", " KEY (idd);"),
        """\
error CALVE-105 (BadKey): the sink 's' (line 3): key ('equality.delete.columns') names 'idd', which is \
not among the columns of the stream
hint: Did you mean 'id'?
""",
    ),
    "a view without the key": Case(
        LAKE + ORDERS + "CREATE VIEW v AS SELECT status FROM orders;\n" + OF_VIEW,
        """\
error CALVE-105 (BadKey): the sink 's' (line 4): the view 'v' does not show 'id' as it is, which is part \
of the key of its source: nothing would say which row a change is of
hint: Add id to what it selects; under another name it may stand: id AS id_of_source.
""",
    ),
    "a view of nothing that is known": Case(
        LAKE + ORDERS + "CREATE VIEW v AS SELECT id FROM oders;\n" + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'v' reads 'oders', which is not defined before it
hint: Did you mean orders? A view reads one source, or one view. There is: orders.
""",
    ),
    "a view of a column that is none": Case(
        LAKE + ORDERS + "CREATE VIEW v AS SELECT id, sttaus FROM orders;\n" + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the sink 's' (line 4): the query of view 'v' cannot be understood: A column, \
variable, or function parameter with name `sttaus` cannot be resolved. Did you mean one of the following? \
[`status`, `id`] (line 1, column 12 of the query)
hint: It may name the columns of its source, and Spark's functions.
""",
    ),
    "a view that Spark cannot read": Case(
        LAKE + ORDERS + "CREATE VIEW v AS SELECT id FROM orders WHERE AND status = 'x';\n" + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the query of view 'v' cannot be read: Syntax error at or near 'status' \
(line 1, column 33 of the query)
hint: It is in Spark's SQL; names with other marks stand in `backticks`.
""",
    ),
    "a view that joins": Case(
        LAKE
        + ORDERS
        + ORDERS.replace("SOURCE orders", "SOURCE more")
        + "CREATE VIEW v AS SELECT o.id FROM orders o JOIN more m ON o.id = m.id;\n"
        + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'v' reads orders and more
hint: A view reads one source, or one view: two streams are joined where their state is kept, in \
CockroachDB, Materialize or Spark.
""",
    ),
    "a view that asks another question": Case(
        LAKE
        + ORDERS
        + "CREATE VIEW v AS SELECT id FROM orders WHERE id > (SELECT max(id) FROM orders);\n"
        + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the sink 's' (line 4): the view 'v' asks a table about a row (a subquery), \
and that may change without a change of the row
hint: Select from the source alone, row by row.
""",
    ),
    "a view that says something else to others": Case(
        LAKE + ORDERS + "CREATE VIEW v AS SELECT id, current_user() AS who FROM orders;\n" + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the sink 's' (line 4): the view 'v' has current_user(), which says something \
else of the same row at another time: the table would not be the source at any time
hint: Use columns of the row, such as a time that it carries. In append mode any query goes.
""",
    ),
    "a folder that is not there": Case(
        LAKE + ORDERS.replace("PATH = 'orders'", "PATH = 'odrers'") + SINK,
        """\
error CALVE-100 (ConfigError): the sink 's' (line 3): there is no folder HERE/odrers
hint: Create it; files may come later.
""",
    ),
    "a folder of a changefeed that is not there": Case(
        LAKE + "CREATE SOURCE orders FROM COCKROACHDB CHANGEFEED (URL = 'feed', TOPIC = 'orders');\n" + SINK,
        """\
error CALVE-100 (ConfigError): the sink 's' (line 3): there is no folder HERE/feed
hint: Create it; files may come later.
""",
    ),
    "a length of time that is none": Case(
        LAKE + ORDERS + SINK.replace(";", " WITH (TRIGGER INTERVAL = '1 fortnight');"),
        """\
error CALVE-100 (ConfigError): the sink 's' (line 3): TRIGGER INTERVAL cannot be '1 fortnight'
hint: Write a number with its unit, such as '10 seconds', '1 minute' or '1 hour 30 minutes'.
""",
    ),
    "an interval of a source that tells no time": Case(
        LAKE + ORDERS + SINK.replace(";", " WITH (COMMIT INTERVAL = '1 minute');"),
        """\
error CALVE-100 (ConfigError): the sink 's' (line 3): COMMIT INTERVAL counts in the source's own time, \
and this source tells none
hint: Say which column is the time: WITH (SEQUENCE BY = '…', FRONTIER = 'maximum', FRONTIER DELAY = '1m', \
…). Or leave it out: then each micro-batch is a snapshot, and TRIGGER INTERVAL says how often one comes.
""",
    ),
    "a word for bad rows misspelt": Case(
        LAKE + ORDERS + SINK.replace(";", " WITH (BAD ROWS = 'quarntine');"),
        """\
error CALVE-100 (ConfigError): the sink 's' (line 3): BAD ROWS cannot be 'quarntine'
hint: Did you mean 'quarantine'? It is 'fail', which stops the sink, or 'quarantine', which puts them aside.
""",
    ),
    "a catalog that is down": Case(
        LAKE.replace("WAREHOUSE = 'lake'", "URI = 'http://127.0.0.1:{port}'") + ORDERS + SINK,
        """\
error CALVE-500 (CatalogError): the sink 's' (line 3): no server listens at 127.0.0.1:{port}, or it hung up
hint: Is the server up? Look at the port in the catalog's URI, and whether it is http or https.
""",
    ),
    "a broker that is down": Case(
        LAKE
        + "CREATE SOURCE orders (id long) FROM DEBEZIUM (BROKER = '127.0.0.1:{port}', TOPIC = 'orders',\n"
        "  'kafka.default.api.timeout.ms' = '300', 'kafka.request.timeout.ms' = '250') KEY (id);\n" + SINK,
        """\
error CALVE-700 (BrokerError): the sink 's' (line 4): the broker at 127.0.0.1:{port} does not say what \
it has of topic 'orders': TimeoutException
hint: Nothing was written. Start the query again when the broker is there.
""",
    ),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object) -> Path:
    """A folder to run commands in, with the session of the suite."""

    @contextmanager
    def ours(*_: object, **__: object) -> Iterator[object]:
        yield spark

    monkeypatch.setattr(launch, "session", ours)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    return tmp_path


@pytest.fixture(scope="module")
def port() -> int:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def said(case: Case, here: Path, port: int) -> tuple[str, int]:
    (here / "pipeline.sql").write_text(case.pipeline.replace("{port}", str(port)), "utf-8")
    done = CliRunner().invoke(app, list(case.words), env={"CALVE_DEBUG": None, "NO_COLOR": "1"})
    text = re.sub(rf"{re.escape(str(here))}\b", "HERE", done.output).replace(str(port), "{port}")
    return text, done.exit_code


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_with_a_pipeline_is_told_before_anything_is_made(
    here: Path, port: int, name: str
) -> None:
    case = CASES[name]
    text, code = said(case, here, port)
    assert text == case.error
    assert code == case.code
    assert not (here / "lake").exists()


def test_what_has_not_run_yet_cannot_be_compared_and_no_snapshot_is_found(here: Path, port: int) -> None:
    for words in (("verify", "pipeline.sql"), ("history", "pipeline.sql", "--at", "1")):
        text, code = said(Case(LAKE + ORDERS + SINK, "", words), here, port)
        assert ("has committed nothing yet" if words[0] == "verify" else "its sink has not run") in text
        assert code == 1
        assert not (here / "lake").exists()


def test_a_plan_tells_the_properties_that_a_run_sets(here: Path, port: int) -> None:
    (here / "orders" / "1.json").write_text(json.dumps({"id": 1, "status": "paid"}) + "\n")
    asked = SINK.replace(";", " WITH ('table.prop.write.parquet.page-row-limit' = '1000');")
    text, code = said(Case(LAKE + ORDERS + asked, "", ("plan", "--json")), here, port)
    told = json.loads(text)["sinks"][0]["tables"][0]["properties"]
    assert code == 2
    assert said(Case(LAKE + ORDERS + asked, ""), here, port)[1] == 0
    metadata = max(here.glob("lake/shop/orders/metadata/*.metadata.json"))
    found = json.loads(metadata.read_text())["properties"]
    assert {name: found.get(name) for name in told} == told
    assert {name for name in found if name.startswith("calve.sink.")} < told.keys()


def test_a_table_of_another_shape_is_told_by_plan_and_run_and_left_alone(here: Path, port: int) -> None:
    (here / "orders" / "1.json").write_text(json.dumps({"id": 1, "status": "paid"}) + "\n")
    assert said(Case(LAKE + ORDERS + SINK, ""), here, port)[1] == 0
    other = LAKE + ORDERS.replace("status string", "status long") + SINK
    before = sorted(here.rglob("lake/**/*"))
    words = "the data does not fit the table: column 'status': found long, wanted string"
    hint = (
        "Cast or rename the columns before they come here, or change the table by hand. Nothing was written."
    )
    text, code = said(Case(other, "", ("plan",)), here, port)
    assert text.startswith(
        "sink s, from orders\n\n  ! shop.orders is refused\n"
        f"    refused    CALVE-310: {words}\n    hint       {hint}\n"
    )
    assert text.endswith("\nPlan: 1 sink is refused. Nothing was changed.\n")
    assert code == 1
    run = (f"error CALVE-310 (SchemaMismatch): the sink 's' (line 3): {words}\nhint: {hint}\n", 1)
    assert said(Case(other, ""), here, port) == run
    assert sorted(here.rglob("lake/**/*")) == before


def test_what_a_person_should_know_of_a_sink_is_noted_when_it_runs(here: Path, port: int) -> None:
    asked = SINK.replace(";", " WITH ('delivery.guarantee' = 'at-least-once');")
    text, code = said(Case(LAKE + ORDERS + asked, ""), here, port)
    assert "s: 'at-least-once' was asked for: a stream is written exactly once, which is more." in text
    assert code == 0


def test_a_port_that_is_in_use_is_told_with_what_to_set(tmp_path: Path) -> None:
    """In a process of its own: it is the session that does not start. `doctor` says the same."""
    (tmp_path / "orders").mkdir()
    (tmp_path / "pipeline.sql").write_text(LAKE + ORDERS + SINK, "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        settings = (f"spark.driver.port={number}", "spark.port.maxRetries=0")
        call = ["run", "--json", *(word for one in settings for word in ("--conf", one))]
        ended = subprocess.run(
            [sys.executable, "-m", "calve.cli.main", *call],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    words = f"Spark does not start: its sparkDriver cannot listen at port {number}, which is in use"
    assert json.loads(ended.stdout) == {
        "error": {
            "code": "CALVE-100",
            "name": "ConfigError",
            "message": words,
            "hint": "Another program listens there. Stop it, or let Spark take a free port: spark.ui.port=0 "
            "for SparkUI, spark.driver.port=0 for sparkDriver.",
        }
    }
    assert (ended.stderr, ended.returncode) == ("", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders", "pipeline.sql"]
