"""`calve quarantine`: what a person types, and what is printed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from calve.cli.app import app
from calve.cli.quarantine import _row
from calve.model.columns import ERROR, POSITION, RAW
from tests.support.quarantines import NAME, Stream

pytestmark = pytest.mark.engines


@pytest.fixture
def stream(tmp_path):
    made = Stream(tmp_path)
    made.send((1, 1, 1, "I"), (1, None, 3, "u"), (2, None, 4, "I"), (None, 1, 5, "[x]"))
    return made


@pytest.fixture
def calve(stream):
    def run(*words):
        uri = ("--catalog-uri", stream.said["uri"], "--warehouse", stream.said["warehouse"])
        return CliRunner().invoke(app, ["quarantine", *words, NAME, *uri], env={"COLUMNS": "200"})

    return run


def test_the_rows_that_wait_are_listed_with_their_reasons(calve):
    said = calve("list").stdout
    assert "null, but the table requires a value" in said
    assert '"_op": "[x]"' in said  # no markup
    rows = json.loads(calve("list", "--json").stdout)["rows"]
    assert sorted(one["row"]["lsn"] for one in rows) == [3, 4, 5]
    assert {one["replay"] for one in rows} == {None}


def test_a_row_is_shown_as_its_source_has_it_and_a_message_that_is_none_as_it_came():
    noted = {RAW: '{"after": "x"}', ERROR: "no", POSITION: "1"}
    assert _row({"id": 1, "note": None, **noted}) == '{"id": 1, "note": null}'
    assert _row({"id": None, **noted}) == '{"after": "x"}'


PIPELINE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (URI = '{uri}', WAREHOUSE = '{warehouse}');
CREATE SOURCE t (id long) FROM FILES (PATH = 'x');
CREATE SINK t FROM t INTO ICEBERG CATALOG lake (NAMESPACE = 'ns', TABLE = 't');
"""


def test_a_pipeline_stands_for_the_table_of_its_sink(stream, tmp_path):
    file = tmp_path / "pipeline.sql"
    file.write_text(PIPELINE.format(**stream.said), "utf-8")
    listed = CliRunner().invoke(app, ["quarantine", "list", "--json", str(file)])
    (waits,) = json.loads(listed.stdout)["tables"]
    assert (waits["table"], len(waits["rows"])) == ("lake.ns.t", 3)
    stream.relax()
    replayed = CliRunner().invoke(app, ["quarantine", "replay", "--json", str(file)])
    assert json.loads(replayed.stdout)["tables"][0]["applied"] == 1


def test_of_a_pipeline_of_several_tables_one_can_be_named_and_one_may_not_be_there_yet(stream, tmp_path):
    file = tmp_path / "pipeline.sql"
    two = PIPELINE + "CREATE SINK u FROM t INTO ICEBERG CATALOG lake (NAMESPACE = 'ns', TABLE = 'u');"
    file.write_text(two.format(**stream.said), "utf-8")
    both = CliRunner().invoke(app, ["quarantine", "list", "--json", str(file)])
    found = {one["table"]: len(one["rows"]) for one in json.loads(both.stdout)["tables"]}
    assert found == {"lake.ns.t": 3, "lake.ns.u": 0}
    listed = CliRunner().invoke(app, ["quarantine", "list", "--json", str(file), "--sink", "t"])
    assert [one["table"] for one in json.loads(listed.stdout)["tables"]] == ["lake.ns.t"]


def test_a_replay_says_what_went_in_and_what_waits_and_why(calve, stream):
    assert calve("replay").stdout.startswith("Nothing to do")
    stream.relax()
    said = calve("replay").stdout
    assert "Replay 1 of ns.t: 1 changes went in, 0 were superseded by newer ones, 2 rows wait." in said
    assert "1 × its key is not in the table" in said
    assert "hint: If such rows belong there, replay with --absent insert (absent='insert')." in said
    done = json.loads(calve("replay", "--json", "--absent", "insert").stdout)
    assert (done["replay"], done["applied"], done["superseded"], len(done["left"])) == (2, 1, 0, 1)
    assert stream.rows() == [(1, None, 3), (2, None, 4)]


def test_an_error_is_two_lines_and_a_code(calve, stream):
    with stream.catalog() as catalog:
        catalog.drop_table(("ns", "t"))
    ended = calve("replay")
    assert ended.exit_code == 1
    assert ended.stderr.startswith("error CALVE-401 (TableMissing): ns.t is not in the catalog\nhint: ")


def test_nothing_that_waits_is_said_as_such(calve, stream):
    with stream.catalog() as catalog:
        catalog.drop_table(("ns", "t__quarantine"))
    assert calve("list").stdout == f"Nothing waits in the quarantine of {NAME}.\n"


def test_neither_list_nor_replay_needs_spark(stream):
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import calve\n"
        f"assert len(calve.list_quarantine({NAME!r}, catalog={stream.said!r})) == 3\n"
        f"assert calve.replay_quarantine({NAME!r}, catalog={stream.said!r}).replay is None\n"
        "import calve.cli.app\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_table_is_named_by_a_url(stream):
    said = stream.said
    url = f"iceberg:///ns/t?catalog.name=lake&catalog.uri={said['uri']}&warehouse={said['warehouse']}"
    done = CliRunner().invoke(app, ["quarantine", "list", "--json", url])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["rows"]) == 3
    assert "nobody" in CliRunner().invoke(app, ["quarantine", "list", f"{url}&writer.id=nobody"]).output
    other = CliRunner().invoke(app, ["quarantine", "list", f"{url}&warehous=x"])
    assert other.exit_code == 1
    assert "'warehouse'" in other.output


def test_a_pipeline_is_a_target_and_its_sink_is_named_by_the_pipeline(stream, tmp_path):
    uri, warehouse = stream.said["uri"], stream.said["warehouse"]
    file = tmp_path / "pipeline.sql"
    file.write_text(
        f"""CREATE CONNECTION lake TO ICEBERG CATALOG (URI = '{uri}', WAREHOUSE = '{warehouse}');
        CREATE SOURCE o (id long) FROM FILES (PATH = 'o') KEY (id);
        CREATE SINK s FROM o INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'ns', TABLE = 't');"""
    )

    def run(*words):
        return CliRunner().invoke(app, ["quarantine", *words], env={"COLUMNS": "200"})

    listed = run("list", str(file), "--sink", "s")
    assert listed.stdout.splitlines()[0] == "lake.ns.t"
    assert "null, but the table requires a value" in listed.stdout
    (table,) = json.loads(run("list", str(file), "--json").stdout)["tables"]
    assert (table["table"], len(table["rows"])) == ("lake.ns.t", 3)
    stream.relax()
    (done,) = json.loads(run("replay", str(file), "--sink", "s", "--json").stdout)["tables"]
    assert (done["replay"], done["applied"], len(done["left"])) == (1, 1, 2)
    wrong = run("replay", str(file), "--sink", "t")
    assert wrong.stderr == "error CALVE-200 (BadStatement): there is no sink 't'\nhint: There is: s.\n"
