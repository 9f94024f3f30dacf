"""Asking: a person at a terminal is asked question by question. What is no answer is asked again.

Ctrl-C and Ctrl-D end it, and nothing was written.
"""

from __future__ import annotations

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import StyleAndTextTuples

from calve.cli import layout
from calve.cli.console import columns, has_colour, tell
from calve.cli.questions import Question
from calve.model.errors import CalveError
from calve.sql.choices import Said


class Asking:
    """One conversation."""

    def __init__(self) -> None:
        self._session: PromptSession[str] = PromptSession(complete_while_typing=False)

    def __call__(self, question: Question, default: str, said: Said) -> str:
        """The answer; nothing typed is the default."""
        completer = WordCompleter(list(question.choices)) if question.choices else None
        before = _words(question)
        while True:
            try:
                typed = self._session.prompt([*before, ("", _prompt(question, default))], completer=completer)
            except EOFError:
                raise typer.Abort from None
            try:
                return question.taken(typed.strip() or default, said)
            except CalveError as error:
                tell(error, error)
                before = []


def _words(question: Question) -> StyleAndTextTuples:
    """What is asked, and what can be chosen."""
    lines = layout.wrapped(question.words, columns())
    rows = [(str(n), name, words) for n, (name, words) in enumerate(question.choices.items(), 1)]
    chosen = [line.plain for line in layout.table(("", "", ""), rows, width=columns(), indent=2)]
    strong = "bold" if has_colour() else ""
    return [("", "\n"), *((strong, f"{line}\n") for line in lines), *(("", f"{line}\n") for line in chosen)]


def _prompt(question: Question, default: str) -> str:
    beside = default or (f"such as {question.example}" if question.example else "")
    return f"{question.name} [{beside}]: " if beside else f"{question.name}: "
