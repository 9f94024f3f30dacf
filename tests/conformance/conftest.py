"""The catalogs, the stores and the racers of the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.backends import ALL, Backend, make_backend
from tests.support.places import Place, make_place
from tests.support.racers import Racers
from tests.support.servers.known import reason_for


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a back end is known to get wrong must go wrong."""
    for item in items:
        call = getattr(item, "callspec", None)
        parameters = {} if call is None else call.params
        back_end = parameters.get("backend") or parameters.get("place")
        if back_end is not None and (reason := reason_for(back_end, item.name)) is not None:
            item.add_marker(pytest.mark.xfail(strict=True, reason=f"{back_end}: {reason}"))


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


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return make_place(request.param, request, tmp_path)


@pytest.fixture(scope="session")
def eight() -> Iterator[Racers]:
    with Racers(8) as racers:
        yield racers
