"""Times: totally ordered integers of at most 38 digits, whatever the source calls them.

An LSN, a Materialize timestamp and an epoch number are integers already. A CockroachDB HLC is
`<wall nanoseconds>.<ten digits of logical>`; at the door it becomes `wall * 10^10 + logical`, which
orders as the HLC does and fits 29 digits. It is never a float: a float keeps 16 digits.
"""

from __future__ import annotations

import re

from calve.model.errors import BadTime

TIME_MAX = 10**38 - 1
"""The greatest time: 38 digits, what a decimal(38, 0) holds."""

_LOGICAL_DIGITS = 10
_LOGICAL_RANGE = 10**_LOGICAL_DIGITS
_HLC = re.compile(r"([0-9]{1,28})(?:\.([0-9]{10}))?", re.ASCII)


def check_time(value: int, what: str = "time") -> int:
    """The value itself, if it is a time."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadTime(f"{what} {value!r} is a {type(value).__name__}, not an integer", hint="Give an int.")
    if not 0 <= value <= TIME_MAX:
        raise BadTime(
            f"{what} {value} is outside 0 … 10^38 - 1",
            hint="Times are integers of at most 38 digits and are never negative.",
        )
    return value


def parse_hlc(text: str) -> int:
    """`1698775840453391000.0000000001` as a time; a missing logical part is zero."""
    match = _HLC.fullmatch(text)
    if match is None:
        raise BadTime(
            f"{text!r} is not a hybrid logical clock",
            hint="It reads <wall nanoseconds>.<ten digits>, such as 1698775840453391000.0000000001.",
        )
    wall, logical = match.groups(default="0")
    return int(wall) * _LOGICAL_RANGE + int(logical)


def format_hlc(time: int) -> str:
    """The HLC text form of a time: the inverse of `parse_hlc`."""
    wall, logical = divmod(check_time(time), _LOGICAL_RANGE)
    return f"{wall}.{logical:0{_LOGICAL_DIGITS}d}"
