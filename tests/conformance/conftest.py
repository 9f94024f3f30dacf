"""The catalogs and the racers of the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.backends import ALL, Backend, make_backend
from tests.support.racers import Racers


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    from tests.support.postgres import postgres

    with postgres() as uri:
        yield uri


@pytest.fixture(params=ALL)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made = make_backend(request.param, request, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def eight() -> Iterator[Racers]:
    with Racers(8) as racers:
        yield racers
