"""`calve demo` as a person calls it: real Spark, real kills, an exit code that tells the truth."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from calve import __version__
from calve.cli import demo as demo_module
from calve.cli import reading, show
from calve.cli.app import app
from calve.cli.demo import Compared, Demo, Kill, Outcome
from calve.cli.feed import Feed
from calve.cli.ledger import MINUTE, Ledger
from calve.cli.main import main
from calve.cli.runs import DemoFailed
from calve.runtime import machine
from tests.support.readers import duck_reader

SMALL = ("--rows", "200")
MARK = "CALVE_TEST_MARK"


def run_calve(
    *arguments: str, mark: str = "", folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, MARK: mark} | ({} if folder is None else {"TMPDIR": str(folder)})
    call = [sys.executable, "-m", "calve.cli.main", *arguments]
    return subprocess.run(call, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def mark() -> str:
    """In the environment of all processes of the demo that is kept."""
    return uuid.uuid4().hex


@pytest.fixture(scope="module", params=[1, pytest.param(3, marks=pytest.mark.nightly)])
def kept(mark, request):
    """A demo that was kept: killed once, or at each of the moments."""
    result = run_calve("demo", "--json", "--keep", "--kills", str(request.param), *SMALL, mark=mark)
    assert result.returncode == 0, result.stderr
    outcome = json.loads(result.stdout)
    yield outcome
    shutil.rmtree(outcome["folder"])


def outcome_of(kept: dict) -> Outcome:
    return Outcome(
        demo=Demo(**kept["demo"]),
        folder=kept["folder"],
        feed=Feed(**kept["feed"]),
        total=kept["total"],
        last_frontier=kept["last_frontier"],
        metadata=kept["metadata"],
        snapshots=[Compared(**snapshot) for snapshot in kept["snapshots"]],
    )


@pytest.mark.spark
@pytest.mark.timeout(600)
class TestKept:
    """What a demo that was kept shows."""

    def test_the_driver_is_killed_and_every_snapshot_equals_the_ledger_as_of_its_frontier(self, kept):
        """P1, P2, P3: batches tile the time, each is one snapshot, whatever was killed."""
        assert kept["matches"]
        assert {snapshot["total"] for snapshot in kept["snapshots"]} == {kept["total"]} == {200_000}
        frontiers = [snapshot["frontier"] for snapshot in kept["snapshots"]]
        assert frontiers == sorted(set(frontiers))
        assert all(frontier % MINUTE == 0 for frontier in frontiers)
        assert frontiers[-1] == kept["last_frontier"]
        assert {snapshot["run"] for snapshot in kept["snapshots"]} >= {1, kept["demo"]["kills"] + 1}

    def test_each_kill_met_a_commit(self, kept):
        kills = kept["kills"]
        assert [kill["run"] for kill in kills] == list(range(1, kept["demo"]["kills"] + 1))
        assert len({kill["moment"] for kill in kills}) == len(kills)
        # What was killed with its files closed and not committed is committed from the same files.
        assert kills[0]["files_reused"] is not kills[0]["landed"]
        assert kills[-1]["landed"] or len(kills) < 3

    def test_no_process_of_it_is_left(self, kept, mark):
        """Neither a driver that was killed, nor its JVM, nor a Python worker."""
        assert kept["kills"]
        left = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark.encode() in (process / "environ").read_bytes():
                    left.append((process / "cmdline").read_bytes())
            except OSError:
                continue  # it is gone, or not ours
        assert left == []

    def test_a_reader_that_loses_a_row_is_found_out(self, kept, monkeypatch):
        """The demo compares what it read of each snapshot."""
        feed = kept["feed"]
        minutes = outcome_of(kept).demo.minutes
        ledger = Ledger(200, minutes, (feed["latest"] // MINUTE - minutes + 1) * MINUTE)
        outcome = outcome_of(kept)

        def compare() -> bool:
            outcome.snapshots = []
            demo_module._compare(Path(kept["folder"]), outcome, ledger, [])
            return outcome.matches

        assert compare()
        read = reading.read_rows
        monkeypatch.setattr(demo_module, "read_rows", lambda table, snapshot: read(table, snapshot).slice(1))
        assert not compare()

    def test_a_table_that_lacks_a_batch_or_has_one_twice_does_not_match(self, kept):
        """P3: each snapshot alone may be right."""
        outcome = outcome_of(kept)
        assert outcome.matches
        snapshots = outcome.snapshots
        for wrong in (
            snapshots[1:],
            snapshots[:-1],
            [*snapshots, snapshots[-1]],
            [*snapshots[:1], *snapshots[2:]],
            [],
        ):
            outcome.snapshots = wrong
            assert not outcome.matches

    def test_the_command_that_it_prints_for_duckdb_works_as_it_is_printed(self, kept):
        outcome = outcome_of(kept)
        command = show.duckdb_command(outcome)
        assert command in show.how_to_read(outcome)
        ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        assert str(kept["snapshots"][-1]["rows"]) in ran.stdout
        assert str(kept["total"]) in ran.stdout

    def test_duckdb_reads_every_snapshot_as_the_demo_did(self, kept):
        """An engine that we did not write agrees with the demo's own reader."""
        with duck_reader() as reader:
            for snapshot in kept["snapshots"]:
                query = show.duckdb_query(outcome_of(kept)).removesuffix(")")
                seen = reader.connection.execute(
                    f"{query}, snapshot_from_id = {snapshot['snapshot_id']}::UBIGINT)"
                ).fetchone()
                assert seen == (snapshot["rows"], snapshot["total"])


@pytest.mark.parametrize("keep", [True, False])
def test_the_demo_prints_what_it_found(keep):
    start = 30_000_000 * MINUTE
    kills = [
        Kill(1, 4, "it wrote", landed=False, files_reused=True),
        Kill(2, 5, "it told", landed=True, sent_again=True),
        Kill(3, 6, "it wrote", landed=False, files_reused=False),
    ]
    right = Compared(7, 0, start, 1, 200, 200_000, 16, 812.4, matches=True)
    wrong = Compared(8, start, start + MINUTE, 2, 199, 199_000, 16, None, matches=False)
    feed = Feed(8, 900, 90, 30, start)
    outcome = Outcome(Demo(200, 3, keep), "/tmp/x", feed, 200_000, start + MINUTE, kills=kills)
    outcome.snapshots, outcome.waiting = [right, wrong], 12
    text = shown(outcome)
    assert "The table is wrong: 2 snapshots" in text
    assert text.count("SIGKILL") == 3
    assert "run 2 committed the files that were there, once" in text
    assert "run 3 got it again, found it in the table" in text
    assert "run 4 wrote it again" in text
    assert f"{datetime.fromtimestamp(start // 1_000_000, UTC):%H:%M:%S}" in text
    assert "812" in text
    assert ("To read it with DuckDB" in text) is keep
    outcome.kills = [replace(kills[1], sent_again=False)]
    assert "run 3 went on with the next one" in shown(outcome)
    outcome.snapshots = [right, replace(wrong, matches=True)]
    assert "All 2 snapshots equal the ledger as of their frontier" in shown(outcome)


def test_on_a_terminal_lines_end_between_words():
    kill = Kill(1, 4, "it wrote the manifests of its commit", landed=False, files_reused=True)
    start = 30_000_000 * MINUTE
    outcome = Outcome(Demo(200, 1), "/tmp/x", Feed(8, 943, 170, 43, start), 1, start, kills=[kill])
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    show.show_demo(outcome, console)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert "A ledger of 200 accounts, 8 minutes long: 943 changes came in 8 micro-batches," in lines
    assert "  run 1 got SIGKILL in micro-batch 4, while it wrote the manifests of its" in lines
    assert "  commit;" in lines


def shown(outcome: Outcome) -> str:
    console = Console(record=True, width=200, file=io.StringIO())
    show.show_demo(outcome, console)
    return console.export_text()


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_driver_that_fails_is_told_in_its_own_words(tmp_path):
    """Nothing is kept of it, and the exit code says so."""
    prelude = (
        "import os, sys, calve.cli.demo as demo\n"
        "deliver = demo.deliver\n"
        "def wrong(ledger, folder):\n"
        "    feed = deliver(ledger, folder)\n"
        "    (folder / 'minute-0000.parquet').write_bytes(b'no Parquet')\n"
        "    os.utime(folder / 'minute-0000.parquet', (1, 1))  # it is still the first\n"
        "    return feed\n"
        "demo.deliver = wrong\n"
        "sys.argv = ['calve', *sys.argv[1:]]\n"
        "from calve.cli.main import main; main()"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    call = [sys.executable, "-c", prelude, "demo", *SMALL]
    result = subprocess.run(call, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(
        "error CALVE-890 (DemoFailed): a run ended with exit code 1, not -9: bank.accounts: "
    )
    assert "minute-0000.parquet" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "calve.cli.app")
    with pytest.raises(SystemExit) as exit_:
        main()
    assert (
        exit_.value.code == "calve: the command line needs typer; install it with: pip install 'calve[cli]'"
    )


def test_without_java_two_lines_say_what_to_install(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "error CALVE-100 (ConfigError): Spark runs on Java, and there is none in JAVA_HOME, /nowhere\nhint: "
    )
    assert len(result.stderr.splitlines()) == 2


def test_an_error_of_ours_is_said_in_words_without_a_traceback(monkeypatch):
    def fail(*_: object) -> Outcome:
        raise DemoFailed("run 3 ended", hint="Try again.")

    monkeypatch.setattr(machine, "check_spark", lambda: None)
    monkeypatch.setattr(demo_module, "run_demo", fail)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert result.stderr == "error CALVE-890 (DemoFailed): run 3 ended\nhint: Try again.\n"


@pytest.mark.parametrize(
    "arguments", [("--rows", "1"), ("--kills", "-1"), ("--kills", "51"), ("--rows", "many"), ("--nonsense",)]
)
def test_what_cannot_be_asked_is_refused_before_anything_starts(monkeypatch, arguments):
    monkeypatch.setattr(demo_module, "run_demo", lambda *_: pytest.fail("it was started"))
    assert CliRunner().invoke(app, ["demo", *arguments]).exit_code == 64


def test_the_command_says_its_version():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"calve {__version__}\n"


def test_a_command_line_that_is_printed_survives_the_shell(tmp_path):
    """Whatever the folder is called."""
    for name in ("plain", "with space", "dollar $HOME", 'quote "x"', "tick `x`", "bang!"):
        said = subprocess.run(
            f"printf %s {show.quote(name)}", shell=True, capture_output=True, text=True, check=True
        )
        assert said.stdout == name
