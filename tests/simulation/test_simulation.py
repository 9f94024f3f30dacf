"""The coordinator's protocol against an unreliable world, from seeds: P1 to P7 after every applied change.

A seed that fails prints its schedule and `python -m tests.simulation.soak --seed n`, which replays it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from calve.config.sink import FenceKind
from calve.protocol.judge import Verdict
from tests.simulation.faults import CommitFault, LoadFault, ReadFault, WriteFault
from tests.simulation.schedule import run_seed

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]

SEEDS = 1_000
SEEDS_BY_DAY = 500
CHUNK = 100
COVERAGE_SEEDS = 400
"""The first ones are played where it is told what they met: none is played twice."""
MAIN_SEEDS = 400
MAIN_COVERAGE_SEEDS = 300
"""With the fence on main, on a catalog without tags."""

_AT_LEAST: dict[object, int] = {
    **dict.fromkeys((*CommitFault, *LoadFault, *WriteFault, *ReadFault), 10),
    **dict.fromkeys(("claimed", "committed", "group", "compaction", "expiry", "foreign append"), 100),
    **dict.fromkeys(("spec change", "schema change", "no verdict"), 30),
    **dict.fromkeys(("rolled back", "tag removed", "dropped", "late request", "crash at a step"), 8),
    **dict.fromkeys(
        ("Crash", "Fenced", "CommitUnknown", "CommitConflict", "PremiseBroken", "StoreError"), 20
    ),
    **dict.fromkeys(("RolledBack", "Diverged", "TableMissing", "AccessDenied"), 10),
    **dict.fromkeys((Verdict.COMMIT, Verdict.LANDED, Verdict.FENCED), 50),
    **dict.fromkeys((Verdict.ROLLED_BACK, Verdict.DIVERGED, Verdict.REPLACED, Verdict.STALE), 2),
}
"""What the first `COVERAGE_SEEDS` seeds must meet, so that the simulation cannot go blind. A gap is not in
it: a run that goes on from the table's own frontier never has one; the judge's unit tests do."""


_AT_LEAST_ON_MAIN: dict[object, int] = {
    **dict.fromkeys((*CommitFault, *LoadFault, *WriteFault, *ReadFault), 5),
    **dict.fromkeys(("claimed", "committed", "group", "compaction", "expiry", "foreign append"), 80),
    **dict.fromkeys(("rolled back", "tag removed", "dropped", "late request", "crash at a step"), 5),
    **dict.fromkeys(("Crash", "Fenced", "CommitUnknown", "CommitConflict", "PremiseBroken"), 15),
    **dict.fromkeys(("RolledBack", "Diverged"), 5),
    **dict.fromkeys((Verdict.COMMIT, Verdict.LANDED, Verdict.FENCED), 40),
    **dict.fromkeys((Verdict.ROLLED_BACK, Verdict.STALE), 2),
}


@pytest.mark.parametrize(
    "seed",
    [
        1000145,
        1000763,
        1007372,
        1015514,
        1018840,
        1028363,
        1028921,
        1034805,
        1037649,
        1038234,
        1042060,
        1083267,
        1118126,
    ],
)
def test_seeds_that_failed_once_are_well(seed: int) -> None:
    run_seed(seed)


@pytest.mark.parametrize("seed", [10504, 10731, 10887])
def test_seeds_that_failed_once_with_the_fence_on_main_are_well(seed: int) -> None:
    run_seed(seed, FenceKind.MAIN)


@pytest.mark.parametrize(
    "start",
    [
        *range(COVERAGE_SEEDS, SEEDS_BY_DAY, CHUNK),
        *(pytest.param(start, marks=pytest.mark.nightly) for start in range(SEEDS_BY_DAY, SEEDS, CHUNK)),
    ],
)
def test_every_promise_holds_whatever_the_world_does(start: int) -> None:
    """P1–P7, cases 3–4, 6, 9–10, 15–29, 33, 38, 40–43, 62 and 64, in every order that the seeds bring."""
    for seed in range(start, start + CHUNK):
        run_seed(seed)


@pytest.mark.parametrize("start", range(MAIN_COVERAGE_SEEDS, MAIN_SEEDS, CHUNK))
def test_every_promise_holds_with_the_fence_on_main_on_a_catalog_without_tags(start: int) -> None:
    """P1–P7, cases 3–4, 6, 9–10, 15–29, 33, 38, 40–43, 62 and 64, in every order that the seeds bring."""
    for seed in range(start, start + CHUNK):
        run_seed(seed, FenceKind.MAIN)


@pytest.mark.parametrize(
    "fence, seeds, at_least",
    [(FenceKind.TAG, COVERAGE_SEEDS, _AT_LEAST), (FenceKind.MAIN, MAIN_COVERAGE_SEEDS, _AT_LEAST_ON_MAIN)],
    ids=["tag", "main"],
)
def test_the_simulation_meets_every_kind_of_fault_and_every_verdict(
    fence: FenceKind, seeds: int, at_least: dict[object, int]
) -> None:
    """And every promise holds in each of them."""
    met: Counter[object] = Counter()
    for seed in range(seeds):
        met.update(run_seed(seed, fence).met)
    missed = {str(kind): met[kind] for kind, least in at_least.items() if met[kind] < least}
    assert not missed, f"met too seldom: {missed}"


def test_a_seed_replays_the_same_schedule() -> None:
    """Nothing but names of files comes from outside the seed, so a failing seed fails again."""
    assert run_seed(7).trace == run_seed(7).trace
    assert run_seed(7).trace != run_seed(8).trace


def test_the_replay_command_that_a_failure_prints_exists() -> None:
    assert (Path(__file__).parent / "soak.py").exists()
