"""Typed: what a person types at the shell, one statement after the other.

    keys ──▶ a statement, over as many lines as it takes ──Enter, behind its semicolon──▶ the shell
                                                        └──▶ history, masked

A statement is kept whole, also where it was typed in lines: what of it is a secret only the whole shows. The
file of the history is its owner's alone, and has no secret that a statement of ours can carry (P10).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import has_completions
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output

from calve.sql.grammar import WORDS
from calve.sql.mask import masked
from calve.sql.split import is_whole
from calve.sql.write import quoted

PROMPT, MORE = "calve> ", "    -> "
COMMANDS = ("\\help", "\\plan", "\\quit", "\\run", "\\save")

Names = Callable[[], Iterable[str]]


class MaskedHistory(FileHistory):
    """Statements that were typed before. What is a secret in them is not written down."""

    def store_string(self, string: str) -> None:
        super().store_string(masked(string))


class Words(Completer):
    """Keywords, names that are defined, and the shell's own commands."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        if before.lstrip().startswith("\\"):
            begun = before.lstrip()
            yield from (Completion(one, -len(begun)) for one in COMMANDS if one.startswith(begun.lower()))
            return
        begun = document.get_word_before_cursor(WORD=False) if before[-1:].strip() else ""
        for name in sorted(set(map(str, self._names()))):
            if begun and name.lower().startswith(begun.lower()):
                yield Completion(quoted(name), -len(begun), display=name)
        for word in WORDS:
            if word.startswith(begun.upper()):
                yield Completion(word, -len(begun))


def is_done(text: str) -> bool:
    """Whether Enter ends what was typed, or begins another line of it."""
    begun = text.strip()
    return not begun or begun.startswith("\\") or is_whole(text)


def prompt_session(
    names: Names, *, keys: Input | None = None, screen: Output | None = None
) -> PromptSession[str]:
    """Where a person types."""
    return PromptSession(
        PROMPT,
        history=MaskedHistory(str(history_file())),
        completer=Words(names),
        complete_while_typing=False,
        multiline=True,
        prompt_continuation=MORE,
        key_bindings=_bindings(),
        input=keys,
        output=screen,
    )


def history_file() -> Path:
    """Where what was typed is kept, for its owner alone."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "calve"
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = state / "history"
    file.touch(mode=0o600)
    file.chmod(0o600)  # also one that was there
    return file


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=~has_completions)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_done(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    @bindings.add("enter", filter=has_completions)
    def _(event: KeyPressEvent) -> None:
        """Take the word that is chosen."""
        event.current_buffer.complete_state = None

    return bindings
