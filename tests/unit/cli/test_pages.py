"""docs/cli.md: made from the commands, and up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from calve.cli.app import app
from calve.cli.ground import EXIT_CODES
from calve.cli.pages.commands import commands_page
from calve.cli.pages.errors import errors_page

DOCS = Path(__file__).parents[3] / "docs"


def commands(command, path=("calve",)):
    below = getattr(command, "commands", None)
    if not below:
        yield " ".join(path), command
        return
    for name, one in below.items():
        yield from commands(one, (*path, name))


ALL = dict(commands(get_command(app)))


def test_the_page_of_commands_is_up_to_date():
    assert (DOCS / "cli.md").read_text("utf-8") == commands_page(), (
        "run: python -m calve.cli.pages cli > docs/cli.md"
    )


@pytest.mark.parametrize("path", ALL)
def test_every_command_stands_on_the_page_with_all_that_it_takes(path):
    _, _, rest = commands_page().partition(f"\n## {path}\n")
    section = rest.partition("\n## ")[0]
    for option in ALL[path].params:
        assert all(f"{word}" in section for word in (*option.opts, *option.secondary_opts) if "-" in word)


@pytest.mark.parametrize("path", ALL)
def test_every_command_speaks_json_and_says_what_it_does(path):
    assert "--json" in {word for option in ALL[path].params for word in option.opts}
    assert ALL[path].help


def test_every_exit_code_stands_on_the_page():
    assert all(f"\n| {code} | " in commands_page() for code in EXIT_CODES)


@pytest.mark.parametrize("name, page", [("cli", commands_page), ("errors", errors_page)])
def test_a_page_is_printed_by_its_command(name, page):
    call = [sys.executable, "-m", "calve.cli.pages", name]
    ran = subprocess.run(call, capture_output=True, text=True, check=True)
    assert ran.stdout == page()
