"""`calve quarantine`: what a person types, and what is printed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from calve.cli.app import app
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
    assert ended.stderr.startswith("calve: TableMissing: ns.t is not in the catalog\n  hint: ")


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
