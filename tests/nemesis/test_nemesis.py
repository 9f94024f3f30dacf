"""A short run of the nemesis for every day, and long ones for the night.

Cases 1 to 6, 8 to 13, 38, 40, 63 and 69, on real processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nemesis.faults import steps_on
from tests.nemesis.kinds import KINDS
from tests.nemesis.lakes import LocalLake
from tests.nemesis.nemesis import Nemesis, Plan, report
from tests.nemesis.processes import session_of
from tests.support.cluster import standalone_cluster

pytestmark = pytest.mark.spark

SEED = 11


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    from tests.support.readers import duck_reader

    with duck_reader() as reader:
        yield reader.connection


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_driver_that_is_killed_again_and_again_leaves_a_table_that_is_right(
    spark: Any, duck: Any, tmp_path: Path
) -> None:
    plan = Plan(SEED, seconds=400, kinds=("upsert-maximum",), round_seconds=400, kills_max=3)
    nemesis = Nemesis(plan, tmp_path, duck, spark)
    tally = nemesis.run()
    print(report(nemesis))
    assert tally.killed >= 3
    # A seam that was renamed would drop out in silence.
    assert set(steps_on(LocalLake)) <= nemesis.steps_reached()
    assert not [pid for driver in nemesis.drivers for pid in session_of(driver)]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_is_right_after_many_kills(
    kind: str, spark: Any, duck: Any, tmp_path: Path
) -> None:
    nemesis = Nemesis(Plan(SEED + 1, seconds=400, kinds=(kind,), round_seconds=200), tmp_path, duck, spark)
    tally = nemesis.run()
    print(report(nemesis))
    assert tally.killed >= 10


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["upsert-maximum", "append-interval"])
def test_a_cluster_that_loses_executors_and_drivers_leaves_a_table_that_is_right(
    kind: str, spark: Any, duck: Any, tmp_path: Path
) -> None:
    with standalone_cluster(tmp_path / "cluster") as cluster:
        nemesis = Nemesis(Plan(SEED, seconds=240, kinds=(kind,)), tmp_path, duck, spark, cluster)
        tally = nemesis.run()
    print(report(nemesis))
    assert tally.kills["an executor"] >= 2
