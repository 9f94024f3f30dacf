"""`calve demo` as a person calls it: real processes, real kills, an exit code that tells the truth."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import calve.cli.app as app_module
from calve import __version__
from calve.cli import show
from calve.cli.app import app
from calve.cli.demo import Compared, Demo, Outcome
from calve.cli.main import main
from calve.cli.runs import DemoFailed
from tests.support.readers import duck_reader

SMALL = ("--rows", "200", "--epochs", "4")


def run_calve(*arguments: str, prelude: str = "") -> subprocess.CompletedProcess[str]:
    call = (
        f"{prelude}\nimport sys; sys.argv = ['calve', *sys.argv[1:]]; from calve.cli.main import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", call, *arguments], capture_output=True, text=True, check=False, timeout=100
    )


@pytest.fixture(scope="module")
def kept():
    """A demo that was kept."""
    result = run_calve("demo", "--json", "--keep", *SMALL)
    assert result.returncode == 0, result.stderr
    outcome = json.loads(result.stdout)
    yield outcome
    shutil.rmtree(outcome["folder"])


def test_the_demo_is_killed_twice_and_every_snapshot_equals_the_ledger(kept):
    """P1, P2, P3: each epoch is one snapshot, in order, whatever was killed."""
    assert kept["matches"]
    assert [snapshot["epoch"] for snapshot in kept["snapshots"]] == [1, 2, 3, 4]
    assert [snapshot["frontier"] for snapshot in kept["snapshots"]] == [2, 3, 4, 5]
    assert {snapshot["total"] for snapshot in kept["snapshots"]} == {kept["total"]} == {200_000}
    assert [kill["run"] for kill in kept["kills"]] == [1, 2]
    # A kill meets a run in its epoch, or just after its commit: the next run goes on with one or the other.
    assert all(kill["resumed_at"] - kill["epoch"] in (0, 1) for kill in kept["kills"])


def test_the_demo_prints_its_snapshots_and_leaves_nothing_behind(tmp_path):
    result = run_calve("demo", *SMALL, prelude=f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}")
    assert result.returncode == 0, result.stderr
    assert "All 4 snapshots equal the ledger" in result.stdout
    assert result.stdout.count("SIGKILL") == 2
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("calve-demo")] == []


def test_the_demo_fails_where_a_snapshot_is_wrong():
    """It compares what it read: a reader that loses a row is found out."""
    lossy = (
        "import calve.cli.demo as demo\n"
        "read = demo.read_rows\n"
        "demo.read_rows = lambda table, snapshot: read(table, snapshot).slice(1)\n"
    )
    result = run_calve("demo", *SMALL, prelude=lossy)
    assert result.returncode == 1
    assert "The table is wrong" in result.stdout


def test_a_demo_whose_table_lacks_an_epoch_or_has_one_twice_does_not_match(kept):
    """P3: each snapshot alone may be right."""
    snapshots = [Compared(**snapshot) for snapshot in kept["snapshots"]]
    for wrong in (snapshots[1:], [*snapshots, snapshots[-1]], []):
        assert not Outcome(Demo(epochs=4), "", snapshots=wrong).matches
    assert Outcome(Demo(epochs=4), "", snapshots=snapshots).matches


def test_the_lines_that_it_prints_for_pyiceberg_work(kept):
    line = printed(kept, "pyiceberg_line")
    result = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "calve.frontier" in result.stdout


@pytest.mark.engines
def test_the_lines_that_it_prints_for_duckdb_work(kept):
    with duck_reader() as reader:
        count, total = reader.connection.execute(printed(kept, "duckdb_query")).fetchone()
    assert count == kept["snapshots"][-1]["rows"]
    assert total == kept["total"]


def printed(kept: dict, line: str) -> str:
    outcome = Outcome(Demo(keep=True), kept["folder"], metadata=kept["metadata"])
    text: str = getattr(show, line)(outcome)
    assert text in show.how_to_read(outcome).replace("\\[", "[")
    return text


def test_a_run_that_was_done_before_the_kill_is_not_called_killed():
    """The demo begins again then, and says so when that does not help."""
    slow = (
        "import calve.cli.demo as demo, calve.cli.runs as runs\n"
        "demo._ATTEMPTS_MAX = 2\n"
        "runs.Moment.count = lambda *_: 0  # nothing is ever seen, so that runs end by themselves\n"
    )
    result = run_calve("demo", *SMALL, prelude=slow)
    assert result.returncode == 1
    assert result.stderr.startswith("calve: NotKilled: ")


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "calve.cli.app")
    with pytest.raises(SystemExit) as exit_:
        main()
    assert (
        exit_.value.code == "calve: the command line needs typer; install it with: pip install 'calve[cli]'"
    )


def test_an_error_of_ours_is_said_in_words_without_a_traceback(monkeypatch):
    def fail(_: Demo) -> Outcome:
        raise DemoFailed("run 3 ended", hint="Try again.")

    monkeypatch.setattr(app_module, "run_demo", fail)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert result.stderr == "calve: DemoFailed: run 3 ended\n  hint: Try again.\n"


@pytest.mark.parametrize(
    "arguments", [("--rows", "1"), ("--epochs", "3"), ("--rows", "many"), ("--nonsense",)]
)
def test_what_cannot_be_asked_is_refused_before_anything_starts(monkeypatch, arguments):
    monkeypatch.setattr(app_module, "run_demo", lambda _: pytest.fail("it was started"))
    assert CliRunner().invoke(app, ["demo", *arguments]).exit_code == 2


def test_the_command_says_its_version():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"calve {__version__}\n"
