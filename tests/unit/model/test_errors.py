"""The tree of errors: every one says what is known and what to do, and survives a trip between processes."""

from __future__ import annotations

import pickle
import re

import pytest

from calve.model import errors
from calve.model.errors import CalveError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CalveError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_shows_its_message_and_its_hint(kind: type[CalveError]) -> None:
    error = kind("what is known", hint="What to do.")
    assert str(error) == "what is known\n  hint: What to do."


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling(kind: type[CalveError]) -> None:
    error = pickle.loads(pickle.dumps(kind("what is known", hint="What to do.")))
    assert (type(error), error.message, error.hint) == (kind, "what is known", "What to do.")


def test_an_error_without_a_hint_cannot_be_made() -> None:
    with pytest.raises(TypeError):
        CalveError("what is known")  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_tree_in_the_docstring_has_every_error_and_each_says_what_it_means(
    kind: type[CalveError],
) -> None:
    assert kind.__doc__
    assert re.search(rf"\b{kind.__name__}\b", errors.__doc__ or "")
