"""Drivers that are killed by SIGKILL at every step between Spark's offset log and its commit log.

Many queries stand at their steps in one process, which is then killed with its JVM (flow_kills.py). The next
run finds what was left: the table is right as it is; it goes on; every snapshot is the truth of its upper,
every row is there once, and rows that do not fit are in quarantine once. Cases are those of docs/failures.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.flow import Flow
from tests.support.flow_kills import HALF_A_FILE, KINDS, MICRO_BATCHES, Reached, Scene, run
from tests.support.readers import DuckReader

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(600)]

TIMED = {
    "0 table: create: done 0": 7,
    "0 claim: done 0": 7,
    "0 claim: done 1": 7,
    "1 micro-batch: about to 0": 1,
    "1 files: about to 0": 1,
    "1 files: done 0": 3,
    "1 segment: done 0": 3,
    "1 outbox: write: done 1": 3,
    "1 stash manifest: name: about to 0": 3,
    "1 stash manifest: write: done 0": 3,
    "1 SQL: commit: about to 0": 3,
    "1 commit: done 0": 4,
    "1 SQL: commit: about to 1": 4,
    "1 SQL: commit: done 1": 4,
    "1 micro-batch: done 0": 5,
    "2 outbox: delete: done 0": 5,
    "2 stash manifest: delete: about to 0": 5,
}
"""Steps of a query with rows that wait and rows that do not fit, and the case that a kill there is."""
NUMBERED = {
    "1 files: done 0": 3,
    "1 stash manifest: write: done 0": 3,
    "1 commit: done 0": 4,
    "1 SQL: commit: done 1": 4,
    "1 micro-batch: done 0": 5,
}
APPEND = {
    f"1 {HALF_A_FILE}": 2,
    "1 files: done 0": 3,
    "1 outbox: write: done 0": 3,
    "1 stash manifest: write: done 0": 3,
    "2 SQL: commit: done 0": 4,
}
LAST = 1000
# Of an append, the last batch that has changes: the time after it is empty, and is not published.
LAST_UPPER = {"timed": 998, "numbered": MICRO_BATCHES + 1, "append": 12}
DAILY = {"timed": TIMED, "numbered": NUMBERED, "append": APPEND}
AGAIN = {
    # Killed at the first step of these, then, in the run that recovers from that, at the second.
    "1 files: done 0": "1 stash manifest: write: done 0",
    "1 stash manifest: write: done 0": "1 commit: done 0",
    "1 commit: done 0": "1 SQL: commit: about to 2",
    "1 micro-batch: done 0": "1 claim: done 1",
}


def scenes_of(steps: Mapping[str, Mapping[str, int]], folder: Path) -> dict[tuple[str, str], Scene]:
    return {
        (kind, step): Scene(kind, str(folder / f"{kind}-{number}"), step)
        for kind, of_kind in steps.items()
        for number, step in enumerate(of_kind)
    }


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[Scene, Reached]]:
    """All scenes of the day, each killed at its step; by kind and step."""
    folder = tmp_path_factory.mktemp("kills")
    scenes = scenes_of(DAILY, folder)
    reached = run(list(scenes.values()), folder / "log")
    return {name: (scene, reached[scene.folder]) for name, scene in scenes.items()}


@pytest.fixture(scope="module")
def killed_again(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Scene, Reached]]:
    """Scenes that were killed, and killed again while they recovered; by their first steps."""
    folder = tmp_path_factory.mktemp("again")
    scenes = {step: Scene("timed", str(folder / str(number)), step) for number, step in enumerate(AGAIN)}
    first = run(list(scenes.values()), folder / "log")
    for scene in scenes.values():
        assert first[scene.folder].stands_at == scene.kill_at, first[scene.folder]
    again = {step: replace(scene, kill_at=AGAIN[step]) for step, scene in scenes.items()}
    reached = run(list(again.values()), folder / "log")
    return {step: (scene, reached[scene.folder]) for step, scene in again.items()}


def check_goes_on(spark: Any, duckdb: DuckReader, scene: Scene) -> None:
    """What was left is right; what follows is right; and at the end everything is there, once."""
    flow = replace(scene, kill_at=None).flow(spark)
    bad = [row for rows in flow.sent for row in rows if row["v"] == "bad"]
    with flow.catalog() as catalog:
        left = catalog.table_exists(("ns", flow.table)) and flow.check(duckdb, without=bad)
    # A last micro-batch that closes all that waits, and shows whether it still does.
    flow.put({"id": 99, "v": "last", "lsn": LAST, "_op": "u"})
    flow.run()
    bounds = flow.check(duckdb, without=bad)
    assert not left or bounds[: len(left)] == left
    assert bounds[-1][1] == LAST_UPPER[scene.kind]
    assert flow.truth_at(bounds[-1][1], bad) == flow.truth_at(LAST, bad)
    if bad:
        quarantine = flow.lake.load("t__quarantine").scan().to_arrow().to_pylist()
        assert [(row["micro_batch"], "the key is null" in row["reason"]) for row in quarantine] == [(1, True)]
    check_tidy(flow)


def check_tidy(flow: Flow) -> None:
    """What kills kept from being deleted, and what they left without a name, went with the last commit."""
    assert len(flow.stash()) == 2
    named = set(re.findall(r"calve/(?:outbox|segments)/([^\"]+)", " ".join(flow.stash_texts().values())))
    kept = {path.name for kind in ("outbox", "segments") for path in (flow.place / "calve" / kind).glob("*")}
    assert kept == named


def steps_of(daily: Mapping[str, Mapping[str, int]]) -> Iterator[Any]:
    for kind, steps in daily.items():
        for step, case in steps.items():
            yield pytest.param(kind, step, id=f"case {case}, {kind}, {step}")


@pytest.mark.parametrize("kind, step", [*steps_of(DAILY)])
def test_a_driver_that_was_killed_goes_on_and_every_snapshot_is_right(
    spark: Any, duckdb: DuckReader, killed: dict[tuple[str, str], tuple[Scene, Reached]], kind: str, step: str
) -> None:
    """Cases 1 to 5 and 7; P1, P2, P3 and P8."""
    scene, reached = killed[kind, step]
    assert reached.stands_at == step, reached
    check_goes_on(spark, duckdb, scene)


@pytest.mark.parametrize("step", AGAIN)
def test_a_driver_that_is_killed_while_it_recovers_goes_on_all_the_same(
    spark: Any, duckdb: DuckReader, killed_again: dict[str, tuple[Scene, Reached]], step: str
) -> None:
    """Cases 6 and 11."""
    scene, reached = killed_again[step]
    assert reached.stands_at == scene.kill_at, reached
    check_goes_on(spark, duckdb, scene)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_is_killed_at_any_step_goes_on_and_every_snapshot_is_right(
    spark: Any, duckdb: DuckReader, tmp_path: Path, kind: str
) -> None:
    """Cases 1 to 5 and 7, at every step that changes something, and at the end of each."""
    trace = Scene(kind, str(tmp_path / "trace"))
    (traced,) = run([trace], tmp_path / "log").values()
    assert traced.error is None
    steps = [step for step in traced.steps if "load table" not in step and "read" not in step]
    assert {"files", "claim", "commit", "stash manifest", "outbox"} <= {_what(step) for step in steps}
    for first in range(0, len(steps), 30):
        chunk = {kind: dict.fromkeys(steps[first : first + 30], 0)}
        scenes = scenes_of(chunk, tmp_path / f"from-{first}")
        reached = run(list(scenes.values()), tmp_path / "log")
        for (_, step), scene in scenes.items():
            assert reached[scene.folder].stands_at == step, reached[scene.folder]
            check_goes_on(spark, duckdb, scene)


def _what(step: str) -> str:
    """`1 stash manifest: write: done 0` is of the stash manifest."""
    return step.partition(" ")[2].partition(":")[0]
