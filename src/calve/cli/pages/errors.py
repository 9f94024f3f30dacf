"""docs/errors.md, made from the classes of all errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from calve.cli import runs, words
from calve.model import errors
from calve.model.error import CalveError, Effect

_GROUPS = {
    "1": "What was asked for",
    "2": "SQL",
    "3": "Rows and values",
    "4": "The table",
    "5": "The catalog",
    "6": "The store",
    "7": "Sources",
    "8": "A run",
    "9": "The command line, and what it stands on",
}
_ROOMS = (errors, runs, words)
"""Where errors are defined; a test finds one that is defined elsewhere."""
_PAGE = re.compile(r"docs/(\w+\.md)")
_HEAD = """\
# Errors

Made by `python -m calve.cli.pages errors`; a test keeps it up to date. Every error has a code that never
changes, and that no other error has. The command line says it in front of the message, and in JSON as
`error.code`; in Python it is `error.code`, beside `error.message`, `error.hint` and `error.effect`.

```text
error CALVE-101 (UnknownOption): there is no option 'warehous'
hint: Did you mean 'warehouse'?
```

The message says what is known here, and where; the hint says what to do about it here. The lists below say
what is known of every error of its kind.
"""


def errors_page() -> str:
    """docs/errors.md."""
    return _HEAD + "".join(f"\n## {title}\n\n{_table(digit)}" for digit, title in _GROUPS.items())


def listed() -> list[type[CalveError]]:
    """All kinds of errors but the root, by their codes."""
    return sorted({kind for room in _ROOMS for kind in _kinds(room)}, key=lambda kind: kind.code)


def _kinds(room: object) -> Iterator[type[CalveError]]:
    for value in vars(room).values():
        if isinstance(value, type) and issubclass(value, CalveError) and value is not CalveError:
            yield value


def _table(digit: str) -> str:
    kinds = [kind for kind in listed() if kind.code.startswith(f"CALVE-{digit}")]
    rows = "".join(map(_row, kinds))
    return f"| code | error | what it means | what is known | what to do |\n|---|---|---|---|---|\n{rows}"


def _row(kind: type[CalveError]) -> str:
    meaning = " ".join((kind.__doc__ or "").split())
    known = _known(kind.effect)
    advice = _PAGE.sub(r"[\1](\1)", kind.advice)
    return f"| {kind.code} | `{kind.__name__}` | {meaning} | {known} | {advice} |\n"


def _known(effect: Effect) -> str:
    return f"**{effect}**" if effect is Effect.PERHAPS else str(effect)
