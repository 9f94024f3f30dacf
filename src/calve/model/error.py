"""What every error has: its words, and a code by which people and programs know it.

    code     never changes, and is no other error's; a program may stand on it
    effect   what is known to have happened
    message  what is known here, with its place ─┐ given when
    hint     what to do about it here           ─┘ it is raised
    about    the setting that is wrong, for who knows where a person wrote it
    place    that place, as the message shows it last, where it does
    advice   what to do about its kind, for docs/errors.md

Code and advice belong to a class and not to those below it; an effect holds for those below it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Effect(StrEnum):
    """What is known to have happened when an error is raised."""

    NOTHING = "Nothing was changed."
    UNCOMMITTED = "The batch at hand is not in the table; those before it are."
    PERHAPS = "It may have happened: the table tells."


@dataclass(frozen=True, slots=True)
class About:
    """The setting that an error is about. It says nothing of where that was written."""

    part: str
    """By the name of its field or option; `source` or `query`, where it is no setting."""
    word: str = ""
    """One of several that stand there: a column of a key, a transform of a partition, the view of a query."""
    at: int | None = None
    """So many letters of that come before what is wrong."""


class CalveError(Exception):
    """An error with what is known and a hint of what to do next."""

    code: ClassVar[str] = "CALVE-000"
    effect: ClassVar[Effect] = Effect.PERHAPS
    advice: ClassVar[str] = "Do as the hint says."

    def __init__(self, message: str, *, hint: str, about: About | str | None = None, place: str = "") -> None:
        super().__init__(message + place)
        self.message = message + place
        self.hint = hint
        self.about = About(about) if isinstance(about, str) else about
        self.place = place

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions with keyword-only arguments do not survive pickling by themselves, and workers'
        # errors cross processes.
        return (_rebuild, (type(self), self.message, self.hint))


@contextmanager
def about(part: str, word: str = "") -> Iterator[None]:
    """What is refused here is about this, where it does not say so itself."""
    try:
        yield
    except CalveError as error:
        error.about = error.about or About(part, word)
        raise


def _rebuild(kind: type[CalveError], message: str, hint: str) -> CalveError:
    return kind(message, hint=hint)
