"""Proof that the rounds can see: a guard that is taken out of the sink makes a round fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve import CalveError
from tests.faults.backends import ReferenceServer
from tests.faults.checker import Violation
from tests.faults.mutations import MUTATIONS, Mutation
from tests.faults.rounds import Plan, run
from tests.support.servers.iceberg_rest import IcebergRest

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

SEED = 5


@pytest.fixture
def server(iceberg_rest: IcebergRest) -> ReferenceServer:
    return ReferenceServer(iceberg_rest)


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(mutation, id=mutation.name, marks=() if mutation.daily else (pytest.mark.nightly,))
        for mutation in MUTATIONS
    ],
)
def test_a_sink_that_is_broken_on_purpose_is_found_out(
    mutation: Mutation, server: ReferenceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.break_it(monkeypatch)
    # A violation that is found at once, or an error that a whole sink would not raise.
    with pytest.raises((Violation, CalveError)) as found:
        run(Plan(SEED, seconds=120, epochs=8), server, tmp_path)
    print(found.value)
