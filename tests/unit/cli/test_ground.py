"""The ground of the commands: whatever a command does, its end is told in words, with a code."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner, Result

from calve.cli.app import app as whole
from calve.cli.console import AsJson, manner, note, show, show_json, show_table, working
from calve.cli.ground import EXIT_CODES, Ground
from calve.cli.logs import _Lines
from calve.config.catalog import CatalogConfig
from calve.config.sink import SinkConfig
from calve.sql.read import read

CANARY = "canary-5f2a-token"


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer(cls=Ground, pretty_exceptions_enable=False, no_args_is_help=True)

    @made.command()
    def typo(as_json: AsJson = False) -> None:
        SinkConfig.from_options({"namespace": "ns", "table.name": "t", "warehous": "w"})

    @made.command()
    def statement() -> None:
        read("CREATE SINK a\n  FORM b;")

    @made.command()
    def defect() -> None:
        config = CatalogConfig(uri="http://127.0.0.1:1", properties={"token": CANARY})
        raise ValueError(f"{config.name} got [bold]{CANARY}[/bold] from https://u:{CANARY}@host/")

    @made.command()
    def talk(as_json: AsJson = False) -> None:
        note("beside it")
        logging.getLogger("calve.ground").warning("warned of %s", "it")
        with working("long work") as say:
            say("half")
        if as_json:
            show_json({"text": "[ä]"})
            return
        show("[the] result", style="red")
        show_table(("name", "count"), [("[a]", "1")], right=("count",))

    @made.command()
    def ends(code: int) -> None:
        raise typer.Exit(code)

    @made.command()
    def ask() -> None:
        typer.confirm("sure?")

    @made.command()
    def interrupted(as_json: AsJson = False) -> None:
        raise KeyboardInterrupt

    return made


@pytest.fixture
def logs() -> Iterator[None]:
    handler = _Lines(logging.WARNING)
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)


def run(app: typer.Typer, *words: str, **env: str) -> Result:
    return CliRunner().invoke(app, words, env={"CALVE_DEBUG": None, "NO_COLOR": None, **env})


def test_an_error_is_its_code_its_name_what_is_known_and_what_to_do(app):
    ended = run(app, "typo")
    assert ended.stderr == (
        "error CALVE-101 (UnknownOption): there is no option 'warehous'\nhint: Did you mean 'warehouse'?\n"
    )
    assert (ended.exit_code, ended.stdout) == (1, "")


def test_an_error_in_json_is_one_object_on_stdout_and_nothing_else(app):
    ended = run(app, "typo", "--json")
    assert json.loads(ended.stdout) == {
        "error": {
            "code": "CALVE-101",
            "name": "UnknownOption",
            "message": "there is no option 'warehous'",
            "hint": "Did you mean 'warehouse'?",
        }
    }
    assert (ended.exit_code, ended.stderr) == (1, "")


def test_a_caret_stays_below_its_word(app):
    lines = run(app, "statement").stderr.splitlines()
    assert lines[0] == "error CALVE-200 (BadStatement): 'FORM' was not expected (line 2, column 3)"
    assert lines[1].index("FORM") == lines[2].index("^")
    assert lines[3].startswith("hint: ")
    assert len(lines) == 4


@pytest.mark.parametrize("before", [1, 30, 70, 150])
def test_a_caret_stays_below_its_word_on_a_terminal_of_80_columns(app, before):
    """What is wider is shown in part: it must not wrap."""

    @app.command()
    def wide() -> None:
        read(f"CREATE SINK {'a' * before} FORM {'b' * 150};")

    ended = run(app, "wide", FORCE_COLOR="1", TERM="xterm", COLUMNS="80", NO_COLOR="1")
    lines = ended.stderr.splitlines()
    caret = next(n for n, line in enumerate(lines) if line.strip() == "^")
    assert lines[caret - 1][lines[caret].index("^") :].startswith("FORM")
    assert max(map(len, lines)) <= 80


def test_a_defect_is_one_line_and_a_hint_without_the_way_there_and_without_a_secret(app):
    """P10."""
    ended = run(app, "defect")
    assert ended.stderr == (
        "error CALVE-990 (Defect): ValueError: calve got [bold]***[/bold] from https://***@host/\n"
        "hint: `calve --debug …` shows where it happened; please report it.\n"
    )
    assert ended.exit_code == 1


@pytest.mark.parametrize(
    "words, env",
    [(("--debug", "defect"), {}), (("defect", "--debug"), {}), (("defect",), {"CALVE_DEBUG": "1"})],
)
def test_debug_shows_the_way_there_and_no_secret(app, words, env):
    """P10, case 58."""
    ended = run(app, *words, **env)
    assert ended.stderr.startswith("Traceback (most recent call last):\n")
    assert "in defect" in ended.stderr
    assert "canary" not in ended.output
    assert "***" in ended.stderr
    assert ended.exit_code == 1


@pytest.mark.parametrize("value", ["", "0"])
def test_debug_is_off_unless_it_is_said(app, value):
    assert "Traceback" not in run(app, "defect", CALVE_DEBUG=value).stderr


@pytest.mark.parametrize(
    "words, message, hint",
    [
        (("typo", "--jsn"), "no such option: --jsn (Possible options: --json)", "`calve typo --help`"),
        (("tpo",), "no such command 'tpo'. Did you mean 'typo'?", "`calve --help`"),
        (("ends",), "missing argument 'code'", "`calve ends --help`"),
        (("ends", "x"), "invalid value for 'code'", "`calve ends --help`"),
    ],
)
def test_a_command_line_that_cannot_be_read_ends_with_its_own_code(app, words, message, hint):
    ended = run(app, *words)
    first, second = ended.stderr.splitlines()
    assert first.startswith(f"error CALVE-900 (BadUsage): {message}")
    assert second == f"hint: {hint} shows what it takes."
    assert (ended.exit_code, ended.stdout) == (64, "")


def test_a_command_line_that_cannot_be_read_is_told_in_json_too(app):
    ended = run(app, "ends", "--json")
    assert json.loads(ended.stdout)["error"]["code"] == "CALVE-900"
    assert ended.exit_code == 64


def test_no_command_is_the_help_and_no_success(app):
    ended = run(app)
    assert ended.exit_code == 64
    assert "Usage: calve" in ended.output


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_command_says_its_own_exit_code(app, code):
    assert run(app, "ends", str(code)).exit_code == code
    assert code in EXIT_CODES


def test_ctrl_c_is_one_line_and_130(app):
    ended = run(app, "interrupted")
    assert (ended.stderr, ended.stdout, ended.exit_code) == ("calve: stopped by Ctrl-C\n", "", 130)
    assert json.loads(run(app, "interrupted", "--json").stdout)["error"]["name"] == "Interrupted"


def test_a_question_without_an_answer_ends_like_ctrl_c(app):
    ended = run(app, "ask")
    assert ended.exit_code == 130
    assert ended.stderr == "calve: stopped by Ctrl-C\n"


def test_results_go_to_stdout_and_all_else_to_stderr(app, logs):
    ended = run(app, "talk")
    assert ended.stdout == "[the] result\nname  count\n[a]       1\n"
    assert ended.stderr == "beside it\nwarning: warned of it\n"  # progress is for terminals


def test_quiet_leaves_out_all_but_the_result(app, logs):
    for words in (("--quiet", "talk"), ("talk", "--quiet")):
        ended = run(app, *words)
        assert ended.stdout.startswith("[the] result\n")
        assert ended.stderr == ""


def test_a_result_in_json_is_one_object(app):
    assert json.loads(run(app, "talk", "--json").stdout) == {"text": "[ä]"}


@pytest.mark.parametrize("words, env", [(("--no-color",), {}), ((), {"NO_COLOR": "1"})])
def test_colour_is_left_out_where_it_is_not_wanted(app, words, env):
    assert "\x1b[" in run(app, "talk", FORCE_COLOR="1", TERM="xterm").stdout
    assert "\x1b[" in run(app, "typo", FORCE_COLOR="1", TERM="xterm").stderr
    assert "\x1b" not in run(app, *words, "talk", FORCE_COLOR="1", TERM="xterm", **env).output
    assert "\x1b" not in run(app, *words, "typo", FORCE_COLOR="1", TERM="xterm", **env).output


def test_words_behind_two_dashes_are_the_commands_own(app):
    seen = []

    @app.command()
    def takes(text: str) -> None:
        seen.append((text, manner().debug))

    assert run(app, "takes", "--", "--debug").exit_code == 0
    assert seen == [("--debug", False)]


def test_a_manner_is_over_with_its_command(app):
    run(app, "--debug", "typo", "--json")
    assert not manner().debug
    assert not manner().json


def test_every_command_of_calve_stands_on_it():
    ended = run(whole, "quarantine", "list", "a.b.c.d.e", "--warehous", "x")
    assert ended.exit_code == 64
    assert "(Possible options: --warehouse)" in ended.stderr
