"""Points in time, durations and sizes, as a terminal shows them; and lines that have a name."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from calve.model.meaning import Meaning

Line = tuple[str, str]
"""A name, and what is said of it."""

_STEPS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"))
_BYTES = ("bytes", "KB", "MB", "GB", "TB")


def moment(at: datetime) -> str:
    """In UTC, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def duration(milliseconds: int) -> str:
    """Its two greatest units: `3 d 4 h`, `2 min 5 s`, `1.2 s`."""
    sign, left = ("-" if milliseconds < 0 else ""), abs(milliseconds)
    parts: list[str] = []
    for size, unit in _STEPS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}")
    parts.append(f"{left // 1000} s" if parts else f"{left / 1000:.1f} s")
    return sign + " ".join(parts[:2])


def size(count: int) -> str:
    """Bytes in the greatest unit that leaves a whole number before the point."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_BYTES) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{count} bytes" if unit == 0 else f"{amount:.1f} {_BYTES[unit]}"


def short_time(meaning: Meaning, time: int) -> str:
    """A time for a narrow column: the point in time where times are a clock, to the second or, where it is
    between two, to the millisecond."""
    at = meaning.at(time)
    if at is None:
        return meaning.text(time)
    between = f".{at.microsecond // 1000:03d}" if at.microsecond else ""
    return f"{at:%Y-%m-%d %H:%M:%S}{between}"


def whole_time(meaning: Meaning, time: int) -> str:
    """A time as its source prints it, and the point in time beside it where that is another text."""
    text, at = meaning.text(time), meaning.at(time)
    return text if at is None or "T" in text else f"{text} ({short_time(meaning, time)} UTC)"


def show_lines(heading: str, lines: Iterable[Line], console: Console) -> None:
    """Print lines below a heading. What does not fit beside its name goes on below."""
    console.print(escape(heading), style="bold", highlight=False, soft_wrap=True)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in lines:
        grid.add_row(f"  {name}", escape(text))
    console.print(grid, highlight=False)
