"""What every error has: its words, and a code by which people and programs know it.

    code     never changes, and is no other error's; a program may stand on it
    effect   what is known to have happened
    message  what is known here, with its place ─┐ given when
    hint     what to do about it here           ─┘ it is raised
    advice   what to do about its kind, for docs/errors.md

Code and advice belong to a class and not to those below it; an effect holds for those below it, too.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class Effect(StrEnum):
    """What is known to have happened when an error is raised."""

    NOTHING = "Nothing was changed."
    UNCOMMITTED = "The batch at hand is not in the table; those before it are."
    PERHAPS = "It may have happened: the table tells."


class CalveError(Exception):
    """An error with what is known and a hint of what to do next."""

    code: ClassVar[str] = "CALVE-000"
    effect: ClassVar[Effect] = Effect.PERHAPS
    advice: ClassVar[str] = "Do as the hint says."

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions with keyword-only arguments do not survive pickling by themselves, and workers'
        # errors cross processes.
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[CalveError], message: str, hint: str) -> CalveError:
    return kind(message, hint=hint)
