"""Pairs of two parameters: each value every day, all pairs at night.

Where two things that hardly depend on one another are tried together, a test of every pair costs as many
sessions and queries as there are pairs, and shows little that each value beside some other does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


def pairs(first: Mapping[str, Any], second: Mapping[str, Any], by_day: int = 1) -> list[Any]:
    """All pairs, by their names. By day each of `first` is with so many of `second`, in turn."""
    assert len(first) + by_day > len(second), "a value of the second would never be seen by day"
    return [
        pytest.param(
            one,
            other,
            id=f"{name}-{other_name}",
            marks=() if (place - row) % len(second) < by_day else (pytest.mark.nightly,),
        )
        for row, (name, one) in enumerate(first.items())
        for place, (other_name, other) in enumerate(second.items())
    ]
