"""Values as text: sizes, durations, truth values, choices. Each says what it takes when it refuses.

A parser gets the value and the name of its place, and gives the value that the models want, or raises
ConfigError. Text that may carry a secret is never shown: `parse_text` names the type only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from calve.model.errors import ConfigError

_UNIT_BYTES = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_SIZE = re.compile(r"([0-9]{1,18})\s*(?:([KMG])?I?(B))?", re.ASCII | re.IGNORECASE)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,15})\s*(ms|s|m|h|d)", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)

SIZE_TAKES = "a number of bytes, or one with a unit such as 64KB, 128MB or 1GB (a KB has 1024 bytes)"
DURATION_TAKES = "a number with its unit, such as 500ms, 60s, 5m, 1h or 7d"
NUMBER_TAKES = "a number such as 100000"
BOOL_TAKES = "true or false"
TEXT_TAKES = "text"
COLUMNS_TAKES = "column names with commas between them, or a list of them"

Parser = Callable[[object, str], object]


def parse_size(value: object, what: str) -> int:
    """Bytes: 134217728, '128MB', '128 MiB'."""
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())) is not None:
        return int(match[1]) * _UNIT_BYTES[(match[2] or "").upper()]
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _refused(value, what, SIZE_TAKES)


def parse_duration(value: object, what: str) -> int:
    """Milliseconds: '500ms', '60s', '5m'. A number without a unit says nothing, and is refused."""
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())) is not None:
        return int(match[1]) * _UNIT_MS[match[2].lower()]
    raise _refused(value, what, DURATION_TAKES)


def size_text(count: int) -> str:
    """Bytes as a user would write them."""
    return _largest_unit(count, {"GB": 2**30, "MB": 2**20, "KB": 2**10, "B": 1})


def duration_text(milliseconds: int) -> str:
    """Milliseconds as a user would write them."""
    return _largest_unit(milliseconds, {name: _UNIT_MS[name] for name in ("h", "m", "s", "ms")})


def _largest_unit(count: int, units: Mapping[str, int]) -> str:
    unit = next(name for name, size in units.items() if count % size == 0)
    return f"{count // units[unit]}{unit}"


def parse_number(value: object, what: str) -> int:
    """A number that is not negative."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _refused(value, what, NUMBER_TAKES)


def parse_bool(value: object, what: str) -> bool:
    """true or false, and no other word for either."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise _refused(value, what, BOOL_TAKES)


def parse_text(value: object, what: str) -> str:
    """Text that is not empty. The value is never shown: it may be a secret."""
    if not isinstance(value, str):
        raise ConfigError(f"{what} is a {type(value).__name__}, not text", hint=f"Give {TEXT_TAKES}.")
    if not value.strip():
        raise ConfigError(f"{what} is empty", hint=f"Give {TEXT_TAKES}, or leave the option out.")
    return value


def parse_property(value: object, what: str) -> str:
    """Text, or a number or truth value as its text. Never shown."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else parse_text(value, what)


def parse_list(value: object, what: str) -> object:
    """Text, or a sequence; what stands in it is read by the model."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return tuple(value)
    raise ConfigError(f"{what} is a {type(value).__name__}", hint="Give text or a list of texts.")


def parse_dictionary(value: object, what: str) -> object:
    """true, false, or the columns that get a dictionary."""
    if isinstance(value, bool) or (isinstance(value, str) and value.strip().lower() in ("true", "false")):
        return parse_bool(value, what)
    return parse_list(value, what)


def choice_of(*choices: str) -> Parser:
    """A parser that takes one of a few words, in any case."""

    def parse_choice(value: object, what: str) -> str:
        word = value.strip().lower() if isinstance(value, str) else ""
        if word in choices:
            return word
        near = nearest(word, choices)
        raise _refused(value, what, (f"'{near}'? It takes " if near else "") + one_of(choices))

    return parse_choice


def one_of(choices: Sequence[str]) -> str:
    """`append, changelog or upsert`."""
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that a mistyped one most likely meant."""
    return next(iter(get_close_matches(word, known, n=1, cutoff=0.6)), None)


def _refused(value: object, what: str, takes: str) -> ConfigError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}…"
    return ConfigError(f"{what} cannot be {shown}", hint=f"Give {takes}.")
