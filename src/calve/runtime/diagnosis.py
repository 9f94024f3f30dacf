"""A diagnosis: what was tried, how each check ended, and what to do about those that did not end well.

    check ──Found──▶ ok, or a note where a person should know something
      └──CalveError─▶ failed, with its message and hint

Machines (machine.py) and catalogs (doctor.py) are diagnosed in the same form. Nothing is raised for what is
found: it stands in the diagnosis.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from calve.model.errors import CalveError

_LINE_CHARACTERS_MAX = 300


class Outcome(StrEnum):
    """How a check ended."""

    OK = "ok"
    NOTE = "note"  # it works, and a person should know something
    FAILED = "failed"
    SKIPPED = "skipped"  # what it needs has failed


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried."""

    name: str
    outcome: Outcome
    words: str
    hint: str = ""
    milliseconds: float = 0.0


@dataclass(slots=True)
class Diagnosis:
    """What a doctor found of a place."""

    place: str
    checks: list[Check] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether a sink can run here."""
        return all(check.outcome in (Outcome.OK, Outcome.NOTE) for check in self.checks)

    @property
    def verdict(self) -> str:
        """The place, and whether a sink can run there, in a line."""
        return f"{self.place}: {'all is well' if self.ok else 'a sink cannot run here yet'}"

    def as_dict(self) -> dict[str, Any]:
        """The same for a program."""
        return {"place": self.place, "ok": self.ok, "checks": [asdict(check) for check in self.checks]}

    def __str__(self) -> str:
        lines = [self.verdict]
        for check in self.checks:
            lines.append(f"  {check.outcome:<8} {check.name:<17} {check.words}")
            if check.hint:
                lines.append(f"  {'':<26} → {check.hint}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Found:
    """What a check that did not fail says. With a hint it is a note."""

    words: str
    hint: str = ""


def tried(name: str, check: Callable[[], Found]) -> Check:
    """Try one thing. What goes wrong with it is what is found."""
    started = time.perf_counter()
    try:
        found = check()
    except CalveError as error:
        outcome, words, hint = Outcome.FAILED, error.message, error.hint
    except Exception as error:  # noqa: BLE001 - whatever is found is told, and what was made is removed
        outcome, words = Outcome.FAILED, f"it failed with {type(error).__name__}"
        hint = "calve has no words for this yet: please report it."
    else:
        outcome, words, hint = Outcome.NOTE if found.hint else Outcome.OK, found.words, found.hint
    return Check(name, outcome, words, hint, round((time.perf_counter() - started) * 1000, 1))


def skipped(name: str) -> Check:
    """What it needs has failed."""
    return Check(name, Outcome.SKIPPED, "not tried")


def line_of(error: BaseException) -> str:
    """The kind of an error, and the first line of what it says that says something."""
    lines = (line.strip(" :\t") for line in str(error).splitlines())
    said = next((line for line in lines if line and not line.startswith("An error occurred while")), "")
    kind = type(error).__name__
    return f"{kind}: {said[:_LINE_CHARACTERS_MAX]}" if said else kind
