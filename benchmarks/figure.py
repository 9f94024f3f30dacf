"""A figure: what was measured, what a peer took for the same, what is wanted, and whether that was met.

A ratio is always "how many times better than the peer" or "how many times the cost of before", as the
figure's own words say; the target says from which side it is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a figure: on its ratio where it has one, on its value otherwise."""

    bound: float
    at_least: bool
    unit: str = ""

    def met_by(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        unit = self.unit if self.unit in ("", "×") else f" {self.unit}"
        return f"{'≥' if self.at_least else '≤'} {number(self.bound)}{unit}"


def at_least(bound: float, unit: str = "×") -> Target:
    return Target(bound, at_least=True, unit=unit)


def at_most(bound: float, unit: str = "×") -> Target:
    return Target(bound, at_least=False, unit=unit)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a report."""

    what: str
    ours: float
    unit: str
    target: Target | None = None
    """`None` where a number is only told."""
    peer: float | None = None
    peer_name: str = ""
    ratio: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.target.met_by(self.ours if self.ratio is None else self.ratio)

    @property
    def verdict(self) -> str:
        return {None: "", True: "met", False: "MISSED"}[self.met]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"target": None if self.target is None else str(self.target), "met": self.met}


HEAD = ("figure", "calve", "peer", "ratio", "target", "")


def report(figures: Sequence[Figure]) -> str:
    """Figures as a table of text, notes below their lines."""
    rows = [_row(figure) for figure in figures]
    widths = [max(len(row[column]) for row in (HEAD, *rows)) for column in range(len(HEAD))]
    lines = [_line(HEAD, widths)]
    for figure, row in zip(figures, rows, strict=True):
        lines.append(_line(row, widths))
        if figure.note:
            lines.append(f"    {figure.note}")
    return "\n".join(lines)


def number(value: float) -> str:
    """Three digits that count; thousands with commas."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _row(figure: Figure) -> tuple[str, ...]:
    peer = "–" if figure.peer is None else f"{number(figure.peer)} {figure.unit}  {figure.peer_name}".rstrip()
    return (
        figure.what,
        f"{number(figure.ours)} {figure.unit}",
        peer,
        "–" if figure.ratio is None else f"{number(figure.ratio)}×",
        "–" if figure.target is None else str(figure.target),
        figure.verdict,
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
