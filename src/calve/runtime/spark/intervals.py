"""Intervals: `10 seconds` and `1 minute`, as Spark's users write them, in the units of a column of times.

A timestamp counts in microseconds. A number counts in whatever its source counts in, which nobody here knows:
there an interval is a number too, and words are refused instead of guessed.
"""

from __future__ import annotations

import re

import pyarrow as pa

from calve.model.errors import ConfigError

_MICROSECONDS = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}
_STEP = re.compile(r"\s*([0-9]{1,15})\s*([a-zµ]+)", re.ASCII)
_TAKES = "Write a number with its unit, such as '10 seconds', '1 minute' or '1 hour 30 minutes'."


def units_of(interval: object, column: str, kind: pa.DataType, what: str) -> int:
    """An interval in the units of a column of times."""
    if isinstance(interval, int) and not isinstance(interval, bool):
        return interval
    if not isinstance(interval, str):
        raise ConfigError(f"{what} is a {type(interval).__name__}", hint=_TAKES)
    if interval.strip().isdecimal() and not pa.types.is_timestamp(kind):
        return int(interval)  # SQL has texts alone
    microseconds = parse_interval(interval, what)
    if pa.types.is_timestamp(kind):
        return microseconds
    raise ConfigError(
        f"{what} is {interval!r}, but the column of times {column!r} is {kind}: the unit is its source's",
        hint="Give a number in the units of the column.",
    )


def parse_interval(text: str, what: str) -> int:
    """Microseconds: `10 seconds`, `1 hour 30 minutes`, `500ms`."""
    rest = text.strip().lower().removeprefix("interval ")
    position, total = 0, 0
    while position < len(rest) or not position:
        match = _STEP.match(rest, position)
        unit = (
            None
            if match is None
            else _MICROSECONDS.get(match[2], _MICROSECONDS.get(match[2].removesuffix("s")))
        )
        if match is None or unit is None:
            raise ConfigError(f"{what} cannot be {text[:80]!r}", hint=_TAKES)
        total += int(match[1]) * unit
        position = match.end()
    return total
