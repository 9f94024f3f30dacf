"""Eight processes at once, over every catalog that processes can share (cases 7, 10 and 15)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from calve import Fenced, IcebergSink, SinkConfig
from calve.runtime.clock import SystemClock
from tests.support.backends import OF_PROCESSES, Backend
from tests.support.racers import Racers, together
from tests.support.sinks import commit
from tests.support.truth import commits_of_main, ordered, rows_of

EPOCHS = 1
LONG = "hive"
"""Eight that wait for one lock take half a minute. By day its table is made by six at once in
test_metastores.py, and one of eight runs goes on here."""


def by_day_and_night() -> list[Any]:
    assert any(one.values[0] == LONG for one in OF_PROCESSES)
    return [
        pytest.param(*one.values, marks=[*one.marks, pytest.mark.nightly]) if one.values[0] == LONG else one
        for one in OF_PROCESSES
    ]


class Impatient(SystemClock):
    """Waits a little, however long it is told to: eight at once conflict often, and wait longer each time."""

    def wait_ms(self, duration_ms: int) -> None:
        super().wait_ms(min(duration_ms, 50))


def _write(options: dict[str, object], sink_id: str) -> None:
    together()
    config = SinkConfig.from_options(options | {"writer.id": sink_id, "commit.attempts": "200"})
    with IcebergSink(config, clock=Impatient()) as sink:
        for epoch in range(EPOCHS):
            commit(sink, epoch, pa.table({"id": [f"{sink_id}-{epoch}"], "v": [epoch]}))


@pytest.mark.parametrize("backend", by_day_and_night(), indirect=True)
def test_eight_sinks_make_one_table_and_none_loses_a_row(backend: Backend, eight: Racers) -> None:
    """They make catalog, namespace and table at once, and commit at once."""
    names = [f"s{number}" for number in range(eight.count)]
    eight.race(_write, [(backend.options, name) for name in names])
    table = backend.load()
    assert rows_of(table) == ordered({"id": f"{n}-{e}", "v": e} for n in names for e in range(EPOCHS))
    assert len(commits_of_main(table)) == eight.count * EPOCHS


def _claim_and_commit(options: dict[str, object], number: int) -> str:
    config = SinkConfig.from_options(options | {"commit.attempts": "200"})
    sink = IcebergSink(config, clock=Impatient())
    together()
    outcome = "landed"
    try:
        sink.open()
    except Fenced:
        outcome = "fenced"
    together()
    if outcome == "landed":
        try:
            commit(sink, 1, pa.table({"id": ["racer"], "v": [number]}))
        except Fenced:
            outcome = "fenced"
    sink.close()
    return outcome


@pytest.mark.parametrize("backend", OF_PROCESSES, indirect=True)
def test_of_eight_runs_of_one_sink_one_goes_on(backend: Backend, eight: Racers) -> None:
    """P4: the others stop with `Fenced`, and have changed nothing."""
    with backend.sink() as sink:
        commit(sink, 0, pa.table({"id": ["first"], "v": [-1]}))
    outcomes: list[Any] = eight.race(
        _claim_and_commit, [(backend.options, number) for number in range(eight.count)]
    )
    assert sorted(outcomes) == ["fenced"] * 7 + ["landed"]
    table = backend.load()
    winner = {"id": "racer", "v": outcomes.index("landed")}
    assert rows_of(table) == ordered([{"id": "first", "v": -1}, winner])
    assert len(commits_of_main(table)) == 2
