"""Output: the one place for what a command says, and how it is asked to say it.

    results                   ──▶ stdout   show, show_named, show_table, show_json
    notes, progress, errors   ──▶ stderr   note, working, tell

Guarantee: with `--json` stdout has one JSON object and nothing else. On a terminal text is wrapped between
words (layout.py) and has colour, unless `--no-color` or NO_COLOR say otherwise; anywhere else lines are as
long as they are, so that programs find whole lines. Progress shows on a terminal alone. No secret of a
configuration that is in use is printed as a part of an error (P10).

A command builds no Console: it calls these, and need not know how it was called.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from calve.cli import layout
from calve.cli.words import Ended, Interrupted
from calve.config.secret import live_secrets, redact
from calve.model.error import CalveError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
"""Every command has it."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a command is asked to speak."""

    json: bool = False
    quiet: bool = False
    color: bool = True
    debug: bool = False


_MANNER: ContextVar[Manner] = ContextVar("manner")


def manner() -> Manner:
    """How the command that runs now is asked to speak."""
    return _MANNER.get(Manner())


@contextmanager
def spoken(asked: Manner) -> Iterator[None]:
    """Speak in this manner for a while."""
    token = _MANNER.set(asked)
    try:
        yield
    finally:
        _MANNER.reset(token)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would end the process with code 1; the ground knows better


def console(*, stderr: bool = False) -> Console:
    """For what the functions below do not do. Made anew each time: the streams are those of now."""
    # Not `no_color`, which keeps bold and dim.
    return _Console(stderr=stderr, color_system="auto" if has_colour() else None, highlight=False)


def has_colour() -> bool:
    """Whether colour is wanted, where a terminal has it."""
    return manner().color and "NO_COLOR" not in os.environ


def columns(*, stderr: bool = False) -> int | None:
    """How wide the terminal is; `None` where there is none, and lines are as long as they are."""
    to = console(stderr=stderr)
    return to.width if to.is_terminal else None


def show(text: str | Text, style: str = "") -> None:
    """A line of the result. It is no markup: what stands in brackets is printed."""
    if isinstance(text, Text):
        _print(console(), [text], style)
    else:
        _print(console(), map(Text, layout.wrapped(text, columns())), style)


def note(text: str) -> None:
    """Something beside the result, which `--quiet` leaves out."""
    if not manner().quiet:
        _print(console(stderr=True), map(Text, layout.wrapped(text, columns(stderr=True))))


def show_named(lines: Iterable[layout.Named], indent: int = 0, least: int = 0) -> None:
    """Names, and what is said of each. What is empty is left out."""
    _print(console(), layout.named(lines, columns(), indent, least))


def show_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    right: Iterable[str] = (),
    indent: int = 0,
) -> None:
    """A table. The columns that are named in `right` are numbers."""
    _print(console(), layout.table(headings, rows, right, columns(), indent))


def show_json(body: object) -> None:
    """The result as one JSON object."""
    sys.stdout.write(json.dumps(body, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def working(text: str = "") -> Iterator[Callable[[str], None]]:
    """A line on the terminal that says how far long work is, and is gone when it is done."""
    if manner().quiet:
        yield lambda _: None
        return
    from calve.runtime.spark.progress import TerminalLine

    line = TerminalLine(sys.stderr)
    line.show(text)
    try:
        yield line.show
    finally:
        line.show("")


def tell(error: CalveError, raised: BaseException) -> None:
    """Say what went wrong: on stderr, or on stdout as one JSON object. With `--debug` the way there, too."""
    secrets = live_secrets()
    message, hint = redact(error.message, secrets), redact(error.hint, secrets)
    if manner().debug:
        sys.stderr.write(redact("".join(traceback.format_exception(raised)), secrets))
    if manner().json:
        kind = type(error)
        show_json({"error": {"code": kind.code, "name": kind.__name__, "message": message, "hint": hint}})
    elif isinstance(error, Interrupted | Ended):
        sys.stderr.write(f"calve: {message}\n")
    else:
        _print(console(stderr=True), _in_words(type(error), message, hint))


def _in_words(kind: type[CalveError], message: str, hint: str) -> Iterator[Text]:
    """Lines after the first keep their places to one another: a caret stays below its word."""
    width = columns(stderr=True)
    head = Text.assemble(("error", "bold red"), f" {kind.code} ({kind.__name__}): ")
    yield from _behind(head, message, width)
    yield from _behind(Text.assemble(("hint:", "bold cyan"), " "), hint, width)


def _behind(head: Text, text: str, width: int | None) -> Iterator[Text]:
    first, *more = text.splitlines() or [""]
    line, *rest = layout.wrapped(head.plain + first, width, hang=2)
    yield Text.assemble(head, line[len(head.plain) :])
    yield from map(Text, rest)
    if more:
        rest = layout.wrapped("\n".join(more), None if width is None else width - 2)
        yield from (Text(f"  {part}") for part in rest)


def _print(to: Console, lines: Iterable[Text], style: str = "") -> None:
    for line in lines:
        to.print(line, style=style or None, soft_wrap=True)
