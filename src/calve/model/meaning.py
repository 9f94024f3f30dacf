"""Meaning: what the times of a sink are, by what its progress says of them; as text, as a point in time, and
read back from what a person typed.

    calve.source             times are                         as text
    hlc                      nanoseconds, ten digits logical   1698775840453391000.0000000001
    mz_timestamp             milliseconds since 1970           1698775840453
    column ts (timestamp)    microseconds since 1970           2023-10-31T18:10:40.453391Z
    lsn                      places in PostgreSQL's log        16/B374D848
    all others               numbers                           42

Every page, table and error that shows a time takes it from here, so that what one command prints is what
another one takes. A wall time is exact to the nanosecond, never a float: a change that is later than it by
one unit is later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from calve.model.errors import BadTime
from calve.model.time import check_time, format_hlc, parse_hlc

HLC, MATERIALIZE, LSN = "hlc", "mz_timestamp", "lsn"

_TIMESTAMPS = ("(timestamp)", "(timestamp_ntz)")
_NANOSECONDS = 10**9
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_WALL_DIGITS_MAX = 19
"""Of an HLC's nanoseconds, until the year 2286. With its logical part an HLC has ten digits more."""
_NUMBER = re.compile(r"[0-9]{1,38}", re.ASCII)
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)
_WALL = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?)? ?(Z|[+-]\d{2}:\d{2})?",
    re.ASCII | re.IGNORECASE,
)
_NUMBERS = {
    "epoch": "numbers of epochs",
    "epoch, at least once": "numbers of commits",
    "micro-batch": "numbers of micro-batches",
    "replay": "numbers of replays",
    "version": "numbers of versions",
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What times are."""

    source: str
    """As progress says it."""

    @property
    def units_a_second(self) -> int | None:
        """How many units make a second; `None` where times are no clock."""
        if self.source == HLC:
            return 10**19
        if self.source == MATERIALIZE:
            return 10**3
        return 10**6 if self.source.endswith(_TIMESTAMPS) else None

    @property
    def words(self) -> str:
        """What may be given for a time."""
        if self.source == HLC:
            return "hybrid logical clocks such as 1698775840453391000.0000000001, or wall times"
        if self.source == MATERIALIZE:
            return "milliseconds since 1970, or wall times"
        if self.source == LSN:
            return "LSNs such as 16/B374D848, or their numbers"
        if self.units_a_second is not None:
            return "wall times such as 2026-11-17T12:00:00Z, or microseconds since 1970"
        return _NUMBERS.get(self.source, f"numbers ({self.source})")

    def text(self, time: int) -> str:
        """A time as its source prints it. `parse` reads it back."""
        if self.source == HLC:
            return format_hlc(time)
        if self.source == LSN and time < 2**64:
            return f"{time >> 32:X}/{time & 0xFFFFFFFF:X}"
        if self.source.endswith(_TIMESTAMPS) and (at := self.at(time)) is not None:
            return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06d}Z"
        return str(time)

    def at(self, time: int) -> datetime | None:
        """A time as a point in time, cut to microseconds; `None` where times are no clock, or Python's end
        before it."""
        units = self.units_a_second
        if units is None:
            return None
        try:
            return _1970 + timedelta(microseconds=time * 10**6 // units)
        except OverflowError:
            return None

    def lag_ms(self, time: int, now_ms: int) -> int | None:
        """How far a time is behind a clock."""
        units = self.units_a_second
        return None if units is None else now_ms - time * 1000 // units

    def parse(self, said: int | str | datetime) -> int:
        """The time that somebody names. Of a wall time, the last unit that is not after it."""
        if isinstance(said, datetime):
            return self._from_wall(said.isoformat())
        if isinstance(said, int):
            return self._from_number(check_time(said))
        text = said.strip()
        if _NUMBER.fullmatch(text):
            return self._from_number(int(text))
        if self.source == HLC and re.fullmatch(r"[0-9]+\.[0-9]*", text):
            return parse_hlc(text)
        if self.source == LSN and (place := _LSN.fullmatch(text)) is not None:
            return (int(place[1], 16) << 32) + int(place[2], 16)
        return self._from_wall(text)

    def _from_number(self, number: int) -> int:
        # CockroachDB takes its nanoseconds without the logical part too. As a whole HLC such a number would
        # be a second in 1970.
        if self.source == HLC and len(str(number)) <= _WALL_DIGITS_MAX:
            return number * 10**10
        return number

    def _from_wall(self, text: str) -> int:
        match = _WALL.fullmatch(text)
        units = self.units_a_second
        if match is None or units is None:
            what = "no time" if match is None else "a wall time"
            raise BadTime(f"{text[:80]!r} is {what}; times of this sink are {self.words}", hint=_HINT)
        day, clock, fraction, zone = match.groups()
        try:
            at = datetime.fromisoformat(f"{day}T{clock or '00:00'}{(zone or 'Z').upper()}")
            seconds = (at - _1970) // timedelta(seconds=1)
        except (ValueError, OverflowError):
            raise BadTime(f"{text[:80]!r} is on no calendar", hint=_HINT) from None
        nanoseconds = seconds * _NANOSECONDS + int((fraction or "0").ljust(9, "0"))
        if self.source == HLC:
            # As CockroachDB reads a wall time: without a logical part.
            return check_time(nanoseconds * 10**10)
        return check_time(nanoseconds * units // _NANOSECONDS)


def check_said(text: str) -> None:
    """Refuse what is no time of any source, before it is known which one is asked."""
    for meaning in map(Meaning, (HLC, LSN)):
        try:
            meaning.parse(text)
        except BadTime:
            continue
        return
    raise BadTime(
        f"{text[:80]!r} is no time of any source",
        hint="Give it as the source prints it: a number, 1698775840453391000.0000000001 (CockroachDB), "
        "16/B374D848 (an LSN), or a wall time such as 2026-11-17T12:00:00Z.",
    )


_HINT = "Give one of these. `calve history` shows the times that the table has."
