"""What goes wrong, in words: a person at a terminal needs what is known and what to do, not the way there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from calve.model.errors import CalveError


@contextmanager
def errors_in_words() -> Iterator[None]:
    """An error of ours as two lines, and the end with code 1."""
    try:
        yield
    except CalveError as error:
        sys.stderr.write(f"calve: {type(error).__name__}: {error}\n")
        raise typer.Exit(1) from None
