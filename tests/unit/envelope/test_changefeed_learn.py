"""What messages of a changefeed tell of a key that nobody declared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calve.config.columns import SourceTable
from calve.envelope.base import Sample
from calve.envelope.cockroachdb import CockroachDB


def sample(after: dict[str, Any], key: Any, beside: bool = False) -> Sample:
    message = {"after": after, "updated": "1.0000000000", **({} if beside else {"key": key})}
    return Sample("t", "t/0", 0, json.dumps(key).encode() if beside else None, json.dumps(message).encode())


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    "rows, key",
    [
        ([({"id": 1, "n": 7}, [1]), ({"id": 2, "n": 7}, [2])], ("id",)),
        ([({"a": 1, "b": "x", "n": 0}, ["x", 1]), ({"a": 2, "b": "y", "n": 0}, ["y", 2])], ("b", "a")),
        ([({"id": 1, "n": 7}, [1])], ()),  # one alone tells nothing
        ([({"id": 1, "n": 1}, [1]), ({"id": 2, "n": 2}, [2])], ()),  # which of the two?
        ([({"id": 1}, [9, 1]), ({"id": 2}, [8, 2])], ()),  # something hidden before it
        ([({"id": 1}, [1]), ({"id": 2}, [2, 3])], ()),
        ([({"id": 1}, "1"), ({"id": 2}, {"id": 2})], ()),
    ],
)
def test_the_columns_of_a_key_are_those_that_have_its_values(rows, key, beside) -> None:
    found = CockroachDB().learn([sample(after, said, beside) for after, said in rows], None)
    assert found.key == key


def test_a_key_that_is_known_stays() -> None:
    known = SourceTable.of("id long, n long", key=["n"])
    some = [sample({"id": one, "n": 7, "new": 1}, [one]) for one in (1, 2)]
    assert CockroachDB().learn(some, known).key == ("n",)
