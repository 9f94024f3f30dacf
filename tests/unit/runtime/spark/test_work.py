"""What partitions said, and which of them the frontier waits for."""

from __future__ import annotations

import pytest

from calve.runtime.spark.work import Heard


@pytest.mark.parametrize(
    "marks, partitions, held_by",
    [
        ({}, None, ""),
        ({"a/0": 5}, None, ""),
        ({"a/0": 5, "b/0": 5}, None, ""),
        ({"a/0": 5, "b/0": 4, "c/0": 4}, None, "b/0"),
        ({"a/0": 5, "b/0": 4}, {"a/0", "b/0", "c/0"}, "c/0"),
        ({}, {"b/0", "a/0"}, "a/0"),
    ],
)
def test_the_frontier_waits_for_whoever_is_silent_or_behind(marks, partitions, held_by):
    heard = Heard(marks, {}, None if partitions is None else frozenset(partitions))
    assert heard.held_by == held_by
