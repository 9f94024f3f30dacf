"""Shown: whether a page shows what was printed.

    page, printed ──▶ without widths ──▶ ids, digests, ages, the time of day may differ; counts and values not

`…` stands for anything in its line, and alone in a line for any lines. A moment of this hour is the time of
day; any other is data, and must be the one that the page shows.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UUID = r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
_DIGEST = r"\b[0-9a-f]{32,64}\b"
_ID = r"\b\d{15,}\b(?![.\d])"
"""Of a snapshot. Not a time of CockroachDB's, behind which stands a point."""
_MOMENT = r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?!\d)"
_AGE = r"\b\d+ d \d+ h\b"
"""How far a time of a page is behind now."""
_VARYING = re.compile(f"({_UUID})|({_DIGEST})|({_ID})|({_AGE})|({_MOMENT})|(…)")
_RULES = re.compile(r"([─━═])\1+")
_NOW = "\N{WATCH}"
_NEAR_SECONDS = 3600


def is_shown(shown: str, printed: str, now: datetime) -> bool:
    """Whether what was printed now is what a page shows."""
    return re.fullmatch(_pattern(_plain(shown)), _plain(_without_now(printed, now))) is not None


def _plain(text: str) -> str:
    """Without what depends on how wide something else is: runs of blanks, and of rules."""
    lines = (" ".join(_RULES.sub(r"\1", line).split()) for line in text.strip().splitlines())
    return "\n".join(lines)


def _without_now(printed: str, now: datetime) -> str:
    def near(match: re.Match[str]) -> str:
        at = datetime.fromisoformat(match[0].replace(" ", "T")).replace(tzinfo=UTC)
        return _NOW if abs((now - at).total_seconds()) < _NEAR_SECONDS else match[0]

    return re.sub(_MOMENT, near, printed)


def _pattern(shown: str) -> str:
    return "".join(map(_line, shown.splitlines(keepends=True)))


def _line(line: str) -> str:
    if line.strip() == "…":
        return r"(?:[^\n]*(?:\n|$))*?"
    parts, last = [], 0
    for varying in _VARYING.finditer(line):
        *kinds, moment, _ = varying.groups()
        parts.append(re.escape(line[last : varying.start()]))
        if moment:
            parts.append(f"(?:{re.escape(moment)}|{_NOW})")
        else:
            same = (kind for kind, found in zip((_UUID, _DIGEST, _ID, _AGE), kinds, strict=True) if found)
            parts.append(next(same, r"[^\n]*"))
        last = varying.end()
    return "".join([*parts, re.escape(line[last:])])
