"""The ground that all commands stand on: what every one of them does when it begins and when it ends.

    words ──manner──▶ --json, --quiet, --no-color, --debug, wherever they stand
      └──the others──▶ the command ──▶ 0, or what it says by `typer.Exit`
                           └── whatever it raises ──told──▶ words with a code, and an exit code

A command raises what it will, prints by console.py, and knows nothing of this. `Ground` is the class of the
app, so that a test that calls the app gets the same words and codes as a person.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from calve.cli import signals
from calve.cli.console import Manner, spoken, tell
from calve.cli.words import BadUsage, Ended, Interrupted, told
from calve.model.error import CalveError

OK, FAILED, CHANGES, USAGE = 0, 1, 2, 64
BROKEN_PIPE = 128 + signal.SIGPIPE
EXIT_CODES = {
    OK: "It is done, or there was nothing to do.",
    FAILED: "An error, a refusal, or a difference that was looked for (`verify`, `doctor`, `demo`).",
    CHANGES: "`plan` alone: there are changes to be made.",
    USAGE: "The command line cannot be read. Nothing was begun.",
    signals.exit_code(signal.SIGINT): "Ctrl-C.",
    BROKEN_PIPE: "Who read the output has gone away, as in `calve … | head`.",
    signals.exit_code(signal.SIGTERM): "SIGTERM.",
}
_CODES: dict[type[CalveError], int] = {
    BadUsage: USAGE,
    Interrupted: signals.exit_code(signal.SIGINT),
    Ended: signals.exit_code(signal.SIGTERM),
}
DEBUG_VARIABLE = "CALVE_DEBUG"
_FLAGS = ("--debug", "--no-color", "--quiet")


class Ground(TyperGroup):
    """An app whose every end is told, and has its exit code."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        asked, rest = manner_of(words)

        def call() -> None:
            with self.make_context("calve", rest) as context:
                self.invoke(context)

        with spoken(asked):
            sys.exit(ended(call))


def manner_of(words: list[str]) -> tuple[Manner, list[str]]:
    """How to speak, and the words that are for the command. Read before all others: also what is wrong with
    them is said in this manner."""
    end = words.index("--") if "--" in words else len(words)
    ours = words[:end]
    asked = Manner(
        json="--json" in ours,
        quiet="--quiet" in ours,
        color="--no-color" not in ours,
        debug="--debug" in ours or os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"),
    )
    return asked, [word for word in ours if word not in _FLAGS] + words[end:]


def ended(call: Callable[[], None]) -> int:
    """Call it, tell what goes wrong, and say the exit code."""
    code = OK
    try:
        try:
            call()
        except typer.Exit as end:
            code = end.exit_code
        sys.stdout.flush()  # here, and not when Python ends: nobody could tell of a broken pipe then
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - here every error ends: in words, and with its code
        signals.no_more_patience()
        if isinstance(error, BrokenPipeError) and _stdout_is_broken():
            return BROKEN_PIPE
        if type(error).__name__ == "NoArgsIsHelpError":
            return USAGE  # the help was printed
        found = told(error)
        tell(found, error)
        return _CODES.get(type(found), FAILED)
    return code


def _stdout_is_broken() -> bool:
    """A connection to a server may break, too. What Python still holds for stdout goes nowhere, then."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        if not any(event & select.POLLERR for _, event in poll.poll(0)):
            return False
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        return False
    return True
